"""Results of the exploration, and what the conditions of guards tell apart in facts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TypeGuard

from loopkit.language.guard.evaluate import UNKNOWN, Held, equality, truth
from loopkit.language.guard.grammar import Guard, names_in
from loopkit.machine.edges import Edge, EdgeEvent
from loopkit.proof.bounds.agent_calls import Asked
from loopkit.proof.outcomes.table import Row
from loopkit.values import Value, field


def values_in_words(known: Mapping[str, object]) -> str:
    """`rounds = 2, urgent = true, owner = none, "E-1" in codes`."""
    return ", ".join(_in_words(name, value) for name, value in known.items())


def _in_words(name: str, value: object) -> str:
    if isinstance(value, Held):
        told = {f'"{one}" in {name}' for one in value}
        return ", ".join(sorted(told | {f'"{one}" not in {name}' for one in value.absent}))
    if value is None or isinstance(value, bool):
        return f"{name} = {'none' if value is None else str(value).lower()}"
    return f"{name} = {value}"


class Taken(Value, frozen=True):
    """One step of a path: the state, what its work came to, and the edge taken."""

    state: str
    event: EdgeEvent
    edge: str | None
    """None where an error that nothing catches suspends the run."""
    facts: Row
    """What the state's own work left, as far as guards look at it; empty after an error."""
    asked: Asked = ()
    is_spared: bool = False
    """The state keeps what it made."""


class Visit(Value, frozen=True):
    """A state at work on a way on which nothing fails."""

    state: str
    entered_by: Edge | None
    """None where the run starts."""
    asked: Asked
    children: int = 1
    """How many runs it starts, where it runs another machine."""


Way = tuple[Visit, ...]


class Extreme(Value, frozen=True):
    """The most, or the least, of one measure, and a path that is known to take it."""

    total: float | None
    """What no run exceeds, or no success undercuts. Runs and calls are whole numbers; cost is USD,
    none where a price is unknown."""
    known: float | None
    """The total, where some run is known to take it; else none."""
    by_state: Mapping[str, float]
    """What of it falls to each state on the path; states that take none are left out."""
    by_agent: Mapping[str, float]
    way: tuple[Taken, ...]
    inputs: Row
    """The inputs with which the path starts, as far as it makes a difference."""

    @property
    def is_exact(self) -> bool:
        """Whether a run is known to take it."""
        return self.known == self.total


class Range(Value, frozen=True):
    best: Extreme | None
    """The cheapest path to a success on which no limit is reached; none where there is none."""
    worst: Extreme


class Stuck(Value, frozen=True):
    """A state in which no transition is enabled, and how a run comes there."""

    state: str
    facts: Row
    counters: Mapping[str, int]
    inputs: Row
    way: tuple[Taken, ...]
    is_sure: bool
    """False where the guards leave more open than can be counted out."""
    is_reached: bool = True
    """False where it could not be decided whether a run comes there; then there is no way."""


class Expected(Value, frozen=True):
    """Means over the runs of a machine, under the probabilities that were given."""

    runs: Fraction
    calls: Fraction
    """Every call is answered at once: retries and re-asks are none, but for what an agent calls
    that has to have its answer found valid by a tool."""
    cost_by_state: Mapping[str, Fraction | None]
    """USD, each call at its usual cost; none where one is unknown."""
    outcomes: Mapping[str, Fraction]
    """How often each final state is reached; a suspended run counts under its error."""
    left_out: Fraction = Fraction(0)
    """The part of all runs that was not followed to its end, so that the means are too low."""

    @property
    def cost(self) -> Fraction | None:
        """USD of all states together; none where that of one is unknown."""
        known = [cost for cost in self.cost_by_state.values() if cost is not None]
        is_whole = len(known) == len(self.cost_by_state)
        return sum(known, Fraction(0)) if is_whole else None


class Bounds(Value, frozen=True):
    """What a machine's runs can take, over all paths between two answers and without a resume."""

    runs: Range
    """Agent runs: an author or a judge asked on one visit of a state."""
    calls: Range
    """Calls to models and to agents that are programs."""
    cost: Range
    tool_calls: Extreme | None = None
    """The most calls of tools; none where nobody who is asked has any."""
    configurations: int | None = None
    """None where there are too many to be looked at: then nothing is known of `paths`, `unclosed`
    and `unfilled`."""
    paths: int | None = None
    stuck: tuple[Stuck, ...] = ()
    """One for each state in which a run can be stuck."""
    untaken: tuple[str, ...] = ()
    """Edges that no run takes, those of errors and limits that a state cannot have included."""
    unclosed: tuple[str, ...] = ()
    """Back edges that always have room when their state decides."""
    unfilled: Mapping[str, int | None] = field(default_factory=dict)
    """The counters that no run uses up (an edge's id, `budget:NAME`, `total`), each with the most
    that is spent of it, where that is known."""
    unpriced: tuple[tuple[str, str], ...] = ()
    """(agent, place) of the calls whose price is unknown."""
    ways: Mapping[int, Way] = field(default_factory=dict)
    """The shortest way to a success after each number of revisions, where these were asked for.
    Of very many the first few, one of those behind, and the one with the most."""
    has_all_ways: bool = False
    expected: Expected | None = None
    """Where probabilities were given."""

    @property
    def is_whole(self) -> bool:
        return self.configurations is not None


_OTHER = object()
"""A value that no condition names."""


class Telling:
    """Tells facts apart by the truth of conditions, and some facts by their value.

    Hundreds of conditions may compare a fact with one value each; they are one look at the value.
    """

    def __init__(self, conditions: Iterable[ast.expr], by_value: Sequence[str] = ()) -> None:
        self._by_value = by_value
        self._cases: dict[str, set[object]] = {}
        """The values that a fact is compared with for equality."""
        others: dict[str, ast.expr] = {}
        for condition in conditions:
            if (needed := equality(condition)) is None:
                others.setdefault(ast.dump(condition), condition)
            else:
                self._cases.setdefault(needed[0], {UNKNOWN}).add(needed[1])
        self._others = tuple(others.values())

    def of(self, facts: Mapping[str, object]) -> tuple[object, ...]:
        """The same for facts that nothing distinguishes."""
        return (
            *(truth(condition, facts) for condition in self._others),
            *(facts[f] if facts[f] in values else _OTHER for f, values in self._cases.items()),
            *(facts[fact] for fact in self._by_value),
        )


def alike(name: str, guards: Iterable[Guard]) -> Callable[[object], object]:
    """A function that maps all values that no guard distinguishes to one of them."""
    tests = [node for guard in guards for node in ast.walk(guard.tree) if _tests(node, name)]
    if any(len(names_in(test)) > 1 for test in tests):
        return lambda value: value
    telling = Telling(tests)
    stand_ins = dict[tuple[object, ...], object]()

    def stand_in(value: object) -> object:
        return stand_ins.setdefault(telling.of({name: value}), value)

    return stand_in


def _tests(node: ast.AST, name: str) -> TypeGuard[ast.expr]:
    """Whether a part of a guard is a smallest condition on a name."""
    if isinstance(node, ast.Compare):
        return name in names_in(node)
    return isinstance(node, ast.Name) and node.id == name
