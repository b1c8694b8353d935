"""Plans of states: the moves for the values that a state reads, as changes of what is held.

A configuration holds a tuple of the values of all that its state, or a state ahead, reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter

from loopkit.machine.edges import Edge
from loopkit.proof.bounds.moves import (
    Move,
    Moves,
    StateMoves,
    changes_of,
    merge_moves,
    variables_updated,
)
from loopkit.proof.bounds.splitting import MOST_PARTS, Splitting
from loopkit.proof.bounds.variables import (
    FOUND,
    Values,
    Variable,
    Variables,
    number,
)
from loopkit.values import Value

Held = tuple[object, ...]


class Change(Value, frozen=True, dict=True):
    """The effect of a move: each value is held already, is one more than one held, or is new."""

    target: str = ""
    """Empty where the run is suspended."""
    order: tuple[int, ...] = ()
    """The place of each value of the target: among those that are held, then those that are one
    more, then those that are new."""
    spends: tuple[int, ...] = ()
    """The places of the counters that are read only for their room and of which it spends one."""
    comes: Held = ()

    def after(self, held: Held) -> Held:
        spent = (number(held[at]) + 1 for at in self.spends)
        return self._pick((*held, *spent, *self.comes))

    @cached_property
    def _pick(self) -> Callable[[Held], Held]:
        if len(self.order) > 1:
            return itemgetter(*self.order)
        return lambda values: tuple([values[at] for at in self.order])


class Plan(Value, frozen=True):
    """The moves of a state and their changes, for the values that it reads and changes."""

    moves: tuple[Move, ...] = ()
    changes: tuple[Change, ...] = ()
    ways: StateMoves = StateMoves(())


class Plans:
    """The plans of all states, each computed once for the values that decide it."""

    def __init__(self, moves: Moves, most_parts: int = MOST_PARTS) -> None:
        self.moves = moves
        self.variables = variables = moves.variables
        self._graph = graph = variables.graph
        self._splitting = Splitting(variables, most_parts)
        self._live = {name: tuple(some) for name, some in live(variables).items()}
        self._places = {
            name: {variable: at for at, variable in enumerate(some)}
            for name, some in self._live.items()
        }
        self._deciding = {name: tuple(self._decides(name)) for name in graph.states}
        self._asked = {
            name: [(self._places[name][v], variables.by_room.get(v)) for v in some]
            for name, some in self._deciding.items()
        }
        """By state, the places of these variables, and the caps of those read for their room."""
        self.closed: set[str] = set()
        """Back edges that had no room when their state decided."""
        self._known: dict[str, dict[Held, Plan]] = {name: {} for name in graph.states}
        self._split: dict[str, dict[Held, list[Held]]] = {name: {} for name in graph.states}

    def of(self, name: str, held: Held) -> Plan:
        """The plan of a state in a configuration that holds these values."""
        key = tuple([
            held[at] if cap is None else cap if held[at] == cap else 0
            for at, cap in self._asked[name]
        ])  # fmt: skip
        plan = self._known[name].get(key)
        if plan is None:
            plan = self._known[name][key] = self._plan(name, key)
        return plan

    def parts(self, name: str, held: Held) -> list[Held]:
        """The parts of a configuration after its state has split inputs."""
        if not self._splitting.reads[name]:
            return [held]
        places, known = self._places[name], self._split[name]
        deciding = self._deciding[name]
        key = tuple([held[places[variable]] for variable in deciding])
        if key not in known:
            parts = self._splitting.parts(name, dict(zip(deciding, key, strict=True)))
            known[key] = [tuple(part[variable] for variable in deciding) for part in parts]
        if known[key] == [key]:
            return [held]
        values = dict(zip(self._live[name], held, strict=True))
        parts = (values | dict(zip(deciding, part, strict=True)) for part in known[key])
        return [tuple(part.values()) for part in parts]

    def start(self, name: str, values: Values) -> Held:
        """What is held in a configuration with these values; others are as at a run's start."""
        return tuple(self._value(variable, values) for variable in self._live[name])

    def _value(self, variable: Variable, values: Values) -> object:
        value = values.get(variable, self.variables.start(variable))
        most = self.variables.largest(variable)
        return value if most is None else min(number(value), most)

    def values(self, name: str, held: Held) -> dict[Variable, object]:
        """The values in a configuration."""
        return dict(zip(self._live[name], held, strict=True))

    def _decides(self, name: str) -> Iterator[Variable]:
        """The variables of a state that decide how a run goes on from there."""
        variables = self.variables
        known = dict.fromkeys((*variables.read[name], *variables_updated(variables, name)))
        return (variable for variable in known if variable in self._places[name])

    def _plan(self, name: str, key: Held) -> Plan:
        if self._graph.states[name].ends:
            return Plan()
        values = dict(zip(self._deciding[name], key, strict=True))
        ways = self.moves.of(name, values)
        self.closed |= ways.closed
        reached: dict[tuple[object, ...], tuple[list[Move], Change]] = {}
        for move in ways.moves:
            for change in self._changes(move, values):
                way = move.event, move.edge.id if move.edge else "", move.is_spared
                reached.setdefault((*way, change), ([], change))[0].append(move)
        moves = tuple(merge_moves(moves) for moves, _ in reached.values())
        return Plan(moves, tuple(change for _, change in reached.values()), ways)

    def _changes(self, move: Move, values: Values) -> Iterator[Change]:
        edge = move.edge
        if edge is None:
            yield Change()
            return
        places = self._places[edge.source]
        going_up = [v for v in self._going_up(edge) if v in self._places[edge.target]]
        spends = tuple(places[variable] for variable in going_up)
        for new in changes_of(self.variables, move, edge, values):
            order: list[int] = []
            comes: list[object] = []
            for variable in self._live[edge.target]:
                if variable in going_up:
                    order.append(len(places) + going_up.index(variable))
                elif variable in places and not self._is_new(variable, new, values):
                    order.append(places[variable])
                else:
                    order.append(len(places) + len(spends) + len(comes))
                    comes.append(new.get(variable, self.variables.start(variable)))
            yield Change(edge.target, tuple(order), spends, tuple(comes))

    def _going_up(self, edge: Edge) -> Iterator[Variable]:
        """The counters that an edge spends and that are read only for their room."""
        spent = (Variable("counter", c) for c in edge.counters if c not in edge.resets)
        return (counter for counter in spent if counter in self.variables.by_room)

    def _is_new(self, variable: Variable, new: Values, values: Values) -> bool:
        """Whether a move changes a held value; a count may be at its maximum."""
        is_known = variable in values and variable not in self.variables.by_room
        return variable in new and not (is_known and values[variable] == new[variable])


def live(variables: Variables) -> Mapping[str, Mapping[Variable, None]]:
    """For each state, what it or a state ahead reads."""
    later = {name: dict.fromkeys(some) for name, some in variables.read.items()}
    judges = variables.graph.judges
    before = -1
    while before != (before := sum(map(len, later.values()))):
        for edge in reversed(variables.graph.edges):
            found = later[edge.source]
            # Each report replaces FOUND, so nothing reads the previous value behind a judge.
            is_replaced = edge.source in judges and edge.event != "limit" and FOUND not in found
            found |= later[edge.target]
            if is_replaced:
                found.pop(FOUND, None)
    return later
