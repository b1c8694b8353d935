"""Faults that were found by reading and by using; each came back as a test first."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from loopkit.agents.cast import NotRunnable, refuse_misnamed
from loopkit.app import App
from loopkit.events import HumanAnswer, Refused
from loopkit.load import load
from loopkit.scenario import load_scenario
from tests.support import Desk, scenario

DATA = """
loopkit: 1
agents: {author: {model: m/x, schema: {title: str, tags: [str]}}}
states:
  draft: {agent: author, prompt: Name it., output: entry, next: judge}
  judge:
    validate: entry
    by: [{require: tags.count >= 2, message: Two tags are needed.}]
    transitions:
      - {guard: valid, target: done}
      - {guard: cap_reached, target: failed}
      - {revise: draft}
  done: {final: success, result: entry}
  failed: {final: failure}
"""


def test_a_fresh_author_of_data_is_sent_its_previous_data_and_the_feedback(desk: Desk) -> None:
    drafts = [{"title": "a", "tags": ["x"]}, {"title": "a", "tags": ["x", "y"]}]
    played = desk.play(DATA, scenario(agents={"author": [{"data": d} for d in drafts]}))
    assert played.result == {"entry": drafts[1]}
    second = played.prompts("author")[1]
    assert second.startswith("Name it.\n\n")
    assert json.loads(second.split("\n\n")[1]) == drafts[0]
    assert second.endswith("\n\n- Two tags are needed.")


REFUSING = """
loopkit: 1
agents:
  author:
    command: [sh, -c, 'test -e seen && echo a good text || { touch seen; exit 9; }']
    errors: [{exit: 9, class: content}]
states:
  draft: {agent: author, prompt: Write., output: text, next: judge}
  judge:
    validate: text
    by: [{min_chars: 3}]
    transitions:
      - {guard: valid, target: done}
      - {guard: cap_reached, target: failed}
      - {revise: draft}
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_an_error_that_counts_as_content_goes_to_the_judging_state(desk: Desk) -> None:
    played = desk.play(REFUSING)
    assert played.outcome == "done"
    assert [report.verdict for report in played.reports] == ["fail", "pass"]
    assert "exit code 9" in played.reports[0].findings[0].message


ADVISING = """
loopkit: 1
agents: {author: {model: m/x}, critic: {model: m/y}}
states:
  draft: {agent: author, prompt: Write., output: text, next: judge}
  judge:
    validate: text
    by: [{judge: critic, severity: warning, code: TONE}]
    transitions:
      - {guard: valid and "TONE" in codes, target: advised}
      - {target: failed}
  advised: {final: success}
  failed: {final: failure}
"""


def test_a_judge_of_severity_warning_advises_and_its_findings_carry_its_code(desk: Desk) -> None:
    found = {"verdict": "fail", "findings": [{"message": "Too loud.", "severity": "error"}]}
    played = desk.play(ADVISING, scenario(agents={"author": ["text"], "critic": [{"data": found}]}))
    assert played.outcome == "advised"
    assert [f.severity for f in played.reports[0].findings] == ["warning"]


FORM = """
loopkit: 1
limits: {revisions: 0}
states:
  note: {render: A note., next: ask}
  ask:
    human: Which way?
    choices: [go, again]
    form: {urgent: bool}
    transitions:
      - {guard: urgent and choice == "go", target: done}
      - {guard: choice == "again", revise: note, feedback: Again.}
      - {target: done}
  done: {final: success}
"""


def test_a_choice_is_closed_whatever_the_form_of_another_choice_says(desk: Desk) -> None:
    (question,) = desk.play(FORM).questions
    closed = {choice.name: choice.closed for choice in question.choices}
    assert closed == {"go": "", "again": "no revisions are granted"}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            "agents: {critc: []}",
            "`agents` name `critc`, which the machine lacks; did you mean `critic`?",
        ),
        (
            "answers: {judge: []}",
            "`answers` name `judge`, which the machine lacks; the machine has none",
        ),
        ("commands: {tests: []}", "`commands` name `tests`, which the machine lacks"),
    ],
)
def test_a_scenario_that_speaks_for_nobody_is_told(desk: Desk, section: str, message: str) -> None:
    machine = load(desk.write("machine.yaml", ADVISING)).machine
    played, _, _ = load_scenario(desk.write("s.yaml", f"scenario: 1\n{section}\n"))
    with pytest.raises(NotRunnable) as refused:
        refuse_misnamed(machine, played)
    assert message in str(refused.value)


LOUD = """
loopkit: 1
agents: {author: {model: m/x}}
limits: {revisions: 1}
states:
  draft:
    agent: author
    prompt: "Write. {{ feedback }}"
    output: code
    on_error: {content: failed}
    next: tests
  tests:
    run: [sh, -c, "echo two failures >&2; exit 1"]
    transitions:
      - {guard: exit_code == 0, target: done}
      - {guard: cap_reached, target: failed}
      - {revise: draft, feedback: "The tests say: {{ tests.stderr }}"}
  done: {final: success}
  failed: {final: failure}
"""


def test_what_a_command_says_on_stderr_can_be_fed_back(desk: Desk) -> None:
    played = desk.play(LOUD, scenario(agents={"author": ["one", "two"]}))
    assert played.prompts("author")[1] == "Write. The tests say: two failures\n\none"


EDITING = """
loopkit: 1
agents: {author: {model: m/x, session: keep}}
states:
  draft: {agent: author, prompt: Write., output: text, on_error: {content: failed}, next: ask}
  ask:
    human: Good?
    choices: [yes, change]
    edit: text
    form: {tone: {type: calm|loud, default: calm}, stars: {type: int, minimum: 1, maximum: 5}}
    transitions:
      - {guard: choice == "yes", target: done}
      - guard: choice == "change"
        revise: draft
        feedback: "Go on from here{% if comment %}: {{ comment }}{% endif %}"
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure}
"""


def test_an_author_with_a_kept_session_is_sent_what_a_person_edited(durable: Desk) -> None:
    asked = durable.play(EDITING, scenario(agents={"author": ["my words", "new words"]}))
    edited = durable.answer(asked.state.run, "change", form={"stars": 2}, edit="our words")
    assert edited.prompts("author")[1] == "our words\n\nGo on from here"


def test_a_comment_behind_a_condition_may_be_left_out_and_the_question_tells_its_form(
    desk: Desk,
) -> None:
    (question,) = desk.play(EDITING, scenario(agents={"author": ["my words"]})).questions
    change = next(choice for choice in question.choices if choice.name == "change")
    assert (change.takes_comment, change.needs_comment) == (True, False)
    assert question.edit == "text"
    assert question.form["stars"] == {"type": "int", "minimum": 1, "maximum": 5}


COUNTED = """
loopkit: 1
states:
  make: {render: plain words, output: text, next: judge}
  judge:
    validate: text
    by: [{require: text.count < 300, message: Too long.}]
    transitions:
      - {guard: valid, target: done}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""


def test_the_message_of_a_rule_does_not_hide_that_it_could_not_be_tried(desk: Desk) -> None:
    (report,) = desk.play(COUNTED).reports
    assert report.findings[0].message != "Too long."
    assert "JSON" in report.findings[0].message


WARNED = """
loopkit: 1
agents: {author: {model: m/x}}
states:
  draft: {agent: author, prompt: Write., output: text, next: judge}
  judge:
    validate: text
    by: [{max_chars: 3, severity: warning}]
    transitions:
      - {revise: draft}
      - {target: done}
  done: {final: success}
"""


def test_a_validate_state_revises_only_what_failed(desk: Desk) -> None:
    played = desk.play(WARNED, scenario(agents={"author": ["too long", "short"]}))
    assert played.route == ["draft", "judge", "done"]
    assert played.reports[0].verdict == "warn"


LOOKING = """
loopkit: 1
agents: {author: {model: m/x}}
states:
  draft: {agent: author, prompt: Write., output: text, next: judge}
  judge:
    validate: text
    by: [{command: LOOK}]
    transitions:
      - {guard: valid, target: done}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""
LOOK = """
import sqlite3, sys
records = sqlite3.connect(".loopkit/journal.db").execute("select type from records order by seq")
sys.exit([kind for (kind,) in records][-4:] != ["replied", "worked", "decided", "entered"])
"""


def test_a_reply_is_durable_before_it_is_judged(durable: Desk) -> None:
    machine = LOOKING.replace("LOOK", json.dumps([sys.executable, "-c", LOOK]))
    assert durable.play(machine, scenario(agents={"author": ["text"]})).outcome == "done"


SELF = """
loopkit: 1
input: {parts: {type: int, default: 0, minimum: 0, maximum: 9}}
agents: {author: {model: m/x, schema: {good: bool}}}
states:
  draft:
    agent: author
    prompt: Write.
    on_error: {content: failed}
    transitions:
      - {guard: good, target: done}
      - {revise: draft, feedback: "In {{ 12 / input.parts }} parts, please."}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""


def test_a_reply_whose_step_could_not_be_taken_is_not_asked_for_again(durable: Desk) -> None:
    stopped = durable.play(SELF, scenario(agents={"author": [{"data": {"good": False}}]}))
    assert stopped.state.suspended is not None
    assert "division by zero" in stopped.state.suspended.message
    again = durable.resume(stopped.state.run)
    assert len(again.prompts("author")) == 1
    assert again.state.suspended is not None
    assert "division by zero" in again.state.suspended.message


TWICE = """
loopkit: 1
states:
  first: {human: One?, choices: [yes, no], next: second}
  second: {human: Two?, choices: [yes, no], next: done}
  done: {final: success}
"""


async def posted(desk: Desk, run: str, *answers: HumanAnswer) -> None:
    """Leave answers in the inbox, as other processes do while nobody drives the run."""
    app = App.open(desk.state_folder)
    for answer in answers:
        await app.post_answer(run, answer)
    await app.close()


def test_an_answer_to_a_question_that_is_over_does_not_answer_the_next_one(durable: Desk) -> None:
    asked = durable.play(TWICE)
    late = HumanAnswer(choice="yes", comment="posted second")
    asyncio.run(posted(durable, asked.state.run, HumanAnswer(choice="yes"), late))
    played = durable.resume(asked.state.run)
    assert played.state.status == "waiting"
    assert played.state.state == "second"
    assert "question `first:1` is not open any more" in played.of(Refused)[0].reason
