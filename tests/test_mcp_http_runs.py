"""Runs of machines over HTTP: many at once, two clients at one request, and long answers."""

# ruff: noqa: ASYNC110, ASYNC240 - nothing else runs in these tests' event loops
from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types

from loopkit.language.load import load
from loopkit.serving.host import Host
from loopkit.serving.tools.machines import MachineToolbox
from tests.http_site import ASKING, folder_with
from tests.mcp_http import (
    MODES,
    Mode,
    ServedTools,
    client_of,
    message,
    tools_over_http,
    written,
)
from tests.test_outside import GOOD, PLAIN

STATE = Path(".loopkit")
ROUNDS = 1_000
EDITOR = types.Implementation(name="editor", version="1")
LOOPING = f"""
loopkit: 1
states:
  write: {{render: "{"Tea. " * 40}", output: note, next: check}}
  check:
    validate: note
    by: [{{section: Goal, message: "{"There is no goal. " * 10}"}}]
    transitions: [{{revise: write, max: {ROUNDS}}}, {{target: failed}}]
  failed: {{final: failure}}
"""

_folder = folder_with(letter=ASKING, plan=PLAIN)


@asynccontextmanager
async def machines_over_http(
    *names: str, **options: Any
) -> AsyncIterator[tuple[ServedTools, Host]]:
    """A server of machines of this folder, and the host of their runs."""
    machines = [load(Path(name)) for name in names]
    async with (
        Host(STATE, machines) as host,
        tools_over_http(MachineToolbox(host, str, stops_with_call=False), **options) as served,
    ):
        yield served, host


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return dict(answer.structured_content or {})


@pytest.mark.parametrize("mode", MODES)
async def test_many_runs_at_once_end_and_each_call_has_its_own(mode: Mode, at_once: int) -> None:
    Path("note.yaml").write_text(
        "loopkit: 1\ninput: {topic: str}\nstates:\n"
        '  write: {render: "{{ input.topic }}", output: note, next: done}\n'
        "  done: {final: success, result: note}\n",
        encoding="utf-8",
    )
    async with machines_over_http("note.yaml") as (served, host):
        async with client_of(served.url, mode) as client:
            runs = await asyncio.gather(
                *(told(client, "note", topic=str(number)) for number in range(at_once))
            )
        assert [run["result"]["note"] for run in runs] == [str(n) for n in range(at_once)]
        assert len({run["run"] for run in runs}) == at_once
        assert len(await host.app.journal.runs(limit=2 * at_once)) == at_once


async def test_of_two_clients_that_submit_to_one_request_the_second_is_refused() -> None:
    async with (
        machines_over_http("plan.yaml") as (served, _),
        client_of(served.url, client_info=EDITOR) as first,
        client_of(served.url, "legacy") as second,
    ):
        request = (await told(first, "plan"))["request"]
        named = {"run": request["run"], "request": request["id"]}
        texts = (GOOD, f"{GOOD}More.\n")
        answers = await asyncio.gather(
            first.call_tool("submit", {**named, "artifact": texts[0]}),
            second.call_tool("submit", {**named, "artifact": texts[1]}),
        )
        refused = [answer.is_error for answer in answers]
        assert sorted(refused) == [False, True]
        why = str(answers[refused.index(True)].content)
        assert "has delivered it" in why
        assert ("editor has" in why) is not refused[0]
        done = await told(first, "next", run=request["run"])
        assert done["result"] == {"plan": texts[refused.index(False)]}


async def test_a_client_that_reads_nothing_holds_up_no_run_and_may_read_later() -> None:
    Path("loop.yaml").write_text(LOOPING, encoding="utf-8")
    call = message("tools/call", name="loop", arguments={})
    call["params"]["_meta"]["progressToken"] = 1
    loop = asyncio.get_running_loop()
    async with machines_over_http("loop.yaml", buffer_bytes=4096) as (served, host):
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            await loop.sock_connect(slow, ("127.0.0.1", served.port))
            await loop.sock_sendall(slow, written(served, call))
            async with asyncio.timeout(120):
                while not [row for row in await host.app.journal.runs() if row.seq > 4 * ROUNDS]:
                    await asyncio.sleep(0.05)
                [row] = await host.app.journal.runs()
                await host.wait_until_released(row.run)
            async with client_of(served.url) as client:
                assert (await told(client, "status", run=row.run))["outcome"] == "failed"
            read = b""
            async with asyncio.timeout(120):
                while b"structuredContent" not in read:
                    read += await loop.sock_recv(slow, 1_000_000)
            assert b"failed (failure)" in read


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_too_long_for_clients_is_left_out_and_said_where_it_is(mode: Mode) -> None:
    Path("note.yaml").write_text(
        "loopkit: 1\ninput: {count: int}\nagents: {writer: {outside: true}}\nstates:\n"
        """  write: {render: '{{ ("你" * input.count) }}', output: note, next: ask}\n"""
        "  ask: {agent: writer, prompt: '{{ note }}', output: end, next: done}\n"
        "  done: {final: success, result: note}\n",
        encoding="utf-8",
    )
    heard: list[float] = []

    async def hear(done: float, _: float | None, __: str | None) -> None:
        heard.append(done)

    async with (
        machines_over_http("note.yaml") as (served, _),
        client_of(served.url, mode) as client,
    ):
        # With progress everything comes as events, which clients bound.
        for count, has_result in ((40_000, True), (50_000, False)):
            begun = await client.call_tool("note", {"count": count}, progress_callback=hear)
            request = dict(begun.structured_content or {})["request"]
            named = {"run": request["run"], "request": request["id"]}
            done = (await told(client, "submit", **named, artifact="Yes."))["next"]
            assert done["status"] == "finished"
            assert ("result" in done) is has_result
            if not has_result:
                assert f"loopkit report {request['run']} -o run.html" in done["message"]
        refused = await client.call_tool("note", {"count": 90_000}, progress_callback=hear)
        assert refused.is_error
        assert "what was asked is done, but the answer has 1," in str(refused.content)
        assert heard
