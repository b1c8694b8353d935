"""The shortest path to a success for each number of revisions, without a failure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from loopkit.proof.bounds.configurations import END, Explorer
from loopkit.proof.bounds.moves import Case, Move
from loopkit.proof.bounds.result import Visit, Way

MOST_TOLD = 6
_At = tuple[int, int]
"""A configuration, and the number of revisions before it."""


def shortest_ways(explorer: Explorer, most: int) -> tuple[dict[int, Way], bool]:
    """The ways by the number of revisions, the fewest first, and whether the search was complete.

    It stops at `most` configurations. Of more than MOST_TOLD ways, the result has the first ones,
    the one in the middle, and the last.
    """
    states = explorer.plans.variables.graph.states
    before: dict[_At, tuple[_At, Move] | None] = {(at, 0): None for at in explorer.starts()}
    found: dict[int, _At] = {}
    front = deque(before)
    while front and len(before) <= most:
        here = front.popleft()
        index, revised = here
        if states[explorer.state(index)].succeeds:
            if revised not in found:
                found[revised] = here
            continue
        for move, target in explorer.arcs(index):
            # A state that keeps what it made is no longer way, and takes nothing.
            if move.event != "done" or move.is_spared or move.edge is None or target == END:
                continue
            there = (target, revised + move.edge.back)
            if there not in before:
                before[there] = (here, move)
                front.append(there)
    ways = {number: tuple(_visits(explorer, found[number], before)) for number in _selection(found)}
    return ways, not front


def _selection(numbers: Iterable[int]) -> list[int]:
    every = sorted(numbers)
    if len(every) <= MOST_TOLD:
        return every
    return [*every[: MOST_TOLD - 2], every[len(every) // 2], every[-1]]


def _visits(
    explorer: Explorer, end: _At, before: dict[_At, tuple[_At, Move] | None]
) -> Iterator[Visit]:
    steps: list[tuple[_At, Move]] = []
    at = end
    while (step := before[at]) is not None:
        steps.append(step)
        at = step[0]
    entered_by = None
    for (index, _), move in reversed(steps):
        case = max(move.cases, key=_asks_most)
        total = case.row.get("total")
        children = total if isinstance(total, int) else 1
        yield Visit(explorer.state(index), entered_by, case.spread.least, children)
        entered_by = move.edge


def _asks_most(case: Case) -> tuple[float, ...]:
    """The least number of calls and their cost; for items, a key for the fewest successes."""
    asked, total, failed = case.spread.least, case.row.get("total"), case.row.get("failed")
    if isinstance(total, int) and isinstance(failed, int):
        return total > 0, -total, -failed
    return len(asked), sum(work.most_usd or 0 for work in asked)
