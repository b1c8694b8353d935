"""A text that says nothing is called empty wherever a person or a model would see nothing."""

from __future__ import annotations

import subprocess

import pytest

from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import review
from tests.support import PASS, Desk, asked_anew, fails, listed, scenario
from tests.warm import ran_loopkit

MACHINE = """
loopkit: 1
agents: {author: {command: [none], session: SESSION}, critic: {model: some/model}}
states:
  list: {run: [printf, "%s", "  "], output: log, next: judge}
  judge:
    validate: log
    by: [{judge: critic}]
    transitions: [{guard: valid, target: draft}, {target: failed}]
  draft: {agent: author, prompt: Write., output: plan, next: look}
  look:
    validate: plan
    by: [{judge: critic}]
    transitions: [{guard: valid, target: asked}, {revise: draft}, {target: failed}]
  asked: {human: Good?, show: [log, plan], choices: [yes], next: done}
  done: {final: success, result: log}
  failed: {final: failure}
"""
AGENTS = {"author": ["", "plan 2"], "critic": [PASS, PASS]}


def test_a_judge_is_told_that_what_it_judges_is_empty(desk: Desk) -> None:
    script = scenario(agents=AGENTS)
    asked = desk.play(MACHINE.replace("SESSION", "fresh"), script).prompts("critic")
    assert ">>>\n(empty)\n<<<" in asked[0]
    assert "(empty)" not in asked[1]


EMPTY = "- the answer is empty"


def test_an_author_is_told_that_its_last_version_was_empty(desk: Desk) -> None:
    played = desk.play(MACHINE.replace("SESSION", "fresh"), scenario(agents=AGENTS))
    first, second = played.prompts("author")
    assert (first, second) == ("Write.", asked_anew("Write.", EMPTY.removeprefix("- ")))


def test_in_a_conversation_nobody_says_nothing(desk: Desk) -> None:
    """Providers refuse messages without a text."""
    machine = MACHINE.replace(
        "command: [none], session: SESSION", "model: some/model, session: keep"
    )
    asked = desk.play(machine, scenario(agents=AGENTS)).asked("author")
    *before, newest = [(m.role, m.content) for m in asked[1].messages]
    assert before == [("user", "Write."), ("assistant", "(empty)")]
    assert (newest[0], listed(newest[1])) == ("user", EMPTY)


@pytest.mark.parametrize("rule", ["{judge: critic}", "{judge: critic, verdict: {}}"])
def test_a_judge_that_answers_nothing_is_told_so(desk: Desk, rule: str) -> None:
    machine = MACHINE.replace("SESSION", "fresh").replace("{judge: critic}", rule, 1)
    agents = {**AGENTS, "critic": [[" ", "Verdict: PASS"], PASS]}
    if rule == "{judge: critic}":
        agents["critic"] = [[" ", PASS], PASS]
    asked = desk.play(machine, scenario(agents=agents)).asked("critic")
    assert asked[1].prompt.startswith("Your answer could not be used: Your answer was empty.")
    assert asked[1].messages[1].content == "(empty)"


def test_a_person_is_shown_that_an_artifact_is_empty(desk: Desk) -> None:
    played = desk.play(MACHINE.replace("SESSION", "fresh"), scenario(agents=AGENTS))
    loaded = load(desk.folder / "machine.yaml")
    shown = review(Engine(Program(loaded.machine, loaded.digest)), played.state)
    assert "\n(empty)\n" in shown
    assert "\nplan 2\n" in shown


def test_the_command_line_says_that_a_result_is_empty(durable: Desk) -> None:
    """And prints nothing to stdout, which is for the result itself."""
    durable.write(
        "machine.yaml",
        """
loopkit: 1
input: {note: {type: str, default: ""}}
states:
  list: {run: [printf, "%s", "{{ input.note }}"], output: log, next: done}
  done: {final: success, result: log}
""",
    )

    def called(*argv: str) -> subprocess.CompletedProcess[str]:
        done = ran_loopkit(*argv, cwd=durable.folder)
        done.check_returncode()
        return done

    told = called("run", "machine.yaml")
    assert told.stdout.strip() == ""
    assert "log, attempt 1: exit 0, empty" in told.stderr
    assert "\nlog is empty\n" in told.stderr
    run = told.stderr.split()[-3].rstrip(":")
    shown = called("runs", "show", run).stdout
    assert "result log:\n  (empty)" in shown
    assert "input note: (empty)" in shown


def test_a_text_with_something_in_it_is_never_called_empty(desk: Desk) -> None:
    machine = MACHINE.replace("SESSION", "fresh").replace('"  "', '"x"')
    agents = {"author": ["plan 1", "plan 2"], "critic": [PASS, fails("A"), PASS]}
    played = desk.play(machine, scenario(agents=agents))
    assert not any("(empty)" in event.to_json() for event in played.events)
