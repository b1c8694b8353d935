"""Prices of revisions: one for each counter, such that no move gains more than it costs.

With such prices, no run takes more than what its first state promises plus the worth of all
counters. The prices come from a linear program; the promises of states are recomputed in fractions,
so the bound holds whatever the prices are.

Runs of other machines are priced by their outcome, because guards ask which one a child reached;
such a machine is explored once for each known input, whichever states run it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property, reduce
from itertools import combinations
from math import ceil
from typing import Protocol

from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState, EachState
from loopkit.machine.edges import TOTAL, Edge, EdgeEvent
from loopkit.machine.graph import Graph
from loopkit.machine.inputs import Given, child_counts, definition_key, partial_child_input
from loopkit.proof.bounds.agent_calls import NOBODY, AgentCalls, Asked, Price, Spread, calls_tools
from loopkit.proof.bounds.configurations import Aim, Measure
from loopkit.proof.bounds.moves import Move
from loopkit.proof.bounds.result import Extreme
from loopkit.proof.bounds.variables import AGAIN, Variables
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import Endings
from loopkit.proof.outcomes.table import Row
from loopkit.values import Mutable, Value, field

ONCE = "then"
"""The counter of limit edges, of which a run takes at most one."""
FINEST = 10_000
"""The largest denominator of a price."""
ROUNDS = 100
RAISED = (Fraction(1), Fraction(1001, 1000), Fraction(11, 10))
"""The factors by which prices are multiplied until no cycle gains anything."""
MOST_STEPS = 1_000_000
"""The most steps over edges to make a linear program."""
NOTHING = Fraction(0)


class Prices(Value, frozen=True):
    """Prices, and the bound that follows from them."""

    of_edges: Mapping[str, Fraction]
    """The prices of the edges that spend something."""
    promised: Mapping[str, Fraction]
    """The most that a path from each node takes beyond the prices of its edges."""
    bound: Fraction
    """The total that no path from the start exceeds."""


def prices_of(
    variables: Variables, plans: Iterable[Sequence[Move]], aim: Aim, start: str
) -> Prices:
    """The best prices for a machine whose edges show that its runs end.

    `plans` has all moves that its runs can take, and may have more.
    """
    pricing = _Pricing(variables, plans, aim, start)
    return min(pricing.candidates(), key=lambda prices: prices.bound)


class _Pricing:
    """The heaviest move over each edge in any configuration, and the caps of counters."""

    def __init__(
        self, variables: Variables, plans: Iterable[Sequence[Move]], aim: Aim, start: str
    ) -> None:
        self._graph = variables.graph
        self._start = start
        self._nodes = self._graph.nodes_last_first
        self._to = self._graph.junctions.to
        self._ending = dict.fromkeys(self._nodes, NOTHING)
        """By node, the heaviest move with which a run is suspended there."""
        self._heaviest: dict[Edge, Fraction] = {}
        for moves in plans:
            for move in moves:
                self._weigh(move.edge, Fraction(aim.weight(move)), moves)
        reset = {counter for edge in self._graph.edges for counter in edge.resets}
        caps = {c: variables.inputs.cap(c).high for c in self._graph.caps if c not in reset}
        self._caps: Mapping[str, int] = {**caps, ONCE: 1}
        self._openings = openings(self._graph, variables.inputs.caps, caps)

    def _weigh(self, edge: Edge | None, weight: Fraction, moves: Sequence[Move]) -> None:
        if edge is not None:
            self._heaviest[edge] = max(weight, self._heaviest.get(edge, NOTHING))
            return
        for source in {move.edge.source for move in moves if move.edge} or self._graph.states:
            for node in self._graph.junctions.all_of(source):
                self._ending[node] = max(weight, self._ending[node])

    def candidates(self) -> Iterator[Prices]:
        """Prices under which no cycle gains anything; at least one of these exists."""
        for rates in (self._of_program(), self._of_one(0), self._of_one(-1)):
            for raised in RAISED if rates else ():
                prices = self._prices_at({name: raised * rate for name, rate in rates.items()})
                if prices is not None:
                    yield prices
                    break

    def _counters(self, edge: Edge) -> Sequence[str]:
        """The counters without a reset that an edge spends."""
        if edge.event == "limit":
            return (ONCE,)
        return [counter for counter in edge.counters if counter in self._caps]

    @cached_property
    def _spending(self) -> Sequence[Edge]:
        return [edge for edge in self._heaviest if self._counters(edge)]

    @cached_property
    def _forward(self) -> Mapping[str, Sequence[tuple[Fraction, str]]]:
        """The weight and the target of each forward move, by node."""
        return {
            node: [(self._heaviest[edge], self._to(edge)) for edge in edges if edge.forward]
            for node, edges in self._ways.items()
        }

    @cached_property
    def _ways(self) -> Mapping[str, Sequence[Edge]]:
        """The edges of all moves, by node."""
        ways = self._graph.junctions.ways
        return {node: [e for e in ways[node] if e in self._heaviest] for node in self._nodes}

    # -- by a linear program ---------------------------------------------------------------

    def _of_program(self) -> Mapping[str, Fraction]:
        """A rate for each counter and each opening; none where there is too much to work out."""
        entries = list(dict.fromkeys((self._start, *map(self._to, self._spending))))
        if len(entries) * len(self._heaviest) > MOST_STEPS:
            return {}
        bounds = {f"entry {name}": float(name == self._start) for name in entries}
        bounds |= {name: float(cap) for name, cap in self._caps.items()}
        bounds |= {opening.name: 0.0 for opening in self._openings}
        rows = {name: row for row, name in enumerate(bounds)}
        columns = [column for name in entries for column in self._columns(name, rows)]
        found = prices(columns, list(bounds.values())) or []
        rates = zip(bounds, found, strict=False)
        return {
            name: max(Fraction(rate).limit_denominator(FINEST), NOTHING)
            for name, rate in rates
            if not name.startswith("entry ")
        }

    def _columns(self, entry: str, rows: Mapping[str, int]) -> Iterator[Column]:
        """The heaviest paths from an entry to an end, and over each edge that spends something."""
        longest = self._longest(entry)
        most = max(total + self._ending[name] for name, total in longest.items())
        yield Column(float(most), {rows[f"entry {entry}"]: 1.0})
        for edge in self._spending:
            totals = [
                longest[node]
                for node in self._graph.junctions.all_of(edge.source)
                if node in longest and edge in self._ways[node]
            ]
            if totals:
                uses = {rows[f"entry {entry}"]: 1.0}
                onward = rows[f"entry {self._to(edge)}"]
                uses[onward] = uses.get(onward, 0.0) - 1.0
                uses |= {rows[name]: float(by) for name, by in self._uses(edge)}
                yield Column(float(max(totals) + self._heaviest[edge]), uses)

    def _uses(self, edge: Edge) -> Iterator[tuple[str, int]]:
        """How much an edge takes of each counter and of each opening."""
        yield from ((counter, 1) for counter in self._counters(edge))
        for opening in self._openings:
            if opening.uses(edge):
                yield opening.name, opening.uses(edge)

    def _longest(self, entry: str) -> dict[str, Fraction]:
        """The weight of the heaviest forward path from an entry to each node."""
        longest = {entry: NOTHING}
        for node in reversed(self._nodes):
            for weight, target in self._forward[node] if node in longest else ():
                longest[target] = max(longest.get(target, NOTHING), longest[node] + weight)
        return longest

    # -- by one counter for each edge ------------------------------------------------------

    def _of_one(self, at: int) -> Mapping[str, Fraction]:
        """The rates if one counter of each edge pays for the heaviest path on from it."""
        longest = dict.fromkeys(self._nodes, NOTHING)
        for node in self._nodes:
            ways = [weight + longest[target] for weight, target in self._forward[node]]
            longest[node] = max([*ways, self._ending[node]])
        rates: dict[str, Fraction] = {}
        for edge in self._spending:
            counter = self._counters(edge)[at]
            onward = self._heaviest[edge] + longest[self._to(edge)]
            rates[counter] = max(onward, rates.get(counter, NOTHING))
        return rates or {TOTAL: NOTHING}

    # -- what they amount to ---------------------------------------------------------------

    def _prices_at(self, rates: Mapping[str, Fraction]) -> Prices | None:
        """The promises of states at these rates; None if they grow along a cycle."""
        of_edges = {
            edge.id: sum((by * rates.get(name, NOTHING) for name, by in self._uses(edge)), NOTHING)
            for edge in self._spending
        }
        promised = dict(self._ending)
        for _ in range(ROUNDS):
            is_settled = True
            for node in self._nodes:
                for edge in self._ways[node]:
                    cost = of_edges.get(edge.id, NOTHING)
                    total = self._heaviest[edge] + promised[self._to(edge)] - cost
                    if total > promised[node]:
                        promised[node], is_settled = total, False
            if is_settled:
                worth = sum((rates.get(c, NOTHING) * cap for c, cap in self._caps.items()), NOTHING)
                return Prices(of_edges, promised, promised[self._start] + worth)
        return None


SMALL = 1e-9
NUDGE = 1e-7
"""Added to each bound, to each a little more, so that pivots never cycle."""
MOST_ENTRIES = 250_000
"""The most numbers of a table that is computed."""


class Column(Value, frozen=True):
    """One quantity, which is 0 or more."""

    gain: float
    uses: Mapping[int, float]
    """How much of each bound one unit takes."""


def prices(columns: Sequence[Column], bounds: Sequence[float]) -> list[float] | None:
    """The worth of one more unit of each bound at the largest gain.

    The bounds are 0 or more. None where there are too many numbers, or the gain has no end.
    """
    height, width = len(bounds), len(columns)
    if (height + 1) * (height + width) > MOST_ENTRIES:
        return None
    table = _table(columns, bounds)
    for _ in range(20 * (height + width)):
        last = table[height]
        column = min(range(width + height), key=last.__getitem__)
        if last[column] > -SMALL:
            return last[width : width + height]
        rows = [row for row in range(height) if table[row][column] > SMALL]
        if not rows:
            return None
        _pivot(table, min(rows, key=lambda row: table[row][-1] / table[row][column]), column)
    return None


def _table(columns: Sequence[Column], bounds: Sequence[float]) -> list[list[float]]:
    """A row for each bound with the rest of it, and one for the gain."""
    height, width = len(bounds), len(columns)
    table = [[0.0] * (width + height + 1) for _ in range(height + 1)]
    for at, column in enumerate(columns):
        table[height][at] = -column.gain
        for row, amount in column.uses.items():
            table[row][at] = amount
    for row, bound in enumerate(bounds):
        table[row][width + row] = 1.0
        table[row][-1] = bound + NUDGE * (row + 1)
    return table


def _pivot(table: list[list[float]], pivot: int, column: int) -> None:
    scale = table[pivot][column]
    table[pivot] = line = [value / scale for value in table[pivot]]
    for row, other in enumerate(table):
        factor = other[column]
        if row != pivot and factor:
            table[row] = [a - factor * b for a, b in zip(other, line, strict=True)]


class Opening(Value, frozen=True):
    """Two revise edges of one state: the later one is closed until the first has used up its cap.

    So `cap of the first × times of the later <= cap of the later × times of the first`.
    """

    first: Edge
    later: Edge
    first_cap: int
    later_cap: int

    @property
    def name(self) -> str:
        """A unique name."""
        return f"{self.first.id} opens {self.later.id}"

    def uses(self, edge: Edge) -> int:
        """What an edge adds to the left side less what it adds to the right one."""
        if edge == self.later:
            return self.first_cap
        return -self.later_cap if edge == self.first else 0


def openings(
    graph: Graph, written: Mapping[str, int | str], caps: Mapping[str, int]
) -> Sequence[Opening]:
    """The openings of a machine. `written` has its caps, `caps` the maxima of those never reset."""
    return [
        Opening(first, later, int(written[first.id]), min(caps[c] for c in later.counters))
        for first, later in _pairs(graph)
        if isinstance(written.get(first.id), int)
        and caps.keys() >= {*first.counters, *later.counters}
    ]


def _pairs(graph: Graph) -> Iterator[tuple[Edge, Edge]]:
    """Pairs of an edge that only its own cap can close before the later one, and the later one."""
    for edges in graph.revise_edges.values():
        for first, later in combinations(edges, 2):
            is_before = first.guard is None or first.guard == later.guard
            others = {*first.counters} - {first.id}
            if is_before and first.id in first.counters and others <= {*later.counters}:
                yield first, later


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


Explore = Callable[[Analysis, Given, "Children"], Ends]
"""Explores a machine whose input is partly known."""
PriceIn = Callable[[Machine], Price]
"""The prices of the agents of each machine."""


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


Pair = tuple[Share, Share]
"""The least and the most."""


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
        return self.analysis.machine.states[name].child is not None

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
        """What each run that a state starts takes."""
        if name not in self._of:
            self._of[name] = self._prove(self._state(name))
        return self._of[name]

    def _state(self, name: str) -> ChildrenState:
        state = self.analysis.machine.states[name]
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
    """The calls of children, with the state's name before those of agents and places."""
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
    calls, of_tools = ceil(totals["calls"]), ceil(totals.get("tool_calls", 0))
    counted = {"runs": runs, "usual_calls": runs, "most_tool_calls": of_tools}
    return Share((AgentCalls("", "", calls, usd, usd, **counted),), is_sure=False)


AMOUNTS = ("most_calls", "call_usd", "most_usd", "runs", "usual_calls", "most_tool_calls")


def _add(first: AgentCalls, second: AgentCalls) -> AgentCalls:
    pairs = {name: (getattr(first, name), getattr(second, name)) for name in AMOUNTS}
    return first.replace(**{n: None if None in pair else sum(pair) for n, pair in pairs.items()})


def _times(work: AgentCalls, number: int) -> AgentCalls:
    amounts = {name: getattr(work, name) for name in AMOUNTS}
    return work.replace(**{n: None if a is None else a * number for n, a in amounts.items()})
