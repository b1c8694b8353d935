"""Exact means over all runs, under given probabilities, from linear equations over fractions.

An assumption names a state and a condition on the outcome of its work: a fact (`valid`), one of
its words (`approve`, `fail`), a class of error (`fatal`), `limit`, `blocked` (a rule blocks or
comes to no verdict, so that judges are not asked), or a guard made of these. Where a configuration
decides the condition, the assumption does not count. Errors and limits that no assumption names
do not happen, nor do answers that are no artifact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import compress

from loopkit.language.facts import VERDICT, of_verdict
from loopkit.language.guard.evaluate import truth
from loopkit.proof.bounds.agent_calls import Asked, Usual
from loopkit.proof.bounds.configurations import BLOCKED, END, Assumption, Explorer, NotDetermined
from loopkit.proof.bounds.moves import Case, Move
from loopkit.proof.bounds.result import Expected
from loopkit.values import Value

OPEN_INPUT = "the runs depend on the input, which has to be given"


class _Outcome(Value, frozen=True):
    """One row with all that the means depend on: the way out, and the agent calls."""

    way: int
    """The index of the way out among those of the configuration."""
    asked: Asked
    case: Case
    truths: tuple[bool, ...]
    """For each of the state's assumptions, whether it holds."""


def compute_means(
    explorer: Explorer, assumptions: Sequence[Assumption], most: int, usual: Usual
) -> Expected:
    """The means; raises NotDetermined if an assumption is missing or assumptions contradict.

    `usual` gives the cost of a call. Runs are followed from the start, the least revised ones
    first. After `most` configurations the rest is left out; the result says which part that is.
    """
    chances = _Chances(assumptions)
    front = _Front(explorer)
    outcomes: dict[str, Fraction] = defaultdict(Fraction)
    runs = Fraction(0)
    calls = Fraction(0)
    costs = dict[str, Fraction | None]()
    for revised, index, here in front.each(most):
        arcs = list(explorer.arcs(index))
        name = explorer.state(index)
        if not arcs:
            outcomes[name] += here
        if len({id(move) for move, _ in arcs}) < len(arcs):
            # A state ahead splits an input.
            raise NotDetermined(OPEN_INPUT)
        for way, asked, chance in chances.of(name, [move for move, _ in arcs]):
            move, target = arcs[way]
            share = here * chance
            runs += share * sum(work.runs for work in asked)
            calls += share * sum(work.usual_calls for work in asked)
            for work in asked:
                cost = usual(name, work, revised)
                before = costs.get(name, Fraction(0))
                if cost is None or before is None:
                    costs[name] = None
                else:
                    costs[name] = before + share * Fraction(cost)
            if target == END:
                outcomes[move.event] += share
            else:
                is_back = move.edge is not None and move.edge.back
                front.add(revised + is_back, target, share)
    return Expected(runs, calls, costs, dict(outcomes), front.left)


class _Front:
    """The configurations to explore next, each with its part of all runs."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        order = explorer.plans.variables.graph.last_first
        self._place = {name: -at for at, name in enumerate(order)}
        self._mass: dict[tuple[int, int], Fraction] = {}
        self._waiting: list[tuple[int, int, int]] = []
        for start in explorer.starts():
            self.add(0, start, Fraction(1))
        if len(self._waiting) > 1:
            raise NotDetermined(OPEN_INPUT)

    def add(self, revised: int, index: int, mass: Fraction) -> None:
        """Add runs that reach a configuration after so many revisions."""
        key = (revised, index)
        if key not in self._mass:
            self._mass[key] = Fraction(0)
            place = self._place[self._explorer.state(index)]
            heappush(self._waiting, (revised, place, index))
        self._mass[key] += mass

    def each(self, most: int) -> Iterator[tuple[int, int, Fraction]]:
        """(revisions, configuration, part of all runs), at most `most` of them."""
        for _ in range(most):
            if not self._waiting:
                return
            revised, _, index = heappop(self._waiting)
            yield revised, index, self._mass.pop((revised, index))

    @property
    def left(self) -> Fraction:
        return sum(self._mass.values(), Fraction(0))


class _Chances:
    """The probability of each way out of a configuration, computed once for equal ones."""

    def __init__(self, assumptions: Sequence[Assumption]) -> None:
        self._of_state: dict[str, list[Assumption]] = defaultdict(list)
        for assumption in assumptions:
            self._of_state[assumption.state].append(assumption)
        self._known: dict[tuple[int, ...], list[tuple[int, Asked, Fraction]]] = {}

    def of(self, name: str, moves: Sequence[Move]) -> list[tuple[int, Asked, Fraction]]:
        """(way out, agent calls, probability), without those that never happen."""
        key = tuple(map(id, moves))
        if key not in self._known:
            self._known[key] = self._solve(name, moves) if moves else []
        return self._known[key]

    def _solve(self, name: str, moves: Sequence[Move]) -> list[tuple[int, Asked, Fraction]]:
        given = self._of_state[name]
        possible = [
            outcome
            for outcome in _outcomes(name, moves, given)
            if all(
                a.probability != (not held) for a, held in zip(given, outcome.truths, strict=True)
            )
        ]
        equations = Equations()
        try:
            equations.add([1] * len(possible), Fraction(1))
            for index, assumption in enumerate(given):
                held = [outcome.truths[index] for outcome in possible]
                if len(set(held)) > 1:
                    equations.add(held, assumption.probability)
        except Contradiction:
            raise NotDetermined(f"the probabilities of `{name}` contradict each other") from None
        return list(_shares(name, possible, given, equations))


def _shares(
    name: str, possible: Sequence[_Outcome], given: Sequence[Assumption], equations: Equations
) -> Iterator[tuple[int, Asked, Fraction]]:
    for way, asked in dict.fromkeys((outcome.way, outcome.asked) for outcome in possible):
        mine = [(outcome.way, outcome.asked) == (way, asked) for outcome in possible]
        chance = equations.value(mine)
        if chance is None:
            raise NotDetermined(_missing(name, possible, given))
        if chance < 0:
            raise NotDetermined(f"the probabilities of `{name}` add up to more than 1")
        if chance:
            yield way, asked, chance


def _outcomes(name: str, moves: Sequence[Move], given: Sequence[Assumption]) -> Iterator[_Outcome]:
    """The outcomes that can happen; errors and limits only if named, and never kept work."""
    named = frozenset[str]().union(*(assumption.condition.names for assumption in given))
    for way, move in enumerate(moves):
        if move.is_spared or (move.event != "done" and move.event not in named):
            continue
        sound = [case for case in move.cases if case.spread.how != "faulty"]
        for case in sound or move.cases:
            if case.spread.least != case.spread.most:
                raise NotDetermined(f"`{name}`: who is asked there depends on what is not known")
            truths = tuple(_holds(name, a, move, case) for a in given)
            yield _Outcome(way, case.spread.most, case, truths)


def _holds(name: str, assumption: Assumption, move: Move, case: Case) -> bool:
    facts = {**case.row, **of_verdict(case.verdict)}
    words = {move.event, *(value for value in facts.values() if isinstance(value, str))}
    if case.spread.how == "blocked":
        words.add(BLOCKED)
    said = {word: word in words for word in assumption.condition.names - facts.keys()}
    held = truth(assumption.condition.tree, {**said, **facts})
    if held is None:
        text = assumption.condition.text
        raise NotDetermined(f"`{text}` cannot be told of what `{name}` comes to")
    return held


def _missing(name: str, possible: Sequence[_Outcome], given: Sequence[Assumption]) -> str:
    """The message for outcomes that no assumption distinguishes: it names what differs."""
    wanted: dict[str, None] = {}
    for first in possible:
        for second in possible:
            is_alike = first.truths == second.truths
            if is_alike and (first.way, first.asked) != (second.way, second.asked):
                wanted |= dict.fromkeys(_differing(first.case, second.case))
    if not wanted:
        both = max((outcome.truths for outcome in possible), key=sum)
        wanted = {" and ".join(a.condition.text for a in compress(given, both)): None}
    listed = " or ".join(f"`{name}.{fact}`" for fact in wanted)
    return f"where the runs go from `{name}` depends on the probability of {listed}"


def _differing(first: Case, second: Case) -> Iterator[str]:
    for fact, value in first.row.items():
        other = second.row.get(fact)
        verdicts = (first.verdict, second.verdict)
        if fact == VERDICT and value != other and "pass" in verdicts:
            yield "valid"
        elif value != other and isinstance(value, str):
            yield value if value.isidentifier() else f'{fact} == "{value}"'
        elif value != other:
            yield fact
    if first.spread.how != second.spread.how:
        yield BLOCKED


Equation = tuple[list[Fraction], Fraction]
"""Coefficients, and the value of their sum."""


class Contradiction(Exception):
    """No values solve all the equations."""


class Equations:
    """A system in reduced form."""

    def __init__(self) -> None:
        self._pivots: dict[int, Equation] = {}

    def add(self, coefficients: Sequence[int], value: Fraction) -> None:
        """Add an equation; raises Contradiction if it contradicts the others."""
        left, rest = self._reduce([Fraction(c) for c in coefficients], value)
        pivot = next((index for index, c in enumerate(left) if c), None)
        if pivot is None:
            if rest:
                raise Contradiction
            return
        scale = left[pivot]
        self._pivots[pivot] = ([c / scale for c in left], rest / scale)

    def value(self, coefficients: Sequence[int]) -> Fraction | None:
        """The value of a sum; None if the equations leave it open."""
        left, rest = self._reduce([Fraction(c) for c in coefficients], Fraction(0))
        return None if any(left) else -rest

    def _reduce(self, left: list[Fraction], rest: Fraction) -> Equation:
        for pivot, (row, value) in self._pivots.items():
            factor = left[pivot]
            if factor:
                left = [a - factor * b for a, b in zip(left, row, strict=True)]
                rest -= factor * value
        return left, rest
