"""The machine of phases: each defect goes back to the phase that injected it."""

from __future__ import annotations

import json

from ruamel.yaml import YAML

from loopkit.engine.events import Intended
from loopkit.language.load import load
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from tests.support import ROOT, Desk, Played

MACHINE = ROOT / "machines/phase_feedback.yaml"
CASES = YAML(typ="safe").load(MACHINE.with_suffix(".scenario.yaml"))


def played(desk: Desk, name: str) -> Played:
    """A case of the scenario as a run."""
    case = CASES["cases"][name]
    agents = {agent: case["agents"].get(agent, []) for agent in load(MACHINE).machine.agents}
    parts = {"scenario": 1, "agents": agents, "answers": case.get("answers", {})}
    return desk.play(MACHINE, json.dumps(parts), CASES["input"])


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
