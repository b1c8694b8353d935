"""A search that visits all reachable places, nearest first."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

By = TypeVar("By")


def nearest(
    starts: Mapping[int, float], onward: Callable[[int], Iterable[tuple[int, float, By]]]
) -> Iterator[tuple[int, float, By | None]]:
    """Each place once, nearest first: its distance, and what leads there from a nearer one.

    `onward` gives the next places from a place, each with the cost of the way there, which is never
    negative, and what leads there. Nothing leads to a place that is one of the starts.
    """
    waiting: list[tuple[float, int, int, By | None]] = [
        (cost, order, place, None) for order, (place, cost) in enumerate(starts.items())
    ]
    heapq.heapify(waiting)
    done: set[int] = set()
    order = len(waiting)
    while waiting:
        cost, _, place, by = heapq.heappop(waiting)
        if place in done:
            continue
        done.add(place)
        yield place, cost, by
        for to, further, leads in onward(place):
            if to not in done:
                # The running number decides between equal costs, so that nothing else is compared.
                heapq.heappush(waiting, (cost + further, order, to, leads))
                order += 1
