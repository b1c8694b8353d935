"""Plans of states: the moves for the bits that a state reads, as changes of bits.

A packed configuration is one whole number in which each variable has its bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

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
    granted,
    number,
    region_in,
)
from loopkit.values import Mutable, Value


class Change(NamedTuple):
    """The effect of a move on the held bits: which stay, which are set, and what is added."""

    target: str = ""
    """Empty where the run is suspended."""
    stays: int = 0
    comes: int = 0
    spends: int = 0
    """The number that is added for counters that are read only for their room."""

    def after(self, held: int) -> int:
        return (held & self.stays | self.comes) + self.spends


class Plan(Value, frozen=True):
    """The moves of a state and their changes, for the values that it reads and changes."""

    moves: tuple[Move, ...] = ()
    changes: tuple[Change, ...] = ()
    ways: StateMoves = StateMoves(())
    spending: tuple[int, int] = (0, 0)
    """The bits of the counters that some move spends and that are read only for their room, and
    one unit of each."""


class Plans:
    """The plans of all states, each computed once for the bits that decide it."""

    def __init__(self, moves: Moves, most_parts: int = MOST_PARTS) -> None:
        self.moves = moves
        self.variables = variables = moves.variables
        self._graph = graph = variables.graph
        self.packing = packing = Packing(variables)
        self._splitting = Splitting(variables, most_parts)
        self._live = live(variables, packing)
        self._deciding = {name: tuple(self._decides(name)) for name in graph.states}
        self._bits = {name: packing.mask(some) for name, some in self._deciding.items()}
        """The bits of each state that decide how a run goes on from there."""
        by_room = [counter for counter in variables.by_room if counter in packing]
        self._full = {counter.name: packing.is_full(counter) for counter in by_room}
        counted = packing.mask(by_room) - sum(self._full.values())
        self._asked = {name: bits & ~counted for name, bits in self._bits.items()}
        """The bits among them by which the moves of a state differ."""
        self._filled: set[str] = set()
        """Counters that some run uses up, and the bits of others."""
        self._spent = 0
        self.closed: set[str] = set()
        """Back edges that had no room when their state decided."""
        self._known: dict[str, dict[int, Plan]] = {name: {} for name in graph.states}
        self._split: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in graph.states}
        self._merged: dict[tuple[int, ...], Move] = {}

    def of(self, name: str, held: int) -> Plan:
        """The plan of a state in a configuration that holds these bits."""
        known, key = self._known[name], held & self._asked[name]
        plan = known.get(key)
        if plan is None:
            plan = known[key] = self._plan(name, key)
        bits, ones = plan.spending
        self._spent |= (held & bits) + ones
        return plan

    def is_used_up(self, counter: str) -> bool:
        """Whether some explored run uses up a counter that is held."""
        return counter in self._filled or bool(self._spent & self._full.get(counter, 0))

    def parts(self, name: str, held: int) -> list[int]:
        """The parts of a configuration after its state has split inputs."""
        if not self._splitting.reads[name]:
            return [held]
        known, key = self._split[name], held & self._bits[name]
        if key not in known:
            values = self.packing.unpack(key, self._deciding[name])
            parts = self._splitting.parts(name, values)
            known[key] = tuple(map(self.packing.pack, parts))
        rest = held - key
        return [rest | part for part in known[key]]

    def bits_of(self, name: str, values: Values) -> int:
        """The bits of a configuration with these values; others are as at the start of a run."""
        variables, held = self.variables, 0
        for variable in {v for read in variables.read.values() for v in read}:
            value = values.get(variable, variables.start(variable))
            most = variables.largest(variable)
            known = value if most is None else min(number(value), most)
            held |= self.packing.pack({variable: known})
        return held & self._live[name]

    def values(self, name: str, held: int) -> dict[Variable, object]:
        """The values in a configuration that its state reads or changes."""
        return self.packing.unpack(held, self._deciding[name])

    def _decides(self, name: str) -> Iterator[Variable]:
        live_here = self._live[name]
        for variable in dict.fromkeys(
            (*self.variables.read[name], *variables_updated(self.variables, name))
        ):
            if self.packing.mask((variable,)) & live_here:
                yield variable

    def _plan(self, name: str, key: int) -> Plan:
        if self._graph.states[name].ends:
            return Plan()
        values = self.packing.unpack(key, self._deciding[name])
        ways = self.moves.of(name, values)
        self.closed |= ways.closed
        reached: dict[tuple[object, ...], tuple[list[Move], Change]] = {}
        for move in ways.moves:
            counters = move.edge.counters if move.edge else ()
            counted = self.variables.counted.intersection(counters)
            self._filled.update(one for one in counted if self._is_last(move, one, values))
            for change in self._changes(move, values):
                way = move.event, move.edge.id if move.edge else "", move.is_spared
                reached.setdefault((*way, change), ([], change))[0].append(move)
        moves = tuple(self._one(moves) for moves, _ in reached.values())
        edges = (move.edge for move in moves if move.edge)
        spent = {counter for edge in edges for counter in self._going_up(edge)}
        spending = self.packing.mask(spent), sum(map(self.packing.one, spent))
        return Plan(moves, tuple(change for _, change in reached.values()), ways, spending)

    def _one(self, moves: list[Move]) -> Move:
        if len(moves) == 1:
            return moves[0]
        key = tuple(map(id, moves))
        if key not in self._merged:
            self._merged[key] = merge_moves(moves)
        return self._merged[key]

    def _changes(self, move: Move, values: Values) -> Iterator[Change]:
        edge = move.edge
        if edge is None:
            yield Change()
            return
        live_ahead = self._live[edge.target]
        going_up = self._going_up(edge)
        for new in changes_of(self.variables, move, edge, values):
            changed = {v: value for v, value in new.items() if v not in going_up}
            held = {v: value for v, value in changed.items() if self._is_new(v, value, values)}
            stays = live_ahead & ~self.packing.mask(held)
            comes = self.packing.pack(held) & live_ahead
            spends = sum(map(self.packing.one, going_up)) & live_ahead
            yield Change(edge.target, stays, comes, spends)

    def _going_up(self, edge: Edge) -> list[Variable]:
        """The counters that an edge spends and that are read only for their room."""
        spent = (Variable("counter", c) for c in edge.counters if c in self._full)
        return [counter for counter in spent if counter.name not in edge.resets]

    def _is_new(self, variable: Variable, value: object, values: Values) -> bool:
        """Whether a move changes a held value; a count may be at its maximum."""
        is_known = variable in values and variable not in self.variables.by_room
        return variable in self.packing and not (is_known and values[variable] == value)

    def _is_last(self, move: Move, counter: str, values: Values) -> bool:
        """Whether surely nothing may be left of a counter after a move that spends it."""
        if counter in self.variables.rooms:
            return granted(region_in(values, Variable("room", counter), ()))[0] <= 1
        reset = move.edge is not None and counter in move.edge.resets
        spent = 0 if reset else number(values[Variable("counter", counter)])
        cap = Variable("input", str(self.variables.inputs.caps[counter]))
        return granted(region_in(values, cap, self.variables.inputs.cap(counter)))[0] <= spent + 1


WIDTH = 16
"""The number of bits of a value that is not a count."""


class TooManyValues(Exception):
    """A variable has more values than fit into its bits."""


class _Field(Mutable):
    """The bits of one variable; a variable that is not held has the value 0."""

    shift: int
    mask: int
    least: int
    """The code of a count of 0, chosen so that the highest bit is set when the count is full."""
    values: list[object] | None
    """The value of each code, for a variable that is not a count."""
    codes: dict[tuple[type, object], int]

    def bits(self, value: object) -> int:
        if self.values is None:
            assert isinstance(value, int)
            return value + self.least << self.shift
        key = (type(value), value)
        code = self.codes.get(key)
        if code is None:
            code = self.codes[key] = len(self.values)
            if code >= 1 << WIDTH:
                raise TooManyValues
            self.values.append(value)
        return code << self.shift

    def value(self, held: int) -> object:
        code = (held & self.mask) >> self.shift
        return max(code - self.least, 0) if self.values is None else self.values[code]


class Packing:
    """The bits of each variable and their meaning."""

    def __init__(self, variables: Variables) -> None:
        self._fields: dict[Variable, _Field] = {}
        at = 0
        for variable in dict.fromkeys(v for read in variables.read.values() for v in read):
            most = variables.largest(variable)
            width = WIDTH if most is None else max(most.bit_length(), 1)
            values: list[object] | None = [None] if most is None else None
            least = 0
            if most is not None and variable in variables.by_room:
                width = most.bit_length() + 1
                least = (1 << most.bit_length()) - most
            self._fields[variable] = _Field(at, ((1 << width) - 1) << at, least, values, {})
            at += width

    def __contains__(self, variable: Variable) -> bool:
        return variable in self._fields

    def mask(self, variables: Iterable[Variable]) -> int:
        """All bits of some variables; a variable that is never held has none."""
        mask = 0
        for variable in variables:
            mask |= self._fields[variable].mask if variable in self._fields else 0
        return mask

    def pack(self, values: Values) -> int:
        return sum(self._fields[variable].bits(value) for variable, value in values.items())

    def unpack(self, held: int, variables: Iterable[Variable]) -> dict[Variable, object]:
        return {variable: self._fields[variable].value(held) for variable in variables}

    def one(self, variable: Variable) -> int:
        """The lowest bit of a variable."""
        return 1 << self._fields[variable].shift

    def is_full(self, variable: Variable) -> int:
        """The highest bit of a counter that is read only for its room: set if it has none."""
        mask = self._fields[variable].mask
        return mask & ~(mask >> 1)


def live(variables: Variables, packing: Packing) -> Mapping[str, int]:
    """For each state, the bits that it or a state ahead reads."""
    later = {name: packing.mask(some) for name, some in variables.read.items()}
    found = packing.mask((FOUND,))
    judges = variables.graph.judges
    # Each report replaces FOUND, so nothing reads the previous value behind a judge.
    passing = [
        (edge, ~found if edge.source in judges and edge.event != "limit" else ~0)
        for edge in reversed(variables.graph.edges)
    ]
    before = dict[str, int]()
    while before != later:
        before = dict(later)
        for edge, passed_on in passing:
            later[edge.source] |= later[edge.target] & passed_on
    return later
