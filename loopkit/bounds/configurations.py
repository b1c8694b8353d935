"""All configurations that a run can come to, each with the ways out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from loopkit.bounds.contexts import cap_of, number
from loopkit.bounds.moves import Move, Moves, Ways, merged
from loopkit.bounds.steps import Step, step_of
from loopkit.bounds.variables import Values, Variable
from loopkit.definition import FinalState
from loopkit.graph import Edge
from loopkit.rows import Row

END = -1
"""Where a suspended run goes: nowhere."""
Configuration = tuple[str, Values]
Arc = tuple[Move, int]
"""A way out, and the number of the configuration that it leads to, or END."""


class TooMany(Exception):
    """There are more configurations than may be looked at."""


@dataclass(frozen=True, slots=True)
class Dead:
    """A configuration with a row for which no transition is enabled."""

    at: int
    row: Row
    is_sure: bool


@dataclass(slots=True)
class Explored:
    """The graph of configurations; they are numbered in the order in which they were found."""

    found: list[Configuration] = field(default_factory=list)
    arcs: list[tuple[Arc, ...]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
    binding: set[str] = field(default_factory=set)
    spent: dict[str, int] = field(default_factory=dict)
    """The most that was spent of each counter."""
    filled: set[str] = field(default_factory=set)
    """Counters that were used up."""
    closed: set[str] = field(default_factory=set)
    """Back edges that had no room when their state decided."""


class Explorer:
    """Goes from configuration to configuration, each once."""

    def __init__(self, moves: Moves, most: int) -> None:
        self._moves = moves
        self._variables = moves.variables
        self._graph = moves.variables.graph
        self._most = most
        self._numbers: dict[Configuration, int] = {}
        self._explored = Explored()
        self._steps: dict[int, Step] = {}
        self._merged: dict[tuple[int, ...], Move] = {}

    def explored(self) -> Explored:
        """The whole graph; raises TooMany above the number that may be looked at."""
        start = self._graph.machine.start
        for values in self._variables.starts():
            held = tuple(values.get(variable, 0) for variable in self._variables.at[start])
            self._explored.starts.append(self._number((start, held)))
        for index, (name, held) in enumerate(self._explored.found):
            self._explored.arcs.append(tuple(self._arcs(index, name, held)))
        return self._explored

    @property
    def so_far(self) -> Explored:
        """What was found before there were too many; the last ones have no ways out in it."""
        return self._explored

    def _number(self, configuration: Configuration) -> int:
        known = self._numbers.get(configuration)
        if known is None:
            known = self._numbers[configuration] = len(self._explored.found)
            if known >= self._most:
                raise TooMany
            self._explored.found.append(configuration)
        return known

    def _arcs(self, index: int, name: str, held: Values) -> Iterator[Arc]:
        if isinstance(self._graph.states[name], FinalState):
            return
        values = dict(zip(self._variables.at[name], held, strict=True))
        ways = self._moves.of(name, values)
        if ways.stuck is not None:
            self._explored.dead.append(Dead(index, ways.stuck, ways.is_surely_stuck))
        self._explored.binding |= ways.binding
        self._explored.closed.update(self._closed(name, values, ways))
        reached: dict[tuple[str, Edge | None, int], list[Move]] = {}
        for move in ways.moves:
            for target in self._targets(move, held, values):
                reached.setdefault((move.event, move.edge, target), []).append(move)
        for (_, _, target), moves in reached.items():
            yield self._one(moves), target

    def _closed(self, name: str, values: Mapping[Variable, object], ways: Ways) -> Iterator[str]:
        """The back edges without room, of those that the state's work can come to."""
        events = {move.event for move in ways.moves}
        for edge in self._graph.outgoing[name]:
            if edge.event in events and not self._has_room(edge, values):
                yield edge.id

    def _has_room(self, edge: Edge, values: Mapping[Variable, object]) -> bool:
        return all(
            number(values[Variable("counter", counter)]) < cap_of(self._variables, counter)(values)
            for counter in edge.counters
        )

    def _targets(
        self, move: Move, held: Values, values: Mapping[Variable, object]
    ) -> Iterator[int]:
        if move.edge is None:
            yield END
            return
        self._count(move, values)
        for target in self._step(move, move.edge).after(held):
            yield self._number((move.edge.target, target))

    def _one(self, moves: list[Move]) -> Move:
        """Moves that leave nothing different for later, as one."""
        if len(moves) == 1:
            return moves[0]
        key = tuple(map(id, moves))
        if key not in self._merged:
            self._merged[key] = merged(moves)
        return self._merged[key]

    def _step(self, move: Move, edge: Edge) -> Step:
        # Moves live as long as the explorer does, so that their ids are theirs alone.
        known = self._steps.get(id(move))
        if known is None:
            known = self._steps[id(move)] = step_of(self._variables, move, edge)
        return known

    def _count(self, move: Move, values: Mapping[Variable, object]) -> None:
        """Note how far the counters of a back edge have come."""
        for counter in move.edge.counters if move.edge else ():
            reset = move.edge is not None and counter in move.edge.resets
            spent = 1 if reset else number(values[Variable("counter", counter)]) + 1
            self._explored.spent[counter] = max(spent, self._explored.spent.get(counter, 0))
            if spent == cap_of(self._variables, counter)(values):
                self._explored.filled.add(counter)
