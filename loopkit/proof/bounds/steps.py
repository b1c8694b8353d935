"""Steps: the change that a move makes to a configuration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from loopkit.machine.graph import Edge, artifact_of
from loopkit.proof.bounds.contexts import number
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.variables import THEN, Values, Variable, Variables


def changed_by(
    variables: Variables, move: Move, edge: Edge, values: Values
) -> Iterator[dict[Variable, object]]:
    """The new values of everything that a move over an edge changes.

    There is one way, unless a person was shown the best version: then it may become any earlier
    one. `values` has at least what the state reads and what `touched` names.
    """
    new = dict[Variable, object](move.kept)
    _count(variables, edge, values, new)
    if move.event == "limit":
        new[THEN] = 1
    if move.event in ("done", "content"):
        _complete(variables, edge.source, values, new)
    if move.is_judged:
        judged = Variable("judged", edge.source)
        most = 2 * variables.judged_before(edge.source)
        new[judged] = min(number(values.get(judged, 0)) | 1, most)
    state = variables.graph.states[edge.source]
    if state.edits is not None:
        written = Variable("version", state.edits)
        new[written] = values.get(written) or 1
    yield new
    if state.picks_best and not edge.back:
        yield from _restored(variables, values, new)


def touched(variables: Variables, name: str) -> Iterator[Variable]:
    """What a move out of a state changes in dependence on what it was."""
    state, artifact = variables.graph.states[name], artifact_of(variables.graph.machine, name)
    yield Variable("works", name)
    yield Variable("judged", name)
    for judging in variables.graph.judged.get(artifact or "", ()):
        yield Variable("judged", judging)
    if state.edits is not None or state.picks_best:
        for written in variables.graph.artifacts:
            yield Variable("version", written)


def _count(variables: Variables, edge: Edge, values: Values, new: dict[Variable, object]) -> None:
    for counter in edge.resets:
        if counter in variables.counted:
            new[Variable("counter", counter)] = 0
    for counter in edge.counters:
        if counter in variables.rooms:
            room = Variable("room", counter)
            left = values[room]
            assert isinstance(left, Region)
            new[room] = left.lowered()
        elif counter in variables.counted:
            spent = Variable("counter", counter)
            new[spent] = number(new.get(spent, values[spent])) + 1


def _complete(variables: Variables, name: str, values: Values, new: dict[Variable, object]) -> None:
    """Work that has brought something: one attempt more, and with it a version."""
    works = Variable("works", name)
    attempt = number(values.get(works, 0)) + 1
    new[works] = min(attempt, variables.most.get(works, attempt))
    artifact = artifact_of(variables.graph.machine, name)
    if artifact is None:
        return
    version = Variable("version", artifact)
    if version in variables.most:
        new[version] = min(attempt, variables.most[version])
    for judging in variables.graph.judged.get(artifact, ()):
        judged = Variable("judged", judging)
        # Where the current version was judged, that is an earlier one now.
        new[judged] = number(values.get(judged, 0)) + 1 & ~1


def _restored(
    variables: Variables, values: Values, new: dict[Variable, object]
) -> Iterator[dict[Variable, object]]:
    current = {
        version: number(new.get(version, values[version]))
        for artifact in variables.graph.artifacts
        if (version := Variable("version", artifact)) in values
    }
    for chosen in product(*(range(1, most + 1) for most in current.values())):
        if chosen != tuple(current.values()):
            yield {**new, **dict(zip(current, chosen, strict=True))}
