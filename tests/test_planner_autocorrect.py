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
from tests.planner import MACHINE, PLAN, draft, play, validated, without_tools
from tests.support import Desk, Played

BROKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no nodes": (
        {"nodes": [], "edges": []},
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
            "nodeStage": "writing",
            "capabilityId": "writer.SocialPostin",
        },
    ),
    "inactive": (
        draft(1, capabilityId="writer.LegacyBlog"),
        {
            "code": "CAPABILITY_INACTIVE",
            "message": 'The capability "writer.LegacyBlog" of stage "writing" is not active.',
            "severity": "error",
            "location": "nodes[1].capabilityId",
            "nodeStage": "writing",
            "capabilityId": "writer.LegacyBlog",
        },
    ),
    "missing": (
        draft(1, capabilityId=None),
        {
            "code": "CAPABILITY_MISSING",
            "message": 'The node of stage "writing" has to name a capabilityId, because it is of '
            "kind execution.",
            "severity": "error",
            "location": "nodes[1]",
            "nodeStage": "writing",
        },
    ),
    "unknown facet": (
        draft(1, outputFacets=["post", "poster"]),
        {
            "code": "UNKNOWN_FACET",
            "message": "nodes[1].outputFacets[1]: `poster` is not known in `input.catalogue` at "
            "`facets[].name`; did you mean `post`?",
            "severity": "error",
            "location": "nodes[1].outputFacets[1]",
            "nodeStage": "writing",
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
    "circle": (
        draft(edges=[("strategy", "post"), ("post", "strategy")]),
        {
            "code": "GRAPH_INVALID",
            "message": "the nodes form a cycle: post → strategy → post",
            "severity": "error",
        },
    ),
    "edge to nowhere": (
        draft(edges=[("strategy", "post"), ("post", "pst")]),
        {
            "code": "GRAPH_INVALID",
            "message": "edges[1]: there is no node `pst`; did you mean `post`?",
            "severity": "error",
            "location": "edges[1]",
        },
    ),
    "no producer before": (
        draft(edges=[]),
        {
            "code": "FACET_WITHOUT_PRODUCER",
            "message": "nodes[1].inputFacets[0]: no node before `post` gives `strategy`; "
            "`strategy` gives it, and does not come before",
            "severity": "error",
            "location": "nodes[1].inputFacets[0]",
            "nodeStage": "writing",
            "capabilityId": "writer.SocialPosting",
            "facet": "strategy",
        },
    ),
    "routed to nowhere": (
        draft(0, routing={"routes": [{"to": "posting", "condition": "true"}]}),
        {
            "code": "ROUTING_TARGET_UNKNOWN",
            "message": 'A routing leads to "posting", which is not a node.',
            "severity": "error",
            "location": "nodes[0].routing.routes[0].to",
        },
    ),
    "no instructions": (
        draft(1, instructions=[]),
        {
            "code": "NO_INSTRUCTIONS",
            "message": 'The node of stage "writing" says nothing about how to do it.',
            "severity": "warning",
            "location": "nodes[1]",
            "nodeStage": "writing",
            "capabilityId": "writer.SocialPosting",
        },
    ),
    "another shape": (
        {"nodes": [{"id": "a"}], "edges": []},
        {
            "code": "schema",
            "message": "plan: the answer breaks its schema: nodes[0]: 'stage' is a required "
            "property",
            "severity": "error",
        },
    ),
}
"""Drafts that are not as they should be, each with the diagnostic that its planner gets."""


AT_ONCE = 4
"""So many drafts fit in one attempt, and so many attempts in one run."""
SOME = [list(BROKEN)[start : start + AT_ONCE] for start in range(0, len(BROKEN), AT_ONCE)]


def diagnostics(played: Played) -> list[list[dict[str, Any]]]:
    """What each call of the tool gave."""
    keys = {event.key for event in played.of(Intended) if event.role == "tool"}
    told = [json.loads(event.text) for event in played.of(Replied) if event.key in keys]
    assert all(
        one["ok"] == all(d["severity"] == "warning" for d in one["diagnostics"]) for one in told
    )
    return [one["diagnostics"] for one in told]


def as_diagnostics(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """What a tool would tell of these findings."""
    names = ("code", "message", "severity", "location")
    return [
        {**one.item, **{name: getattr(one, name) for name in names if getattr(one, name)}}
        for one in findings
    ]


@pytest.mark.parametrize("kinds", SOME, ids="-".join)
def test_drafts_get_their_diagnostics_from_the_tool_and_in_events(
    kinds: list[str], desk: Desk
) -> None:
    played = play(desk, MACHINE, validated(PLAN, *(BROKEN[kind][0] for kind in kinds)))
    *found, last = diagnostics(played)
    assert [BROKEN[kind][1] in one for kind, one in zip(kinds, found, strict=True)] == [True] * 4
    assert last == []
    assert (played.outcome, played.state.attempts["plan"]) == ("done", 1)
    rejected = [event for event in played.of(Emitted) if event.name == "plan_rejected"]
    wrong = [one for one in found if any(each["severity"] == "error" for each in one)]
    assert [as_diagnostics(event.findings) for event in rejected] == wrong


@pytest.mark.parametrize("kinds", SOME, ids="-".join)
def test_the_gate_finds_in_drafts_what_the_tool_does(kinds: list[str], desk: Desk) -> None:
    wrong = [BROKEN[kind] for kind in kinds if BROKEN[kind][1]["severity"] == "error"]
    machine = without_tools(desk)
    played = play(
        desk,
        machine,
        *({"data": plan} for plan, _ in wrong),
        {"data": PLAN},
        retries={"initial": 4},
    )
    assert played.outcome == "done"
    *found, last = [as_diagnostics(r.findings) for r in played.reports if r.state == "check"]
    assert [one in told for (_, one), told in zip(wrong, found, strict=True)] == [True] * len(wrong)
    assert last == []
    prompts = played.prompts("planner")[1:]
    assert all(one["message"] in said for (_, one), said in zip(wrong, prompts, strict=True))


def test_a_capability_of_a_kind_that_needs_none_may_be_left_out(desk: Desk) -> None:
    branch = {"id": "branch", "stage": "choice", "kind": "branch"}
    plan = {"nodes": [*PLAN["nodes"], branch], "edges": PLAN["edges"]}
    assert play(desk, MACHINE, validated(plan)).result["work"]["branch"]["outcome"] == "passed"


def test_what_the_task_brings_along_needs_no_producer(desk: Desk) -> None:
    lone = {"nodes": [draft()["nodes"][1]], "edges": []}
    given = {"strategy": "Say when it sails."}
    played = play(desk, MACHINE, validated(lone), inputFacets=given)
    assert (diagnostics(played), played.outcome) == ([[]], "done")


def test_its_proof_is_exact_and_its_definition_without_a_warning() -> None:
    loaded = load(MACHINE)
    assert [p.message for p in check(loaded) if p.severity != "note"] == []
    bounds = explore(Analysis.of_machine(loaded.machine), measures=("runs",))
    assert bounds.configurations is not None
    assert (bounds.stuck, bounds.untaken, bounds.unfilled) == ((), (), {})
    assert bounds.runs.worst.total is not None
