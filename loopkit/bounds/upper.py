"""A bound for machines with too many configurations to be looked at one by one.

The longest forward path from the start, and for each revision that may be made the longest
forward path from where it leads to. It is sound, and not tight.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from loopkit.bounds.extremes import NEVER, Aim, Endless, Number
from loopkit.bounds.moves import Move, Moves
from loopkit.definition import FinalState
from loopkit.graph import TOTAL, Edge


class Upper:
    """Longest and shortest forward paths of a machine, whatever the facts are."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._variables = moves.variables
        self._graph = moves.variables.graph
        self._ways = {
            name: self._moves.within(name, {}).moves
            for name, state in self._graph.states.items()
            if not isinstance(state, FinalState)
        }

    def worst(self, aim: Aim) -> Number:
        """What no path exceeds. Raises Endless where the forward edges go in a circle."""
        longest = self._longest(aim)
        bound = longest[self._graph.machine.start]
        if self._graph.machine.limits.then is not None:
            bound += longest[self._graph.machine.limits.then]
        return bound + sum(self._revisions(longest))

    def least(self, aim: Aim) -> Number:
        """What no path to a success undercuts; infinite where none leads to one."""
        least: dict[str, Number] = {}
        for name in self._last_first:
            state = self._graph.states[name]
            ends = isinstance(state, FinalState) and state.final == "success"
            onward = [
                aim.weight(move) + least[move.edge.target]
                for move in self._forward(name)
                if move.edge is not None
            ]
            least[name] = 0 if ends else min(onward, default=NEVER)
        return least[self._graph.machine.start]

    def _longest(self, aim: Aim) -> dict[str, Number]:
        longest: dict[str, Number] = {}
        for name in self._last_first:
            own = max((aim.weight(move) for move in self._ways.get(name, ())), default=0)
            onward = (longest[m.edge.target] for m in self._forward(name) if m.edge is not None)
            longest[name] = own + max(onward, default=0)
        return longest

    def _forward(self, name: str) -> Iterator[Move]:
        for move in self._ways.get(name, ()):
            if move.edge is not None and not move.edge.back and move.event != "limit":
                yield move

    def _revisions(self, longest: dict[str, Number]) -> Iterator[Number]:
        """The heaviest revisions that the budgets and the total leave room for."""
        back = [edge for edge in self._graph.edges if edge.back]
        left = dict(self._room(back))
        for edge in sorted(back, key=lambda edge: longest[edge.target], reverse=True):
            times = min(left[counter] for counter in edge.counters)
            if times == NEVER:
                raise Endless(edge.target)
            for counter in edge.counters:
                left[counter] -= times
            if times > 0:
                yield int(times) * longest[edge.target]

    def _room(self, back: list[Edge]) -> Iterator[tuple[str, float]]:
        """How often each counter can be spent; those that are reset, as often as the total."""
        reset = {counter for edge in back for counter in edge.resets}
        for counter in self._graph.caps:
            cap = self._variables.largest_cap(counter)
            yield counter, NEVER if counter in reset and counter != TOTAL else cap

    @cached_property
    def _last_first(self) -> list[str]:
        """The states, each after all that forward edges lead to from it."""
        order: dict[str, None] = {}
        trail: list[tuple[str, Iterator[Move]]] = []
        open_: set[str] = set()

        def enter(name: str) -> None:
            if name in open_:
                raise Endless(name)
            if name not in order:
                open_.add(name)
                trail.append((name, self._forward(name)))

        for start in self._graph.states:
            enter(start)
            while trail:
                name, onward = trail[-1]
                move = next(onward, None)
                if move is not None and move.edge is not None:
                    enter(move.edge.target)
                else:
                    order[name] = None
                    open_.discard(name)
                    trail.pop()
        return list(order)
