"""Results of the exploration, and what the conditions of guards tell apart in facts."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from loopkit.language.guard.evaluate import Held
from loopkit.machine.edges import EdgeEvent
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

    @property
    def children(self) -> int:
        """How many runs it starts, where it runs another machine."""
        total = self.facts.get("total")
        return total if isinstance(total, int) else 1


Way = tuple[Taken, ...]


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
    way: Way
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
    way: Way
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
    """None where there are too many to be looked at: then nothing is known of `unclosed` and
    `unfilled`."""
    stuck: tuple[Stuck, ...] = ()
    """One for each state in which a run can be stuck."""
    untaken: tuple[str, ...] = ()
    """Edges that no run takes, those of errors and limits that a state cannot have included."""
    unclosed: tuple[str, ...] = ()
    """Back edges that always have room when their state decides."""
    unfilled: Mapping[str, int] = field(default_factory=dict)
    """The counters that no run uses up (an edge's id, `budget:NAME`, `total`), each with the most
    that is spent of it."""
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
