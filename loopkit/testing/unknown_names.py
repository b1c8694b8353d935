"""Unknown names in a scenario, each with its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language.load import Source
from loopkit.scenario import (
    CHILDREN,
    GAP,
    SUSPENDED,
    WAITING,
    Expect,
    Parts,
    PlayedAnswer,
    Scenario,
)
from loopkit.testing.child_keys import misnamed_children
from loopkit.testing.playbill import Playbill

OF_CHILDREN = "state with children"

Unknown = tuple[DocPath, bool, str, str, Iterable[str]]
"""Its place, whether it is a key, what it should name, the name itself, and the known names."""


def unknown_names(scenario: Scenario, bill: Playbill, source: Source) -> Iterator[Problem]:
    """A problem for each name that this machine does not have."""
    for path, is_key, kind, name, known in _unknown(scenario, bill):
        remedy = did_you_mean(name, known) or "the machine has none"
        message = f"the machine has no {kind} `{name}`"
        code = f"unknown-{kind.replace(' ', '-')}"
        yield source.problem(path, code, message, help=remedy, key=is_key)
    for path, message, remedy in misnamed_children(scenario, bill):
        yield source.problem(path, "wrong-children", message, help=remedy, key=True)


def _unknown(scenario: Scenario, bill: Playbill) -> Iterator[Unknown]:
    yield from _in_parts((), scenario, bill)
    for name, case in (scenario.cases or {}).items():
        at: DocPath = ("cases", name)
        yield from _in_parts(at, case, bill)
        if case.expect is not None:
            yield from _in_expectations((*at, "expect"), case.expect, bill, bill.machine.finals)


def _in_parts(at: DocPath, parts: Parts, bill: Playbill) -> Iterator[Unknown]:
    yield from _keys((*at, "agents"), "agent", parts.agents, bill.machine.agents)
    yield from _keys((*at, "commands"), "command", parts.commands, bill.commands)
    yield from _keys((*at, "answers"), "question", parts.answers, bill.askers)
    yield from _keys((*at, CHILDREN), OF_CHILDREN, parts.children, bill.children)
    for agent, role in parts.agents.items():
        if isinstance(role, Mapping) and agent in bill.machine.agents:
            places = bill.places(agent)
            yield from _keys((*at, "agents", agent), "place", role, places)
    for state, answers in parts.answers.items():
        if state in bill.askers:
            yield from _choices((*at, "answers", state), answers, bill.askers[state].choices)
    for said in parts.in_children:
        if said.state in bill.children:
            yield from _in_parts((*at, *said.at), said.said, bill.children[said.state])


def _choices(
    at: DocPath, answers: Iterable[PlayedAnswer], known: Iterable[str]
) -> Iterator[Unknown]:
    for index, answer in enumerate(answers):
        if answer.choice is not None and answer.choice not in known:
            yield (*at, index, "choice"), False, "choice", answer.choice, known


def _in_expectations(
    at: DocPath, expect: Expect, bill: Playbill, outcomes: Iterable[str]
) -> Iterator[Unknown]:
    states = tuple(bill.machine.states)
    ends = (*outcomes, WAITING, SUSPENDED)
    yield from _one((*at, "outcome"), "outcome", expect.outcome, ends)
    yield from _steps((*at, "path"), "state", expect.path or (), states)
    yield from _steps((*at, "kept"), "state", expect.kept or (), states)
    yield from _steps((*at, "events"), "event", expect.events or (), bill.emitted)
    agents, judges = tuple(bill.machine.agents), tuple(bill.judges)
    for key, kind, known in (
        ("verdicts", "validate state", judges),
        ("revisions", "revised state or edge", bill.revised),
        ("calls", "agent", bill.called),
        ("calls_at_most", "agent", bill.called),
        ("artifacts", "artifact", tuple(bill.graph.artifacts)),
        (CHILDREN, OF_CHILDREN, bill.children),
    ):
        yield from _keys((*at, key), kind, getattr(expect, key) or {}, known)
    for key, part, kind, known in (
        ("findings", "state", "validate state", judges),
        ("findings", "validator", "validator", (*bill.validators, "artifact")),
        ("feedback", "to", "addressee", bill.feedback_receivers),
        ("prompts", "agent", "agent", agents),
        ("prompts", "state", "state", states),
        ("prompts", "validator", "validator", bill.validators),
    ):
        for index, item in enumerate(getattr(expect, key) or ()):
            yield from _one((*at, key, index, part), kind, getattr(item, part), known)
    for one in expect.in_children:
        if one.state in bill.children:
            here, ends = (*at, *one.at), bill.outcomes(one.state)
            yield from _in_expectations(here, one.said, bill.children[one.state], ends)


def _keys(at: DocPath, kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Unknown]:
    for name in names:
        if name not in known:
            yield (*at, name), True, kind, name, known


def _steps(at: DocPath, kind: str, names: Iterable[str], known: Iterable[str]) -> Iterator[Unknown]:
    for index, name in enumerate(names):
        if name != GAP:
            yield from _one((*at, index), kind, name, known)


def _one(at: DocPath, kind: str, name: Any, known: Iterable[str]) -> Iterator[Unknown]:
    if name is not None and name not in known:
        yield at, False, kind, name, known
