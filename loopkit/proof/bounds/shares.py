"""Shares: the agent calls of a child's run on its cheapest and on its dearest paths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import cache, reduce
from math import ceil
from typing import Protocol

from loopkit.proof.bounds.agent_calls import AgentCalls, Asked, calls_tools
from loopkit.proof.bounds.extremes import Measure
from loopkit.proof.bounds.result import Extreme
from loopkit.values import Value


class Ends(Protocol):
    """What is known of the runs of an explored machine."""

    @property
    def reach(self) -> Asked:
        """All agent calls that runs can make."""

    @property
    def unpriced(self) -> tuple[tuple[str, str], ...]:
        """(agent, place) of the calls whose price is unknown."""

    @property
    def is_suspended(self) -> bool:
        """Whether a run may end in no final state."""

    def best(self, measure: Measure, ends: Collection[str]) -> Extreme | None:
        """The least that it takes to come to one of some states."""

    def worst(self, measure: Measure, ends: Collection[str] | None = None) -> Extreme | None:
        """The most that a path takes, to one of some states where these are given."""


class Share(Value, frozen=True):
    """The agent calls on one path of a child, or on the paths of several children."""

    asked: Asked = ()
    is_sure: bool = True
    """Whether some run is known to take it."""

    def times(self, number: int) -> Share:
        """The share of several children with this path."""
        asked = tuple(_times(work, number) for work in self.asked) if number > 0 else ()
        return Share(asked, self.is_sure)

    def beside(self, other: Share) -> Share:
        """The share of both together."""
        return Share((*self.asked, *other.asked), self.is_sure and other.is_sure)


class Shares:
    """The shares of the runs of one machine, computed on demand."""

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.measures: tuple[Measure, ...] = ("runs", "calls")
        if not ends.unpriced:
            self.measures += ("cost",)
        if calls_tools(ends.reach):
            self.measures += ("tool_calls",)
        self.least = cache(self._least)
        self.most = cache(self._most)

    def _least(self, finals: frozenset[str], measure: Measure) -> Share | None:
        """The least of a path to one of some final states; None if no run reaches one."""
        return self._share(measure, lambda one: self.ends.best(one, finals))

    def _most(self, finals: frozenset[str] | None, measure: Measure) -> Share | None:
        """The most of a path to one of some final states, or of any path."""
        return self._share(measure, lambda one: self.ends.worst(one, finals))

    def _share(
        self, measure: Measure, extreme_of: Callable[[Measure], Extreme | None]
    ) -> Share | None:
        extreme = extreme_of(measure)
        if extreme is None:
            return None
        if extreme.is_exact:
            return _on_the_way(extreme)
        every = {one: found for one in self.measures if (found := extreme_of(one)) is not None}
        return _of_nobody({one: found.total or 0 for one, found in every.items()})


def _on_the_way(extreme: Extreme) -> Share:
    """All agent calls on a path, by agent; sure if the path does not depend on inputs."""
    by_agent: dict[str, list[AgentCalls]] = defaultdict(list)
    for step in extreme.way:
        for work in step.asked:
            by_agent[work.agent].append(work)
    asked = tuple(reduce(_add, works) for works in by_agent.values())
    return Share(asked, is_sure=not extreme.inputs)


def _of_nobody(totals: Mapping[Measure, float]) -> Share:
    """A share of which only the numbers are known."""
    runs, usd = ceil(totals["runs"]), totals.get("cost")
    calls, of_tools = ceil(totals["calls"]), ceil(totals.get("tool_calls", 0))
    asked = AgentCalls(
        "", "", calls, usd, usd, runs=runs, usual_calls=runs, most_tool_calls=of_tools
    )
    return Share((asked,), is_sure=False)


def _add(first: AgentCalls, second: AgentCalls) -> AgentCalls:
    return first.replace(
        most_calls=first.most_calls + second.most_calls,
        call_usd=_sum(first.call_usd, second.call_usd),
        most_usd=_sum(first.most_usd, second.most_usd),
        runs=first.runs + second.runs,
        usual_calls=first.usual_calls + second.usual_calls,
        most_tool_calls=first.most_tool_calls + second.most_tool_calls,
    )


def _sum(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _times(work: AgentCalls, number: int) -> AgentCalls:
    return work.replace(
        most_calls=work.most_calls * number,
        call_usd=None if work.call_usd is None else work.call_usd * number,
        most_usd=None if work.most_usd is None else work.most_usd * number,
        runs=work.runs * number,
        usual_calls=work.usual_calls * number,
        most_tool_calls=work.most_tool_calls * number,
    )
