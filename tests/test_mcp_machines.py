"""Machines as tools: a toolbox starts their runs, tells where they stand, and asks the user."""

# ruff: noqa: ASYNC110, ASYNC240 - tests wait for files that programs write
from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import loopkit
from loopkit.agents.port import NotRunnable
from loopkit.language.load import load
from loopkit.serving.host import Host
from loopkit.serving.tools.arguments import (
    NOBODY,
    Caller,
    CallRefused,
    UserAsked,
    UserReply,
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
ASKED = Caller(user="the user of a test", may_be_asked=True)
GOOD = {"choice": "accept", "stars": 5}


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

    async def asked(self, name: str, caller: Caller = ASKED, **arguments: Any) -> UserAsked:
        answer = await self.box.call(name, arguments, caller)
        assert isinstance(answer, UserAsked), answer
        return answer

    async def refused(self, name: str, caller: Caller = NOBODY, **arguments: Any) -> str:
        with pytest.raises(CallRefused) as refused:
            await self.box.call(name, arguments, caller)
        return str(refused.value)

    async def run_asking(self) -> tuple[str, UserAsked]:
        """A run that waits, and what its user is asked."""
        asked = await self.asked("note", topic="cake")
        return run_of(asked), asked


def run_of(asked: UserAsked) -> str:
    return str(json.loads(asked.matter)["run"])


def reply(asked: UserAsked, content: Mapping[str, Any] | None, action: Any = "accept") -> Caller:
    return Caller(ASKED.user, may_be_asked=True,
                  reply=UserReply(asked.matter, action, content or {}))  # fmt: skip


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
        for arguments in ({"choice": "accept"}, {"answer": "accept"}, {"reply": GOOD}):
            assert "unknown argument" in await served.refused("resume", run=run, **arguments)
        assert (await served.host.app.state_of(run)).status == "waiting"


async def test_the_user_of_a_client_answers_in_a_form_and_the_run_goes_on() -> None:
    async with serving(note()) as served:
        run, asked = await served.run_asking()
        assert asked.message.endswith("Is it good?\n  accept\n  revise  (with a comment)\n  burn")
        assert "cake" in asked.message
        fields = asked.schema["properties"]
        assert fields["choice"]["enum"] == ["accept", "revise", "burn"]
        assert fields["comment"]["description"] == "Needed with: revise"
        assert fields["stars"] == {
            "type": "integer", "minimum": 1, "maximum": 5,
            "description": "int, at least 1, at most 5",
        }  # fmt: skip
        assert (fields["tone"]["enum"], fields["tone"]["default"]) == (["plain", "warm"], "plain")
        assert asked.schema["required"] == ["choice", "stars"]
        told = await served.data("note", reply(asked, {**GOOD, "why": ""}), topic="cake")
        assert (told["run"], told["outcome"]) == (run, "done")
        answer = (await served.host.app.state_of(run)).answers["ask"]
        assert (answer.by, answer.form) == (ASKED.user, {"stars": 5, "tone": "plain", "why": None})
        assert len(await served.host.app.journal.runs()) == 1


async def test_an_answer_may_lead_to_the_next_question() -> None:
    async with serving(note()) as served:
        run, asked = await served.run_asking()
        again = {"choice": "revise", "comment": "Longer.", "stars": 1}
        second = await served.box.call("note", {"topic": "cake"}, reply(asked, again))
        assert isinstance(second, UserAsked)
        assert second.matter != asked.matter
        # The form that was answered is over: it changes nothing any more, whatever it says.
        told = await served.data("note", reply(asked, GOOD), topic="cake")
        assert told["status"] == "waiting"
        told = await served.data("note", reply(second, GOOD), topic="cake")
        assert (told["run"], told["outcome"]) == (run, "done")


async def test_an_answer_that_does_not_fit_is_asked_for_again_a_few_times() -> None:
    async with serving(note()) as served:
        _, asked = await served.run_asking()
        wrong = (
            ({"choice": "revise", "stars": 1}, "`revise` needs a comment"),
            ({"choice": "accept", "stars": 9}, "form field `stars` takes a whole number"),
        )
        for content, why in wrong:
            answer = await served.box.call("note", {"topic": "cake"}, reply(asked, content))
            assert isinstance(answer, UserAsked)
            assert answer.message.startswith(f"Your answer was not taken: {why}")
            asked = answer
        why = await served.refused("note", reply(asked, {"choice": 7}), topic="cake")
        assert "there is no choice" in why
        assert (await served.host.app.state_of(run_of(asked))).status == "waiting"


async def test_a_question_that_was_answered_elsewhere_is_over() -> None:
    async with serving(note()) as served:
        run, asked = await served.run_asking()
        done = loopkit.answer(run, "burn", form={"stars": 1}, by="ann", state=".loopkit")
        assert done.outcome == "failed"
        told = await served.data("note", reply(asked, GOOD), topic="cake")
        assert (told["outcome"], told["success"]) == ("failed", False)


async def test_a_closed_choice_is_not_offered_and_its_reason_is_shown() -> None:
    async with serving(note()) as served:
        _, asked = await served.run_asking()
        for _ in range(3):
            assert "revise" in asked.schema["properties"]["choice"]["enum"]
            again = {"choice": "revise", "comment": "Longer.", "stars": 1}
            answer = await served.box.call("note", {"topic": "cake"}, reply(asked, again))
            assert isinstance(answer, UserAsked)
            asked = answer
        assert asked.schema["properties"]["choice"]["enum"] == ["accept", "burn"]
        assert "comment" not in asked.schema["properties"]
        assert "revise  (with a comment)  (closed: " in asked.message


async def test_fields_that_are_no_single_values_are_answered_elsewhere() -> None:
    nested = NOTE.replace("why: optional str", "parts: [str]").replace("WORK", "tail -n 1")
    async with serving(write("note.yaml", nested)) as served:
        told = await served.data("note", ASKED, topic="cake")
        assert told["status"] == "waiting"
        assert f"loopkit answer {told['run']} accept" in told["message"]


async def test_a_question_of_a_child_is_asked_with_the_run_that_asks() -> None:
    note()
    parent = """
loopkit: 1
states:
  one: {machine: note.yaml, input: {topic: cake}, next: done}
  done: {final: success, result: one}
"""
    async with serving(write("parent.yaml", parent)) as served:
        asked = await served.asked("parent")
        assert "/" in run_of(asked)
        told = await served.data("parent", reply(asked, GOOD))
        assert (told["outcome"], told["result"]["one"]["outcome"]) == ("done", "done")


async def test_what_happens_in_a_run_is_told() -> None:
    async with serving(note()) as served:
        told: list[str] = []
        caller = Caller(may_be_asked=True, tell=into(told))
        asked = await served.asked("note", caller, topic="tea")
        assert told[0] == f"run {run_of(asked)}"
        assert [word.partition(":")[0] for word in told if "attempt" in word] == [
            f"write note, attempt {number}" for number in (1, 2, 3)
        ]
        assert len([word for word in told if word.startswith("check fail · ")]) == 3
        assert "→ ask" in told
        assert told[-1].endswith("waits for a person: Is it good?")
        ends: list[str] = []
        caller = Caller(tell=into(ends), reply=UserReply(asked.matter, "accept", GOOD))
        await served.data("note", caller, topic="tea")
        assert (ends[0], ends[-1]) == ("ask accept (by the user of a client)", "done (success)")


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
        second = asyncio.create_task(served.data("resume", Caller(tell=into(told)), run=row.run))
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


async def test_secrets_of_the_environment_are_in_no_answer_no_form_and_no_progress() -> None:
    async with serving(note()) as served:
        told: list[str] = []
        caller = Caller(may_be_asked=True, tell=into(told))
        asked = await served.asked("note", caller, topic="s3cr3t")
        assert "***" in asked.message
        assert "s3cr3t" not in asked.message
        again = {"choice": "revise", "comment": "s3cr3t", "stars": 1}
        caller = Caller(tell=into(told), reply=UserReply(asked.matter, "accept", again))
        answer = await served.box.call("note", {"topic": "s3cr3t"}, caller)
        assert "s3cr3t" not in str(answer)
        assert any("***" in one for one in told)
        assert "s3cr3t" not in str(told)
        assert "s3cr3t" not in await served.refused("s3cr3t")


async def test_several_questions_of_a_family_are_asked_one_after_the_other() -> None:
    note()
    async with serving(write("notes.yaml", NOTES)) as served:
        first = await served.asked("notes", names=["cake", "pie"])
        second = await served.box.call("notes", {}, reply(first, GOOD))
        assert isinstance(second, UserAsked)
        assert run_of(first) != run_of(second)
        # The form of the first one is over, and says nothing about the second.
        other = {"choice": "burn", "stars": 1}
        told = await served.data("notes", reply(first, other))
        assert [asked["run"] for asked in told["questions"]] == [run_of(second)]
        # Who says no is told the line that answers.
        third = await served.data("notes", reply(second, None, "decline"))
        assert [asked["run"] for asked in third["questions"]] == [run_of(second)]
        assert f"loopkit answer {run_of(second)} accept" in third["message"]
        assert (await served.data("notes", reply(second, GOOD)))["outcome"] == "done"


async def test_a_form_whose_fields_have_names_of_its_own_is_not_shown() -> None:
    named = NOTE.replace("why: optional str", "comment: optional str").replace("WORK", "tail -n 1")
    async with serving(write("note.yaml", named)) as served:
        assert (await served.data("note", ASKED, topic="cake"))["status"] == "waiting"


async def test_a_run_that_another_process_drives_is_neither_driven_nor_waited_for() -> None:
    here = Path.cwd()
    waits = f"touch {here}/begun; until test -e {here}/go; do sleep 0.01; done"
    note(f"[ $(cat) = cake ] || {{ {waits}; }}; echo Cake.")
    path = write("notes.yaml", NOTES.replace("machine:", "parallel: 2, isolate: copy, machine:"))
    process = Process(["-m", "loopkit", "run", str(path)])
    await there("begun", process)
    async with serving(path) as served:
        [run] = [row.run for row in await served.host.app.journal.runs() if "/" not in row.run]
        while "questions" not in (told := await served.data("resume", ASKED, run=run)):
            await asyncio.sleep(0.01)
        assert (told["status"], told["message"]) == (
            "running", "the run is being driven; call `status` again later",
        )  # fmt: skip
        [asked] = told["questions"]
        matter = {"run": asked["run"], "question": "ask:1", "number": 1}
        given = reply(UserAsked("", {}, json.dumps(matter)), GOOD)
        told = await served.data("notes", given)
        assert told["message"].startswith("the answer was given; ")
        assert told["message"].endswith(" goes on with the run: see `status` later")
        Path("go").touch()
        await asyncio.to_thread(process.wait, 300)
        told = await served.data("status", run=run)
        # The other note waits now, and the answer was taken.
        assert matter["run"] not in [one["run"] for one in told["questions"]]
        assert (await served.host.app.state_of(matter["run"])).answers["ask"].by == ASKED.user


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
