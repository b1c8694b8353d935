"""`never-binds`: a cap, a budget or a limit that no run can reach, because others close first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import Bound
from loopkit.machine.asked import agents_called, may_call_tools
from loopkit.machine.edges import TOTAL, Edge, budget_key
from loopkit.proof.outcomes.domains import input_ranges

CODE = "never-binds"
MOST_CASES = 20_000
OF_CALLS = ("agent_calls", "tokens", "cost_usd")
Case = Mapping[str, int]
"""A value for each input that bounds a counter."""


def check_never_binds(subject: Subject) -> Iterator[Problem]:
    """A warning for each cap, budget and limit that nothing in a run can reach."""
    back = [edge for edge in subject.graph.edges if edge.back]
    cases = list(_cases(subject))
    for path, message in (*_of_counters(subject, back, cases), *_of_calls(subject)):
        remedy = "lower it, or delete it"
        yield subject.source.problem(path, CODE, message, help=remedy, severity="warning")


def _of_counters(
    subject: Subject, back: Sequence[Edge], cases: Sequence[Case]
) -> Iterator[tuple[DocPath, str]]:
    limits, caps = subject.machine.limits, subject.graph.caps
    bounds = (limits.revisions, *limits.budgets.values(), *caps.values())
    if not cases or any(bound not in cases[0] for bound in bounds if isinstance(bound, str)):
        # An unknown or unbounded input, which is reported elsewhere, or too many cases.
        return
    resetting = {counter for edge in back for counter in edge.resets}
    for name in limits.budgets:
        key = budget_key(name)
        sharing = [edge for edge in back if key in edge.counters]
        own = [_own(edge) for edge in sharing]
        if not sharing or not all(own) or resetting & {*own}:
            continue
        if all(_at(caps[key], case) >= _sum(caps, own, case) for case in cases):
            message = (
                f"the budget `{name}` is never used up: the caps of its edges are reached first"
            )
            yield ("limits", "budgets", name), message
    yield from _of_total(subject, back, cases, resetting)
    if "revisions" in limits.model_fields_set and not any(_is_default(subject, e) for e in back):
        yield ("limits", "revisions"), "no revise edge uses it"


def _of_total(
    subject: Subject, back: Sequence[Edge], cases: Sequence[Case], resetting: set[str]
) -> Iterator[tuple[DocPath, str]]:
    caps = subject.graph.caps
    if TOTAL not in caps:
        return
    if not resetting and all(
        _at(caps[TOTAL], case) >= _spendable(caps, back, case) for case in cases
    ):
        most = max(_spendable(caps, back, case) for case in cases)
        message = f"the total is never used up: all revise edges together allow at most {most}"
        yield ("limits", "total_revisions"), message
        return
    for path, bound in _narrower(subject, back):
        if all(_at(bound, case) > _at(caps[TOTAL], case) for case in cases):
            yield path, "it is above `limits.total_revisions`, which is reached first"


def _narrower(subject: Subject, back: Sequence[Edge]) -> Iterator[tuple[DocPath, Bound]]:
    """Every written bound of some edges, beside the total of all."""
    limits, caps = subject.machine.limits, subject.graph.caps
    for name, bound in limits.budgets.items():
        yield ("limits", "budgets", name), bound
    if "revisions" in limits.model_fields_set:
        yield ("limits", "revisions"), limits.revisions
    for edge in back:
        if (own := _own(edge)) and not _is_default(subject, edge):
            yield (*edge.path, "max"), caps[own]


def _spendable(caps: Mapping[str, Bound], back: Sequence[Edge], case: Case) -> int:
    """The number of revisions that all edges together grant, without the total."""
    budgets = {edge.counters[0] for edge in back if edge.counters[0].startswith(budget_key(""))}
    spent = 0
    for key in budgets:
        own = [_own(edge) for edge in back if key in edge.counters]
        most = _at(caps.get(key, 0), case)
        spent += min(most, _sum(caps, own, case)) if all(own) else most
    alone = [_own(edge) for edge in back if not budgets & {*edge.counters}]
    return spent + _sum(caps, alone, case)


def _sum(caps: Mapping[str, Bound], counters: Sequence[str], case: Case) -> int:
    return sum(_at(caps[counter], case) for counter in counters)


def _at(bound: Bound, case: Case) -> int:
    return case[bound] if isinstance(bound, str) else bound


def _own(edge: Edge) -> str:
    """The edge's own counter, if it has one."""
    return edge.id if edge.id in edge.counters else ""


def _is_default(subject: Subject, edge: Edge) -> bool:
    """Whether the cap of an edge is `limits.revisions`."""
    return bool(_own(edge)) and subject.source.document.node((*edge.path, "max")) is None


def _cases(subject: Subject) -> Iterator[Case]:
    """Every combination of the inputs that bound counters; None if there are too many."""
    known = input_ranges(subject.scope.input)
    limits = subject.machine.limits
    bounds = (limits.revisions, *limits.budgets.values(), *subject.graph.caps.values())
    named = {bound for bound in bounds if isinstance(bound, str)}
    ranges = {name: known[name] for name in sorted(named) if name in known}
    if prod(map(len, ranges.values())) <= MOST_CASES:
        for values in product(*ranges.values()):
            yield dict(zip(ranges, values, strict=True))


def _of_calls(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    limits = subject.machine.limits
    if limits.tool_calls is not None and not may_call_tools(subject.machine):
        yield ("limits", "tool_calls"), "no agent that writes has tools that it could call"
    if not agents_called(subject.machine):
        for name in OF_CALLS:
            if getattr(limits, name) is not None:
                yield ("limits", name), "no state asks an agent or a judge"
