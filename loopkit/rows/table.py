"""The rows of facts with which a state can complete, and what becomes of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from loopkit.graph import Edge
from loopkit.guard import Guard
from loopkit.guard.kleene import truth

Row = Mapping[str, object]
Dimension = tuple[Row, ...]
"""Facts that vary together: the alternatives of which every row has one."""
MOST_ROWS = 5_000
ROOM = "room "
"""Before the name of a counter: whether there is room in it, as a fact beside the others."""


def of_verdict(verdict: object) -> Row:
    """The facts of a report that its verdict alone decides."""
    if verdict is None:
        return {}
    return {
        "valid": verdict in ("pass", "warn", "not_applicable"),
        "infeasible": verdict == "infeasible",
        "incomplete": verdict == "incomplete",
    }


@dataclass(frozen=True, slots=True)
class Exit:
    """One transition as the rows decide it."""

    edge: Edge
    guard: Guard | None
    needs_fail: bool = False
    """It revises what a report has judged, so it needs the verdict `fail`."""

    def holds(self, row: Row) -> bool | None:
        """What the guard says, room left aside."""
        return True if self.guard is None else truth(self.guard.tree, row)

    def is_open(self, row: Row) -> bool | None:
        """Whether there is room for a revise edge; forward edges are always open."""
        return _all(_known(row, ROOM + counter) for counter in self.edge.counters)

    def is_allowed(self, row: Row) -> bool | None:
        verdict = row.get("verdict")
        return True if not self.needs_fail else None if verdict is None else verdict == "fail"

    def is_enabled(self, row: Row) -> bool | None:
        return _all((self.holds(row), self.is_open(row), self.is_allowed(row)))


@dataclass(frozen=True, slots=True)
class Table:
    """All the rows of one state, as the product of its dimensions."""

    exits: tuple[Exit, ...]
    own: tuple[Dimension, ...]
    """What the state's work itself decides."""
    others: tuple[Dimension, ...]
    is_human: bool = False
    """A person cannot choose what leads to a closed edge."""

    def fitted(self) -> Table:
        """The table with so many dimensions left open that its rows can be counted out."""
        own, others = list(self.own), list(self.others)
        while prod(map(len, (*own, *others))) > MOST_ROWS:
            longest = max((*own, *others), key=len)
            (own if longest in own else others).remove(longest)
        return replace(self, own=tuple(own), others=tuple(others))

    def rows(self) -> Iterator[Row]:
        yield from _product((*self.others, *self.own))

    def completed(self, row: Row) -> Row:
        """The row with what follows from its verdict and its rooms."""
        rooms = [exit_.is_open(row) for exit_ in self.exits if exit_.edge.back]
        reached = _all(None if room is None else not room for room in rooms)
        derived = {**row, **of_verdict(row.get("verdict"))}
        return derived if reached is None or not rooms else {**derived, "cap_reached": reached}

    def is_left(self, row: Row) -> bool:
        """Whether some transition is surely enabled, or the answer is surely refused."""
        row = self.completed(row)
        for exit_ in self.exits:
            if exit_.is_enabled(row):
                return True
            if self.is_human and exit_.holds(row):
                return True
        return False

    def is_stuck(self, row: Row) -> bool:
        """Whether surely no transition is enabled."""
        row = self.completed(row)
        return all(exit_.is_enabled(row) is False for exit_ in self.exits)

    def taken(self, row: Row) -> Iterator[Exit]:
        """The transitions that a row may take."""
        row = self.completed(row)
        for exit_ in self.exits:
            enabled = exit_.is_enabled(row)
            if enabled is not False:
                yield exit_
            if enabled or (self.is_human and exit_.holds(row)):
                return

    def without_choice(self) -> Row | None:
        """What is given where a person is left with no open choice; none where that can't be."""
        for other in _product(self.others):
            answers = (self.completed({**other, **own}) for own in _product(self.own))
            if not any(self._is_open_answer(row) for row in answers):
                return other
        return None

    def _is_open_answer(self, row: Row) -> bool:
        """Whether the first transition that takes an answer surely has room."""
        for exit_ in self.exits:
            held, is_open = exit_.holds(row), exit_.is_open(row)
            if held or (held is None and not is_open):
                return is_open is True
        return False


def _product(dimensions: Sequence[Dimension]) -> Iterator[dict[str, object]]:
    for alternatives in product(*dimensions):
        yield {name: value for part in alternatives for name, value in part.items()}


def _known(row: Row, name: str) -> bool | None:
    value = row.get(name)
    return value if isinstance(value, bool) else None


def _all(parts: Iterable[bool | None]) -> bool | None:
    known = list(parts)
    if False in known:
        return False
    return None if None in known else True
