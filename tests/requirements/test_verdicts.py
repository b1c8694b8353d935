"""Answers, reports and the ledger: what counts as a verdict, and what it does to the run."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines import loop
from tests.support import PASS, Desk, Played, fails, listed, scenario

MACHINE = loop(
    "BY",
    {"valid": "accepted", "cap_reached": "exhausted", "GUARD": "stopped"},
    "{revise: draft}",
    top="""
input: {strict: {type: bool, default: false}}
limits: {revisions: 9 STALL}
guards: {settled: attempt > 1, demanding: input.strict and settled}
agents: {author: {model: some/model}, critic: {model: some/model}, other: {model: some/model}}
""",
)


def play(
    desk: Desk,
    critic: list[Any],
    *,
    by: str = "[{judge: critic}]",
    guard: str = "stalled",
    plans: list[str] | None = None,
    stall: str = "",
    inputs: dict[str, Any] | None = None,
    other: list[Any] | None = None,
) -> Played:
    machine = MACHINE.replace("BY", by).replace("GUARD", guard)
    texts = plans or [f"plan {number}" for number in range(1, 12)]
    agents = {"author": texts, "critic": critic, "other": other or []}
    return desk.play(machine.replace("STALL", stall), scenario(agents=agents), inputs)


def test_a_judge_is_told_why_its_answer_could_not_be_used(desk: Desk) -> None:
    played = play(desk, [["Looks fine.", PASS]])
    first, second = played.prompts("critic")
    assert second.startswith("Your answer could not be used: ")
    assert '"verdict"' in second
    assert "plan 1" in first
    assert played.reports[0].verdict == "pass"


HELD = {"verdict": "pass", "findings": [{"message": "No goal.", "severity": "error"}]}
FORMLESS = {"verdict": "fail", "findings": ["No goal."]}


@pytest.mark.parametrize(
    ("said", "outcome", "found"),
    [
        ([HELD, PASS], "pass", []),
        ([HELD, HELD], "a person decides", []),
        ([HELD, "Hm.", HELD], "a person decides", []),
        (["Hm.", HELD, "Hm.", PASS], "pass", []),
        (["Hm.", "Hm.", HELD, PASS], "pass", []),
        ([FORMLESS, PASS], "fail", ["No goal."]),
        ([FORMLESS, "Hm.", HELD, PASS], "fail", ["No goal."]),
        ([FORMLESS, fails("Aim.")], "fail", ["Aim."]),
        ([{**HELD, "verdict": "fail", "error_count": 3}, PASS], "fail", ["No goal."]),
    ],
)
def test_a_contradiction_is_asked_about_once_and_a_fail_stands_whatever_its_form(
    desk: Desk, said: list[Any], outcome: str, found: list[str]
) -> None:
    """Neither costs a re-ask about the form, of which there are two."""
    told = [{"data": one} if isinstance(one, dict) and "verdict" in one else one for one in said]
    played = play(desk, [told, PASS])
    assert len(played.prompts("critic")) == len(said) + (outcome == "fail")
    if played.state.suspended is not None:
        assert (outcome, played.state.suspended.reason) == ("a person decides", "content")
    for report in played.reports[:1]:
        assert (report.verdict, [one.message for one in report.findings]) == (outcome, found)


def test_a_fail_that_names_nothing_to_the_end_counts_in_the_judges_own_words(desk: Desk) -> None:
    vague = {"data": {"verdict": "fail", "summary": "It is too vague.", "findings": []}}
    played = play(desk, [[vague] * 3, PASS])
    assert len(played.prompts("critic")) == 4
    assert [finding.message for finding in played.reports[0].findings] == ["It is too vague."]
    assert listed(played.prompts("author")[1]) == "- It is too vague."


@pytest.mark.parametrize("reask", [0, 1, 2])
def test_a_judge_is_asked_again_as_often_as_written(desk: Desk, reask: int) -> None:
    by = f"[{{judge: critic, reask: {reask}}}]"
    played = play(desk, [["What?"] * 9], by=by)
    assert len(played.prompts("critic")) == reask + 1
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "content"


def test_an_answer_that_was_cut_off_is_no_verdict(desk: Desk) -> None:
    played = play(desk, [[{**PASS, "cut_off": True}, fails("No goal.")], PASS])
    assert [report.verdict for report in played.reports] == ["fail", "pass"]


def test_two_judges_of_one_validator_are_asked_and_read_for_themselves(desk: Desk) -> None:
    """Neither takes the other's answer for its own, misread ones included."""
    machine = MACHINE.replace("states:", VALIDATORS + "states:").replace("BY", "[panel]")
    script = scenario(
        agents={
            "author": ["plan 1", "plan 2"],
            "critic": [["What?", PASS], PASS],
            "other": [["Hm?", fails("No tests.")], PASS],
        }
    )
    played = desk.play(machine.replace("GUARD", "stalled").replace("STALL", ""), script)
    assert played.outcome == "accepted"
    assert [finding.message for finding in played.reports[0].findings] == ["No tests."]
    assert len(played.prompts("critic")) == len(played.prompts("other")) == 3


VALIDATORS = """
validators:
  panel:
    - {judge: critic, rubric: [It has a goal.]}
    - {judge: other, rubric: [It has tests.]}
"""


def test_a_judge_whose_guard_is_false_is_neutral(desk: Desk) -> None:
    by = "[{judge: critic, guard: input.strict}]"
    lax = play(desk, [], by=by)
    assert (lax.outcome, lax.reports[0].verdict) == ("accepted", "not_applicable")
    strict = play(desk, [fails("A"), PASS], by=by, inputs={"strict": True})
    assert [report.verdict for report in strict.reports] == ["fail", "pass"]


def test_a_rule_applies_where_its_guard_holds(desk: Desk) -> None:
    """Named guards over input and attempt count in rules, too."""
    tests = "{matches: tests, guard: demanding, message: No tests.}"
    by = f"[{{matches: goal, message: No goal.}}, {tests}]"
    lax = play(desk, [], by=by, plans=["plan", "goal"])
    assert lax.outcome == "accepted"
    strict = play(desk, [], by=by, plans=["plan", "goal", "goal tests"], inputs={"strict": True})
    found = [[finding.message for finding in report.findings] for report in strict.reports]
    assert found == [["No goal."], ["No tests."], []]


def test_a_code_routes(desk: Desk) -> None:
    by = "[{matches: goal, code: no_goal}, {min_chars: 7, code: too_short}]"
    played = play(desk, [], by=by, guard="'\"too_short\" in codes'", plans=["a plan", "short"])
    assert played.outcome == "stopped"
    assert len(played.prompts("author")) == 1


STATUSES = [["A", "B"], ["B"], ["A", "C"], []]


def test_findings_are_new_recurring_resolved_and_regressed(desk: Desk) -> None:
    played = play(desk, [fails(*found) if found else PASS for found in STATUSES])
    told = [{f.message: f.status for f in report.findings} for report in played.reports]
    assert told == [
        {"A": "new", "B": "new"},
        {"B": "recurring"},
        {"A": "regressed", "C": "new"},
        {},
    ]
    resolved = [[finding.message for finding in report.resolved] for report in played.reports]
    assert resolved == [[], ["A"], ["B"], ["A", "C"]]


def test_a_finding_that_only_moved_is_the_same_one(desk: Desk) -> None:
    critic = [fails("Vague on line 12."), fails("vague on  line 15"), PASS]
    statuses = [f.status for report in play(desk, critic).reports for f in report.findings]
    assert statuses == ["new", "recurring"]


def test_a_defect_that_came_back_is_regressed(desk: Desk) -> None:
    critic = [fails("A"), fails("B"), fails("A"), PASS]
    played = play(desk, critic, guard="regressed")
    assert played.outcome == "stopped"
    assert len(played.prompts("author")) == 3


@pytest.mark.parametrize(
    ("found", "stall", "attempts"),
    [
        (["A", "A", "A", "A"], "", 3),
        (["A", "A", "A", "A"], ", stall: 2", 2),
        (["A", "A", "A", "A"], ", stall: 4", 4),
        (["A", "A", "B", "B", "B"], "", 5),
        (["A", "B", "A", "B", "A", "B", "C"], "", 6),
        (["A", "B", "A", "B", "C"], ", stall: 2", 4),
        (["A", "B", "C", "A", "B", "C", "D"], ", stall: 2", 6),
    ],
    ids=["same", "stall-2", "stall-4", "same-later", "a-b-a-b", "a-b-stall-2", "period-3"],
)
def test_findings_that_repeat_are_no_progress(
    desk: Desk, found: list[str], stall: str, attempts: int
) -> None:
    played = play(desk, [fails(message) for message in found], stall=stall)
    assert played.outcome == "stopped"
    assert len(played.prompts("author")) == attempts
    assert [report.stalled for report in played.reports] == [False] * (attempts - 1) + [True]


@pytest.mark.parametrize(
    ("found", "stall"),
    [
        (["A", "A", "B", "A", "A", "C"], ""),
        (["A", "B", "A", "C", "A", "D"], ""),
        (["A", "B", "B", "A", "C"], ""),
    ],
)
def test_findings_that_change_are_progress(desk: Desk, found: list[str], stall: str) -> None:
    played = play(desk, [*(fails(message) for message in found), PASS], stall=stall)
    assert played.outcome == "accepted"


def test_a_plan_that_comes_back_and_passes_is_not_stalled(desk: Desk) -> None:
    played = play(desk, [fails("A"), fails("B"), PASS], plans=["one", "two", "one"])
    assert played.outcome == "accepted"
    assert not played.reports[-1].stalled


CANNOT = scenario(agents={"author": [{"data": {"steps": [], "infeasible": True}}], "critic": []})


def infeasible(desk: Desk, on_error: str = "", row: str = "", ending: str = "") -> Played:
    machine = loop(
        "[{require: steps.count > 3}, {judge: critic}]",
        {"valid": "accepted", "cap_reached": "refused"},
        *([row] if row else []),
        "{revise: draft}",
        top="""
agents:
  author: {command: [none], schema: {steps: [str], infeasible: bool}, infeasible: infeasible}
  critic: {command: [none]}
""",
        draft="draft: {agent: author, prompt: Plan., output: plan}",
        state=on_error,
        ends=ending,
    )
    return desk.play(machine, CANNOT)


def test_what_the_author_declares_infeasible_is_not_judged_and_not_revised(desk: Desk) -> None:
    played = infeasible(desk, row="{guard: infeasible, target: given_up}")
    assert played.outcome == "given_up"
    assert played.reports[0].verdict == "infeasible"
    assert played.prompts("critic") == []
    assert len(played.prompts("author")) == 1


def test_infeasible_takes_the_content_edge_where_no_guard_names_it(desk: Desk) -> None:
    played = infeasible(desk, "on_error: {content: caught}", ending="caught: {final: failure}")
    assert played.outcome == "caught"


def test_infeasible_that_nothing_catches_suspends_with_the_reason(desk: Desk) -> None:
    played = infeasible(desk)
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "content"
    assert "`draft` declared that it can't be done" in played.state.suspended.message
