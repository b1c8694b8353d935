"""What a move makes of what a configuration holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from loopkit.bounds.contexts import number
from loopkit.bounds.moves import Move
from loopkit.bounds.variables import THEN, Values, Variable, Variables
from loopkit.definition import HumanState
from loopkit.graph import Edge, artifact_of


@dataclass(frozen=True, slots=True)
class Step:
    """A move, as changes by position: from what its source holds to what its target holds."""

    picked: tuple[int, ...]
    """For each value of the target, where it stands in the source."""
    set: tuple[tuple[int, object], ...] = ()
    """Target positions with their new values; `resets` are among them."""
    raised: tuple[tuple[int, int | None], ...] = ()
    """Target positions that go up by one, up to so much."""
    written: tuple[tuple[int, int, int], ...] = ()
    """A version in the target, how often its author had worked in the source, and up to what."""
    begun: tuple[int, ...] = ()
    """Target positions that are 1 at least."""
    judged: tuple[tuple[int, int], ...] = ()
    """Target positions at which the current version counts as judged, and up to what is counted."""
    aged: tuple[int, ...] = ()
    """Target positions at which a version that counts as judged becomes an earlier one."""
    restored: tuple[int, ...] = ()
    """Versions that may become any earlier one, because a person was shown the best."""

    def after(self, held: Values) -> Iterator[Values]:
        """What the target may hold: one, unless versions are restored."""
        values = [held[index] for index in self.picked]
        for position, value in self.set:
            values[position] = value
        for position, most in self.raised:
            raised = number(values[position]) + 1
            values[position] = raised if most is None else min(raised, most)
        for position, works, most in self.written:
            values[position] = min(number(held[works]) + 1, most)
        for position in self.begun:
            values[position] = values[position] or 1
        for position, most in self.judged:
            values[position] = min(number(values[position]) | 1, most)
        for position in self.aged:
            values[position] = number(values[position]) + 1 & ~1
        yield tuple(values)
        if self.restored:
            yield from self._earlier(values)

    def _earlier(self, values: list[object]) -> Iterator[Values]:
        current = tuple(values)
        versions = [range(1, number(values[position]) + 1) for position in self.restored]
        for chosen in product(*versions):
            for position, version in zip(self.restored, chosen, strict=True):
                values[position] = version
            if tuple(values) != current:
                yield tuple(values)


def step_of(variables: Variables, move: Move, edge: Edge) -> Step:
    """The changes that a move over an edge makes."""
    source, position = variables.places[edge.source], variables.places[edge.target]

    def placed(changed: Iterable[Variable]) -> tuple[int, ...]:
        return tuple(position[v] for v in changed if v in position)

    return Step(
        picked=tuple(source[variable] for variable in position),
        set=tuple((position[v], value) for v, value in _set(move, edge) if v in position),
        raised=tuple(
            (position[v], variables.most.get(v)) for v in _raised(move, edge) if v in position
        ),
        written=tuple(
            (position[v], source[Variable("works", edge.source)], variables.most[v])
            for v in _written(variables, move, edge)
            if v in position
        ),
        begun=placed(_begun(variables, edge)),
        judged=tuple(
            (position[v], 2 * variables.judged_before(v.name))
            for v in _judged(move, edge)
            if v in position
        ),
        aged=placed(_aged(variables, move, edge)),
        restored=placed(_restored(variables, edge)),
    )


def _set(move: Move, edge: Edge) -> Iterator[tuple[Variable, object]]:
    yield from move.kept
    for counter in edge.resets:
        yield Variable("counter", counter), 0
    if move.event == "limit":
        yield THEN, 1


def _raised(move: Move, edge: Edge) -> Iterator[Variable]:
    for counter in edge.counters:
        yield Variable("counter", counter)
    if _is_completed(move):
        yield Variable("works", edge.source)


def _is_completed(move: Move) -> bool:
    return move.event in ("done", "content")


def _artifact(variables: Variables, move: Move, edge: Edge) -> str | None:
    """The artifact of which a move brings a new version."""
    return artifact_of(variables.graph.machine, edge.source) if _is_completed(move) else None


def _written(variables: Variables, move: Move, edge: Edge) -> Iterator[Variable]:
    artifact = _artifact(variables, move, edge)
    if artifact is not None:
        yield Variable("version", artifact)


def _judged(move: Move, edge: Edge) -> Iterator[Variable]:
    if move.is_judged:
        yield Variable("judged", edge.source)


def _begun(variables: Variables, edge: Edge) -> Iterator[Variable]:
    state = variables.graph.states[edge.source]
    if isinstance(state, HumanState) and state.edit:
        yield Variable("version", state.edit)


def _aged(variables: Variables, move: Move, edge: Edge) -> Iterator[Variable]:
    artifact = _artifact(variables, move, edge)
    for name in variables.judging.get(artifact or "", ()):
        yield Variable("judged", name)


def _restored(variables: Variables, edge: Edge) -> Iterator[Variable]:
    state = variables.graph.states[edge.source]
    if isinstance(state, HumanState) and state.pick == "best" and not edge.back:
        for artifact in variables.graph.artifacts:
            yield Variable("version", artifact)
