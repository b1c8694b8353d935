"""Items of `each`: how many can succeed and fail together, as rows of facts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import product
from math import ceil, floor

from loopkit.language import EachState
from loopkit.language.guard import Guard
from loopkit.language.guard.tree import conditions, constants, names_in
from loopkit.language.states.children import BLOCKED, CANCELLED
from loopkit.machine.item_types import item_counts
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.domains import input_ranges
from loopkit.proof.outcomes.row_regions import Dimension

MOST_LINES = 64
"""The most numbers with which the facts may be compared; with more, the facts stay open."""
NEAR = range(-2, 3)
ENDS = (floor, ceil)


def rows_of_items(
    analysis: Analysis, state: EachState, guards: Iterable[Guard], known: int | None = None
) -> Dimension:
    """The rows of an `each` state that represent all others; `known` is the number of its items.

    `guards` name its facts as its own guards do.
    Conditions divide the pairs of numbers, of the items that succeeded and of those that failed,
    along lines: either number or their sum is a certain one, or both are the same. A part between
    such lines has a corner where two of them cross, or next to it. These are the rows, so each
    part has one, and one of its rows has the most items of a kind, and one the fewest.
    """
    ending, guards = Endings(state), tuple(guards)
    numbers = _numbers_compared(analysis, state, guards)
    if numbers is None:
        return ({"deadlocked": False}, {"deadlocked": True})[: 1 + ending.is_blocked]
    counts = item_counts(analysis.graph, state) if known is None else (known, known)
    pairs = {pair for pair in _pairs(*counts, numbers) if ending.may_be(*pair)}
    return tuple(
        {"succeeded": good, "failed": bad, "total": good + bad, "deadlocked": is_blocked}
        for good, bad in sorted(pairs, key=lambda pair: (sum(pair), pair[1]))
        for is_blocked in ((False, True) if ending.may_block(good, bad) else (False,))
    )


class Endings:
    """How the items of an `each` state can end."""

    def __init__(self, state: EachState) -> None:
        finals, outcomes, awaited = state.child.finals, {*state.outcomes}, {*state.awaited}
        self.successes = frozenset(name for name, final in finals.items() if final.succeeds)
        self.failures = frozenset(finals) - self.successes
        self.is_cancelled = CANCELLED in outcomes
        self.is_blocked = BLOCKED in outcomes and not outcomes - {BLOCKED} <= awaited
        self._blocking = self.successes - awaited if self.is_blocked else frozenset()
        stopping = self.successes & {*state.stop_on} if self.is_cancelled else frozenset()
        self.needs_failure = not self._blocking and not stopping
        """Where items have failed, one of them came to a failure of the machine itself."""

    def may_be(self, succeeded: int, failed: int) -> bool:
        """Whether so many items can succeed while so many fail."""
        if succeeded and not self.successes:
            return False
        if not failed or self.failures:
            return True
        # What cancelled or blocked them is an item that succeeded.
        return bool(succeeded) and not self.needs_failure

    def may_block(self, succeeded: int, failed: int) -> bool:
        """Whether one of the items that failed can have been blocked by another one."""
        is_by_success = bool(self._blocking) and succeeded > 0
        return self.is_blocked and failed >= (1 if is_by_success else 2)


def _pairs(least: int, most: int | None, numbers: Collection[int]) -> Iterator[tuple[int, int]]:
    """The pairs at the crossings of the lines that divide them, and the neighbours of these."""
    lines = {0, least, least if most is None else most, *numbers}
    near = {number + step for number in lines for step in (-1, 0, 1)}
    for first, second in product(near, near):
        for good, bad in _corners(first, second):
            is_few = most is None or good + bad <= most
            if min(good, bad) >= 0 and least <= good + bad and is_few:
                yield good, bad


def _corners(first: int, second: int) -> Iterator[tuple[int, int]]:
    yield first, second
    yield first, second - first
    yield second - first, first
    if first == second:
        # The line on which both numbers are equal.
        for step in NEAR:
            yield from ((first, first + step), (first + step, first))
            yield first // 2 + step, first - first // 2 - step


def _numbers_compared(
    analysis: Analysis, state: EachState, guards: Iterable[Guard]
) -> set[int] | None:
    """The numbers with which the facts are compared; None if they are unknown or too many."""
    ranges = input_ranges(analysis.scope.input)
    found: set[int] = set()
    for condition in (part for guard in guards for part in conditions(guard.tree)):
        names = names_in(condition)
        others = names - state.facts.keys()
        if others != names:
            if not others <= ranges.keys():
                return None
            found.update(*(ranges[name] for name in others))
            literals = (n for n in constants(condition) if isinstance(n, int | float))
            found |= {end(number) for number in literals for end in ENDS}
    return found if len(found) <= MOST_LINES else None
