"""Agents that somebody outside plays: the run waits for the artifact, and judges it like any."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import loopkit
from loopkit import AnswerRefused, NotRunnable, Result
from loopkit.cli import invoke
from loopkit.engine.events import Failed, InDoubt, Intended, Replied, Waiting
from loopkit.language.load import load
from loopkit.views.diagram.model import state_texts
from tests.support import ROOT, Desk, QuickClock, scenario
from tests.warm import ran_loopkit

MACHINE = """
loopkit: 1
agents:
  writer: {outside: true%s}
states:
  draft: {agent: writer, prompt: "Write a plan.", output: plan, next: check}
  check:
    validate: plan
    by: [{section: Goal}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 2}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""
PLAIN = MACHINE % ""
GOOD = "## Goal\n\nTea.\n"


def test_the_run_waits_for_the_artifact_and_holds_no_process(durable: Desk) -> None:
    played = durable.play(PLAIN)
    [asked] = played.of(Intended)
    [waiting] = played.of(Waiting)
    assert (asked.role, asked.prompt, asked.deadline_s) == ("outside", "Write a plan.", None)
    assert (played.state.status, waiting.text, waiting.choices) == ("waiting", "Write a plan.", ())
    assert waiting.wanted is not None
    assert (waiting.wanted.agent, waiting.wanted.artifact) == ("writer", "plan")
    assert (waiting.wanted.form, waiting.wanted.attempt) == ("text", 1)
    again = durable.resume(played.state.run)
    assert again.state.status == "waiting"
    assert len(again.events) - len(played.events) == 1  # the claim alone


def test_what_is_delivered_is_judged_and_the_next_request_has_the_feedback(durable: Desk) -> None:
    run = durable.play(PLAIN).state.run
    second = durable.deliver(run, "No goals.")
    assert second.state.status == "waiting"
    assert second.questions[-1].wanted is not None
    assert second.questions[-1].wanted.attempt == 2
    assert 'no section "Goal"' in second.questions[-1].text
    assert "No goals." not in second.questions[-1].text
    last = durable.deliver(run, GOOD)
    assert (last.outcome, last.result) == ("done", {"plan": GOOD})
    assert [event.by for event in last.of(Replied)] == ["me", "me"]
    assert last.folded == last.state


def test_it_is_no_call_and_costs_nothing(durable: Desk) -> None:
    """Limits that leave no room for a single call leave room for somebody outside."""
    machine = PLAIN.replace(
        "states:", "limits: {agent_calls: 1, tokens: 1, cost_usd: 0.01}\nstates:"
    )
    run = durable.play(machine).state.run
    durable.deliver(run, "No goals.")
    last = durable.deliver(run, GOOD)
    assert last.outcome == "done"
    usage = last.state.usage
    assert (usage.agent_calls, usage.tokens, usage.cost_usd) == (0, 0, 0.0)


def test_a_content_error_counts_as_an_attempt(durable: Desk) -> None:
    schema = ", schema: {goal: str}"
    machine = (MACHINE % schema).replace("{section: Goal}", "{require: \"goal != ''\"}")
    run = durable.play(machine).state.run
    assert durable.deliver(run, "no JSON").reports[-1].findings[0].code == "not-json"
    assert durable.deliver(run, '{"goal": 1}').reports[-1].findings[0].code == "schema"
    last = durable.deliver(run, "")
    assert (last.outcome, last.state.attempts["draft"]) == ("failed", 3)


def test_data_is_wanted_with_its_schema(durable: Desk) -> None:
    machine = (MACHINE % ", schema: {goal: str}").replace(
        "{section: Goal}", "{require: \"goal != ''\"}"
    )
    played = durable.play(machine)
    wanted = played.questions[0].wanted
    assert wanted is not None
    assert (wanted.form, (wanted.json_schema or {})["required"]) == ("data", ["goal"])
    assert durable.deliver(played.state.run, '{"goal": "Tea"}').result == {"plan": {"goal": "Tea"}}


def test_a_kept_session_is_told_the_feedback_alone(durable: Desk) -> None:
    run = durable.play(MACHINE % ", session: keep").state.run
    asked = durable.deliver(run, "No goals.").questions[-1].text
    assert "Write a plan." not in asked
    assert 'no section "Goal"' in asked


def test_with_a_timeout_a_missing_delivery_is_a_transient_error(desk: Desk) -> None:
    clock = desk.clock = QuickClock()
    desk.in_memory = False
    played = desk.play(MACHINE % ", timeout: 1h")
    assert played.questions[0].expires_at is not None
    clock.time += 3601
    late = desk.resume(played.state.run)
    assert late.state.suspended is not None
    assert (late.state.suspended.reason, late.of(Failed)[-1].error_class) == ("transient",) * 2
    assert "nobody delivered `plan` in time" in late.state.suspended.message
    again = desk.resume(played.state.run)
    assert again.state.status == "waiting"
    assert again.questions[-1].question != played.questions[0].question
    assert desk.deliver(played.state.run, GOOD).outcome == "done"


def test_another_machine_asks_anew(durable: Desk) -> None:
    run = durable.play(PLAIN).state.run
    other = durable.repair(run, PLAIN.replace("Write a plan.", "Write a short plan."))
    assert (other.state.status, other.questions[-1].text) == ("waiting", "Write a short plan.")
    assert other.of(InDoubt) == []
    assert durable.deliver(run, GOOD).outcome == "done"


# What is refused


def started(folder: Path, machine: str = PLAIN) -> Result:
    path = folder / "machine.yaml"
    path.write_text(machine, encoding="utf-8")
    return loopkit.run(path, state=folder / ".loopkit")


def deliver(folder: Path, run: str, said: Any = None, **parts: Any) -> Result:
    return loopkit.reply(run, said, state=folder / ".loopkit", **parts)


@pytest.mark.parametrize("text", ["No goals.", ""])
def test_the_same_delivery_counts_once_and_another_one_is_refused(
    text: str, tmp_path: Path
) -> None:
    first = started(tmp_path)
    assert first.question is not None
    named = first.question.question
    second = deliver(tmp_path, first.run, text, question=named)
    assert second.question is not None
    same = deliver(tmp_path, first.run, text, question=named)
    assert same.question == second.question
    with pytest.raises(AnswerRefused, match="person has delivered it"):
        deliver(tmp_path, first.run, GOOD, question=named)
    with pytest.raises(AnswerRefused, match="had this delivery already, and this is a new one"):
        deliver(tmp_path, first.run, text)
    again = deliver(tmp_path, first.run, text, question=second.question.question)
    assert again.question is not None
    assert again.question.wanted is not None
    assert again.question.wanted.attempt == 3
    with pytest.raises(AnswerRefused, match="is no longer open"):
        deliver(tmp_path, first.run, GOOD, question="draft:9:1")


def test_a_run_that_is_over_takes_nothing(tmp_path: Path) -> None:
    first = started(tmp_path)
    assert deliver(tmp_path, first.run, GOOD).success
    with pytest.raises(NotRunnable, match="has already finished: done"):
        deliver(tmp_path, first.run, "## Goal\n\nCoffee.\n")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "deliver that, and not the workspace as it is"),
        ("half \ud800", "half a surrogate pair"),
        ("x" * 1_500_001, "deliver less"),
    ],
)
def test_what_can_not_be_the_artifact_is_refused_and_changes_nothing(
    said: Any, why: str, tmp_path: Path
) -> None:
    first = started(tmp_path)
    with pytest.raises(AnswerRefused, match=why):
        deliver(tmp_path, first.run, said)
    assert deliver(tmp_path, first.run, GOOD).success


def test_an_artifact_is_no_answer_and_an_answer_no_artifact(tmp_path: Path) -> None:
    first = started(tmp_path)
    with pytest.raises(AnswerRefused, match=f"deliver it: loopkit reply {first.run} FILE"):
        loopkit.answer(first.run, "done", state=tmp_path / ".loopkit")
    human = """
loopkit: 1
states:
  ask: {human: "Tea?", choices: [yes, no], next: done}
  done: {final: success}
"""
    asked = started(tmp_path, human.replace("yes, no", "tea, cake"))
    with pytest.raises(AnswerRefused, match="waits for an answer, not for an artifact"):
        deliver(tmp_path, asked.run, GOOD)


@pytest.mark.parametrize("name", ["script", "timeout", ""])
def test_nobody_can_deliver_as_nobody(name: str, tmp_path: Path) -> None:
    first = started(tmp_path)
    with pytest.raises(AnswerRefused, match="is nobody's name"):
        deliver(tmp_path, first.run, GOOD, by=name)


# Files and folders

FOLDER = """
loopkit: 1
workspace: {path: ., isolate: copy}
agents:
  coder: {outside: true}
states:
  code: {agent: coder, prompt: "Repair it.", output: {name: fix, folder: src}, next: check}
  check:
    validate: fix
    by: [{matches: 'tea'}]
    transitions: [{guard: valid, target: done}, {revise: code, max: 2}, {target: failed}]
  done: {final: success, result: fix}
  failed: {final: failure, result: fix}
"""


def test_a_folder_is_what_lies_in_the_workspace(durable: Desk) -> None:
    durable.write("src/a.txt", "coffee\n")
    played = durable.play(FOLDER)
    wanted = played.questions[0].wanted
    assert wanted is not None
    assert (wanted.form, wanted.path, wanted.takes_text) == ("folder", "src", False)
    place = Path(wanted.workspace, "src/a.txt")
    place.write_text("cocoa\n", encoding="utf-8")
    second = durable.deliver(played.state.run)
    assert "+cocoa" in second.questions[-1].text
    place.write_text("tea\n", encoding="utf-8")
    last = durable.deliver(played.state.run)
    assert last.outcome == "done"
    assert (durable.folder / "src/a.txt").read_text(encoding="utf-8") == "tea\n"


def test_an_unchanged_folder_is_a_content_error(durable: Desk) -> None:
    durable.write("src/a.txt", "coffee\n")
    run = durable.play(FOLDER).state.run
    second = durable.deliver(run)
    assert second.reports[-1].findings[0].code == "missing"
    assert "nothing in folder 'src' was changed in this attempt" in second.questions[-1].text


def test_an_unchanged_folder_typed_twice_costs_one_attempt(durable: Desk) -> None:
    durable.write("src/a.txt", "coffee\n")
    run = durable.play(FOLDER).state.run
    durable.deliver(run)
    with pytest.raises(AnswerRefused, match="had this delivery already"):
        durable.deliver(run)


FILE = PLAIN.replace("output: plan", "output: {name: plan, file: docs/plan.md}")


def test_a_file_counts_if_it_was_written_since_it_was_asked_for(durable: Desk) -> None:
    durable.write("docs/plan.md", GOOD)
    played = durable.play(FILE)
    wanted = played.questions[0].wanted
    assert wanted is not None
    assert (wanted.form, wanted.path) == ("file", "docs/plan.md")
    with pytest.raises(AnswerRefused, match="put it there"):
        durable.deliver(played.state.run, GOOD)
    second = durable.deliver(played.state.run)
    assert "docs/plan.md was not written in this attempt" in second.questions[-1].text
    durable.write("docs/plan.md", GOOD + "More.\n")
    assert durable.deliver(played.state.run).result == {"plan": GOOD + "More.\n"}


def test_a_file_that_was_written_before_it_is_asked_for_anew_counts(durable: Desk) -> None:
    """The request is another one, and the attempt is the same."""
    durable.write("docs/plan.md", "Tea.\n")
    run = durable.play(FILE).state.run
    durable.write("docs/plan.md", GOOD)
    durable.repair(run, FILE.replace("Write a plan.", "Write a short plan."))
    assert durable.deliver(run).result == {"plan": GOOD}


def test_with_else_a_text_does_where_no_file_was_written(durable: Desk) -> None:
    run = durable.play(FILE.replace("plan.md}", "plan.md, else: reply}")).state.run
    assert durable.deliver(run, GOOD).result == {"plan": GOOD}


# Families

PARENT = """
loopkit: 1
states:
  plan: {machine: child.yaml, input: {}, next: done}
  done: {final: success, result: plan}
"""


def test_a_child_that_waits_keeps_its_parent_waiting_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(PLAIN, encoding="utf-8")
    waiting = started(tmp_path, PARENT)
    assert waiting.status == "waiting"
    [(child, question)] = waiting.questions.items()
    assert question.wanted is not None
    assert child != waiting.run
    still = deliver(tmp_path, waiting.run, "No goals.")
    assert (still.run, still.status) == (waiting.run, "waiting")
    done = deliver(tmp_path, child, GOOD)
    assert (done.run, done.success) == (waiting.run, True)


def test_two_children_that_wait_have_to_be_told_apart(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(PLAIN, encoding="utf-8")
    each = """
loopkit: 1
input: {names: [str]}
states:
  plans: {each: input.names, max_items: 3, as: name, key: name, machine: child.yaml, input: {},
    parallel: 2, next: done}
  done: {final: success}
"""
    path = tmp_path / "machine.yaml"
    path.write_text(each, encoding="utf-8")
    state = tmp_path / ".loopkit"
    waiting = loopkit.run(path, {"names": ["a", "b"]}, state=state)
    assert len(waiting.questions) == 2
    with pytest.raises(AnswerRefused, match="2 open"):
        deliver(tmp_path, waiting.run, GOOD)
    for child in waiting.questions:
        waiting = deliver(tmp_path, child, GOOD)
    assert waiting.success


# Others who play it


def test_a_scenario_plays_it_like_any_agent(desk: Desk) -> None:
    played = desk.play(PLAIN, scenario(agents={"writer": ["No goals.", GOOD]}))
    assert (played.outcome, played.of(Waiting)) == ("done", [])
    assert (played.state.usage.agent_calls, played.state.usage.cost_usd) == (0, 0.0)


def test_a_function_plays_it_like_any_agent(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(PLAIN, encoding="utf-8")
    done = loopkit.run(path, agents={"writer": lambda *_: GOOD}, state=None)
    assert (done.success, done.usage.agent_calls, done.usage.cost_usd) == (True, 0, 0.0)


# At the command line


def call(*arguments: str) -> int:
    """The exit code of a command, as `loopkit` gives it."""
    return invoke([*arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder that is the current one, with the machine in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "machine.yaml").write_text(PLAIN, encoding="utf-8")
    return tmp_path


def test_a_run_that_is_over_does_not_take_a_changed_folder_for_the_one_it_had(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "machine.yaml").write_text(FOLDER, encoding="utf-8")
    (here / "src").mkdir()
    assert call("run", "machine.yaml") == 5
    told = capsys.readouterr().err
    line = next(line for line in told.splitlines() if "loopkit reply" in line).strip()
    place = told.split("the folder src in ")[1].split(",")[0]
    Path(place, "src/a.txt").write_text("tea\n", encoding="utf-8")
    assert call("reply", line.split()[2]) == 0
    (here / "src/a.txt").write_text("cocoa\n", encoding="utf-8")
    assert call("reply", line.split()[2]) == 2
    assert "has already finished: done" in capsys.readouterr().err


def test_the_command_line_leads_from_the_request_to_the_end(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("run", "machine.yaml") == 5
    told = capsys.readouterr().err
    line = next(line for line in told.splitlines() if "loopkit reply" in line).strip()
    assert "waits for `plan` from outside, attempt 1" in told
    run = line.split()[2]
    assert line == f"loopkit reply {run} FILE"
    (here / "plan.md").write_text("No goals.", encoding="utf-8")
    assert call("reply", run, "plan.md", "--by", "alex") == 5
    capsys.readouterr()
    assert call("runs", "show", run) == 0
    shown = capsys.readouterr().out
    assert 'no section "Goal"' in shown
    assert "write `plan`, a text, and deliver it:" in shown
    assert call("reply", run, "plan.md") == 2
    assert "add `--again` to deliver the same" in capsys.readouterr().err
    assert call("reply", run, "gone.md") == 2
    (here / "plan.md").write_text(GOOD, encoding="utf-8")
    assert call("reply", run, "plan.md") == 0
    assert capsys.readouterr().out == GOOD


def test_the_plan_and_the_diagram_say_who_is_outside(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("plan", "machine.yaml") == 0
    told = capsys.readouterr().out
    assert "from outside" in told
    assert "First prompt of draft:\n  Write a plan." in told
    assert "from outside" in list(state_texts(load(here / "machine.yaml").machine, "draft"))


def test_two_processes_that_deliver_at_once_are_not_both_taken(here: Path) -> None:
    first = started(here)
    for name in ("tea", "cocoa"):
        (here / f"{name}.md").write_text(f"## Goal\n\n{name}\n", encoding="utf-8")

    def posted(name: str) -> int:
        return ran_loopkit("reply", first.run, f"{name}.md", cwd=here).returncode

    with ThreadPoolExecutor(2) as both:
        codes = list(both.map(posted, ["tea", "cocoa"]))
    with pytest.raises(NotRunnable, match="already finished: done"):
        loopkit.resume(first.run, state=here / ".loopkit")
    assert sorted(codes) == [0, 2]


# The machines of the project


def outside(path: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    """A machine of the project whose author is outside."""
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    changed = folder / path.name
    changed.write_text(text, encoding="utf-8")
    return changed


ARCHITECT = """  architect:
    model: anthropic/claude-sonnet-4-5
    system: You plan changes to software. You answer with plans in Markdown and with nothing else.
    params: {max_tokens: 8000}
"""
OUTSIDE_ARCHITECT = (ARCHITECT, "  architect:\n    outside: true\n")
OUTSIDE_CODER = (
    "coder: {program: claude, timeout: 20m}",
    "coder: {outside: true}",
)


def code_fix(folder: Path) -> Path:
    """`code_fix` with a coder outside, and a project whose one test fails."""
    for name, text in (
        ("src/calc.py", "def add(a, b):\n    return a - b\n"),
        ("src/__init__.py", ""),
        ("tests/test_calc.py", "from src.calc import add\n\n\ndef test_of_two():\n"
         "    assert add(2, 3) == 5\n"),
    ):  # fmt: skip
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    here = ("path: ..", "path: .")
    pytest_here = (
        "command: [python3, -B, -m, pytest,",
        f"command: [{json.dumps(sys.executable)}, -B, -m, pytest,",
    )
    return outside(ROOT / "machines/code_fix.yaml", folder, OUTSIDE_CODER, here, pytest_here)


def test_a_run_is_recorded_as_a_case_that_plays_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = started(here).run
    deliver(here, run, "No goals.")
    deliver(here, run, GOOD)
    assert call("runs", "record", run, "plan.scenario.yaml") == 0
    assert "does not pass" not in capsys.readouterr().err
    assert "writer:\n        - No goals." in (here / "plan.scenario.yaml").read_text("utf-8")
