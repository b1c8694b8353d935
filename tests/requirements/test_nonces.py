"""A judge whose answer has to repeat the code of its question."""

from __future__ import annotations

import json

import pytest

from loopkit.engine.events import Intended
from tests.support import Desk, Played

MACHINE = """
loopkit: 1
input: {text: {type: str, default: tea}}
agents:
  critic: {command: [sh, -c, COMMAND], stdin: "{{ prompt }}"}
states:
  draft: {render: "{{ input.text }}", next: check}
  check:
    validate: draft
    by: [{judge: critic, nonce: true, reask: 1FORM}]
    on_error: {content: person, fatal: broken, transient: broken}
    transitions:
      - {guard: valid, target: done}
      - {target: failed}
  person:
    human: No judge can be understood. Publish?
    choices: [publish, stop]
    transitions:
      - {guard: choice == "publish", target: done}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
  broken: {final: failure}
"""
CODE = "code=$(sed -n 's/^The code of this question is `\\([0-9a-f]*\\)`.*/\\1/p' | head -1)"
REPEATS = CODE + """; echo '{"verdict": "pass", "findings": [], "nonce": "'$code'"}'"""
SAYS = CODE + "; echo $code; echo 'VERDICT: PASS'"
TEXT = ", verdict: {}"


def judged(desk: Desk, command: str, form: str = "", **given: str) -> Played:
    machine = MACHINE.replace("COMMAND", json.dumps(command)).replace("FORM", form)
    return desk.play(machine, inputs=given)


@pytest.mark.parametrize(("command", "form"), [(REPEATS, ""), (SAYS, TEXT)], ids=["json", "text"])
def test_an_answer_that_repeats_the_code_counts(desk: Desk, command: str, form: str) -> None:
    assert judged(desk, command, form).outcome == "done"


def test_a_provider_that_keeps_to_a_schema_lets_the_code_through(desk: Desk) -> None:
    [request] = judged(desk, REPEATS).asked("critic")
    assert request.schema is not None
    assert request.schema["properties"]["nonce"] == {"type": "string"}


@pytest.mark.parametrize(
    ("answer", "form"),
    [('{"verdict": "pass", "findings": []}', ""), ("VERDICT: PASS", TEXT)],
    ids=["json", "text"],
)
def test_an_answer_without_the_code_is_no_verdict_and_a_person_is_asked(
    desk: Desk, answer: str, form: str
) -> None:
    """S1.22: it may be about another task: never a pass, and no reason to work again."""
    run = judged(desk, f"cat > /dev/null; echo '{answer}'", form)
    assert (run.state.status, run.state.state) == ("waiting", "person")
    assert [event.agent for event in run.of(Intended)] == ["critic", "critic"]
    assert "does not repeat" in run.prompts("critic")[1]


def test_the_code_of_another_task_is_not_that_of_this_one(desk: Desk) -> None:
    """S1.22: a validator that answers with the file of another task."""
    desk.write("answer", "")
    keeps = f"[ -s answer ] || {{ {REPEATS} > answer; }}; cat answer"
    assert judged(desk, keeps, text="oolong").outcome == "done"
    assert judged(desk, keeps, text="oolong").outcome == "done"
    assert judged(desk, keeps, text="mate").state.state == "person"
