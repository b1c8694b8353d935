"""What reaches the next attempt, word for word, whichever way it goes back."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Decided, Emitted, Worked
from tests.support import PASS, Desk, fails, listed, previous, scenario

HEAD = """
loopkit: 1
limits: {revisions: 4}
agents:
  author: {model: some/model, retry: {attempts: 1}, session: SESSION}
  critic: {command: [none]}
"""
JUDGE = """
  judge:
    validate: plan
    by: [{judge: critic}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: cap_reached, target: refused}
      - {revise: TARGET, feedback: "Round {{ revision }}: {{ findings[0].message }}"}
  accepted: {final: success}
  refused: {final: failure}
"""
DRAFT = """
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
"""


def machine(states: str, session: str = "fresh", target: str = "draft") -> str:
    return (HEAD + states + JUDGE).replace("SESSION", session).replace("TARGET", target)


def script(*critic: Any, **more: Any) -> str:
    texts = [f"plan {number}" for number in range(1, len(critic) + 1)]
    return scenario(agents={"author": texts, "critic": list(critic)}, **more)


def test_every_attempt_gets_the_findings_and_the_number_of_its_own_revision(desk: Desk) -> None:
    played = desk.play(machine(DRAFT), script(fails("A"), fails("B", "C"), fails("D"), PASS))
    assert played.prompts("author") == [
        "Write.",
        f"Write.\n\n{previous('plan 1')}\n\nRound 1: A",
        f"Write.\n\n{previous('plan 2')}\n\nRound 2: B",
        f"Write.\n\n{previous('plan 3')}\n\nRound 3: D",
    ]


def test_a_kept_session_gets_the_feedback_alone(desk: Desk) -> None:
    played = desk.play(machine(DRAFT, "keep"), script(fails("A"), fails("B"), PASS))
    assert played.prompts("author") == ["Write.", "Round 1: A", "Round 2: B"]


THROUGH_RUN = """
states:
  collect: {run: [echo, context], output: context, next: draft}
  draft: {agent: author, prompt: "Write with {{ context }}", output: plan, next: judge}
"""


def test_feedback_to_a_command_waits_for_the_author_behind_it(desk: Desk) -> None:
    played = desk.play(machine(THROUGH_RUN, target="collect"), script(fails("A"), PASS))
    assert played.route == ["collect", "draft", "judge", "collect", "draft", "judge", "accepted"]
    assert (
        played.prompts("author")[1] == f"Write with context\n\n{previous('plan 1')}\n\nRound 1: A"
    )
    assert [f.to for event in played.of(Decided) for f in event.feedback] == ["draft"]


def test_a_kept_author_who_is_entered_forwards_gets_the_prompt_and_the_feedback(desk: Desk) -> None:
    played = desk.play(machine(THROUGH_RUN, "keep", "collect"), script(fails("A"), PASS))
    assert played.prompts("author")[1] == "Write with context\n\nRound 1: A"


def test_feedback_to_a_template_is_filled_in_there(desk: Desk) -> None:
    states = """
states:
  brief: {render: "Task.{{ feedback }}", next: draft}
  draft: {agent: author, prompt: "{{ brief }}", output: plan, next: judge}
"""
    played = desk.play(machine(states, target="brief"), script(fails("A"), PASS))
    assert played.prompts("author") == ["Task.", "Task.Round 1: A"]


ERROR_EDGE = """
states:
  draft:
    agent: author
    prompt: Write.
    output: plan
    on_error: {transient: {revise: draft, max: 2, feedback: "Be quicker."}}
    next: judge
"""


@pytest.mark.parametrize(
    ("session", "told"),
    [
        ("fresh", f"Write.\n\n{previous('plan 1')}\n\nRound 1: A\n\nBe quicker."),
        ("keep", "Round 1: A\n\nBe quicker."),
    ],
)
def test_several_feedbacks_for_one_state_are_appended(desk: Desk, session: str, told: str) -> None:
    """The judge's feedback is not lost when the attempt that it went to broke down."""
    calls: list[Any] = ["plan 1", {"fault": "timeout"}, "plan 2"]
    played = desk.play(
        machine(ERROR_EDGE, session),
        scenario(agents={"author": calls, "critic": [fails("A"), PASS]}),
    )
    assert played.outcome == "accepted"
    assert played.prompts("author")[2] == told
    assert played.state.pending == {}


OWN = 'feedback: "Round {{ revision }}: {{ findings[0].message }}"'
B_AND_A_WISH = {
    "data": {
        "verdict": "fail",
        "findings": [
            {"message": "W", "severity": "warning"},
            {"message": "B", "severity": "error"},
        ],
    }
}


def test_feedback_names_no_warnings_and_what_was_mended_apart(desk: Desk) -> None:
    """Where no feedback is written, the open findings are to be fixed."""
    without = machine(DRAFT, "keep").replace(OWN, "emit: revising")
    played = desk.play(without, script(fails("A", "B"), B_AND_A_WISH, PASS))
    second, third = played.prompts("author")[1:]
    assert listed(second) == "- A\n- B"
    assert listed(third) == "- B (not fixed yet)\n\nFixed since the version before:\n\n- A"


def test_feedback_can_name_the_warnings_and_what_was_mended(desk: Desk) -> None:
    each = "{{% for f in {0} %}}{0} {{{{ f.message }}}};{{% endfor %}}"
    told = f'feedback: "{each.format("resolved")}{each.format("warnings")}"'
    played = desk.play(
        machine(DRAFT, "keep").replace(OWN, told), script(fails("A", "B"), B_AND_A_WISH, PASS)
    )
    second, third = played.prompts("author")[1:]
    assert (listed(second), third) == ("- A\n- B", "resolved A;warnings W;")


def test_feedback_is_never_empty(desk: Desk) -> None:
    empty = machine(DRAFT, "keep").replace(
        OWN, 'feedback: "{% if revision > 1 %}Again.{% endif %}"'
    )
    played = desk.play(empty, script(fails("A"), fails("B"), PASS))
    second, third = played.prompts("author")[1:]
    assert (listed(second), third) == ("- A", "Again.")


def test_a_finding_is_text_and_not_a_template(desk: Desk) -> None:
    """Braces in what a judge says are inert."""
    nasty = "{{ input }} {% for x in range(9) %} {# gone #}"
    played = desk.play(machine(DRAFT), script(fails(nasty), PASS))
    assert played.prompts("author")[1] == f"Write.\n\n{previous('plan 1')}\n\nRound 1: {nasty}"


GATE = """
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  gate:
    human: Good?
    choices: [good, bad]
    transitions:
      - {guard: choice == "bad", revise: draft, feedback: "{{ comment }} ({{ revision }})"}
      - {target: accepted}
"""


def test_a_persons_comment_is_the_feedback(desk: Desk) -> None:
    text = machine(GATE).replace("{guard: valid, target: accepted}", "{guard: valid, target: gate}")
    bad = {"choice": "bad", "comment": "Shorter, please."}
    played = desk.play(text, script(PASS, PASS, answers={"gate": [bad, "good"]}))
    assert played.prompts("author")[1] == f"Write.\n\n{previous('plan 1')}\n\nShorter, please. (1)"


def test_a_judges_feedback_and_a_persons_are_told_apart_by_round(desk: Desk) -> None:
    text = machine(GATE, "keep")
    text = text.replace("{guard: valid, target: accepted}", "{guard: valid, target: gate}")
    bad = {"choice": "bad", "comment": "Shorter."}
    played = desk.play(text, script(fails("A"), PASS, PASS, answers={"gate": [bad, "good"]}))
    assert played.prompts("author") == ["Write.", "Round 1: A", "Shorter. (2)"]


def test_an_emitted_event_names_the_attempt_and_its_findings(desk: Desk) -> None:
    text = machine(DRAFT.replace("output: plan", "output: plan, emit: drafting"))
    text = text.replace("{revise: draft,", "{revise: draft, emit: revising,")
    text = text.replace("    validate: plan", "    validate: plan\n    emit: judging")
    played = desk.play(text, script(fails("A", "B"), PASS))
    told = [
        (event.name, event.state, event.attempt, [finding.message for finding in event.findings])
        for event in played.of(Emitted)
    ]
    assert told == [
        ("drafting", "draft", 1, []),
        ("judging", "judge", 1, []),
        ("revising", "judge", 1, ["A", "B"]),
        ("drafting", "draft", 2, ["A", "B"]),
        ("judging", "judge", 2, ["A", "B"]),
    ]
    assert [w.artifact.attempt for w in played.of(Worked) if w.artifact] == [1, 2]
