"""Steps: the change that a move makes to a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from loopkit.language.guard.kleene import UNKNOWN
from loopkit.machine.edges import Edge
from loopkit.machine.graph import artifact_of
from loopkit.proof.bounds.contexts import number
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.regions import Region
from loopkit.proof.bounds.variables import FOUND, THEN, Values, Variable, Variables


def changes_of(
    variables: Variables, move: Move, edge: Edge, values: Values
) -> Iterator[dict[Variable, object]]:
    """The new values of everything that a move over an edge changes.

    There is one result, unless the best version becomes the current one, which may be any earlier
    one. `values` has at least the variables that the state reads and `variables_updated` names.
    """
    new = dict[Variable, object](move.kept)
    _count(variables, edge, values, new)
    _arrive(variables, edge, new)
    if move.event == "limit":
        new[THEN] = 1
    if move.event in ("done", "content") and not move.is_spared:
        _complete(variables, edge.source, values, new)
        _write(variables, edge.source, new, is_kept=move.event == "done")
    if edge.back:
        _require_work(variables, edge, new)
    if move.is_judged:
        judged = Variable("judged", edge.source)
        most = 2 * variables.versions_judged_before(edge.source)
        new[judged] = min(number(values.get(judged, 0)) | 1, most)
    state = variables.graph.states[edge.source]
    if state.edits is not None:
        written = Variable("version", state.edits)
        new[written] = values.get(written) or 1
    if edge.from_best and edge.origin is None:
        # The report of the version that counts again may have found something else.
        new[FOUND] = UNKNOWN
    yield new
    if edge.from_best or (state.picks_best and not edge.back):
        yield from _restore_best(variables, values, new)


def variables_updated(variables: Variables, name: str) -> Iterator[Variable]:
    """The variables whose new value after a move depends on their old one."""
    state = variables.graph.states[name]
    yield Variable("works", name)
    yield Variable("judged", name)
    for judging in variables.behind.get(name, ()):
        yield Variable("judged", judging)
    goes_back = any(edge.from_best for edge in variables.graph.outgoing[name])
    if state.edits is not None or state.picks_best or goes_back:
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
            new[room] = left.with_one_less()
        elif counter in variables.counted:
            spent, cap = Variable("counter", counter), variables.inputs.caps[counter]
            before = number(new.get(spent, values[spent]))
            new[spent] = before + 1
            bound = Variable("input", str(cap))
            if isinstance(region := values.get(bound), Region):
                new[bound] = region.above(before)


def _arrive(variables: Variables, edge: Edge, new: dict[Variable, object]) -> None:
    """Note the state from which the run comes, if it is read."""
    for name, source in ((edge.source, None), (edge.target, edge.source)):
        if Variable("before", name) in variables.read[name]:
            new[Variable("before", name)] = source


def _complete(variables: Variables, name: str, values: Values, new: dict[Variable, object]) -> None:
    """Count completed work: one more attempt, and a version of the artifact."""
    works = Variable("works", name)
    attempt = number(values.get(works, 0)) + 1
    new[works] = min(attempt, variables.most.get(works, attempt))
    artifact = artifact_of(variables.graph.machine, name)
    if artifact is None:
        return
    new[Variable("author", artifact)] = name
    version = Variable("version", artifact)
    if version in variables.most:
        new[version] = min(attempt, variables.most[version])
    for judging in variables.behind.get(name, ()):
        judged = Variable("judged", judging)
        # If the current version was judged, it is an earlier one now.
        new[judged] = number(values.get(judged, 0)) + 1 & ~1


def _write(variables: Variables, name: str, new: dict[Variable, object], *, is_kept: bool) -> None:
    """Note that only the last author of an artifact may keep it."""
    artifact = artifact_of(variables.graph.machine, name)
    for author in variables.graph.artifacts.get(artifact or "", ()):
        if author in variables.graph.keeping:
            new[Variable("kept", author)] = int(author == name and is_kept)


def _require_work(variables: Variables, edge: Edge, new: dict[Variable, object]) -> None:
    """Note that whoever receives the feedback has to work."""
    graph = variables.graph
    told: Iterable[str] = (edge.target,)
    if not graph.states[edge.target].reads_feedback:
        told = graph.artifacts.get(graph.states[edge.source].judges or "", ())
    for name in variables.graph.keeping.intersection(told):
        new[Variable("kept", name)] = 0


def _restore_best(
    variables: Variables, values: Values, new: dict[Variable, object]
) -> Iterator[dict[Variable, object]]:
    current = {
        version: number(new.get(version, values[version]))
        for artifact in variables.graph.artifacts
        if (version := Variable("version", artifact)) in values
    }
    authors = {Variable("author", artifact): None for artifact in variables.graph.artifacts}
    for chosen in product(*(range(1, most + 1) for most in current.values())):
        if chosen != tuple(current.values()):
            yield {**new, **authors, **dict(zip(current, chosen, strict=True))}
