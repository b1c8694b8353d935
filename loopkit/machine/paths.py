"""Facts on paths: what holds at each state of a machine on every path to it, or on some path.

Each fact is one bit of a whole number, so thousands of states with thousands of facts take little
time and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from loopkit.machine.components import strong_components
from loopkit.values import Value


class Step(Value, frozen=True):
    """What an edge changes: first it clears the bits `lost`, then it sets the bits `gained`."""

    source: str
    target: str
    lost: int
    gained: int


def on_every_path(order: Sequence[str], start: str, steps: Iterable[Step]) -> dict[str, int]:
    """The bits that hold at each state on every path to it.

    `order` names all states; this is fastest if most of them precede those that they lead to.
    """
    onward: dict[str, list[Step]] = {name: [] for name in order}
    every = 0
    for step in steps:
        onward[step.source].append(step)
        every |= step.gained
    holds = dict.fromkeys(order, every) | {start: 0}
    rank = {name: number for number, name in enumerate(order)}
    waiting, queued = list(range(len(order))), set(order)
    while waiting:
        name = order[heappop(waiting)]
        queued.remove(name)
        for step in onward[name]:
            narrowed = holds[step.target] & ((holds[name] & ~step.lost) | step.gained)
            if narrowed != holds[step.target]:
                holds[step.target] = narrowed
                if step.target not in queued:
                    queued.add(step.target)
                    heappush(waiting, rank[step.target])
    return holds


def on_some_path(states: Iterable[str], steps: Iterable[Step]) -> dict[str, int]:
    """The bits that some path to each state gains; losses are ignored."""
    coming: dict[str, list[Step]] = {name: [] for name in states}
    leads: dict[str, list[str]] = {name: [] for name in coming}
    for step in steps:
        coming[step.target].append(step)
        leads[step.source].append(step.target)
    holds: dict[str, int] = {}
    for component in strong_components(leads):
        found = 0
        for step in (step for name in component for step in coming[name]):
            found |= step.gained | holds.get(step.source, 0)
        holds |= dict.fromkeys(component, found)
    return holds
