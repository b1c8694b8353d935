"""A host drives the runs of a server, with the same gates as the command line."""

# ruff: noqa: ASYNC110, ASYNC220, ASYNC240 - tests wait for files that programs write
from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.cli import invoke
from loopkit.drive.answers import AnswerRefused
from loopkit.engine.payloads import HumanAnswer
from loopkit.journal.errors import RunBusy, UnknownRun
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load
from loopkit.serving.host import Host, Posted
from tests.warm import Process

pytestmark = pytest.mark.usefixtures("own_folder")
NOTE = """
loopkit: 1
input: {topic: str}
NOTIFY
agents: {writer: {command: [sh, -c, "WORK"]}}
states:
  write:
    agent: writer
    prompt: "{{ input.topic }}"
    output: note
    next: ask
    on_error: {content: failed}
  ask:
    human: Is it good?
    show: [note]
    choices: [accept, revise]
    transitions:
      - {guard: choice == "accept", target: done}
      - {revise: write, max: 3, feedback: "{{ comment }}"}
      - {target: failed}
  done: {final: success, result: note}
  failed: {final: failure}
"""
UNTIL_GO = "touch begun; while [ ! -e go ]; do sleep 0.01; done; cat"
"""A writer that says that it has begun, and ends when it may."""
ACCEPT = HumanAnswer(choice="accept", by="ann")


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def note(name: str = "note", work: str = "cat", notify: str = "") -> Path:
    return write(f"{name}.yaml", NOTE.replace("WORK", work).replace("NOTIFY", notify))


@pytest.fixture
async def said() -> list[str]:
    return []


@pytest.fixture
async def host(said: list[str]) -> AsyncIterator[Host]:
    async with Host(Path(".loopkit"), [load(note())], said.append) as host:
        yield host


async def test_an_answer_that_is_given_twice_counts_once_and_a_stale_one_is_refused(
    host: Host,
) -> None:
    run = await host.start("note", {"topic": "tea"})
    await host.wait_until_released(run)
    asked = (await host.app.state_of(run)).question
    assert asked is not None
    again = HumanAnswer(choice="revise", comment="Longer.", by="ann")
    first, second = await asyncio.gather(
        host.post(run, again, asked.question), host.post(run, again, asked.question)
    )
    assert sorted([first.is_new, second.is_new]) == [False, True]
    await host.wait_until_released(run)
    assert (await host.app.state_of(run)).visit == 2
    with pytest.raises(AnswerRefused, match="no longer open"):
        await host.post(run, ACCEPT, asked.question)
    await host.post(run, ACCEPT)
    await host.wait_until_released(run)
    assert await host.post(run, ACCEPT) == (False, "nobody")


async def test_what_cannot_be_started_is_refused_as_on_the_command_line(host: Host) -> None:
    with pytest.raises(InvalidInput, match="input `topic` is missing"):
        await host.start("note", {})
    with pytest.raises(NotRunnable, match="did you mean `note`"):
        await host.start("not", {"topic": "tea"})
    with pytest.raises(UnknownRun):
        await host.resume("note-1")
    assert await host.app.journal.runs() == []


async def test_two_machines_of_one_name_are_refused() -> None:
    Path("other").mkdir()
    machines = [load(note()), load(note("other/note"))]
    with pytest.raises(NotRunnable, match="two of the machines are named `note`"):
        Host(Path(".loopkit"), machines)


async def test_a_host_that_ends_finishes_the_step_and_leaves_the_run_to_be_resumed() -> None:
    slow = note(work=UNTIL_GO)
    async with Host(Path(".loopkit"), [load(slow)]) as host:
        run = await host.start("note", {"topic": "tea"})
        while not Path("begun").exists():
            await asyncio.sleep(0.01)
        with pytest.raises(RunBusy):
            await host.resume(run)
        closing = asyncio.create_task(host.close())
        await asyncio.sleep(0)
        with pytest.raises(NotRunnable, match="about to end"):
            await host.start("note", {"topic": "cake"})
        Path("go").touch()
        await closing
    async with Host(Path(".loopkit"), []) as host:
        # The step that was in hand is stored: nothing is asked of the writer again.
        stopped = await host.app.state_of(run)
        assert stopped.usage.agent_calls == 0 or stopped.artifacts["note"].text == "tea"
        await host.resume(run)
        await host.wait_until_released(run)
        state = await host.app.state_of(run)
        assert (state.status, state.artifacts["note"].text) == ("waiting", "tea")


async def test_what_another_process_drives_is_told_with_its_name_and_followed_there(
    host: Host,
) -> None:
    slow = note("slow", work=UNTIL_GO)
    other = Process(["-m", "loopkit", "run", str(slow), "--set", "topic=tea"])
    while not Path("begun").exists():
        await asyncio.sleep(0.01)
    [row] = await host.app.journal.runs()
    with pytest.raises(RunBusy, match=f"process {other.pid}"):
        await host.resume(row.run)
    assert f"process {other.pid}" in await host.go_on(row.run)
    assert "ends the work in hand" in await host.app.cancel(row.run, "enough")
    assert other.wait(300) == 1
    assert (await host.app.state_of(row.run)).status == "cancelled"


async def test_what_goes_wrong_with_one_run_is_said_and_leaves_the_others_alone(
    said: list[str],
) -> None:
    broken = load(note(notify="notify: [./not-there]"))
    async with Host(Path(".loopkit"), [broken], said.append) as host:
        one, two = [await host.start("note", {"topic": t}) for t in ("tea", "cake")]
        await host.wait_until_released(one)
        await host.wait_until_released(two)
        assert len(said) == 2
        assert all(re.search(r"^note-\w+: the notifier failed", line) for line in said)
        assert (await host.app.state_of(two)).status == "waiting"


def test_the_command_line_goes_on_with_the_runs_of_a_host() -> None:
    async def started() -> str:
        async with Host(Path(".loopkit"), [load(note())]) as host:
            run = await host.start("note", {"topic": "tea"})
            await host.wait_until_released(run)
            return run

    async def answered_again(run: str) -> Posted:
        async with Host(Path(".loopkit"), []) as host:
            return await host.post(run, ACCEPT)

    run = asyncio.run(started())
    assert invoke(["answer", run, "accept", "--by", "ann"]) == 0
    assert asyncio.run(answered_again(run)) == (False, "nobody")


async def test_a_run_of_a_host_that_was_killed_is_resumed_by_another() -> None:
    note(work="touch begun; if [ ! -e again ]; then sleep 600; fi; cat")
    script = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from loopkit.language.load import load\n"
        "from loopkit.serving.host import Host, Posted\n"
        "async def main():\n"
        "    host = Host(Path('.loopkit'), [load(Path('note.yaml'))])\n"
        "    print(await host.start('note', {'topic': 'tea'}), flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    run = server.stdout.readline().strip()
    while not Path("begun").exists():
        await asyncio.sleep(0.01)
    server.send_signal(signal.SIGKILL)
    server.wait()
    server.stdout.close()
    Path("again").touch()
    async with Host(Path(".loopkit"), []) as host:
        await host.resume(run)
        await host.wait_until_released(run)
        # The call of a program is in doubt: a person says whether it is made again.
        [asked] = await host.app.questions(run)
        assert asked.question.question.startswith("doubt:")
        await host.post(run, HumanAnswer(choice="retry", by="ann"))
        await host.wait_until_released(run)
        assert (await host.app.state_of(run)).artifacts["note"].text == "tea"
