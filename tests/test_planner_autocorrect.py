"""The planner that repairs its own draft: what it finds in drafts of each kind, end to end."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.engine.events import Emitted, Intended, Replied
from loopkit.engine.findings import Finding
from loopkit.language.load import load
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from tests.planner import MACHINE, PLAN, draft, play, validated
from tests.support import Desk, Played

BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no nodes": (
        {"nodes": []},
        {"code": "EMPTY_PLAN", "message": "The plan has no nodes.", "severity": "error"},
    ),
    "unknown": (
        draft(1, capabilityId="writer.SocialPostin"),
        {
            "code": "CAPABILITY_NOT_REGISTERED",
            "message": "nodes[1].capabilityId: `writer.SocialPostin` is not known in "
            "`input.catalogue` at `capabilities[].capabilityId`; "
            "did you mean `writer.SocialPosting`?",
            "severity": "error",
            "location": "nodes[1].capabilityId",
            "nodeStage": "post",
            "capabilityId": "writer.SocialPostin",
        },
    ),
    "inactive": (
        draft(1, capabilityId="writer.LegacyBlog"),
        {
            "code": "CAPABILITY_INACTIVE",
            "message": 'The capability "writer.LegacyBlog" of stage "post" is not active.',
            "severity": "error",
            "location": "nodes[1].capabilityId",
            "nodeStage": "post",
            "capabilityId": "writer.LegacyBlog",
        },
    ),
    "missing": (
        draft(1, capabilityId=None),
        {
            "code": "CAPABILITY_MISSING",
            "message": 'The node of stage "post" has to name a capabilityId, because it is of '
            "kind execution.",
            "severity": "error",
            "location": "nodes[1]",
            "nodeStage": "post",
        },
    ),
    "unknown facet": (
        draft(1, outputFacets=["post", "poster"]),
        {
            "code": "UNKNOWN_FACET",
            "message": "nodes[1].outputFacets[1]: `poster` is not known in `input.catalogue` at "
            "`facetCatalog`; did you mean `post`?",
            "severity": "error",
            "location": "nodes[1].outputFacets[1]",
            "nodeStage": "post",
            "capabilityId": "writer.SocialPosting",
            "facet": "poster",
        },
    ),
    "not covered": (
        draft(1, outputFacets=["review"]),
        {
            "code": "OUTPUT_FACET_UNCOVERED",
            "message": 'No node gives the facet "post", which the task asks for.',
            "severity": "error",
            "facet": "post",
        },
    ),
    "no producer before": (
        {"nodes": PLAN["nodes"][::-1]},
        {
            "code": "FACET_WITHOUT_PRODUCER",
            "message": "nodes[0].inputFacets[0]: no node before `post` gives `strategy`; "
            "`strategy` gives it, and does not come before",
            "severity": "error",
            "location": "nodes[0].inputFacets[0]",
            "nodeStage": "post",
            "capabilityId": "writer.SocialPosting",
            "facet": "strategy",
        },
    ),
    "routed to nowhere": (
        draft(0, routing={"routes": [{"to": "posting", "condition": "true"}]}),
        {
            "code": "ROUTING_TARGET_UNKNOWN",
            "message": 'A routing leads to "posting", which is not a stage.',
            "severity": "error",
            "location": "nodes[0].routing.routes[0].to",
        },
    ),
    "disallowed": (
        draft(1, stage="billing"),
        {
            "code": "STAGE_DISALLOWED",
            "message": 'The policies disallow a stage "billing".',
            "severity": "error",
            "location": "nodes[1].stage",
            "nodeStage": "billing",
        },
    ),
    "another shape": (
        {"nodes": [{"stage": "post"}]},
        {
            "code": "schema",
            "message": "`nodes[0].status` is missing",
            "severity": "error",
            "location": "nodes[0].status",
        },
    ),
}
"""Drafts that are not as they should be, each with the diagnostic that its planner gets."""


AT_ONCE = 5
"""So many retries a planner may have."""
SOME = [list(BROKEN)[start : start + AT_ONCE] for start in range(0, len(BROKEN), AT_ONCE)]
POLICIES = {"planner": {"directives": {"disallowStages": ["billing"]}}}


def diagnostics(played: Played) -> list[list[dict[str, Any]]]:
    """What each call of the tool gave."""
    keys = {event.key for event in played.of(Intended) if event.role == "tool"}
    told = [json.loads(event.text) for event in played.of(Replied) if event.key in keys]
    assert all(one["ok"] == (one["diagnostics"] == []) for one in told)
    return [one["diagnostics"] for one in told]


def as_diagnostics(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """What a tool would tell of these findings."""
    names = ("code", "message", "severity", "location")
    return [
        {**one.item, **{name: getattr(one, name) for name in names if getattr(one, name)}}
        for one in findings
    ]


@pytest.mark.parametrize("kinds", SOME, ids="-".join)
def test_drafts_get_their_diagnostics_from_the_tool_the_gate_and_in_events(
    kinds: list[str], desk: Desk
) -> None:
    attempts = validated(PLAN, *(BROKEN[kind][0] for kind in kinds))
    played = play(desk, MACHINE, *attempts, retries={"initial": 5}, policies=POLICIES)
    *found, last = diagnostics(played)
    assert [BROKEN[kind][1] in one for kind, one in zip(kinds, found, strict=True)] == [True] * len(
        kinds
    )
    assert last == []
    assert (played.outcome, played.state.attempts["plan"]) == ("done", len(attempts))
    told = [event for event in played.of(Emitted) if event.name == "plan_rejected"]
    assert [as_diagnostics(event.findings) for event in told] == found
    assert [event.attempt for event in told] == [*range(1, len(attempts))]
    assert [as_diagnostics(r.findings) for r in played.reports if r.state == "check"][:-1] == found
    again = played.asked("planner")[1].messages
    assert found[0][0]["message"] in str(again[-1].content)


def test_what_the_task_brings_along_needs_no_producer(desk: Desk) -> None:
    lone = {"nodes": [draft(1)["nodes"][1]]}
    given = {"strategy": "Say when it sails."}
    played = play(desk, MACHINE, *validated(lone), inputs=given)
    assert (diagnostics(played), played.outcome) == ([[]], "done")


def test_its_proof_is_exact_and_its_definition_without_a_warning() -> None:
    loaded = load(MACHINE)
    assert [p.message for p in check(loaded) if p.severity != "note"] == []
    bounds = explore(Analysis.of_machine(loaded.machine), measures=("runs",))
    assert bounds.configurations is not None
    assert (bounds.stuck, bounds.untaken, bounds.unfilled) == ((), (), {})
    assert bounds.runs.worst.total is not None
