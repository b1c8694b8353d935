"""`billed-after-limit`, `unbounded-input`, `unknown-input`: limits that do not limit."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import state_paths
from loopkit.checks.references import revise_edges
from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import Bound
from loopkit.language.datatypes import DataType, single_values

MOST_REVISIONS = 1000


def check_limit_target(subject: Subject) -> Iterator[Problem]:
    """No agent or judge works after `limits.then`, because the limit is used up there."""
    then = subject.machine.limits.then
    if then is None or then not in subject.machine.states:
        return
    way = state_paths.shortest_path(
        subject.graph, then, lambda name: bool(_request_text(subject, name)), lambda _: True
    )
    if way is not None:
        behind = f" (on the path {state_paths.arrows(way)})" if len(way) > 1 else ""
        request = _request_text(subject, way[-1])
        message = f"after a limit no agent may be called, but `{way[-1]}` {request}"
        remedy = "name a state from which only human, render, run and final states can be reached"
        path = ("limits", "then")
        yield subject.source.problem(path, "billed-after-limit", message + behind, help=remedy)


def _request_text(subject: Subject, name: str) -> str:
    """`asks the agent …` for a state that asks an agent or a judge; else empty."""
    agents = subject.machine.states[name].asks
    if agents:
        return f"asks the agent {' or '.join(map('`{}`'.format, agents))}"
    rules = subject.rules_at.get(name, ())
    judge = next((rule.asks for rule in rules if rule.asks), None)
    return f"asks the judge `{judge}`" if judge else ""


def check_bounds(subject: Subject) -> Iterator[Problem]:
    """An input that bounds revisions is a whole number with a minimum and a maximum."""
    for path, bound in _bounds(subject):
        if isinstance(bound, str):
            yield from _bound(subject, path, bound)


def _bounds(subject: Subject) -> Iterator[tuple[DocPath, Bound]]:
    limits = subject.machine.limits
    yield ("limits", "revisions"), limits.revisions
    if limits.total_revisions is not None:
        yield ("limits", "total_revisions"), limits.total_revisions
    for name, bound in limits.budgets.items():
        yield ("limits", "budgets", name), bound
    for path, edge in revise_edges(subject):
        if edge.max is not None:
            yield (*path, "max"), edge.max


def _bound(subject: Subject, path: DocPath, bound: str) -> Iterator[Problem]:
    datatype = dict(single_values(subject.scope.input, "input.")).get(bound)
    field = bound.rpartition(".")[2]
    remedy = f"declare it as `{field}: {{type: int, default: 2, minimum: 0, maximum: 5}}`"
    if datatype is None:
        known = single_values(subject.scope.input, "input.")
        choices = [name for name, inner in known if not _unfit(inner)]
        near = did_you_mean(bound, choices) if choices else remedy
        message = f"there is no input `{bound}`"
        yield subject.source.problem(path, "unknown-input", message, help=near)
    elif fault := _unfit(datatype):
        message = f"`{bound}` can't bound revising: {fault}"
        yield subject.source.problem(path, "unbounded-input", message, help=remedy)


def _unfit(datatype: DataType) -> str:
    """Why values of a type can't be a number of revisions; else empty."""
    if datatype.scalar != "int":
        return "it is not a whole number"
    if datatype.optional:
        return "it may be none"
    if datatype.minimum is None or datatype.maximum is None:
        missing = [end for end in ("minimum", "maximum") if getattr(datatype, end) is None]
        return f"it has no `{'` and no `'.join(missing)}`"
    if datatype.minimum < 0 or datatype.maximum > MOST_REVISIONS:
        return f"its values must lie between 0 and {MOST_REVISIONS}"
    return ""
