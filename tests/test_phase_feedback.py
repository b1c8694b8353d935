"""The machine of phases: each defect goes back to the phase that injected it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from loopkit.engine.events import Alerted, Entered, Intended, Kept
from loopkit.engine.telemetry import Figures
from loopkit.language.load import load
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from tests.support import ROOT, Desk, Played

MACHINE = ROOT / "machines/phase_feedback.yaml"
CASES = YAML(typ="safe").load(MACHINE.with_suffix(".scenario.yaml"))


def played(desk: Desk, name: str, cost_usd: float = 0.0) -> Played:
    """A case of the scenario as a run, in which each call costs so much."""
    case = CASES["cases"][name]
    priced = {
        agent: [_priced(call, cost_usd) for call in case["agents"].get(agent, ())]
        for agent in load(MACHINE).machine.agents
    }
    parts = {"scenario": 1, "agents": priced, "answers": case.get("answers", {})}
    return desk.play(MACHINE, json.dumps(parts), CASES["input"])


def _priced(written: Any, cost_usd: float) -> Any:
    if isinstance(written, list):
        return [_priced(call, cost_usd) for call in written]
    call = written if isinstance(written, dict) else {"reply": written}
    return {**call, "cost_usd": cost_usd}


def figures(run: Played) -> Figures:
    counted = Figures()
    for event in run.events:
        counted.take(event)
    return counted


EXAMPLE = "a missing requirement goes back to planning, and the design is made anew"


def test_s2_39_a_missing_login_is_told_with_where_it_was_made_and_what_it_has_cost(
    desk: Desk,
) -> None:
    """S2.5, S2.7, S2.39, S2.41; the case has its path."""
    run = played(desk, EXAMPLE, cost_usd=0.01)
    [defect] = figures(run).defects
    assert (defect.injected, defect.detected) == (("planning",), "design_review")
    assert (defect.severity, defect.code, defect.status) == ("critical", "Security", "resolved")
    assert defect.attempts == {"planning": 1, "design": 1}
    assert defect.cost_usd == pytest.approx(0.02)


MIXED = "each phase gets its own findings of a mixed report"


def test_s2_8_a_design_that_is_redone_for_a_new_plan_is_told_what_waited_for_it(desk: Desk) -> None:
    """S2.8."""
    run = played(desk, MIXED)
    assert run.route[3:7] == ["design_review", "planning", "check_plan", "design"]
    assert "The list is open to everybody." in run.prompts("designer")[1]


def test_s2_15_what_a_round_counts_is_declared(desk: Desk) -> None:
    """S2.15: corrections of plan and design together, whoever works; reviews count for none."""
    run = played(desk, MIXED)
    assert run.state.attempts["planning"] == run.state.attempts["design"] == 2
    assert run.state.counters == {"budget:design": 1, "total": 1}


def test_s2_23_braces_of_a_report_arrive_as_they_are(desk: Desk) -> None:
    """S2.23."""
    run = played(desk, "two defects of one interface stay two, each with the phase that made it")
    assert "at any length. (GET /users{?page,{{n}}})" in run.prompts("planner")[1]


def test_s2_42_half_of_the_work_done_again_raises_an_alert(desk: Desk) -> None:
    """S2.42."""
    run = played(desk, "a plan in a circle is sent back three times, and twice by a person")
    assert [(event.corrections, event.works) for event in run.of(Alerted)] == [(2, 3)]
    assert not played(desk, EXAMPLE).of(Alerted)


def test_s2_10_a_design_is_kept_whose_units_and_interfaces_have_not_changed(desk: Desk) -> None:
    """S2.10."""
    run = played(desk, "a design stays as it is where nothing that it needs has changed")
    assert [event.state for event in run.of(Kept)] == ["design", "code"]
    assert [event.state for event in run.of(Entered)].count("design") == 2
    assert len(run.prompts("designer")) == 1


@pytest.mark.parametrize("name", CASES["cases"])
def test_s2_12_no_path_goes_back_more_than_three_times_a_pair_or_ten_in_all(
    name: str, desk: Desk
) -> None:
    """S2.12, S2.14."""
    counters = played(desk, name).state.counters
    assert counters.get("total", 0) <= 10
    assert all(
        spent <= (2 if counter.startswith(("budget:test", "escalated")) else 3)
        for counter, spent in counters.items()
        if counter != "total"
    )


def test_s2_16_at_the_limit_of_all_a_person_has_everything_on_the_table(desk: Desk) -> None:
    """S2.16, S2.18."""
    run = played(desk, "eight revisions by themselves and two for a person are ten, and no more")
    assert run.state.counters["total"] == 10
    assert run.state.status == "waiting"
    assert run.state.question is not None
    closed = {choice.name: choice.closed for choice in run.state.question.choices}
    assert {name for name, why in closed.items() if not why} == {"approve", "reject"}
    assert "--set limits.total_revisions=11" in closed["replan"]
    assert {"plan", "design_spec", "source"} <= run.state.artifacts.keys()


def test_s2_33_a_plan_that_breaks_its_form_never_reaches_the_designer(desk: Desk) -> None:
    """S2.33."""
    run = played(desk, "a plan in a circle is sent back three times, and twice by a person")
    assert run.prompts("designer") == []


def test_s2_37_tests_that_fail_go_back_to_the_coder_with_what_failed(desk: Desk) -> None:
    """S2.37."""
    run = played(desk, "a program that can't be built goes back to the coder, at most twice")
    assert "main is missing." in run.prompts("coder")[1]
    assert run.state.counters["budget:test"] == 2
    assert run.state.reports["test"].verdict == "fail"


def test_s2_40_figures_of_each_phase_follow_from_its_reviews(desk: Desk) -> None:
    """S2.40."""
    phases = {phase.state: phase for phase in figures(played(desk, EXAMPLE, 0.01)).phases}
    assert phases["design_review"].found == 1
    assert phases["test"].found == 0


def test_s2_44_whoever_only_judges_is_a_cheaper_model(desk: Desk) -> None:
    """S2.44; the cache of calls is put off."""
    models = {(event.role, event.model) for event in played(desk, "nothing is found").of(Intended)}
    assert ("judge", "openai/gpt-5-mini") in models
    assert {model for role, model in models if role == "judge"} == {"openai/gpt-5-mini"}
    assert ("author", "anthropic/claude-sonnet-4-5") in models


def test_what_check_asks_of_it_is_settled_without_a_look_at_every_configuration() -> None:
    bounds = explore(Analysis.of_machine(load(MACHINE).machine), measures=())
    assert (bounds.configurations, bounds.stuck, bounds.untaken) == (None, (), ())
    assert bounds.unfilled == {}


VERIFIED = r"""
loopkit: 1
input: {notes: str}
states:
  import:
    render: "{{ input.notes }}"
    output: {name: notes, fields: {looks: {all: '^  - test: "(.+)"'}}}
    next: check
  check:
    validate: notes
    by:
      - command: [cat]
        verdict: {pattern: '^status: (\w+)', words: {passed: pass, gaps_found: fail}}
    transitions:
      - {guard: valid, target: passed}
      - {guard: incomplete, target: look}
      - {target: gaps}
  look:
    human: "Only a person can tell: {{ notes.looks | join('; ') }}"
    choices: [seen, missing]
    transitions: [{guard: choice == "seen", target: passed}, {target: gaps}]
  passed: {final: success}
  gaps: {final: failure}
"""


def test_a_status_that_asks_for_a_person_is_neither_pass_nor_fail(desk: Desk) -> None:
    notes = """---
status: human_needed
before:
  status: gaps_found
by_hand:
  - test: "Is the sign lit at night?"
---

| 1 | The sign is lit | VERIFIED |
"""
    [asked] = desk.play(VERIFIED, inputs={"notes": notes}).questions
    assert asked.text == "Only a person can tell: Is the sign lit at night?"
    for status, end in (("passed", "passed"), ("gaps_found", "gaps")):
        told = desk.play(VERIFIED, inputs={"notes": notes.replace("human_needed", status)})
        assert told.outcome == end
