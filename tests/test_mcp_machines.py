"""Machines as tools: a toolbox starts their runs, and tells where they stand."""

# ruff: noqa: ASYNC110, ASYNC240 - tests wait for files that programs write
from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.language.load import load
from loopkit.serving.host import Host
from loopkit.serving.tools.arguments import (
    NOBODY,
    Caller,
    CallRefused,
)
from loopkit.serving.tools.machines import MachineToolbox
from tests.mcp_client import into
from tests.support import CommandLine
from tests.warm import Process

pytestmark = pytest.mark.usefixtures("own_folder")
NOTE = """
loopkit: 1
description: Write a note and have it approved.
input:
  topic: {type: str, description: What it is about.}
  plan: {type: {title: str, days: [int]}, default: {title: T, days: [1]}}
agents: {writer: {command: [sh, -c, "WORK"]}}
states:
  write: {agent: writer, prompt: "{{ input.topic }}", output: note, next: check, on_error: {content: failed}}
  check:
    validate: note
    by: [{not_matches: tea}]
    transitions: [{guard: valid, target: ask}, {revise: write, max: 2}, {target: ask}]
  ask:
    human: Is it good?
    show: [note]
    form:
      stars: {type: int, minimum: 1, maximum: 5}
      tone: {type: plain|warm, default: plain}
      why: optional str
    choices: [accept, revise, burn]
    transitions:
      - {guard: choice == "accept", target: done}
      - {guard: choice == "revise", revise: write, max: 3, feedback: "{{ comment }}"}
      - {target: failed}
  done: {final: success, result: note}
  failed: {final: failure}
"""  # noqa: E501 - a state a line
PLAIN = """
loopkit: 1
states:
  write: {render: "Tea.", output: note, next: done}
  done: {final: success, result: note}
"""
NOTES = """
loopkit: 1
input: {names: {type: [str], default: [cake, pie]}}
states:
  notes: {each: input.names, as: name, key: name, max_items: 5, machine: note.yaml,
          input: {topic: "{{ name }}"}, next: done}
  done: {final: success}
"""
UNTIL_GO = "tail -n 1; touch begun; until test -e go; do sleep 0.01; done"


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def note(work: str = "tail -n 1") -> Path:
    return write("note.yaml", NOTE.replace("WORK", work))


class Served:
    """The toolbox of a host."""

    def __init__(self, host: Host, **more: Any) -> None:
        self.host = host
        redact = {"redact": lambda text: text.replace("s3cr3t", "***"), "stops_with_call": True}
        self.box = MachineToolbox(host, **{**redact, **more})

    async def data(self, name: str, caller: Caller = NOBODY, **arguments: Any) -> dict[str, Any]:
        answer = await self.box.call(name, arguments, caller)
        assert isinstance(answer, dict)
        return answer

    async def refused(self, name: str, caller: Caller = NOBODY, **arguments: Any) -> str:
        with pytest.raises(CallRefused) as refused:
            await self.box.call(name, arguments, caller)
        return str(refused.value)


@asynccontextmanager
async def serving(*machines: Path, **more: Any) -> AsyncIterator[Served]:
    async with Host(Path(".loopkit"), [load(path) for path in machines]) as host:
        yield Served(host, **more)


async def there(name: str, process: Process | None = None) -> None:
    while not Path(name).exists():
        assert process is None or process.poll() is None, process.communicate()
        await asyncio.sleep(0.01)


async def test_each_machine_is_a_tool_with_the_schema_of_its_input() -> None:
    async with serving(note(), write("plain.yaml", PLAIN)) as served:
        tools = {tool.name: tool for tool in served.box.offered}
        assert list(tools) == ["note", "plain", "status", "resume"]
        schema = tools["note"].arguments
        assert schema["properties"]["topic"] == {
            "type": "string", "description": "What it is about.",
        }  # fmt: skip
        assert (schema["required"], schema["additionalProperties"]) == (["topic"], False)
        assert tools["note"].description == (
            "Write a note and have it approved.\n\nIt ends in `done` (success), `failed` (failure)."
        )
        assert tools["plain"].description.startswith("Run the machine `plain`.")
        assert [tool.name for tool in tools.values() if tool.changes_nothing] == ["status"]


async def test_a_call_runs_a_machine_to_its_end() -> None:
    async with serving(write("plain.yaml", PLAIN)) as served:
        told = await served.data("plain")
        run = told.pop("run")
        assert told == {
            "machine": "plain", "status": "finished", "state": "done", "outcome": "done",
            "success": True, "result": {"note": "Tea."}, "calls": 0, "cost_usd": 0.0,
        }  # fmt: skip
        assert await served.data("status", run=run) == {"run": run, **told}
        # There is nothing to go on with, and nothing changes.
        assert await served.data("resume", run=run) == {"run": run, **told}


async def test_who_calls_is_told_what_is_asked_and_where_a_person_answers() -> None:
    async with serving(note(), pages="http://127.0.0.1:8421") as served:
        told = await served.data("note", topic="cake")
        run = told["run"]
        assert (told["status"], told["state"]) == ("waiting", "ask")
        # Nobody knows what a program costs that has no price.
        assert (told["calls"], told["cost_usd"]) == (1, None)
        assert told["questions"] == [
            {"run": run, "text": "Is it good?", "choices": ["accept", "revise", "burn"]}
        ]
        assert "a person has to answer, and not you" in told["message"]
        assert f"loopkit answer {run} accept --form 'stars=…'" in told["message"]
        assert f"http://127.0.0.1:8421/runs/{run}" in told["message"]
        # Neither does going on answer it, and there is no tool that would.
        assert await served.data("resume", run=run) == told
        for arguments in ({"choice": "accept"}, {"answer": "accept"}):
            assert "unknown argument" in await served.refused("resume", run=run, **arguments)
        assert (await served.host.app.state_of(run)).status == "waiting"


async def test_what_happens_in_a_run_is_told() -> None:
    async with serving(note()) as served:
        told: list[str] = []
        run = (await served.data("note", Caller(into(told)), topic="tea"))["run"]
        assert told[0] == f"run {run}"
        assert [word.partition(":")[0] for word in told if "attempt" in word] == [
            f"write note, attempt {number}" for number in (1, 2, 3)
        ]
        assert len([word for word in told if word.startswith("check fail · ")]) == 3
        assert "→ ask" in told
        assert told[-1].endswith("waits for a person: Is it good?")


@pytest.mark.parametrize("turns", range(12))
async def test_a_call_that_is_cancelled_at_any_moment_leaves_no_run_in_the_midst_of_its_step(
    turns: int,
) -> None:
    async with serving(write("plain.yaml", PLAIN)) as served:
        # What several store at once is one commit, for which each of them waits.
        calls = [asyncio.create_task(served.data("plain")) for _ in range(3)]
        for _ in range(turns):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        # What was begun for it comes to its end by itself.
        while served.box._answering:
            await asyncio.sleep(0.01)
        for row in await served.host.app.journal.runs():
            await served.host.wait_until_released(row.run)
            told = await served.data("status", run=row.run)
            assert told["status"] in ("finished", "suspended")
            assert (await served.data("resume", run=row.run))["outcome"] == "done"


async def test_a_run_for_which_another_call_waits_goes_on() -> None:
    # The first attempt, which is rejected, waits for one file, and the second for another one.
    work = f"test -e begun && touch again; {UNTIL_GO.replace('test -e go', 'test -e $(WHICH)')}"
    which = "test -e again && echo go || echo on"
    async with serving(note(work.replace("WHICH", which))) as served:
        first = asyncio.create_task(served.data("note", topic="tea"))
        await there("begun")
        [row] = await served.host.app.journal.runs()
        told: list[str] = []
        second = asyncio.create_task(served.data("resume", Caller(into(told)), run=row.run))
        Path("on").touch()
        while not told:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        Path("go").touch()
        assert (await second)["status"] == "waiting"


async def test_wrong_calls_are_refused_with_the_place_and_the_remedy() -> None:
    async with serving(note()) as served:
        assert await served.refused("note") == "input `topic` is missing"
        assert "did you mean `topic`" in await served.refused("note", topik="x", topic="y")
        bad = {"title": "T", "days": [1, "two"]}
        assert "input `plan.days[1]`" in await served.refused("note", topic="x", plan=bad)
        assert "did you mean `note`?" in await served.refused("nte")
        assert "did you mean `status`?" in await served.refused("statu", run="x")
        assert "`run` has to be a text" in await served.refused("status", run=7)
        assert "`run` has to be a text" in await served.refused("resume")
        assert "did you mean `run`?" in await served.refused("status", rn="x")
        assert "note-000000" in await served.refused("status", run="note-000000")
        assert await served.host.app.journal.runs() == []


async def test_runs_of_other_machines_are_not_shown_and_not_resumed() -> None:
    async with serving(note()) as served:
        run = (await served.data("note", topic="cake"))["run"]
    async with serving(write("plain.yaml", PLAIN)) as served:
        for tool in ("status", "resume"):
            why = await served.refused(tool, run=run)
            assert why == f"run `{run}` is of machine `note`, not served here"


async def test_a_machine_named_like_another_tool_is_refused() -> None:
    with pytest.raises(NotRunnable, match="a machine is named `status`"):
        async with serving(write("status.yaml", PLAIN)):
            pass


async def test_secrets_of_the_environment_are_in_no_answer_and_no_progress() -> None:
    Path("note.yaml").write_text(
        NOTE.replace("WORK", "tail -n 1").replace("Is it good?", "Is s3cr3t good?")
    )
    async with serving(Path("note.yaml")) as served:
        told: list[str] = []
        answer = await served.data("note", Caller(into(told)), topic="s3cr3t")
        assert answer["questions"][0]["text"] == "Is *** good?"
        assert "s3cr3t" not in str(answer)
        assert any("***" in one for one in told)
        assert "s3cr3t" not in str(told)
        assert "s3cr3t" not in await served.refused("s3cr3t")


async def test_a_run_that_another_process_drives_is_neither_driven_nor_waited_for() -> None:
    here = Path.cwd()
    waits = f"touch {here}/begun; until test -e {here}/go; do sleep 0.01; done"
    note(f"[ $(cat) = cake ] || {{ {waits}; }}; echo Cake.")
    path = write("notes.yaml", NOTES.replace("machine:", "parallel: 2, isolate: copy, machine:"))
    process = Process(["-m", "loopkit", "run", str(path)])
    await there("begun", process)
    async with serving(path) as served:
        [run] = [row.run for row in await served.host.app.journal.runs() if "/" not in row.run]
        while "questions" not in (told := await served.data("resume", run=run)):
            await asyncio.sleep(0.01)
        assert (told["status"], told["message"]) == (
            "running", "the run is being driven; call `status` again later",
        )  # fmt: skip
        Path("go").touch()
        await asyncio.to_thread(process.wait, 300)
        told = await served.data("status", run=run)
        # The other note waits now, too.
        assert (told["status"], len(told["questions"])) == ("waiting", 2)


# What is refused before anybody speaks


@pytest.mark.parametrize(
    ("files", "argv", "said"),
    [
        ({"a.yaml": PLAIN.replace("next: done", "next: dne")}, [], "did you mean `done`?"),
        ({"a.yaml": "a: 1"}, [], "error: no machine file lies below `.`"),
        ({"a.yaml": PLAIN, "b/a.yaml": PLAIN}, [], "two of the machines are named `a`"),
        ({"resume.yaml": PLAIN}, ["resume.yaml"], "a machine is named `resume`"),
        ({"a.yaml": PLAIN}, ["b.yaml"], "b.yaml"),
        ({}, ["-"], "the client speaks on standard input"),
    ],
)
def test_what_can_not_be_served_is_refused_before_anybody_speaks(
    files: dict[str, str],
    argv: list[str],
    said: str,
    cli: CommandLine,
) -> None:
    for name, text in files.items():
        write(name, text)
    told = cli(2, "mcp", "machines", *argv)
    assert said in told.err
    assert told.out == ""
    assert files_open() == []


def files_open() -> list[str]:
    """The files in the folder of the test that this process has open."""
    opened = (path.resolve() for path in Path("/proc/self/fd").iterdir())
    return [str(path) for path in opened if path.is_relative_to(Path.cwd())]


def test_without_the_library_it_is_said_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    write("plain.yaml", PLAIN)
    # As where the package is not installed.
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "loopkit.serving.mcp", raising=False)
    assert "pip install 'loopkit-runner[mcp]'" in cli(2, "mcp", "machines").err
    assert files_open() == []
