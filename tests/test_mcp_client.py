"""MCP servers: what one offers and answers, and what becomes of one that misbehaves."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

from loopkit.outside.mcp.connection import Connection, ServerFailed, website
from loopkit.outside.mcp.connection import program as at_program
from loopkit.outside.processes import command_environment
from tests.support import CommandLine
from tests.waiting import is_alive, until_so

BY_HAND = Path(__file__).with_name("server_by_hand.py")
Connect = Callable[..., Connection]
SHARED = pytest.mark.asyncio(loop_scope="module")
"""A test of the connection that many share."""


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Connects with the server that is written by hand, and closes all connections."""
    async with AsyncExitStack() as opened:

        def connect(behaviour: str, timeout_s: float = 30) -> Connection:
            env = command_environment((), {"NOTES": str(tmp_path / "notes")})
            command = [sys.executable, str(BY_HAND), behaviour]
            connection = Connection("files", at_program(command, env, tmp_path), timeout_s)
            opened.push_async_callback(connection.close)
            return connection

        yield connect


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def obedient(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Connection]:
    """A connection for many calls, with the server by hand, which behaves as a call asks it to."""
    folder = tmp_path_factory.mktemp("obedient")
    env = command_environment((), {"NOTES": str(folder / "notes")})
    program = at_program([sys.executable, str(BY_HAND), "as asked"], env, folder)
    connection = Connection("files", program, 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SECRET_TOKEN", "never-told-to-anybody")
        await connection.tools()
    yield connection
    await connection.close()


def noted(folder: Path) -> list[int]:
    """The processes that the server told of."""
    return [int(line) for line in (folder / "notes").read_text().splitlines()]


async def look(connection: Connection, timeout_s: float = 30, at: str = "sea") -> str:
    tools = await connection.tools(["look"])
    given = await connection.call("look", {"at": at}, tools["look"].digest, timeout_s)
    return f"error: {given.text}" if given.is_error else given.text


async def failure(work: Awaitable[object]) -> ServerFailed:
    with pytest.raises(ServerFailed) as raised:
        await work
    return raised.value


async def test_a_server_that_nobody_here_wrote_says_what_time_it_is() -> None:
    pytest.importorskip("mcp_server_time")
    program = at_program(
        [sys.executable, "-m", "mcp_server_time"], command_environment(), Path.cwd()
    )
    clock = Connection("clock", program, 30)
    try:
        offered = await clock.tools()
        tool = offered["convert_time"]
        assert {"source_timezone", "time", "target_timezone"} <= tool.schema["properties"].keys()
        asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        given = await clock.call("convert_time", asked, tool.digest, 30)
        assert "T21:00:00+09:00" in given.text
        assert not given.is_error
        wrong = await clock.call("convert_time", {**asked, "time": "noon"}, tool.digest, 30)
        assert wrong.is_error
    finally:
        await clock.close()


def test_the_command_line_lists_what_servers_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    machine = tmp_path / "machine.yaml"
    served = {"command": [sys.executable, str(BY_HAND), "malformed"], "env": ["NOTES"]}
    gone = {"command": ["no-such-program"]}
    servers = json.dumps({"files": served, "gone": gone})
    states = "{start: {render: x, next: done}, done: {final: success}}"
    machine.write_text(f"loopkit: 1\nmcp: {servers}\nstates: {states}\n")
    said = cli(4, "mcp", "tools", str(machine))
    look, description, *_ = said.out.splitlines()
    assert re.fullmatch("files.look  sha256:[0-9a-f]{64}", look)
    assert description == "  Looks."
    assert "warning: `files.empty` is left out: `inputSchema.type`: Field required" in said.err
    assert "error: MCP server `gone`: its program was not started" in said.err
    assert "did you mean `files`?" in cli(2, "mcp", "tools", str(machine), "fils").err


@SHARED
async def test_one_connection_serves_many_calls(obedient: Connection) -> None:
    assert await look(obedient) == await look(obedient)


@SHARED
async def test_arguments_that_do_not_fit_the_schema_never_reach_the_server(
    obedient: Connection,
) -> None:
    tools = await obedient.tools(["look"])
    given = await obedient.call("look", {"at": 3}, tools["look"].digest, 30)
    assert given.is_error
    assert given.text == "$.at: 3 is not of type 'string'"


@SHARED
async def test_a_tool_that_the_server_does_not_have_is_fatal(obedient: Connection) -> None:
    failed = await failure(obedient.tools(["looks"]))
    assert not failed.transient
    assert failed.message == "MCP server `files`: it has no tool `looks`; did you mean `look`?"


async def test_one_malformed_tool_is_named_and_does_not_take_the_others_with_it(
    connect: Connect,
) -> None:
    connection = connect("malformed")
    faults = {name: tool.fault for name, tool in (await connection.tools()).items()}
    assert faults.keys() == {"look", "empty", "null", "typeless", "foreign", "?"}
    assert not faults["look"]
    assert (await look(connection)).startswith("sea from ")
    for name in ("empty", "null", "typeless", "foreign"):
        failed = await failure(connection.tools(["look", name]))
        assert not failed.transient
        message = f"MCP server `files`: its tool `{name}` is malformed: {faults[name]}"
        assert failed.message == message
        assert "chema" in faults[name]


@SHARED
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, ""),
        ({"content": None, "structuredContent": {"boats": 2}}, '{"boats": 2}'),
        ({"isError": True}, "error: "),
        ({"content": [{"type": "chart", "of": 1}, "two"]}, '{"type": "chart", "of": 1}\ntwo'),
        (
            {"isError": []},
            "error: what it gave is malformed: `isError`: Input should be a valid boolean",
        ),
    ],
)
async def test_a_result_is_read_as_far_as_it_goes(
    obedient: Connection, given: dict[str, Any], read: str
) -> None:
    assert await look(obedient, at=json.dumps(given)) == read


async def test_a_tool_that_vanishes_after_it_was_looked_at_is_fatal(connect: Connect) -> None:
    connection = connect("vanishes")
    digest = (await connection.tools(["look"]))["look"].digest
    assert not (await connection.call("look", {"at": "sea"}, digest, 30)).is_error
    failed = await failure(connection.call("look", {"at": "sea"}, digest, 30))
    assert not failed.transient
    assert "has no tool" in failed.message


async def test_a_silent_server_is_given_up_and_ended(connect: Connect, tmp_path: Path) -> None:
    failed = await failure(connect("silent", timeout_s=1).tools(["look"]))
    assert failed.transient
    assert failed.message == "MCP server `files`: it did not connect within 1 s"
    await until_so(lambda: not any(map(is_alive, noted(tmp_path))))


async def test_a_call_that_takes_too_long_ends_the_server_and_the_next_one_starts_it_anew(
    connect: Connect, tmp_path: Path
) -> None:
    connection = connect("hangs")
    for started in (1, 2):
        failed = await failure(look(connection, timeout_s=0.5))
        assert failed.transient
        assert failed.message.endswith("`look` gave no answer within 0.5 s")
        assert len(noted(tmp_path)) == started
    await until_so(lambda: not any(map(is_alive, noted(tmp_path))))


async def test_a_call_that_is_cancelled_ends_the_server(connect: Connect, tmp_path: Path) -> None:
    connection = connect("hangs")
    await connection.tools(["look"])
    calling = asyncio.create_task(look(connection))
    await asyncio.sleep(0.1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until_so(lambda: not any(map(is_alive, noted(tmp_path))))


async def test_a_server_that_dies_in_a_call_says_how_and_is_started_anew(
    connect: Connect, tmp_path: Path
) -> None:
    connection = connect("dies")
    for started in (1, 2):
        failed = await failure(look(connection))
        assert failed.transient
        assert "ended with exit code 7" in failed.message
        assert "out of luck" in failed.message
        assert len(noted(tmp_path)) == started


@SHARED
async def test_ten_megabytes_are_cut_before_they_reach_us(obedient: Connection) -> None:
    digest = (await obedient.tools(["look"]))["look"].digest
    given = await obedient.call("look", {"at": "huge"}, digest, 30)
    assert (given.text, given.left_out) == ("x" * 200_000, 9_800_000)


async def test_a_message_without_end_ends_the_connection(connect: Connect) -> None:
    failed = await failure(look(connect("endless")))
    assert failed.transient
    assert "longer than 32,000,000 bytes" in failed.message


@SHARED
async def test_garbage_between_messages_is_passed_over(obedient: Connection) -> None:
    assert await look(obedient, at="garbage") == "still here"


@SHARED
async def test_what_a_server_refuses_is_an_answer(obedient: Connection) -> None:
    assert await look(obedient, at="refuses") == "error: there is nothing to look at"


@SHARED
async def test_a_picture_is_named_and_left_out(obedient: Connection) -> None:
    assert await look(obedient, at="picture") == "[image/png, left out]\na house"


async def test_a_schema_that_takes_for_ever_to_check_stalls_nobody(connect: Connect) -> None:
    connection = connect("pattern")
    tools = await connection.tools(["look"])
    stalls: list[float] = []

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            stalls.append(time.monotonic() - before)

    beating = asyncio.create_task(beat())
    failed = await failure(connection.call("look", {"at": "sea"}, tools["look"].digest, 1.0))
    beating.cancel()
    assert failed.transient
    # The worker is stuck in its regular expression; here, time went on all the while.
    assert len(stalls) > 2


@SHARED
async def test_a_server_inherits_nothing_but_the_harmless_and_what_is_named(
    obedient: Connection,
) -> None:
    names = (await look(obedient, at="environment")).splitlines()
    assert "NOTES" in names
    assert not {"SECRET_TOKEN", "PYTHONPATH", "PYTHONHASHSEED"} & set(names)


async def test_a_server_that_will_not_end_is_killed_with_its_children(
    connect: Connect, tmp_path: Path
) -> None:
    connection = connect("stubborn")
    await connection.tools(["look"])
    assert len(noted(tmp_path)) == 2
    await connection.close()
    await until_so(lambda: not any(map(is_alive, noted(tmp_path))))


def children() -> list[int]:
    """The processes that this one has started, without those that have ended."""
    tasks = Path("/proc/self/task").iterdir()
    started = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return list(filter(is_alive, started))


async def test_a_connection_that_is_cancelled_while_it_starts_leaves_nothing(
    connect: Connect, tmp_path: Path
) -> None:
    first = connect("honest")
    await first.tools(["look"])
    before = children()
    connecting = asyncio.create_task(connect("honest").tools(["look"]))
    await until_so(lambda: len(children()) > len(before))
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await until_so(lambda: children() == before)
    assert len(noted(tmp_path)) == 1


async def test_a_server_on_the_network_is_reached_as_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def refuse(scope: Any, _: Any, send: Any) -> None:
        if scope["type"] == "http":
            asked.append(dict(scope["headers"])[b"host"].decode())
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async with serving(refuse) as url:
        monkeypatch.setenv("HTTP_PROXY", url.removesuffix("/mcp"))
        monkeypatch.setenv("no_proxy", "")
        address = website("http://mcp.example/mcp", {})
        await failure(Connection("walls", address, 30).tools())
    assert set(asked) == {"mcp.example"}


async def test_servers_end_with_a_loopkit_that_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from pathlib import Path
from loopkit.cli import invoke as run
from loopkit.outside.mcp.connection import Connection, program as at_program
from loopkit.outside.processes import command_environment

async def main():
    env = command_environment((), {{"NOTES": {str(tmp_path / "notes")!r}}})
    program = at_program([sys.executable, {str(BY_HAND)!r}, "stubborn"], env, Path.cwd())
    await Connection("files", program, 30).tools(["look"])
    print("connected", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"connected\n"
    assert all(map(is_alive, noted(tmp_path)))
    process.kill()
    await process.wait()
    await until_so(lambda: not any(map(is_alive, noted(tmp_path))))


async def test_a_program_that_does_not_exist_is_fatal() -> None:
    nowhere = at_program(["no-such-program"], command_environment(), Path.cwd())
    failed = await failure(Connection("files", nowhere, 30).tools())
    assert not failed.transient
    assert "its program was not started: no-such-program: No such file" in failed.message


class Shade(BaseModel):
    shade: str


async def paint(context: Context[Any, Any], colour: str) -> str:
    """Paints the wall."""
    if colour == "blue":
        await context.elicit("Which blue?", Shade)
    return f"The wall is {colour}."


def lengthen(words: int) -> str:
    return "word " * words


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The URL of an ASGI application that is served until the end."""
    config = uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await until_so(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.should_exit = True
        await task


def painter() -> Any:
    server = MCPServer("painter")
    server.add_tool(paint)
    server.add_tool(lengthen)
    return server.streamable_http_app()


async def test_a_server_on_the_network_is_called_and_lost_when_it_ends() -> None:
    async with serving(painter()) as url:
        connection = Connection("walls", website(url, {}), 30)
        tools = await connection.tools(["paint", "lengthen"])
        given = await connection.call("paint", {"colour": "red"}, tools["paint"].digest, 30)
        assert (given.text, given.is_error) == ("The wall is red.", False)
        long = await connection.call("lengthen", {"words": 2000000}, tools["lengthen"].digest, 60)
        assert (len(long.text), long.left_out) == (200_000, 9_800_000)
        asked = await connection.call("paint", {"colour": "blue"}, tools["paint"].digest, 30)
        assert asked.is_error
        assert "elicitation" in asked.text
    failed = await failure(connection.call("paint", {"colour": "red"}, tools["paint"].digest, 5))
    assert failed.transient
    await connection.close()


async def test_a_server_that_lets_nobody_in_is_fatal_and_one_that_is_down_is_not() -> None:
    seen: list[bytes] = []

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        seen.extend(value for name, value in scope["headers"] if name == b"authorization")
        status = 401 if dict(scope["headers"])[b"authorization"] == b"Bearer wrong" else 503
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with serving(guarded) as url:
        for token, transient, said in (("wrong", False, "401"), ("right", True, "503")):
            address = website(url, {"Authorization": f"Bearer {token}"})
            failed = await failure(Connection("walls", address, 30).tools())
            assert failed.transient is transient
            assert f"HTTP status {said}" in failed.message
    assert {b"Bearer wrong", b"Bearer right"} == set(seen)
    failed = await failure(Connection("walls", website(url, {}), 30).tools())
    assert failed.transient
    assert "ConnectError" in failed.message
