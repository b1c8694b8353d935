"""Questions to a person: choices, forms, edits, timeouts, and what is picked."""

from __future__ import annotations

import time
from typing import Any

import pytest

from loopkit.agents.port import NotRunnable
from loopkit.drive.answers import AnswerRefused
from loopkit.engine.events import Emitted
from loopkit.engine.macrostep import Engine
from loopkit.machine.program import Program
from tests.machines import AUTHOR as AGENTS
from tests.machines import loop
from tests.support import Desk, Played, previous, scenario, sound

GATE = loop(
    "[{min_chars: 4}]",
    {"valid": "gate"},
    "{target: gate}",
    top=f"limits: {{revisions: 1}}\n{AGENTS}",
    ends="""
gate:
  human: "Attempt of {{ report.attempt }}: good?"
  choices: [good, bad, never]
  OPTIONS
  transitions:
    - {guard: choice == "good", target: accepted}
    - {guard: choice == "bad", revise: draft, feedback: "{{ comment }}"}
    - {target: refused}
accepted: {final: success, result: plan}
refused: {final: failure}
""",
)
AUTHOR = scenario(agents={"author": ["plan one", "plan two", "plan three"]})


def waiting(desk: Desk, options: str = "show: [plan, report]") -> Played:
    played = desk.play(GATE.replace("OPTIONS", options), AUTHOR)
    assert played.state.status == "waiting"
    return played


def closed(played: Played) -> dict[str, str]:
    return {choice.name: choice.closed for choice in played.questions[-1].choices if choice.closed}


def test_a_choice_without_room_is_closed_with_the_reason(durable: Desk) -> None:
    first = waiting(durable)
    assert closed(first) == {}
    second = durable.answer(first.state.run, "bad", comment="Shorter.")
    used_up = "the one revision is used up; `--set limits.revisions=2` opens it"
    assert closed(second) == {"bad": used_up}
    with pytest.raises(AnswerRefused, match=f"`bad` is closed: {used_up}"):
        durable.answer(first.state.run, "bad", comment="Shorter.")
    # It falls through to no other edge.
    assert durable.resume(first.state.run).state.state == "gate"
    told = [question.text for question in second.questions]
    assert told == ["Attempt of 1: good?", "Attempt of 2: good?"]
    assert durable.answer(first.state.run, "good").result == {"plan": "plan two"}


def test_a_choice_that_is_not_offered_is_refused_with_those_that_are(durable: Desk) -> None:
    run = waiting(durable).state.run
    with pytest.raises(AnswerRefused, match="did you mean `good`"):
        durable.answer(run, "god")


@pytest.mark.parametrize("comment", ["", "  \n"])
def test_a_choice_whose_feedback_needs_a_comment_asks_for_one(durable: Desk, comment: str) -> None:
    first = waiting(durable)
    assert [c.name for c in first.questions[0].choices if c.needs_comment] == ["bad"]
    with pytest.raises(AnswerRefused, match="needs a comment"):
        durable.answer(first.state.run, "bad", comment=comment)


def test_an_answer_after_the_end_is_refused(durable: Desk) -> None:
    run = waiting(durable).state.run
    assert durable.answer(run, "never").outcome == "refused"
    with pytest.raises(NotRunnable, match="has already finished: refused"):
        durable.answer(run, "good")


ABSENT = "timeout: 80ms\n    otherwise: never"


def test_after_the_timeout_the_absent_person_has_answered(durable: Desk) -> None:
    run = waiting(durable, ABSENT).state.run
    time.sleep(0.1)
    played = durable.resume(run)
    assert played.outcome == "refused"
    assert played.state.answers["gate"].by == "timeout"


def test_before_the_timeout_a_person_answers(durable: Desk) -> None:
    run = waiting(durable, ABSENT.replace("80ms", "1h")).state.run
    assert durable.resume(run).state.status == "waiting"
    played = durable.answer(run, "good")
    assert played.outcome == "accepted"
    assert played.state.answers["gate"].by == "person"


FORM = """
loopkit: 1
states:
  ask:
    human: How?
    choices: [go, stop]
    form:
      risk: low|high
      rounds: {type: int, default: 1, minimum: 1, maximum: 5}
      note: optional str
    transitions:
      - {guard: choice == "go" and risk == "high" and rounds > 2, target: careful}
      - {guard: choice == "go", target: quick}
      - {target: stopped}
  careful: {render: "{{ ask.risk }} {{ ask.rounds }}", next: done}
  quick: {final: success}
  done: {final: success, result: careful}
  stopped: {final: failure}
"""


@pytest.mark.parametrize(
    ("form", "outcome"),
    [
        ({"risk": "high", "rounds": 3}, "done"),
        ({"risk": "high"}, "quick"),
        ({"risk": "low", "rounds": 5, "note": "x"}, "quick"),
    ],
)
def test_the_fields_of_a_form_route_and_fill_templates(
    durable: Desk, form: dict[str, Any], outcome: str
) -> None:
    run = durable.play(FORM).state.run
    played = durable.answer(run, "go", form=form)
    assert played.outcome == outcome
    if outcome == "done":
        assert played.result == {"careful": "high 3"}


@pytest.mark.parametrize(
    ("form", "named"),
    [({}, "risk"), ({"risk": "medium"}, "risk"), ({"risk": "low", "rounds": 9}, "rounds"),
     ({"risk": "low", "rouns": 1}, "rouns")],
)  # fmt: skip
def test_a_form_that_is_not_right_is_refused_and_says_which_field(
    durable: Desk, form: dict[str, Any], named: str
) -> None:
    run = durable.play(FORM).state.run
    with pytest.raises(AnswerRefused, match=named):
        durable.answer(run, "go", form=form)
    assert durable.answer(run, "stop", form={"risk": "low"}).outcome == "stopped"


def test_a_form_that_leads_to_a_closed_edge_is_refused(durable: Desk) -> None:
    machine = GATE.replace("OPTIONS", "form: {again: bool}").replace(
        'choice == "bad"', 'choice == "bad" and again'
    )
    run = durable.play(machine, AUTHOR).state.run
    durable.answer(run, "bad", comment="x", form={"again": True})
    with pytest.raises(AnswerRefused, match="the one revision is used up"):
        durable.answer(run, "bad", comment="x", form={"again": True})
    assert durable.answer(run, "bad", comment="x", form={"again": False}).outcome == "refused"


def test_an_edited_artifact_is_the_current_one(durable: Desk) -> None:
    run = waiting(durable, "edit: plan").state.run
    played = durable.answer(run, "good", edit="my own plan")
    assert played.result == {"plan": "my own plan"}


def test_an_edited_artifact_is_what_the_author_sees_as_previous(durable: Desk) -> None:
    run = waiting(durable, "edit: plan").state.run
    played = durable.answer(run, "bad", comment="Like this.", edit="my own plan")
    assert (
        played.prompts("author")[1]
        == f"Write.\n\n{previous('my own plan', edited=True)}\n\nLike this."
    )


def test_only_what_is_offered_can_be_edited(durable: Desk) -> None:
    run = waiting(durable).state.run
    with pytest.raises(AnswerRefused, match="nothing to edit"):
        durable.answer(run, "good", edit="x")


BEST = """
loopkit: 1
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{matches: a}, {matches: b}, {matches: c, severity: warning}, {matches: z}]
    transitions:
      - {guard: valid, target: accepted}
      - {guard: cap_reached, target: ENDING}
      - {revise: draft}
  ask:
    human: Accept?
    show: [plan, report]
    pick: best
    choices: [accept, again]
    transitions:
      - {guard: choice == "accept", target: accepted}
      - {revise: draft, max: 1, feedback: "Once more."}
      - {target: accepted}
  accepted: {final: success, result: plan}
"""


def test_the_best_is_shown_and_taken_when_the_run_goes_forward(durable: Desk) -> None:
    script = scenario(agents={"author": ["x", "ab", "a", "later"]})
    asked = durable.play(BEST.replace("ENDING", "ask"), script)
    played = durable.answer(asked.state.run, "accept")
    assert played.result == {"plan": "ab"}
    assert played.state.artifacts["plan"].attempt == 2


def test_the_best_is_not_taken_when_the_run_goes_back(durable: Desk) -> None:
    script = scenario(agents={"author": ["x", "ab", "a", "later"]})
    asked = durable.play(BEST.replace("ENDING", "ask"), script)
    played = durable.answer(asked.state.run, "again")
    assert played.prompts("author")[3] == f"Write.\n\n{previous('a')}\n\nOnce more."


EDITED = (
    BEST.replace("ENDING", "ask")
    .replace("    pick: best\n", "    edit: plan\n")
    .replace('"accept", target: accepted}', '"accept", target: look}')
    + """
  look:
    human: Really?
    show: plan
    pick: best
    choices: [accept, again]
    transitions:
      - {guard: choice == "accept", target: picked}
      - {revise: draft, max: 1, from: best, feedback: "Once more."}
      - {target: picked}
  picked: {final: success, result: plan, pick: best}
"""
)


@pytest.mark.parametrize("choice", ["accept", "again"])
def test_what_a_person_has_edited_is_kept_where_the_best_is_picked(
    durable: Desk, choice: str
) -> None:
    script = scenario(agents={"author": ["x", "ab", "a", "later"]})
    run = durable.play(EDITED, script).state.run
    durable.answer(run, "accept", edit="mine")
    played = durable.answer(run, choice)
    if choice == "accept":
        assert played.result == {"plan": "mine"}
    else:
        assert played.prompts("author")[3] == (
            f"Write.\n\n{previous('mine', edited=True)}\n\nOnce more."
        )


def test_an_edited_version_that_was_judged_is_picked_like_any_other(durable: Desk) -> None:
    edge = 'revise: draft, max: 1, feedback: "Once more."'
    machine = EDITED.replace(edge, "revise: judge, max: 1", 1)
    script = scenario(agents={"author": ["x", "ab", "a"]})
    run = durable.play(machine, script).state.run
    durable.answer(run, "again", edit="mine")
    durable.answer(run, "accept")
    assert durable.answer(run, "accept").result == {"plan": "ab"}


DECLINED = loop(
    "[{max_chars: 20}]",
    {"valid": "accepted", "infeasible": "gate"},
    "{target: refused}",
    top="agents: {author: {model: some/model, schema: {steps: [str], blocked: bool}, "
    "infeasible: blocked}}",
    ends="""
gate:
  human: It says that it cannot be done.
  edit: plan
  choices: [judge, stop]
  transitions: [{guard: choice == "judge", revise: judge}, {target: refused}]
refused: {final: failure, result: plan}
""",
    result="plan",
)


@pytest.mark.parametrize(("plan", "outcome"), [("my own plan", "accepted"), ("x" * 21, "refused")])
def test_what_a_person_writes_where_the_author_could_not_is_judged(
    durable: Desk, plan: str, outcome: str
) -> None:
    script = scenario(agents={"author": [{"data": {"steps": [], "blocked": True}}]})
    run = durable.play(DECLINED, script).state.run
    played = durable.answer(run, "judge", edit=plan)
    assert [report.verdict for report in played.reports[:1]] == ["infeasible"]
    assert (played.outcome, played.result) == (outcome, {"plan": plan})


def test_what_a_person_writes_where_nothing_was_is_sent_as_theirs(durable: Desk) -> None:
    machine = (
        DECLINED.replace("prompt: Write.,", "prompt: Write., on_error: {fatal: gate},")
        .replace("infeasible, target: gate}", "infeasible, target: refused}")
        .replace("revise: judge}", 'revise: draft, feedback: "Mend it."}')
    )
    refused = {"fault": "authentication"}
    script = scenario(agents={"author": [[refused], {"data": {"steps": [], "blocked": False}}]})
    run = durable.play(machine, script).state.run
    played = durable.answer(run, "judge", edit="my own plan")
    assert played.prompts("author")[-1] == (
        f"Write.\n\n{previous('my own plan', edited=True)}\n\nMend it."
    )


def test_what_is_edited_is_the_version_that_is_shown(durable: Desk) -> None:
    machine = BEST.replace("ENDING", "ask").replace(
        "    pick: best\n", "    pick: best\n    edit: plan\n"
    )
    run = durable.play(machine, scenario(agents={"author": ["x", "ab", "a"]})).state.run
    played = durable.answer(run, "accept", edit="mine")
    artifact = played.state.artifacts["plan"]
    assert (artifact.text, artifact.attempt) == ("mine", 2)


@pytest.mark.parametrize("pick", ["result: [plan, note], pick: best", "result: [plan, note]"])
def test_what_did_not_exist_yet_in_the_best_version_stays(durable: Desk, pick: str) -> None:
    machine = (
        BEST.replace("ENDING", "note")
        .replace("show: [plan, report]", "show: [plan, note]")
        .replace("success, result: plan", f"success, {pick}")
        .replace("valid, target: accepted", "valid, target: note")
        .replace("  ask:", "  note: {render: That is all., next: ask}\n  ask:")
    )
    script = scenario(agents={"author": ["x", "ab", "a"]})
    run = durable.play(machine, script).state
    program = Program(sound(durable.folder / "machine.yaml").machine, "digest")
    shown, _ = Engine(program).questions.contents(run)
    assert {name: one.text for name, one in shown.items()} == {"plan": "ab", "note": "That is all."}
    assert durable.answer(run.run, "accept").result == {"plan": "ab", "note": "That is all."}


@pytest.mark.parametrize(
    "name", ["text", "run", "program", "template", "extra", "names", "emission", "reason", "limit"]
)
def test_a_field_of_a_form_may_have_any_name_in_feedback_and_in_events(
    desk: Desk, name: str
) -> None:
    options = f"show: [plan]\n    form: {{{name}: str}}"
    machine = GATE.replace("OPTIONS", options).replace(
        'feedback: "{{ comment }}"}',
        f'feedback: "Please {{{{ {name} }}}}", emit: {{name: sent, phase: "{{{{ {name} }}}}"}}}}',
    )
    script = scenario(
        agents={"author": ["plan one", "plan two"]},
        answers={
            "gate": [
                {"choice": "bad", "form": {name: "shorten it"}},
                {"choice": "good", "form": {name: "x"}},
            ]
        },
    )
    played = desk.play(machine, script)
    assert played.result == {"plan": "plan two"}
    assert "Please shorten it" in played.requests[-1].prompt
    assert [event.phase for event in played.of(Emitted)] == ["shorten it"]
