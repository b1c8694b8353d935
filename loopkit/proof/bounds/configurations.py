"""Configurations that a run can reach, each with its moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.packing import TooManyValues
from loopkit.proof.bounds.plans import Plan, Plans
from loopkit.proof.bounds.variables import Variable
from loopkit.proof.outcomes import Row
from loopkit.values import Mutable, Value, field

END = -1
"""The target of a suspended run."""
Configuration = tuple[str, int]
"""A state, and the packed values of its variables."""
Arc = tuple[Move, int]
"""A move, and the number of the configuration to which it leads, or END."""


class TooMany(Exception):
    """There are more configurations than may be explored."""


class Dead(Value, frozen=True):
    """A configuration with a row for which no transition is enabled."""

    at: int
    row: Row
    is_sure: bool


class Present(Value, frozen=True):
    """The present point of a run: its state, the values of its variables, its input."""

    state: str
    values: Mapping[Variable, object] = field(default_factory=dict)
    """Counts are not capped; regions are not among the values."""
    inputs: Mapping[str, object] = field(default_factory=dict)
    """By dotted name."""


class Explored(Mutable):
    """The graph of configurations, numbered in the order in which they were found."""

    plans: Plans
    found: list[Configuration] = field(default_factory=list)
    moves: list[tuple[Move, ...]] = field(default_factory=list)
    """The moves of each explored configuration; equal ones are usually the same tuple."""
    targets: list[Sequence[int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    dead: dict[tuple[str, bool], Dead] = field(default_factory=dict)
    """For each state, the first surely dead configuration and the first that may be."""

    def arcs(self, index: int) -> tuple[Arc, ...]:
        """The arcs out of a configuration; empty if it was not explored."""
        if index >= len(self.moves):
            return ()
        return tuple(zip(self.moves[index], self.targets[index], strict=True))

    def every_plan(self) -> Iterator[tuple[Move, ...]]:
        """The moves of all configurations; equal tuples are given once."""
        return iter({id(moves): moves for moves in self.moves}.values())


class Explorer:
    """Explores configurations, each once."""

    def __init__(self, plans: Plans, most: int, present: Present | None = None) -> None:
        """Starts where runs start, unless a `present` is given."""
        self.plans = plans
        self._present = present or Present(plans.variables.graph.machine.start)
        self._most = most
        self._numbers: dict[str, dict[int, int]] = {n: {} for n in plans.variables.graph.states}
        self._explored = Explored(plans)
        self._alike: dict[tuple[int, ...], tuple[Move, ...]] = {}

    def explore_all(self) -> Explored:
        """Explore the whole graph; raises TooMany above the number that may be explored."""
        explored = self._explored
        try:
            explored.starts = self.starts()
            for index, _ in enumerate(explored.found):
                moves, targets = self._look(index)
                explored.moves.append(moves)
                explored.targets.append(targets)
        except TooManyValues:
            raise TooMany from None
        return explored

    @property
    def so_far(self) -> Explored:
        """The graph as explored so far; the last configurations have no arcs in it yet."""
        return self._explored

    def starts(self) -> list[int]:
        """The configurations in which runs start."""
        name = self._present.state
        held = self.plans.bits_of(name, self._present.values)
        return [self._number(name, part) for part in self.plans.parts(name, held)]

    def state(self, index: int) -> str:
        return self._explored.found[index][0]

    def arcs(self, index: int) -> Iterator[Arc]:
        """The ways out of one configuration."""
        moves, targets = self._look(index)
        return zip(moves, targets, strict=True)

    def ways(self, index: int) -> Iterator[tuple[Move, list[int]]]:
        """The moves out of one configuration, each with the parts into which its target splits."""
        name, held = self._explored.found[index]
        plan = self.plans.of(name, held)
        for move, change in zip(plan.moves, plan.changes, strict=True):
            parts = self.plans.parts(change.target, change.after(held)) if change.target else ()
            yield move, [self._number(change.target, part) for part in parts] or [END]

    def plan(self, index: int) -> Plan:
        return self.plans.of(*self._explored.found[index])

    def _look(self, index: int) -> tuple[tuple[Move, ...], Sequence[int]]:
        name, held = self._explored.found[index]
        plan = self.plans.of(name, held)
        if plan.ways.stuck is not None:
            self._note_dead(index, plan)
        numbers = self._numbers
        targets: list[int] = []
        for target, stays, comes, spends, clips, may_split in plan.changes:
            if not target:
                targets.append(END)
                continue
            after = (held & stays | comes) + spends
            for bits, least in clips:
                if after & bits < least:
                    after &= ~bits
            known = numbers[target].get(after)
            if known is None:
                # Few states split the configurations that reach them.
                parts = self.plans.parts(target, after) if may_split else (after,)
                if len(parts) > 1:
                    return self._look_closer(index, plan)
                known = self._number(target, *parts)
            targets.append(known)
        return plan.moves, targets

    def _look_closer(self, index: int, plan: Plan) -> tuple[tuple[Move, ...], Sequence[int]]:
        """The moves and targets of a configuration whose targets may split."""
        arcs = [(move, target) for move, targets in self.ways(index) for target in targets]
        targets = [target for _, target in arcs]
        if len(arcs) == len(plan.moves):
            return plan.moves, targets
        key = tuple(id(move) for move, _ in arcs)
        return self._alike.setdefault(key, tuple(move for move, _ in arcs)), targets

    def _number(self, name: str, held: int) -> int:
        numbers = self._numbers[name]
        known = numbers.get(held)
        if known is None:
            known = numbers[held] = len(self._explored.found)
            if known >= self._most:
                raise TooMany
            self._explored.found.append((name, held))
        return known

    def _note_dead(self, index: int, plan: Plan) -> None:
        name, stuck = self._explored.found[index][0], plan.ways.stuck
        is_sure = plan.ways.is_surely_stuck
        if stuck is not None and (name, is_sure) not in self._explored.dead:
            self._explored.dead[name, is_sure] = Dead(index, stuck, is_sure)
