"""Configurations that a run can reach, each with its moves, and the paths through them.

They begin at the start or at a run's present point, under probabilities where these are assumed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Literal, TypeVar

from loopkit.document.problems import did_you_mean
from loopkit.language.datatypes.datatype import facts_of
from loopkit.language.facts import BOOL, VERDICT
from loopkit.language.guard.grammar import Guard, GuardError, parse
from loopkit.language.guard.type_check import check
from loopkit.machine.graph import Graph
from loopkit.machine.program import flat_facts
from loopkit.machine.scope import own_names
from loopkit.proof.bounds.agent_calls import Asked
from loopkit.proof.bounds.moves import Case, Move
from loopkit.proof.bounds.plans import Held, Plans
from loopkit.proof.bounds.result import Taken, Way
from loopkit.proof.bounds.variables import FOUND, THEN, Variable
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.table import Row
from loopkit.values import Value, field

if TYPE_CHECKING:
    from loopkit.engine.state import RunState

END = -1
"""The target of a suspended run."""
Configuration = tuple[str, Held]
"""A state, and what it holds."""
Arc = tuple[Move, int]
"""A move, and the number of the configuration to which it leads, or END."""


class TooMany(Exception):
    """There are more configurations than may be explored."""


class Dead(Value, frozen=True):
    """A configuration with a row for which no transition is enabled."""

    at: int
    row: Row
    is_sure: bool


class Present(Value, frozen=True):
    """The present point of a run: its state, the values of its variables, its input."""

    state: str
    values: Mapping[Variable, object] = field(default_factory=dict)
    """Counts are not capped; regions are not among the values."""
    inputs: Mapping[str, object] = field(default_factory=dict)
    """By dotted name."""


class Explorer:
    """The graph of configurations, numbered in the order in which they are found."""

    def __init__(self, plans: Plans, most: int, present: Present | None = None) -> None:
        """Starts where runs start, unless a `present` is given."""
        self.plans = plans
        self.present = present or Present(plans.variables.graph.machine.start)
        self._most = most
        self._numbers: dict[str, dict[Held, int]] = {n: {} for n in plans.variables.graph.states}
        self.found: list[Configuration] = []
        self.moves: list[tuple[Move, ...]] = []
        """The moves of each explored configuration; equal ones are usually the same tuple."""
        self.targets: list[Sequence[int]] = []
        self.dead: dict[tuple[str, bool], Dead] = {}
        """For each state, the first surely dead configuration and the first that may be."""

    def explore_all(self) -> Explorer:
        """Explore the whole graph; raises TooMany above the number that may be explored."""
        self.starts()
        for index, _ in enumerate(self.found):
            moves, targets = self._look(index)
            self.moves.append(moves)
            self.targets.append(targets)
        return self

    def anew(self) -> Explorer:
        """One that has found nothing so far and may find any number."""
        return Explorer(self.plans, sys.maxsize, self.present)

    @cached_property
    def before(self) -> Mapping[int, tuple[int, Move]]:
        """For each configuration, its predecessor on a shortest path and the move from there."""
        before: dict[int, tuple[int, Move]] = {}
        starts = set(self.starts())
        for index, ways in enumerate(zip(self.moves, self.targets, strict=False)):
            for move, target in zip(*ways, strict=True):
                if target != END and target not in starts:
                    before.setdefault(target, (index, move))
        return before

    def first_dead(self, name: str) -> Dead | None:
        """A surely dead configuration of a state, else one that may be."""
        return self.dead.get((name, True)) or self.dead.get((name, False))

    def every_plan(self) -> Iterator[tuple[str, tuple[Move, ...]]]:
        """The moves of all configurations with their states; equal tuples are given once."""
        each = zip(self.found, self.moves, strict=True)
        return iter({id(moves): (name, moves) for (name, _), moves in each}.values())

    def starts(self) -> list[int]:
        name = self.present.state
        held = self.plans.start(name, self.present.values)
        return [self._number(name, part) for part in self.plans.parts(name, held)]

    def state(self, index: int) -> str:
        return self.found[index][0]

    def arcs(self, index: int) -> Iterator[Arc]:
        moves, targets = self._look(index)
        return zip(moves, targets, strict=True)

    def _look(self, index: int) -> tuple[tuple[Move, ...], Sequence[int]]:
        name, held = self.found[index]
        plan = self.plans.of(name, held)
        if (stuck := plan.ways.stuck) is not None:
            is_sure = plan.ways.is_surely_stuck
            self.dead.setdefault((name, is_sure), Dead(index, stuck, is_sure))
        numbers = self._numbers
        moves: list[Move] = []
        targets: list[int] = []
        for move, change in zip(plan.moves, plan.changes, strict=True):
            after = change.after(held) if change.target else ()
            known = numbers[change.target].get(after) if change.target else END
            if known is not None:
                targets.append(known)
                moves.append(move)
                continue
            parts = self.plans.parts(change.target, after)
            found = [self._number(change.target, part) for part in parts]
            targets += found
            moves += [move] * len(found)
        # Equal moves are the same tuple, which is weighed once.
        return plan.moves if len(moves) == len(plan.moves) else tuple(moves), targets

    def _number(self, name: str, held: Held) -> int:
        numbers = self._numbers[name]
        known = numbers.get(held)
        if known is None:
            known = numbers[held] = len(self.found)
            if known >= self._most:
                raise TooMany
            self.found.append((name, held))
        return known


ENDS = ("transient", "content", "fatal", "limit")
BLOCKED = "blocked"


class NotDetermined(Exception):
    """The probabilities do not decide the paths of runs or are impossible; the message says why."""


class Assumption(Value, frozen=True):
    """The probability that a state's work meets a condition."""

    state: str
    condition: Guard
    probability: Fraction


def assumptions_of(analysis: Analysis, given: Mapping[str, Fraction]) -> tuple[Assumption, ...]:
    """Assumptions from texts such as `validate.valid`; raises NotDetermined for unknown names."""
    return tuple(_assumption(analysis, text, chance) for text, chance in given.items())


def _assumption(analysis: Analysis, text: str, probability: Fraction) -> Assumption:
    state, _, condition = text.partition(".")
    if state not in analysis.states:
        near = did_you_mean(state, sorted(analysis.states))
        raise NotDetermined(f"there is no state `{state}`: {near}")
    if not 0 <= probability <= 1:
        raise NotDetermined(f"the probability of `{text}` is {probability}, not between 0 and 1")
    try:
        guard = parse(condition)
    except GuardError as error:
        raise NotDetermined(f"`{text}`: {error}") from error
    facts = own_names(analysis.graph, state)
    words = {str(word) for known in facts.values() for word in known.values}
    known = {**dict.fromkeys((*words, *ENDS, BLOCKED), BOOL), **facts}
    for name in sorted(guard.names - known.keys()):
        near = did_you_mean(name, sorted(known))
        raise NotDetermined(f"`{state}` has no fact `{name}`: {near}")
    for problem in check(guard, known):
        raise NotDetermined(f"`{text}`: {problem.message}: {problem.help}")
    return Assumption(state, guard, probability)


Number = int | float
_Node = TypeVar("_Node")
Steps = list[tuple[_Node, Move]]


class Path(Value, frozen=True):
    """Consecutive moves, each with the number of the configuration that it leaves."""

    steps: tuple[tuple[int, Move], ...]
    end: int


def ahead(
    ends: Collection[str], plans: Iterable[tuple[str, Sequence[Move]]], aim: Aim
) -> Mapping[str, Number]:
    """The minimum from each state to one of the `ends`, over all configurations of the state."""
    into: dict[str, list[tuple[Number, str]]] = {}
    for _, moves in plans:
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
) -> tuple[Number, Path | None]:
    """The total that no path to one of the `ends` undercuts, and such a path.

    The total is infinite if no run reaches an end. There is no path if no run does or the search
    was cut off after `most` configurations.
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
            return reached[index], path_to(index, before)
        if len(done) > most:
            return bound, None
        for move, target in explorer.arcs(index):
            total = reached[index] + aim.weight(move)
            if target == END or total >= reached.get(target, NEVER):
                continue
            reached[target] = total
            before[target] = (index, move)
            onward = total + least.get(explorer.state(target), NEVER)
            heappush(front, (onward, steps + 1, next(serial), target))
    return NEVER, None


Measure = Literal["runs", "calls", "cost", "tool_calls"]
NEVER = float("inf")


class Endless(Exception):
    """Some configurations can follow one another in a cycle, so a run need not end."""

    def __init__(self, state: str) -> None:
        super().__init__(f"a run can come back to `{state}` with nothing spent")
        self.state = state


def path_to(end: int, before: Mapping[int, tuple[int, Move]]) -> Path:
    return Path(tuple(_steps_to(end, before)), end)


def _steps_to(end: _Node, before: Mapping[_Node, tuple[_Node, Move] | None]) -> Steps[_Node]:
    """The steps from a start, which has nothing before it."""
    steps: Steps[_Node] = []
    while (step := before.get(end)) is not None:
        steps.append(step)
        end = step[0]
    return steps[::-1]


def last_first(explored: Explorer) -> list[int]:
    """The configurations, each after all that can follow it; raises Endless if there is a cycle.

    Their order is the proof that every path is finite.
    """
    waiting = [len(targets) for targets in explored.targets]
    before: list[list[int]] = [[] for _ in waiting]
    for index, targets in enumerate(explored.targets):
        for target in targets:
            if target == END:
                waiting[index] -= 1
            else:
                before[target].append(index)
    order = [index for index, left in enumerate(waiting) if left == 0]
    for index in order:
        for earlier in before[index]:
            waiting[earlier] -= 1
            if waiting[earlier] == 0:
                order.append(earlier)
    if len(order) < len(waiting):
        circling = next(index for index, left in enumerate(waiting) if left)
        raise Endless(explored.found[circling][0])
    return order


def circle(graph: Graph) -> str | None:
    """A state in a possible cycle; None if the edges alone show that every run ends.

    Then the forward edges have no cycle, and every back edge spends a counter that is never reset.
    """
    place = {node: at for at, node in enumerate(graph.nodes_last_first)}
    reset = {counter for edge in graph.edges for counter in edge.resets}
    for node, ways in graph.junctions.ways.items():
        for edge in ways:
            is_endless = edge.back and reset.issuperset(edge.counters)
            if is_endless or (edge.forward and place[graph.junctions.to(edge)] >= place[node]):
                return edge.target
    return None


def weight_of(asked: Asked, measure: Measure, *, is_worst: bool) -> Number:
    """The measure of a visit's calls, with every retry, fallback, re-ask and tool or with none.

    All prices have to be known.
    """
    if measure == "runs":
        return sum(work.runs for work in asked)
    if measure == "calls":
        return sum(work.most_calls if is_worst else work.runs for work in asked)
    if measure == "tool_calls":
        return sum(work.most_tool_calls if is_worst else 0 for work in asked)
    return sum((work.most_usd if is_worst else work.call_usd) or 0.0 for work in asked)


class Aim:
    """The aim of a search: the most that any path takes, or the least that reaches a success."""

    def __init__(self, measure: Measure, *, is_worst: bool) -> None:
        self.measure: Measure = measure
        self.is_worst = is_worst
        self._known: dict[int, tuple[Move, Number]] = {}

    def weight(self, move: Move) -> Number:
        known = self._known.get(id(move))
        if known is None:
            # The move is stored as well, so that no other object gets its id.
            # Work that a limit cuts short does not count for the least of a success.
            is_cut_short = move.event == "limit" and not self.is_worst
            weight = NEVER if is_cut_short else self._weigh(self.case(move)[1])
            known = self._known[id(move)] = (move, weight)
        return known[1]

    def case(self, move: Move) -> tuple[Case, Asked]:
        """The case of a move that counts for this aim, and its agent calls."""
        sign = -1 if self.is_worst else 1
        case = min(move.cases, key=lambda c: (sign * self._weigh(self._calls_in(c)), not c.is_sure))
        return case, self._calls_in(case)

    def _calls_in(self, case: Case) -> Asked:
        return case.spread.most if self.is_worst else case.spread.least

    def _weigh(self, asked: Asked) -> Number:
        return weight_of(asked, self.measure, is_worst=self.is_worst)


def dearest(
    explored: Explorer, order: Sequence[int], aim: Aim, ends: Collection[str] | None = None
) -> tuple[Number, Path] | None:
    """The most that a path takes, and such a path, in one pass over all configurations.

    With `ends`, only paths to one of these states count; None if there is no such path.
    """
    weights = {id(moves): list(map(aim.weight, moves)) for _, moves in explored.every_plan()}
    weighed = [weights[id(moves)] for moves in explored.moves]
    # The additional last entry is found by END, which is -1: a suspended run.
    totals: list[Number] = [0 if ends is None else -NEVER] * (len(order) + 1)
    for index in order:
        if ends is not None and explored.found[index][0] in ends:
            totals[index] = 0
        if targets := explored.targets[index]:
            totals[index] = max(
                [w + totals[to] for w, to in zip(weighed[index], targets, strict=True)]
            )
    index = max(explored.starts(), key=totals.__getitem__)
    if totals[index] == -NEVER:
        return None
    total = totals[index]
    end = index
    steps = list[tuple[int, Move]]()
    while index != END and (targets := explored.targets[index]):
        through = [w + totals[to] for w, to in zip(weighed[index], targets, strict=True)]
        at = through.index(max(through))
        steps.append((index, explored.moves[index][at]))
        end, index = index, targets[at]
    return total, Path(tuple(steps), end if index == END else index)


def present_of(analysis: Analysis, run: RunState) -> Present:
    """The present point of a run in a machine, which need not be the one that it started with."""
    values = dict(_counts(run)) | dict(_facts(run)) | dict(_judgement_counts(analysis, run))
    for name, _ in run.made_from.values():
        if name not in run.pending and not (name == run.state and run.is_revision):
            values[Variable("kept", name)] = 1
    edge = analysis.graph.by_id.get(run.entered_by or "")
    values[Variable("before", run.state)] = edge.source if edge else None
    values[THEN] = int(run.then_used)
    return Present(run.state, values, facts_of(run.input, analysis.scope.input, "input."))


def _counts(run: RunState) -> Iterator[tuple[Variable, object]]:
    for counter, spent in run.counters.items():
        yield Variable("counter", counter), spent
    for state, attempts in run.attempts.items():
        yield Variable("works", state), attempts
    for name, artifact in run.artifacts.items():
        yield Variable("version", name), artifact.attempt
        yield Variable("author", name), artifact.author


def _facts(run: RunState) -> Iterator[tuple[Variable, object]]:
    reports = {name: {VERDICT: verdict} for name, verdict in run.verdicts.items()}
    for name, value in flat_facts({**run.facts, "reports": reports}).items():
        yield Variable("fact", name), frozenset(value) if isinstance(value, list | tuple) else value
    last = run.last_report
    yield FOUND, last.state if last is not None and last.origin is not None else None


def _judgement_counts(analysis: Analysis, run: RunState) -> Iterator[tuple[Variable, object]]:
    """Twice the number of versions judged before the current one, plus one if that was judged."""
    attempts = {(part.author, part.attempt) for part in run.artifacts.values()}
    for name in analysis.judges.keys() & run.rounds_at.keys():
        rounds = [*run.rounds_at[name]]
        is_judged = any(attempts.issuperset(judged.attempt) for judged in rounds)
        yield Variable("judged", name), 2 * (len(rounds) - is_judged) + is_judged


MOST_TOLD = 6
_At = tuple[int, int, bool]
"""A configuration, the number of revisions before it, and whether an agent was asked before it."""


def shortest_ways(explorer: Explorer, most: int) -> tuple[dict[int, Way], bool]:
    """The ways by the number of revisions, the fewest first, and whether the search was complete.

    One on which nobody is asked counts only if there is no other. The search stops at `most`
    configurations. Of more than MOST_TOLD ways, the result has the first ones, the one in the
    middle, and the last.
    """
    states = explorer.plans.variables.graph.states
    before: dict[_At, tuple[_At, Move] | None] = {(at, 0, False): None for at in explorer.starts()}
    found: dict[int, _At] = {}
    front = deque(before)
    while front and len(before) <= most:
        here = front.popleft()
        index, revised, has_asked = here
        if states[explorer.state(index)].succeeds:
            if revised not in found or (has_asked and not found[revised][2]):
                found[revised] = here
            continue
        for move, target in explorer.arcs(index):
            # A state that keeps what it made is no longer way, and takes nothing.
            if move.event != "done" or move.is_spared or move.edge is None or target == END:
                continue
            asks = has_asked or any(case.spread.least for case in move.cases)
            there = (target, revised + move.edge.back, asks)
            if there not in before:
                before[there] = (here, move)
                front.append(there)
    told = sorted(found)
    if len(told) > MOST_TOLD:
        told = [*told[: MOST_TOLD - 2], told[len(told) // 2], told[-1]]
    steps = {number: _steps_to(found[number], before) for number in told}
    ways = {n: tuple(_taken(explorer, at[0], move) for at, move in steps[n]) for n in told}
    return ways, not front


def _taken(explorer: Explorer, index: int, move: Move) -> Taken:
    case = max(move.cases, key=_asks_most)
    return move.taken(explorer.state(index), case, case.spread.least)


def _asks_most(case: Case) -> tuple[float, ...]:
    """The least number of calls and their cost; for items, a key for the fewest successes."""
    asked = case.spread.least
    total = case.row.get("total")
    failed = case.row.get("failed")
    if isinstance(total, int) and isinstance(failed, int):
        return total > 0, -total, -failed
    return len(asked), sum(work.most_usd or 0 for work in asked)
