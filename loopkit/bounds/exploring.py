"""From a machine to its bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from loopkit.bounds.configurations import END, Dead, Explored, Explorer, TooMany
from loopkit.bounds.expected import Assumption, NotDetermined, assumptions_of, expected
from loopkit.bounds.extremes import NEVER, Aim, Measure, Search, last_first, paths, weight_of
from loopkit.bounds.moves import Case, Move, Moves
from loopkit.bounds.result import Bounds, Budget, Extreme, Range, Stuck, Taken
from loopkit.bounds.upper import Upper
from loopkit.bounds.variables import Variables
from loopkit.bounds.work import Asked, Asking, Price
from loopkit.guard import Guard
from loopkit.program import flat_facts
from loopkit.rows import Anatomy, Row

MOST_CONFIGURATIONS = 50_000


def explore(
    anatomy: Anatomy,
    *,
    price: Price = lambda _agent, _place: None,
    inputs: Mapping[str, object] | None = None,
    assume: Mapping[str, Fraction] | None = None,
    most: int = MOST_CONFIGURATIONS,
) -> Bounds:
    """The bounds of a machine whose edges all lead to states.

    `price` says what one call costs at most; `inputs` are the values that are known, any others
    are tried. Above `most` configurations the result is an upper bound. `assume` gives
    probabilities, such as `{"validate.valid": Fraction("0.6")}`, for `Bounds.expected`. Raises
    Endless where runs need not end, NotDetermined for what `assume` leaves open.
    """
    assumptions = assumptions_of(anatomy, assume or {})
    variables = Variables(anatomy, flat_facts({"input": inputs or {}}))
    asking = Asking(anatomy, price)
    moves = Moves(variables, asking, _conditions(assumptions))
    explorer = Explorer(moves, most)
    try:
        explored = explorer.explored()
    except TooMany:
        if assumptions:
            message = f"there are more than {most:,} configurations, too many for exact means"
            raise NotDetermined(message) from None
        return _at_most(moves)
    order = last_first(explored)
    bounds = _Exact(moves, explored, order).bounds()
    if not assumptions:
        return bounds
    means = expected(explored, order, assumptions, is_priced=not bounds.unpriced)
    return replace(bounds, expected=means)


def _conditions(assumptions: Iterable[Assumption]) -> dict[str, tuple[Guard, ...]]:
    found: dict[str, tuple[Guard, ...]] = {}
    for assumption in assumptions:
        found[assumption.state] = (*found.get(assumption.state, ()), assumption.condition)
    return found


def _unpriced(asking: Asking, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
    asked = (work for name in states for work in asking.reach(name))
    return tuple(dict.fromkeys((w.agent, w.place) for w in asked if w.call_usd is None))


# -- too many ------------------------------------------------------------------------------


def _at_most(moves: Moves) -> Bounds:
    upper = Upper(moves)
    graph = moves.variables.graph
    unpriced = _unpriced(moves.asking, sorted(graph.reachable(graph.machine.start)))

    def of(measure: Measure) -> Range:
        known = measure != "cost" or not unpriced
        least = upper.least(Aim(measure, is_worst=False))
        worst = upper.worst(Aim(measure, is_worst=True))
        best = None if least == NEVER else _bare(least if known else None)
        return Range(best, _bare(worst if known else None))

    return Bounds(of("runs"), of("calls"), of("cost"), unpriced=unpriced)


def _bare(total: float | None) -> Extreme:
    return Extreme(total, {}, {}, (), {})


# -- all of them ---------------------------------------------------------------------------


class _Exact:
    """Tells what the graph of configurations says."""

    def __init__(self, moves: Moves, explored: Explored, order: list[int]) -> None:
        self._moves = moves
        self._variables = moves.variables
        self._graph = moves.variables.graph
        self._explored = explored
        self._order = order
        self._unpriced = _unpriced(moves.asking, dict.fromkeys(name for name, _ in explored.found))

    def bounds(self) -> Bounds:
        return Bounds(
            self._range("runs"),
            self._range("calls"),
            self._range("cost"),
            configurations=len(self._explored.found),
            paths=paths(self._explored, self._order),
            stuck=self._stuck(),
            untaken=self._untaken(),
            unclosed=self._unclosed(),
            budgets=self._budgets(),
            unpriced=self._unpriced,
        )

    # -- extremes --------------------------------------------------------------------------

    def _range(self, measure: Measure) -> Range:
        if measure == "cost" and self._unpriced:
            runs = self._search("runs", is_worst=False)
            return Range(None if runs.total == NEVER else _bare(None), _bare(None))
        best = self._search(measure, is_worst=False)
        worst = self._extreme(self._search(measure, is_worst=True))
        return Range(None if best.total == NEVER else self._extreme(best), worst)

    def _search(self, measure: Measure, *, is_worst: bool) -> Search:
        aim = Aim(measure, is_worst=is_worst)
        return Search(self._explored, self._order, self._graph, aim)

    def _extreme(self, search: Search) -> Extreme:
        by_state: dict[str, float] = defaultdict(int)
        by_agent: dict[str, float] = defaultdict(int)
        way: list[Taken] = []
        for index, move in search.way():
            name = self._explored.found[index][0]
            case, asked = search.aim.case(move)
            way.append(_taken(name, move, case, asked))
            for work in asked:
                weight = weight_of((work,), search.aim.measure, is_worst=search.aim.is_worst)
                by_state[name] += weight
                by_agent[work.agent] += weight
        inputs = self._inputs(search.start)
        return Extreme(search.total, dict(by_state), dict(by_agent), tuple(way), inputs)

    def _values(self, index: int) -> dict[tuple[str, str], object]:
        name, held = self._explored.found[index]
        return dict(zip(self._variables.at[name], held, strict=True))

    def _inputs(self, index: int) -> Row:
        values = self._values(index).items()
        return {name: value for (kind, name), value in values if kind == "input"}

    # -- what is odd about it --------------------------------------------------------------

    def _stuck(self) -> tuple[Stuck, ...]:
        """The first one of each state; those that are sure before those that may be."""
        first: dict[str, Dead] = {}
        for dead in sorted(self._explored.dead, key=lambda dead: not dead.is_sure):
            first.setdefault(self._explored.found[dead.at][0], dead)
        before = self._before() if first else {}
        return tuple(self._told(name, dead, before) for name, dead in first.items())

    def _told(self, name: str, dead: Dead, before: Mapping[int, tuple[int, Move]]) -> Stuck:
        way: list[Taken] = []
        index = dead.at
        while index in before:
            index, move = before[index]
            case = move.least
            way.append(_taken(self._explored.found[index][0], move, case, case.spread.least))
        counters = {
            counter: value
            for (kind, counter), value in self._values(dead.at).items()
            if kind == "counter" and isinstance(value, int)
        }
        inputs = self._inputs(index)
        return Stuck(name, dead.row, counters, inputs, tuple(reversed(way)), dead.is_sure)

    def _before(self) -> dict[int, tuple[int, Move]]:
        """For each configuration the one from which it was found, on a shortest way."""
        before: dict[int, tuple[int, Move]] = {}
        starts = set(self._explored.starts)
        for index, arcs in enumerate(self._explored.arcs):
            for move, target in arcs:
                if target != END and target not in starts:
                    before.setdefault(target, (index, move))
        return before

    def _untaken(self) -> tuple[str, ...]:
        taken = {
            move.edge.id
            for arcs in self._explored.arcs
            for move, _ in arcs
            if move.edge is not None
        }
        return tuple(edge.id for edge in self._graph.edges if edge.id not in taken)

    def _unclosed(self) -> tuple[str, ...]:
        back = (edge.id for edge in self._graph.edges if edge.back)
        return tuple(edge for edge in back if edge not in self._explored.closed)

    def _budgets(self) -> dict[str, Budget]:
        return {
            counter: Budget(
                self._explored.spent.get(counter, 0),
                counter in self._explored.filled or self._variables.largest_cap(counter) == 0,
                counter in self._explored.binding,
            )
            for counter in self._graph.caps
        }


def _taken(name: str, move: Move, case: Case, asked: Asked) -> Taken:
    return Taken(name, move.event, move.edge.id if move.edge else None, case.row, asked)
