"""S3, plans: drafts that are repaired, budgets of each phase, fallbacks, goals and replanning.

All of it on `machines/planner_autocorrect.yaml`.
"""

from __future__ import annotations

import json
from shutil import copytree
from typing import Any

import pytest

from loopkit.engine.events import Emitted, Intended
from loopkit.engine.findings import Report
from tests.planner import MACHINE, PLAN, WORK, draft, gives, play, validated
from tests.support import Desk, Played

INACTIVE = draft(1, capabilityId="writer.LegacyBlog")
REWRITE = {**PLAN["nodes"][1], "stage": "rewrite", "inputFacets": ["strategy", "post"]}
REWRITING = {"nodes": [*PLAN["nodes"], REWRITE]}
"""The plan with one more node, behind those that are completed."""
IN_MAY = {"facet": "post", "path": "/text", "condition": {"jsonLogic": {"in": ["May"]}}}
SCORE = {"jsonLogic": {">=": [{"var": "score"}, 8]}}
GOALS = [{"facet": "post", "path": "/score", "condition": SCORE}, IN_MAY]
BETTER = {**WORK, "rewrite": {"agents": {"executor": [gives(post={"text": "May!", "score": 9})]}}}
FAILING = {**WORK, "post": {"agents": {"executor": [gives(), gives(notes=None)]}}}


def answers(*plans: Any) -> list[dict[str, Any]]:
    """Attempts without a tool."""
    return [{"data": plan} for plan in plans]


def gate(played: Played, state: str = "check") -> list[Report]:
    return [report for report in played.reports if report.state == state]


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_s3_6_without_tools_the_runner_makes_the_same_decisions(desk: Desk) -> None:
    """S3.6: in the conversation, by the runner for the model, and from the gate."""
    copytree(MACHINE.with_suffix(""), desk.folder / MACHINE.stem)
    for_it = MACHINE.read_text(encoding="utf-8").replace(
        "    session: keep",
        "    session: keep\n    tool_use: runner\n    require_tool: validate_plan",
    )
    runs = [
        play(desk, MACHINE, *validated(PLAN, INACTIVE)),
        play(desk, for_it, *answers(INACTIVE, PLAN)),
        play(desk, MACHINE, *answers(INACTIVE, PLAN)),
    ]
    assert {run.outcome for run in runs} == {"done"}
    assert len({json.dumps(run.result["plan"], sort_keys=True) for run in runs}) == 1
    told = [
        [(e.name, e.attempt, [(f.code, f.message, f.item) for f in e.findings]) for e in run]
        for run in (played.of(Emitted) for played in runs)
    ]
    assert told[0] == told[1] == told[2]
    assert [(name, attempt) for name, attempt, _ in told[0]] == [
        ("plan_requested", 1),
        ("plan_rejected", 1),
        ("plan_requested", 2),
        ("plan_generated", 2),
    ]


def test_s3_15_a_pinned_capability_that_is_missing_is_not_retried(desk: Desk) -> None:
    """S3.15: an event, the end, and nobody was asked."""
    played = play(desk, MACHINE, policies={"pinnedCapabilityIds": ["writer.LegacyBlog"]})
    assert (played.outcome, played.of(Intended)) == ("rejected", [])
    [event] = played.of(Emitted)
    [finding] = event.findings
    assert (event.name, finding.code) == ("plan_rejected", "PINNED_CAPABILITY_MISSING")
    assert finding.item == {"capabilityId": "writer.LegacyBlog"}
    pinned = {"pinnedCapabilityIds": ["director.SocialQuality"]}
    unused = play(desk, MACHINE, *answers(PLAN), policies=pinned, retries={"initial": 0})
    assert codes(gate(unused)[0]) == {"PINNED_CAPABILITY_UNUSED"}


REPLY = {"choice": "replan", "comment": "Try once more."}


@pytest.mark.parametrize(
    ("trigger", "inputs", "work", "human"),
    [
        ("goals", {"goal_condition": GOALS}, BETTER, {}),
        ("progress", {}, FAILING, {}),
        ("escalated", {"policies": {"replanOnFailedNode": False}}, FAILING, {"escalated": [REPLY]}),
    ],
)
def test_s3_27_what_is_completed_stays_when_a_run_is_planned_anew(
    desk: Desk, trigger: str, inputs: Any, work: Any, human: Any
) -> None:
    """S3.27: because of a goal, a policy, or what a person replies."""
    changed = draft(0, instructions=["Another way."])
    anew = REWRITING if trigger == "goals" else draft(1, stage="second_post")
    played = play(
        desk,
        MACHINE,
        *validated(PLAN),
        again=validated(anew, changed),
        work=work,
        answers=human,
        **inputs,
    )
    assert played.outcome == "done"
    assert played.route[played.route.index("replan") - 1] == trigger
    [rejected] = [e for e in played.of(Emitted) if e.name == "plan_rejected"]
    told = {(f.code, f.item.get("nodeStage")) for f in rejected.findings}
    assert ("COMPLETED_NODE_CHANGED", "strategy") in told
    # Its node was carried out once, in the first plan.
    assert played.result["work"]["strategy"]["calls"] == 1
    assert '"stage": "strategy"' in played.prompts("replanner")[0]


def test_s3_29_a_node_is_tried_again_while_its_post_condition_fails(desk: Desk) -> None:
    """S3.29: as often as the input says, with the attempt and what was observed in the prompt."""
    texts = ["It sails.", "It will sail.", "It sails in May.", "Never asked for."]
    says = [gives(post={"text": text}) for text in texts]
    plan = draft(1, postConditions=[IN_MAY])
    for retries, outcome, calls in [(2, "completed", 3), (1, "failed", 2)]:
        work = {**WORK, "post": {"agents": {"executor": says}}}
        played = play(
            desk,
            MACHINE,
            *validated(plan),
            work=work,
            retries={"node": retries},
            policies={"maxReplans": 0},
        )
        known = played.state.children["work"]["post"].ended
        assert known is not None
        assert (known.result["outcome"], known.result["calls"]) == (outcome, calls)
    told = ['post.text in May, observed "It will sail."']
    assert [finding["message"] for finding in known.result["findings"]] == told
