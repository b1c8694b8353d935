"""The cheapest path to a success or another end, searched from the start, nearest to it first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count

from loopkit.proof.bounds.configurations import END, Explorer
from loopkit.proof.bounds.extremes import NEVER, Aim, Number, Path, path_to
from loopkit.proof.bounds.moves import Move
from loopkit.values import Value


class Cheapest(Value, frozen=True):
    """The minimum of a path to certain ends."""

    total: Number
    """The total that no path undercuts; infinite if no run reaches an end."""
    path: Path | None = None
    """Such a path; None if there is none or the search was cut off."""


def ahead(ends: Collection[str], plans: Iterable[Sequence[Move]], aim: Aim) -> Mapping[str, Number]:
    """The minimum from each state to one of the `ends`, over all configurations of the state."""
    into: dict[str, list[tuple[Number, str]]] = {}
    for moves in plans:
        for move in moves:
            if move.edge is not None and (weight := aim.weight(move)) != NEVER:
                into.setdefault(move.edge.target, []).append((weight, move.edge.source))
    known: dict[str, Number] = {}
    front: list[tuple[Number, str]] = [(0, name) for name in ends]
    while front:
        total, name = heappop(front)
        if name not in known:
            known[name] = total
            for weight, source in into.get(name, ()):
                heappush(front, (total + weight, source))
    return known


def cheapest(
    explorer: Explorer, aim: Aim, ends: Collection[str], least: Mapping[str, Number], most: int
) -> Cheapest:
    """The cheapest path to one of the `ends`, exploring at most `most` configurations.

    `least` is the minimum from each state on; from other states no path leads to an end.
    """
    serial = count()
    before: dict[int, tuple[int, Move]] = {}
    reached: dict[int, Number] = dict.fromkeys(explorer.starts(), 0)
    front = [(least.get(explorer.state(at), NEVER), 0, next(serial), at) for at in reached]
    done: set[int] = set()
    while front:
        bound, steps, _, index = heappop(front)
        if bound == NEVER or index in done:
            continue
        done.add(index)
        if explorer.state(index) in ends:
            return Cheapest(reached[index], path_to(index, before))
        if len(done) > most:
            return Cheapest(bound)
        for move, target in explorer.arcs(index):
            total = reached[index] + aim.weight(move)
            if target == END or total >= reached.get(target, NEVER):
                continue
            reached[target], before[target] = total, (index, move)
            onward = total + least.get(explorer.state(target), NEVER)
            heappush(front, (onward, steps + 1, next(serial), target))
    return Cheapest(NEVER)
