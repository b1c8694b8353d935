"""S0, states, transitions and guards: every line that needs no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.engine.events import Decided, Entered
from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import review
from tests.machines import loop
from tests.support import PASS, PLAN_REVIEW, ROOT, Desk, Played, fails, plan, scenario

ISSUE = {"issue": "Exports of one customer starve those of the others."}
GOOD = plan("good")
TITLE = plan("title_only")


def question_page(machine: Path, played: Played) -> str:
    """What the person sees at the open question of a run."""
    return review(Engine(Program(load(machine).machine, "digest")), played.state)


@pytest.mark.parametrize(
    ("plans", "max_revisions", "edges"),
    [
        ([GOOD], 2, ["validate[0]"]),
        ([TITLE, GOOD], 2, ["validate[2]", "validate[0]"]),
        ([TITLE, "# Other\n"], 1, ["validate[2]", "validate[1]"]),
        ([GOOD], 0, ["validate[0]"]),
        ([TITLE], 0, ["validate[1]"]),
    ],
    ids=["valid", "revised", "exhausted", "valid-wins-over-exhausted", "no-revision-granted"],
)
def test_the_first_guard_that_holds_decides(
    desk: Desk, plans: list[str], max_revisions: int, edges: list[str]
) -> None:
    """S0.2: valid → approved, cap reached → exhausted route, else → revise."""
    critic = [PASS] * plans.count(GOOD)
    played = desk.play(
        PLAN_REVIEW,
        scenario(agents={"architect": plans, "critic": critic}),
        {**ISSUE, "max_revisions": max_revisions},
    )
    taken = [event.edge for event in played.of(Decided) if event.source == "validate"]
    assert taken == edges


ROUTED_BY_FIELD = """
loopkit: 1
agents:
  reviewer: {command: [none], schema: {valid: bool, severity: none|major|critical}}
states:
  review:
    agent: reviewer
    prompt: Review the plan.
    on_error: {content: unreadable}
    transitions:
      - {guard: valid, target: approved}
      - {guard: severity == "critical", target: rejected}
      - {target: minor}
  approved: {final: success}
  minor: {final: success}
  rejected: {final: failure}
  unreadable: {final: failure}
"""


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"valid": True, "severity": "critical"}, "approved"),
        ({"valid": False, "severity": "critical"}, "rejected"),
        ({"valid": False, "severity": "major"}, "minor"),
        ({"severity": "none"}, "unreadable"),
        ({"valid": None, "severity": "none"}, "unreadable"),
    ],
)
def test_fields_of_an_agents_answer_route_in_the_order_of_the_guards(
    desk: Desk, answer: dict[str, object], outcome: str
) -> None:
    """S0.2, S0.8: ordered guards on a structured result; one that is missing is never approved."""
    played = desk.play(ROUTED_BY_FIELD, scenario(agents={"reviewer": [{"data": answer}]}))
    assert played.outcome == outcome


FAIL = "exhausted: {final: failure, result: plan}"
ESCALATE = """
exhausted:
  human: Accept it as it is?
  choices: [accept, reject]
  transitions:
    - {guard: choice == "accept", target: accepted}
    - {target: rejected}
rejected: {final: failure}
"""
WARN = """
exhausted:
  render: "Accepted with {{ report.error_count }} finding left."
  output: warning
  next: accepted_with_warning
accepted_with_warning: {final: success, result: [plan, warning]}
"""


@pytest.mark.parametrize(
    ("ending", "route", "result"),
    [
        (FAIL, ["exhausted"], {"plan": "b"}),
        (ESCALATE, ["exhausted", "accepted"], {"plan": "b"}),
        (
            WARN,
            ["exhausted", "accepted_with_warning"],
            {"plan": "b", "warning": "Accepted with 1 finding left."},
        ),
    ],
    ids=["fail", "escalate", "accept-with-warning"],
)
def test_the_exhausted_route_is_whatever_the_loop_says(
    desk: Desk, ending: str, route: list[str], result: dict[str, str]
) -> None:
    """S0.3: fail, escalate to the human gate, or accept with a warning."""
    machine = loop(
        "[{min_chars: 20}]",
        {"valid": "accepted", "cap_reached": "exhausted"},
        "{revise: draft}",
        top="limits: {revisions: 1}\nagents: {author: {command: [none]}}",
        ends=ending,
        result="plan",
    )
    script = scenario(agents={"author": ["a", "b"]}, answers={"exhausted": ["accept"]})
    played = desk.play(machine, script)
    assert played.route == ["draft", "judge", "draft", "judge", *route]
    assert played.result == result


ONE_GATE = """
loopkit: 1
limits: {revisions: 1}
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{min_chars: 20}]
    transitions:
      - {guard: valid, target: gate, emit: approved}
      - {guard: cap_reached, target: gate, emit: escalated}
      - {revise: draft}
  gate:
    human: "{{ report.verdict }}: accept it?"
    choices: [accept, reject]
    transitions:
      - {guard: choice == "accept" and judge.valid, target: accepted}
      - {guard: choice == "accept", target: accepted_as_is}
      - {target: failed}
  accepted: {final: success}
  accepted_as_is: {final: success}
  failed: {final: failure}
"""


@pytest.mark.parametrize(
    ("plans", "edge", "guard", "question", "outcome"),
    [
        (["Long enough to be a plan."], "judge[0]", "valid", "pass: accept it?", "accepted"),
        (["short", "shorter"], "judge[1]", "cap_reached", "fail: accept it?", "accepted_as_is"),
    ],
)
def test_two_routes_into_one_gate_stay_apart(
    durable: Desk, plans: list[str], edge: str, guard: str, question: str, outcome: str
) -> None:
    """S0.4: two route labels lead to one node; the label taken is recorded and visible there."""
    waiting = durable.play(ONE_GATE, scenario(agents={"author": plans}))
    assert waiting.of(Entered)[-1].by == edge
    assert waiting.questions[-1].text == question
    page = question_page(durable.folder / "machine.yaml", waiting)
    assert f"because `{guard}`" in page
    assert durable.answer(waiting.state.run, "accept").outcome == outcome


def test_an_escalated_plan_shows_verdict_issues_attempts_and_route(desk: Desk) -> None:
    """S0.5: approve-after-failure does not look like approve-after-success."""
    issue = "Task 2 says nothing about the HTTP status."
    played = desk.play(
        PLAN_REVIEW,
        scenario(agents={"architect": [TITLE, GOOD], "critic": [fails(issue)]}),
        {**ISSUE, "max_revisions": 1},
    )
    page = question_page(PLAN_REVIEW, played)
    assert played.state.state == "escalated"
    assert "validate: fail, 1 blocking finding" in page
    assert issue in page
    assert "draft 2" in page
    assert "draft 1 of 1" in page
    assert "fail, because `input.at_maximum" in page
    assert "The validator says: fail (attempt 2)." in page
    assert "A token bucket for each customer" in page


def test_an_approved_plan_shows_that_it_passed(desk: Desk) -> None:
    """S0.5: the same page after a success."""
    played = desk.play(PLAN_REVIEW, scenario(agents={"architect": [GOOD], "critic": [PASS]}), ISSUE)
    page = question_page(PLAN_REVIEW, played)
    assert "validate: pass" in page
    assert "fail" not in page.partition("validate: pass")[2]
    assert "approved, because `input.approver`" in page


def test_the_gate_works_with_a_person_at_hand_and_with_one_who_comes_later(durable: Desk) -> None:
    """S0.7: blocking, and suspended without a process, from the same YAML."""
    agents = {"architect": [GOOD], "critic": [PASS]}
    at_hand = durable.play(
        PLAN_REVIEW, scenario(agents=agents, answers={"approval": ["approve"]}), ISSUE
    )
    waiting = durable.play(PLAN_REVIEW, scenario(agents=agents), ISSUE)
    assert waiting.state.status == "waiting"
    later = durable.answer(waiting.state.run, "approve")
    assert later.route == at_hand.route
    assert later.result == at_hand.result
    assert later.requests == []


def test_a_guard_cannot_read_what_may_be_missing(desk: Desk) -> None:
    """S0.8: a guard over a result that may be missing is told, not silently approved."""
    machine = ROUTED_BY_FIELD.replace("valid: bool", "valid: optional bool")
    assert "guard-type" in {problem.code for problem in desk.problems(machine)}


def test_a_missing_input_is_a_branch_of_its_own(desk: Desk) -> None:
    """S0.8: None is asked for by name."""
    machine = """
loopkit: 1
input: {approved: optional bool}
states:
  start:
    transitions:
      - {guard: input.approved == none, target: nobody_said}
      - {guard: input.approved == true, target: approved}
      - {target: refused}
  nobody_said: {final: failure}
  approved: {final: success}
  refused: {final: failure}
"""
    outcomes = [
        desk.play(machine, inputs=given).outcome
        for given in ({}, {"approved": True}, {"approved": False})
    ]
    assert outcomes == ["nobody_said", "approved", "refused"]


LOOP = loop("[{min_chars: 20}]", {"valid": "done", "cap_reached": "failed"}, "{revise: draft}")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("  failed:", "  lonely: {next: done}\n  failed:", "unreachable-state"),
        ("target: done", "target: dome", "unknown-target"),
        ("{revise: draft}", "{target: draft}", "forward-cycle"),
        ("{revise: draft}", "{revise: draft, max: 100000}", "bad-bound"),
        ("valid, target: done}", "valid and not valid, target: done}", "dead-transition"),
    ],
    ids=["unreachable", "unknown-target", "unbounded-loop", "huge-bound", "never-fires"],
)  # fmt: skip
def test_a_machine_that_cannot_be_right_is_told_before_it_runs(
    desk: Desk, old: str, new: str, code: str
) -> None:
    """S0.9: unreachable states, unknown targets, unbounded loops, transitions that never fire."""
    assert desk.problems(LOOP) == []
    problems = desk.problems(LOOP.replace(old, new))
    assert code in {problem.code for problem in problems}
    assert all(problem.span is not None for problem in problems)


SUBSUMED = """
loopkit: 1
patterns: {task: '^### Task'}
agents: {author: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: precheck}
  precheck:
    validate: plan
    by: [{matches: task}]
    transitions: [{guard: valid, target: between}, {target: failed}]
  between: {render: Nothing., next: judge}
  judge:
    validate: plan
    by: [{matches: '^### Task', message: There are no tasks.}, {section: Goal}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def test_a_check_that_an_earlier_one_leaves_nothing_to_find_is_told(desk: Desk) -> None:
    """S0.9: the way back for plans without tasks is dead, because they have failed before it."""
    [problem] = desk.problems(SUBSUMED)
    assert (problem.code, problem.path) == ("judged-before", "states.judge.by.0")
    played = desk.play(SUBSUMED, scenario(agents={"author": ["no tasks"]}))
    assert played.route == ["draft", "precheck", "failed"]
    goalless = desk.play(SUBSUMED, scenario(agents={"author": ["### Task 1", "### Task 1"]}))
    assert [f.message for r in goalless.reports for f in r.findings if r.state == "judge"] == [
        'no section "Goal": it needs a heading or a label `**Goal:**`, with text under it'
    ] * 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("{guard: valid, target: between}", "{guard: attempt < 9, target: between}"),
        ("{guard: valid, target: between}", "{guard: not incomplete, target: between}"),
        ("by: [{matches: task}]", "by: [{matches: task, severity: warning}, {min_chars: 1}]"),
        ("by: [{matches: task}]", "by: [{matches: task, guard: attempt > 1}, {min_chars: 1}]"),
        ("by: [{matches: task}]", "by: [{matches: task, count: {max: 3}}]"),
        ("by: [{matches: task}]", "settle_after: 1\n    by: [{matches: task}]"),
        ("{render: Nothing., next", "{render: '{{ plan }}', output: plan, next"),
        ("task: '^### Task'", "task: '^## Task'"),
    ],
    ids=["lets-fails-pass", "lets-some-pass", "only-warns", "not-always", "wants-more", "settles",
         "written-anew", "another-pattern"],
)  # fmt: skip
def test_a_check_that_may_find_something_is_not_told(desk: Desk, old: str, new: str) -> None:
    """S0.9: nothing that could come to it is taken for impossible."""
    assert old in SUBSUMED
    codes = {problem.code for problem in desk.problems(SUBSUMED.replace(old, new))}
    assert "judged-before" not in codes


def test_the_plan_review_machine_has_no_problems(desk: Desk) -> None:
    """S0.9: and a machine that is right is let through."""
    assert desk.problems((ROOT / "machines/plan_review.yaml").read_text(encoding="utf-8")) == []
