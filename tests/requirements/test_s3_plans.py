"""S3, plans: drafts that are repaired, budgets of each phase, fallbacks, goals and replanning.

All of it on `machines/planner_autocorrect.yaml`.
"""

from __future__ import annotations

import json
from shutil import copytree
from typing import Any

import pytest

from loopkit.engine.events import Emitted, Failed, Intended
from loopkit.engine.findings import Report
from tests.planner import MACHINE, PLAN, WORK, draft, gives, play, validated
from tests.support import Desk, Played, QuickClock

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


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_s3_9_a_budget_of_n_retries_grants_exactly_n(desk: Desk, retries: int) -> None:
    """S3.7 and S3.9: from the input, zero means zero, and then the fallback."""
    drafts = [INACTIVE, draft(1, inputFacets="post"), draft(1, capabilityId="nobody")]
    played = play(desk, MACHINE, *answers(*drafts[: retries + 1]), retries={"initial": retries})
    assert (played.outcome, played.state.attempts["plan"]) == ("done", retries + 1)
    assert "fallback" in played.route


def test_s3_10_the_next_attempt_is_told_what_was_wrong_with_this_one(desk: Desk) -> None:
    """S3.10: in the feedback of the gate, and in the conversation that goes on with the tool."""
    message = 'The capability "writer.LegacyBlog" of stage "post" is not active.'
    for attempts in (answers(INACTIVE, PLAN), validated(PLAN, INACTIVE)):
        played = play(desk, MACHINE, *attempts)
        first, second = played.prompts("planner")[:2]
        assert message not in first
        assert f"CAPABILITY_INACTIVE at nodes[1].capabilityId: {message}" in second
    results = [said.content for said in played.asked("planner")[1].messages if said.role == "tool"]
    assert message in json.loads(results[0])["diagnostics"][0]["message"]


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


def test_s3_16_a_planner_that_hangs_is_ended_and_asked_again(desk: Desk) -> None:
    """S3.16: after two minutes, as a transient error that spends no attempt."""
    desk.clock = QuickClock()
    played = play(desk, MACHINE, [{"data": PLAN, "delay": "10m"}, *validated(PLAN)[0]])
    [failed] = played.of(Failed)
    assert (failed.error_class, "120" in failed.message or "2m" in failed.message) == (
        "transient",
        True,
    )
    assert (played.outcome, played.state.attempts["plan"]) == ("done", 1)


REPLY = {"choice": "replan", "comment": "Try once more."}


@pytest.mark.parametrize(
    "target", [{"routes": [{"to": "gone", "condition": "x"}]}, {"routes": [], "elseTo": "gone"}]
)
def test_s3_20_a_routing_to_nowhere_is_a_diagnostic_like_any_other(
    desk: Desk, target: dict[str, Any]
) -> None:
    """S3.20."""
    played = play(desk, MACHINE, *answers(draft(0, routing=target), PLAN))
    [finding] = gate(played)[0].findings
    assert (finding.code, finding.blocking) == ("ROUTING_TARGET_UNKNOWN", True)
    assert 'leads to "gone"' in played.prompts("planner")[1]


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


def test_s3_28_goals_are_all_met_or_planned_for_anew_until_their_own_limit(desk: Desk) -> None:
    """S3.28: the values that were observed are told, and are in the result of the failure."""
    worse = {
        **WORK,
        "rewrite": {"agents": {"executor": [gives(post={"text": "June.", "score": 9})]}},
    }
    played = play(
        desk,
        MACHINE,
        *validated(PLAN),
        again=validated(REWRITING),
        work=worse,
        goal_condition=GOALS,
        policies={"maxReplans": 1},
    )
    assert played.outcome == "goals_missed"
    first, second = gate(played, "goals")
    assert [f.message for f in first.findings] == ["post.score >= 8, observed 5"]
    assert [f.message for f in second.findings] == ['post.text in May, observed "June."']
    assert "post.score >= 8, observed 5" in played.prompts("replanner")[0]
    assert [one["observed"] for one in played.result["observed"]] == [9, "June."]
    assert played.state.counters["budget:replans"] == 1


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


def test_s3_11_drafts_without_progress_end_in_a_fallback_that_is_labelled(desk: Desk) -> None:
    """S3.8, S3.11, S3.12 and S3.21: each draft has its number, the fallback that of the last."""
    foreign = draft(1, capabilityId="nobody")
    cases: list[tuple[list[Any], str, list[str]]] = [
        ([INACTIVE, foreign, foreign], "stalled", ["CAPABILITY_NOT_REGISTERED", "repeated"]),
        ([INACTIVE, foreign, draft(1, capabilityId=None)], "exhausted", ["CAPABILITY_MISSING"]),
        ([INACTIVE, {"diagnostic": "Nobody draws.", "missingFacets": []}], "infeasible", []),
    ]
    review = {"review": {"agents": {"executor": [gives(review="Good.")]}}}
    for drafts, why, last in cases:
        played = play(desk, MACHINE, *answers(*drafts), work={**WORK, **review})
        *before, rejected, generated = played.of(Emitted)
        assert [(e.name, e.attempt) for e in before] == [
            (name, n + 1)
            for n in range(len(drafts))
            for name in ("plan_requested", "plan_rejected")
        ][:-1]
        assert ([f.code for f in rejected.findings], rejected.attempt) == (last, len(drafts))
        assert rejected.stalled == (why == "stalled")
        assert ("Nobody draws." in rejected.reason) == (why == "infeasible")
        assert (generated.name, generated.attempt) == ("plan_generated", len(drafts))
        assert (generated.source, generated.fallback) == ("fallback", why)
        assert (codes(gate(played, "check_fallback")[0]), played.outcome) == (set(), "done")
