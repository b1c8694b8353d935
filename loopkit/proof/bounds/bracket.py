"""Bounds of a machine with too many configurations: between two numbers, not exact."""

from __future__ import annotations

import sys
from collections.abc import Collection

from loopkit.proof.bounds.agent_calls import Asked, calls_tools
from loopkit.proof.bounds.cheapest import ahead, cheapest
from loopkit.proof.bounds.configurations import Explorer, Present
from loopkit.proof.bounds.descriptions import Descriptions
from loopkit.proof.bounds.exact import UNKNOWN
from loopkit.proof.bounds.extremes import NEVER, Aim, Endless, Measure, circle
from loopkit.proof.bounds.picture import Picture
from loopkit.proof.bounds.prices import prices_of
from loopkit.proof.bounds.result import Bounds, Extreme, Range
from loopkit.proof.bounds.searching import dearest_known

MOST_SEARCHED = 50_000
"""The most configurations that are explored for each extreme."""


class Bracket:
    """Computes limits that no run exceeds or undercuts, and runs that come near."""

    def __init__(self, explorer: Explorer, picture: Picture, present: Present | None) -> None:
        self._plans = explorer.plans
        self._graph = explorer.plans.variables.graph
        self._picture = picture
        self._present = present
        self._start = present.state if present else self._graph.machine.start
        if (name := circle(self._graph)) is not None:
            raise Endless(name)

        states = sorted(self._graph.reachable(self._start))
        asking = self._plans.moves.asking
        self.reach: Asked = tuple(work for name in states for work in asking.reach(name))
        """All agent calls that runs can make."""
        self.unpriced = asking.calls_without_price(states)
        self.is_suspended = True
        """A run may be suspended; this is not known without exploring all configurations."""

    def bounds(self, measures: Collection[Measure]) -> Bounds:
        """The bounds, with the extremes of some measures."""

        def of(measure: Measure) -> Range:
            if measure not in measures:
                return Range(None, UNKNOWN)
            if measure == "cost" and self.unpriced:
                return Range(UNKNOWN if self.best("runs", self._successes) else None, UNKNOWN)
            return Range(self.best(measure, self._successes), self.worst(measure))

        has_tools = "tool_calls" in measures and calls_tools(self.reach)
        return Bounds(
            of("runs"),
            of("calls"),
            of("cost"),
            stuck=tuple(self._picture.stuck()),
            untaken=self._picture.untaken(),
            unpriced=self.unpriced,
            tool_calls=self.worst("tool_calls") if has_tools else None,
        )

    @property
    def _successes(self) -> Collection[str]:
        return [name for name, state in self._graph.states.items() if state.succeeds]

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme:
        """The most that any path takes; exact only if the path leads to an end."""
        aim = Aim(measure, is_worst=True)
        prices = prices_of(self._plans.variables, self._picture.plans(), aim, self._start)
        explorer = self._explorer()
        found = dearest_known(explorer, aim, prices, MOST_SEARCHED)
        path = found.path
        if path is None or (ends is not None and explorer.state(path.end) not in ends):
            return UNKNOWN.replace(total=found.at_most)
        return self._descriptions(explorer).extreme(found.at_most, path, aim)

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        """The least that it takes to come to one of some states."""
        aim = Aim(measure, is_worst=False)
        least = ahead(ends, self._picture.plans(), aim)
        explorer = self._explorer()
        found = cheapest(explorer, aim, ends, least, MOST_SEARCHED)
        if found.path is None:
            return None if found.total == NEVER else UNKNOWN.replace(total=found.total)
        return self._descriptions(explorer).extreme(found.total, found.path, aim)

    def _explorer(self) -> Explorer:
        return Explorer(self._plans, sys.maxsize, self._present)

    def _descriptions(self, explorer: Explorer) -> Descriptions:
        return Descriptions(self._plans, explorer.so_far.found, self._present)
