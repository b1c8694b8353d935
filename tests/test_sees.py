"""`sees:` of rules without a model: conditions and plug-ins read other artifacts as well."""

from __future__ import annotations

import json

import pytest

from tests.support import Desk, Played

PLAN = {"units": [{"id": "u1"}, {"id": "u2"}], "goal": "tea"}
MACHINE = """
loopkit: 1
input: {most: {type: int, default: 9}, note: optional str}
states:
  plan: {render: PLAN, next: design}
  design: {render: '{"parts": [{"unit": "u1"}]}', next: check}
  check:
    validate: design
    by: [RULE]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""


def judged(desk: Desk, rule: str, plan: str = json.dumps(PLAN)) -> Played:
    text = MACHINE.replace("PLAN", json.dumps(plan)).replace("RULE", rule)
    return desk.play(text)


def outcome(desk: Desk, rule: str, plan: str = json.dumps(PLAN)) -> str | None:
    return judged(desk, rule, plan).outcome


@pytest.mark.parametrize("fence", ["{}", "The plan:\n\n```json\n{}\n```\n"])
def test_a_condition_reads_the_data_of_another_text(desk: Desk, fence: str) -> None:
    plan = fence.replace("{}", json.dumps(PLAN))
    assert (
        outcome(desk, "{require: parts.count >= plan.units.count, sees: [plan]}", plan) == "failed"
    )
    assert outcome(desk, "{require: parts.count < plan.units.count, sees: [plan]}", plan) == "done"
    # Without it, the other artifact is a text.
    assert outcome(desk, "{require: plan.units.count == none}", plan) == "done"


def test_a_condition_reads_the_fields_of_another_text(desk: Desk) -> None:
    plan = {
        "render": "**Goal:** tea",
        "output": {"name": "plan", "fields": {"goal": {"section": "Goal"}}},
    }
    text = MACHINE.replace("{render: PLAN, next: design}", json.dumps({**plan, "next": "design"}))
    for wanted, outcome in (("tea", "done"), ("water", "failed")):
        rule = f"{{require: 'plan.goal == \"{wanted}\"', sees: [plan.goal, input.most]}}"
        assert desk.play(text.replace("RULE", rule)).outcome == outcome


def test_its_own_artifact_and_its_items_come_first(desk: Desk) -> None:
    condition = """'unit == "u1" and design.parts.count == 1'"""
    rule = f"{{require: {condition}, each: 'parts[]', sees: [design, plan]}}"
    assert outcome(desk, rule) == "done"


def test_a_plug_in_is_given_texts_and_data_by_their_names(desk: Desk) -> None:
    desk.write(
        "rules.py",
        "import json\n\ndef check(value, context):\n    return [json.dumps(dict(context.seen))]\n",
    )
    run = judged(desk, "{python: 'rules:check', sees: [plan, input.most, input.note]}")
    [finding] = run.reports[0].findings
    # What is missing is left out.
    assert json.loads(finding.message) == {"plan": json.dumps(PLAN), "input.most": 9}


def test_without_sees_a_plug_in_is_given_nothing_more(desk: Desk) -> None:
    desk.write("rules.py", "def check(value, context):\n    return list(context.seen)\n")
    assert outcome(desk, "{python: 'rules:check'}") == "done"
