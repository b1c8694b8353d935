"""`loopkit mcp machines --http` as a process, spoken with by the client of the `mcp` package."""

# ruff: noqa: ASYNC110, ASYNC240 - tests wait for files that programs write
from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.http_site import ASKING, SLOW, TOKEN, Serving, folder_with, serving
from tests.mcp_http import MACHINES, MODES, Mode, client_of
from tests.support import CommandLine
from tests.waiting import until_so
from tests.warm import ran_loopkit

_folder = folder_with(letter=ASKING, slow=SLOW)


async def data(server: Serving, tool: str, mode: Mode = "auto", **arguments: Any) -> dict[str, Any]:
    """What a tool answers to a client that is there for nothing else."""
    async with client_of(server.url, mode) as client:
        answer = await client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        return dict(answer.structured_content or {})


async def begun(server: Serving, mode: Mode = "auto") -> str:
    """The id of a run that works, and whose client has given up its call and gone."""
    told: list[str] = []

    async def hear(_: float, __: float | None, word: str | None) -> None:
        told.append(word or "")

    async with client_of(server.url, mode) as client:
        calling = asyncio.create_task(client.call_tool("slow", {}, progress_callback=hear))
        await until_so(lambda: Path("begun").exists() and any(w.startswith("run ") for w in told))
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    return next(word.split()[1] for word in told if word.startswith("run "))


async def finished(server: Serving, run: str) -> dict[str, Any]:
    async with client_of(server.url) as client, asyncio.timeout(60):
        while True:
            answer = await client.call_tool("status", {"run": run})
            told = dict(answer.structured_content or {})
            if told["status"] not in ("running", "new"):
                return told
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_goes_on_when_its_client_is_gone_and_status_finds_it(mode: Mode) -> None:
    async def use(server: Serving) -> None:
        run = await begun(server, mode)
        told = await data(server, "status", run=run)
        assert (told["status"], told["state"]) == ("running", "write")
        Path("go").touch()
        done = await finished(server, run)
        assert (done["status"], done["outcome"], done["calls"]) == ("finished", "done", 2)
        assert done["result"] == {"note": "Write again."}

    with serving("slow.yaml", command=MACHINES) as server:
        asyncio.run(use(server))


def test_the_server_goes_on_by_itself_when_the_time_of_a_question_is_over() -> None:
    hurried = ASKING.replace(
        "show: [letter]", "show: [letter]\n    timeout: 1s\n    otherwise: drop"
    )
    Path("letter.yaml").write_text(hurried, encoding="utf-8")

    async def use(server: Serving) -> None:
        run = (await data(server, "letter"))["run"]
        async with asyncio.timeout(60):
            while (told := await data(server, "status", run=run))["status"] != "finished":
                await asyncio.sleep(0.1)
        assert told["outcome"] == "dropped"

    with serving("letter.yaml", command=MACHINES) as server:
        asyncio.run(use(server))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_signal_finishes_the_step_in_hand(number: int, code: int) -> None:
    with serving("slow.yaml", command=MACHINES) as server:
        run = asyncio.run(begun(server))
        server.process.send_signal(number)
        asyncio.run(until_so(lambda: "a second" in server.log.read_text()))
        Path("go").touch()
        assert server.process.wait(60) == code

    async def go_on(server: Serving) -> None:
        told = await data(server, "status", run=run)
        assert (told["status"], told["calls"], told["state"]) == ("suspended", 1, "again")
        assert (await data(server, "resume", run=run))["outcome"] == "done"

    with serving("slow.yaml", command=MACHINES) as server:
        asyncio.run(go_on(server))


def test_a_second_signal_ends_the_server_at_once() -> None:
    with serving("slow.yaml", command=MACHINES) as server:
        asyncio.run(begun(server))
        server.process.send_signal(signal.SIGTERM)
        asyncio.run(until_so(lambda: "a second SIGTERM" in server.log.read_text()))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 143
        assert "aborted; the runs can be resumed" in server.log.read_text()


def test_the_token_is_in_nothing_that_is_printed_and_no_program_sees_it() -> None:
    Path("look.yaml").write_text(
        "loopkit: 1\nagents: {looker: {command: [env], env: [LOOPKIT_TOKEN]}}\nstates:\n"
        "  look: {agent: looker, prompt: x, output: seen, next: done, on_error: {content: done}}\n"
        "  done: {final: success, result: seen}\n",
        encoding="utf-8",
    )
    with serving("look.yaml", "--host", "0.0.0.0", command=MACHINES) as server:
        warned = "WARNING: the server listens at 0.0.0.0, where others can reach it"
        assert warned in server.log.read_text()
        told = asyncio.run(data(server, "look"))
        assert "PATH=" in told["result"]["seen"]
        assert "LOOPKIT_TOKEN" not in str(told)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 143
    assert TOKEN not in server.log.read_text()


def test_a_server_that_nobody_could_use_does_not_start(cli: CommandLine) -> None:
    told = ran_loopkit(*MACHINES, "letter.yaml", "--port", "0")
    assert told.returncode == 2
    assert "clients need a token: give it in LOOPKIT_TOKEN or with `--token-file`" in told.stderr
    Path("token").write_text("too short", encoding="utf-8")
    for options, why in (
        (["--http", "--token-file", "token"], "has to be at least 16 printable"),
        (["--http", "--token-file", "absent"], "absent"),
        (["--port", "1"], "`--port` is for a server over HTTP: add `--http`"),
        (["--url", "https://x.example"], "`--url` is for a server over HTTP"),
        (["--host", "127.0.0.1"], "`--host` is for a server over HTTP"),
        (["--token-file", "token"], "`--token-file` is for a server over HTTP"),
    ):
        assert why in cli(2, "mcp", "machines", "letter.yaml", *options).err
    Path("token").write_text(TOKEN, encoding="utf-8")
    for url in ("runs.example", "https://runs.example/mcp", "ftp://x"):
        options = ["--token-file", "token", "--port", "0", "--url", url]
        assert "write `https://HOST`" in cli(2, *MACHINES, "letter.yaml", *options).err
