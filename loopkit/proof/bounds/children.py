"""Agent calls of the runs of other machines that a state starts.

They are counted by the outcome of these runs, because guards ask which one a child reached. Such a
machine is explored once for each known input, whichever states run it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial, reduce
from math import ceil
from typing import TYPE_CHECKING

from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState, EachState
from loopkit.machine.edges import EdgeEvent
from loopkit.machine.inputs import Given, child_counts, definition_key, partial_child_input
from loopkit.proof.bounds.agent_calls import NOBODY, AgentCalls, Asked, Price, Spread, calls_tools
from loopkit.proof.bounds.configurations import Measure
from loopkit.proof.bounds.result import Extreme
from loopkit.proof.bounds.variables import AGAIN
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import Endings
from loopkit.proof.outcomes.table import Row
from loopkit.values import Mutable, Value, field

if TYPE_CHECKING:
    from loopkit.proof.bounds.bracket import Bracket
    from loopkit.proof.bounds.exact import Exact

Explore = Callable[[Analysis, Given, "Children"], "Exact | Bracket"]
PriceIn = Callable[[Machine], Price]


class Share(Value, frozen=True):
    """The agent calls on one path of a child, or on the paths of several children."""

    asked: Asked = ()
    is_sure: bool = True
    """Whether some run is known to take it."""

    def times(self, number: int) -> Share:
        asked = tuple(_times(work, number) for work in self.asked) if number > 0 else ()
        return Share(asked, self.is_sure)

    def beside(self, other: Share) -> Share:
        return Share((*self.asked, *other.asked), self.is_sure and other.is_sure)


Pair = tuple[Share, Share]
"""The least and the most."""


class Shares:
    """The shares of the runs of one machine, computed on demand."""

    def __init__(self, ends: Exact | Bracket) -> None:
        self.ends = ends
        self.measures: tuple[Measure, ...] = ("runs", "calls")
        if not ends.unpriced:
            self.measures += ("cost",)
        if calls_tools(ends.reach):
            self.measures += ("tool_calls",)
        self.least = cache(partial(self._share, ends.best))
        """The least of a path to one of some final states; None if no run reaches one."""
        self.most = cache(partial(self._share, ends.worst))
        """The most of a path to one of some final states, or of any path."""

    def _share(
        self,
        extreme_of: Callable[..., Extreme | None],
        finals: frozenset[str] | None,
        measure: Measure,
    ) -> Share | None:
        extreme = extreme_of(measure, finals)
        if extreme is None:
            return None
        if extreme.is_exact:
            return _on_the_way(extreme)
        every = ((one, extreme_of(one, finals)) for one in self.measures)
        return _of_nobody({one: found.total or 0 for one, found in every if found is not None})


class Children(Mutable):
    """The runs that one machine starts, and those that these start."""

    analysis: Analysis
    price_in: PriceIn
    given: Given
    explore: Explore
    proofs: dict[str, Shares] = field(default_factory=dict)
    """The shares of the whole family, by definition and known input."""
    _of: dict[str, Shares] = field(default_factory=dict)
    """By the names of states."""

    def runs_in(self, name: str) -> bool:
        return self.analysis.states[name].child is not None

    def reach(self, name: str) -> Asked:
        return _with_state_name(name, self.shares_of(name).ends.reach)

    def is_suspended(self, name: str) -> bool:
        return self.runs_in(name) and self.shares_of(name).ends.is_suspended

    def spreads(self, name: str, event: EdgeEvent, row: Row) -> Iterator[Spread]:
        if event == "content":
            # The items, or the input, were refused before anything was asked.
            yield NOBODY
            return
        shares = self.shares_of(name)
        for measure in shares.measures:
            pair = self._pair(name, shares, measure, event, row)
            if pair is not None:
                least, most = pair
                is_sure = least.is_sure and most.is_sure
                asked = _with_state_name(name, least.asked), _with_state_name(name, most.asked)
                yield Spread(*asked, is_sure=is_sure)

    def shares_of(self, name: str) -> Shares:
        if name not in self._of:
            self._of[name] = self._prove(self._state(name))
        return self._of[name]

    def _state(self, name: str) -> ChildrenState:
        state = self.analysis.states[name]
        assert isinstance(state, ChildrenState)
        return state

    def _prove(self, state: ChildrenState) -> Shares:
        given = partial_child_input(state, self.given)
        key = definition_key(state, given)
        if key not in self.proofs:
            analysis = Analysis.of_machine(state.child)
            children = Children(analysis, self.price_in, given, self.explore, self.proofs)
            self.proofs[key] = Shares(self.explore(analysis, given, children))
        return self.proofs[key]

    def _pair(
        self, name: str, shares: Shares, measure: Measure, event: EdgeEvent, row: Row
    ) -> Pair | None:
        state = self._state(name)
        fewest, most = child_counts(self.analysis.graph, state, self.given)
        if event != "done":
            whole = shares.most(None, measure)
            return None if whole is None else (Share(), whole.times(most * state.most_runs))
        if isinstance(state, EachState):
            pair = _Items(Endings(state), shares, measure, fewest, most).pair(row)
            return pair and (pair[0], pair[1].times(state.most_runs))
        finals = frozenset({str(row["outcome"])})
        return _both(shares.least(finals, measure), shares.most(finals, measure))


class _Items(Value, frozen=True):
    """The calls of all items of an `each` state together."""

    ending: Endings
    shares: Shares
    measure: Measure
    fewest: int
    most: int

    def pair(self, row: Row) -> Pair | None:
        """The least and the most for a row; None where no run comes to it."""
        good, bad = row.get("succeeded"), row.get("failed")
        if not isinstance(good, int) or not isinstance(bad, int):
            return self._of_any(row)
        if not self.fewest <= good + bad <= self.most:
            return None
        return _both(self._least(good, bad, row), self._most(good, bad - bool(row["deadlocked"])))

    @property
    def _may_stop(self) -> bool:
        """Whether items may end before they have come to a final state."""
        return self.ending.is_cancelled or self.ending.is_blocked

    def _least(self, good: int, bad: int, row: Row) -> Share | None:
        if row.get(AGAIN):
            # Items that have succeeded before may be kept.
            return Share(is_sure=False)
        really = bad
        if self._may_stop:
            really = min(bad, 1) if self.ending.needs_failure or not good else 0
        of_good = self.shares.least(self.ending.successes, self.measure) if good else Share()
        of_bad = self.shares.least(self.ending.failures, self.measure) if really else Share()
        return self._together(of_good, good, of_bad, really, bad)

    def _most(self, good: int, bad: int) -> Share | None:
        of_good = self.shares.most(self.ending.successes, self.measure) if good else Share()
        failures = None if self.ending.is_cancelled else self.ending.failures
        of_bad = self.shares.most(failures, self.measure) if bad else Share()
        return self._together(of_good, good, of_bad, bad, bad)

    def _together(
        self, of_good: Share | None, good: int, of_bad: Share | None, really: int, bad: int
    ) -> Share | None:
        if of_good is None or of_bad is None:
            return None
        both = of_good.times(good).beside(of_bad.times(really))
        return both.replace(is_sure=both.is_sure and not (self._may_stop and bad))

    def _of_any(self, row: Row) -> Pair | None:
        """The least and the most for a row that does not say how many succeed and fail."""
        finals = self.ending.successes | self.ending.failures
        least = (
            None if self._may_stop or row.get(AGAIN) else self.shares.least(finals, self.measure)
        )
        most = self.shares.most(None, self.measure)
        pair = _both((least or Share()).times(self.fewest), most and most.times(self.most))
        return pair and (pair[0].replace(is_sure=False), pair[1])


def _both(least: Share | None, most: Share | None) -> Pair | None:
    return None if least is None or most is None else (least, most)


def _with_state_name(name: str, asked: Asked) -> Asked:
    return tuple(
        work.replace(agent=_beside(name, work.agent), place=_beside(name, work.place))
        for work in asked
    )


def _beside(name: str, inner: str) -> str:
    return f"{name} · {inner}" if inner else name


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
    calls = ceil(totals["calls"])
    of_tools = ceil(totals.get("tool_calls", 0))
    counted = {"runs": runs, "usual_calls": runs, "most_tool_calls": of_tools}
    return Share((AgentCalls("", "", calls, usd, usd, **counted),), is_sure=False)


AMOUNTS = ("most_calls", "call_usd", "most_usd", "runs", "usual_calls", "most_tool_calls")


def _add(first: AgentCalls, second: AgentCalls) -> AgentCalls:
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in AMOUNTS}
    return first.replace(**{n: None if None in pair else sum(pair) for n, pair in pairs.items()})


def _times(work: AgentCalls, number: int) -> AgentCalls:
    amounts = {name: getattr(work, name) for name in AMOUNTS}
    return work.replace(**{n: None if a is None else a * number for n, a in amounts.items()})
