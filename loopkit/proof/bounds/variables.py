"""Variables of a configuration: the values that something reachable still reads.

They are regions of inputs that nothing distinguishes so far, counters, and facts, those of the last
work of a state that may be kept included; as facts they are added to the rows of a state.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from math import floor
from typing import Literal, NamedTuple

from loopkit.language.facts import CAME_FROM, COUNTING, OF_PROGRESS
from loopkit.language.guard.evaluate import UNKNOWN
from loopkit.language.guard.grammar import Guard, names_in
from loopkit.language.states.each import EachState
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph, artifact_of, judges_behind
from loopkit.machine.inputs import item_count_in
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.facts import AUTHOR, renamed
from loopkit.proof.outcomes.table import FOUND_BY, ROOM, alike, bounded_inputs, domains

Kind = Literal[
    "counter",
    "room",
    "works",
    "version",
    "author",
    "judged",
    "fact",
    "before",
    "input",
    "then",
    "kept",
]


class Variable(NamedTuple):
    """One thing that a configuration remembers."""

    kind: Kind
    """`counter`: revisions spent. `room`: the region of what is left of a counter whose cap is an
    input that nothing else reads. `works`: how often a state has completed. `version`: how often
    its author had worked when it wrote an artifact. `author`: who that was. `judged`: two for each
    version that a validate state has judged before the current one, and one where it has judged
    that. `fact`: the last value of another state's fact. `before`: the state from which the run
    came to this one. `input`: the region of an input. `then`: whether a limit was reached. `kept`:
    whether a state may keep what it made where it is entered again."""
    name: str = ""


THEN = Variable("then")
FOUND = Variable("fact", FOUND_BY)
"""The validate state that found something last, whose origin a person may change."""
Values = Mapping[Variable, object]


class Variables:
    """Which variables matter at each state, and what they start with."""

    def __init__(
        self,
        analysis: Analysis,
        inputs: Mapping[str, object],
        counted: Collection[str] | None = None,
    ) -> None:
        """`inputs` are the known values, by dotted name.

        `counted` are the tracked counters, by default all; any other counter may or may not have
        room whenever it is read.
        """
        self.analysis = analysis
        self.given = inputs
        self.graph = analysis.graph
        self.counted = frozenset(self.graph.caps if counted is None else counted)
        every = [guard for name in self.graph.states for guard in self.guards_at(name)]
        self.inputs = Inputs(analysis, inputs, every)
        reset = {counter for edge in self.graph.edges for counter in edge.resets}
        self.rooms = self.inputs.alone(self.counted - self._read_as_numbers - reset)
        """The counters of which only the room left is held."""
        self.read = {name: tuple(dict.fromkeys(self._reads(name))) for name in self.graph.states}
        """The variables that decide how a state's work can go on."""

    @cached_property
    def _read_as_numbers(self) -> frozenset[str]:
        return frozenset(counter for some in self.counting.values() for counter in some)

    @cached_property
    def counting(self) -> Mapping[str, tuple[str, ...]]:
        """The counters that each state's guards read as `revisions` or `max_revisions`."""
        return {
            name: edges[0].counting
            if len(edges) == 1 and not self.named[name].isdisjoint(COUNTING)
            else ()
            for name, edges in self.graph.revise_edges.items()
        }

    def reads_most(self, name: str) -> bool:
        return bool(self.counting[name]) and "max_revisions" in self.named[name]

    @cached_property
    def by_room(self) -> Mapping[Variable, int]:
        """The counters that are read only for their room, with their caps."""
        caps = self.inputs.caps
        some = self.counted - self._read_as_numbers
        return {Variable("counter", c): cap for c in some if isinstance(cap := caps[c], int)}

    @cached_property
    def guards(self) -> Mapping[str, tuple[Guard, ...]]:
        return {
            name: self.analysis.guards.every_whole(e.guard for e in self.graph.on(name, "done"))
            for name in self.graph.states
        }

    @cached_property
    def rule_guards(self) -> Mapping[str, tuple[Guard, ...]]:
        return {
            name: self.analysis.guards.every_whole(rule.guard for rule in rules)
            for name, rules in self.analysis.rules_at.items()
        }

    @cached_property
    def elsewhere(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of other states that name facts of each state; its own as well, if it may go
        on from its last work."""
        found: dict[str, list[Guard]] = {name: [] for name in self.graph.states}
        for name, guards in self.guards.items():
            for guard in guards:
                for owner in {owner_of(fact) for fact in guard.names if "." in fact} - {name}:
                    if owner in found:
                        found[owner].append(guard)
        for name in self.graph.keeping:
            found[name] += (of_last_work(self.graph, name, g) for g in self.guards[name])
        return {name: tuple(guards) for name, guards in found.items()}

    @cached_property
    def named(self) -> Mapping[str, frozenset[str]]:
        """The names that each state's guards read, those of its rules included."""
        return {
            name: frozenset[str]().union(*(guard.names for guard in self.guards_at(name)))
            for name in self.graph.states
        }

    def guards_at(self, name: str) -> tuple[Guard, ...]:
        """The guards of a state and those of its rules."""
        return (*self.guards[name], *self.rule_guards.get(name, ()))

    def _reads(self, name: str) -> Iterator[Variable]:
        for edge in self.graph.outgoing[name]:
            yield from self.variables_of_room(edge)
            if edge.event == "limit":
                yield THEN
        yield from self._variables_in_guards(name)
        if self.versions_judged_before(name):
            yield Variable("judged", name)
        yield from self.author_of_what_is_judged(name)
        artifact = artifact_of(self.graph.machine, name)
        is_version_read = artifact is not None and Variable("version", artifact) in self.most
        if is_version_read or name in self.keeping_items:
            yield Variable("works", name)
        if name in self.graph.keeping:
            yield Variable("kept", name)

    def variables_of_room(self, edge: Edge) -> Iterator[Variable]:
        for counter in edge.counters:
            cap = self.inputs.caps[counter]
            if counter in self.rooms:
                yield Variable("room", counter)
            elif counter in self.counted:
                yield Variable("counter", counter)
                if isinstance(cap, str):
                    yield Variable("input", cap)

    def _variables_in_guards(self, name: str) -> Iterator[Variable]:
        for fact in sorted(self.named[name]):
            owner = owner_of(fact) if "." in fact else name
            if fact == "attempt":
                yield self.attempt(name)
            elif fact == CAME_FROM:
                yield Variable("before", name)
            elif fact in self.inputs.named:
                yield Variable("input", fact)
            elif owner in self.graph.states and owner != name:
                yield Variable("fact", fact)
        if name in self.analysis.told_what_was_found:
            yield FOUND
        yield from self.own_facts(name)

    def own_facts(self, name: str) -> tuple[Variable, ...]:
        """The facts of a state's last work that its own guards read, if it may go on from that."""
        if name not in self.graph.keeping:
            return ()
        read = sorted(map(_name_elsewhere(self.graph, name), self.named[name]))
        return tuple(Variable("fact", fact) for fact in read if fact.startswith(f"{name}."))

    def attempt(self, name: str) -> Variable:
        """The variable that `attempt` means in a state."""
        judged = self.graph.states[name].judges
        return Variable("works", name) if judged is None else Variable("version", judged)

    def author_of_what_is_judged(self, name: str) -> tuple[Variable, ...]:
        """The author of the judged artifact, if findings go back to several authors."""
        judged = self.graph.states[name].judges
        several = self.graph.origins and len(self.graph.artifacts.get(judged or "", ())) > 1
        return (Variable("author", judged),) if judged and several else ()

    @cached_property
    def behind(self) -> Mapping[str, tuple[str, ...]]:
        """For each author, the validate states with a count of judged versions that judge what was
        made from its artifact."""
        return judges_behind(self.graph, filter(self.versions_judged_before, self.graph.judges))

    @cached_property
    def keeping_items(self) -> frozenset[str]:
        """The `each` states that may be entered again, so that items may be kept."""
        graph = self.graph
        return frozenset(
            name
            for name in graph.machine.states_of(EachState)
            if any(name in graph.reachable(edge.target) for edge in graph.outgoing[name])
        )

    def items(self, name: str) -> int | None:
        """The number of items in a state's list; None if it is unknown."""
        state = self.graph.states[name]
        return item_count_in(state, self.given) if isinstance(state, EachState) else None

    def versions_judged_before(self, name: str) -> int:
        """The most versions judged before the current one that a guard distinguishes."""
        if name not in self.graph.judges:
            return 0
        read = {n for g in (*self.guards[name], *self.elsewhere[name]) for n in g.names}
        told = (OF_PROGRESS.get(fact.removeprefix(f"{name}."), 0) for fact in read)
        return max(told, default=0)

    @cached_property
    def most(self) -> Mapping[Variable, int]:
        """The number of works above which no guard distinguishes any; also for versions."""
        most: dict[Variable, int] = {}
        for name in self.graph.states:
            if "attempt" in self.named[name]:
                guards = self.guards_at(name)
                compared = [n for guard in guards for n in self._numbers_compared(name, guard)]
                counted = self.attempt(name)
                most[counted] = max(most.get(counted, 0), *(n + 1 for n in compared), 1)
        for name in self.keeping_items:
            most.setdefault(Variable("works", name), 1)
        for counted, largest in list(most.items()):
            if counted.kind == "version":
                for author in self.graph.artifacts.get(counted.name, ()):
                    own = Variable("works", author)
                    most[own] = max(most.get(own, 1), largest)
        return most

    def _numbers_compared(self, name: str, guard: Guard) -> Iterator[int]:
        """The whole numbers with which a guard compares `attempt`; of a region, the largest."""
        for node in ast.walk(guard.tree):
            if not isinstance(node, ast.Compare) or "attempt" not in (others := names_in(node)):
                continue
            for inner in ast.walk(node):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, int | float):
                    yield int(inner.value)
            yield from (
                granted(self.inputs.region(o))[1] for o in others & self.inputs.named.keys()
            )
            if others & COUNTING.keys():
                for edge in self.graph.revise_edges[name]:
                    yield from map(self.inputs.most, edge.counters)

    def largest(self, variable: Variable) -> int | None:
        """The largest value of a variable that counts; None for any other variable."""
        match variable.kind:
            case "counter":
                return self.inputs.most(variable.name)
            case "works" | "version":
                return self.most.get(variable, 1)
            case "judged":
                return 2 * self.versions_judged_before(variable.name)
            case "then" | "kept":
                return 1
            case _:
                return None

    def start(self, variable: Variable) -> object:
        match variable.kind:
            case "input":
                return self.inputs.region(variable.name)
            case "room":
                return self.inputs.cap(variable.name)
            case "author" | "before":
                return None
            case "fact":
                return None if variable == FOUND else UNKNOWN
            case _:
                return 0


def owner_of(fact: str) -> str:
    return fact.removeprefix("reports.").partition(".")[0]


MOST_SINGLE = 1_024
"""The most values of an input that are told apart one by one where it is compared with a name."""
Region = tuple[object, ...] | range
"""The values of an input, or of what is left of a counter, that nothing distinguishes so far."""


def split(
    region: Region, decide: Callable[[object], object], near: Iterable[object] = ()
) -> list[Region]:
    """Split into parts whose values all decide a condition alike.

    `near` has all numbers at which the decision can change in a range; its parts are ranges.
    """
    if isinstance(region, range):
        numbers = {floor(number) for number in near if isinstance(number, int | float)}
        cuts = {n + step for n in numbers for step in (0, 1) if n + step in region}
        ends = sorted({region.start, region.stop, *cuts})
        runs = groupby(map(range, ends, ends[1:]), key=lambda run: decide(run[0]))
        found = [list(run) for _, run in runs]
        return [range(run[0].start, run[-1].stop) for run in found]
    told: dict[object, list[object]] = {}
    for value in region:
        told.setdefault(decide(value), []).append(value)
    return [tuple(part) for part in told.values()]


def one_by_one(region: Region) -> list[Region]:
    return [(value,) for value in region]


def cut(region: Region, spent: int) -> list[Region]:
    """Split into caps that are spent and those that are not; ranges stay ranges."""
    if isinstance(region, tuple):
        return split(region, lambda value: _granted(value) <= spent)
    at = max(spent + 1 - region.start, 0)
    return [part for part in (region[:at], region[at:]) if part]


def granted(region: Region) -> tuple[int, int]:
    """The fewest and the most revisions that the caps in a region grant."""
    if isinstance(region, range):
        return region[0], region[-1]
    caps = [_granted(value) for value in region]
    return min(caps), max(caps)


def _granted(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


class Inputs:
    """The region of each input that guards or caps read, and the caps of all counters."""

    def __init__(
        self, analysis: Analysis, given: Mapping[str, object], guards: Sequence[Guard]
    ) -> None:
        """`given` are the known values, by dotted name."""
        self._bounded = bounded_inputs(analysis.scope.input)
        self.caps: Mapping[str, int | str] = {
            counter: _granted(given[cap]) if isinstance(cap, str) and cap in given else cap
            for counter, cap in analysis.graph.caps.items()
        }
        """The cap of each counter: a number, or the input that holds it."""
        self.named = dict(self._regions_in_guards(analysis, given, guards))
        """The regions of the inputs that guards read and whose values can be split."""

    def region(self, name: str) -> Region:
        return self.named.get(name) or self._bounded.get(name) or (0,)

    def cap(self, counter: str) -> Region:
        """All values that the cap of a counter may have."""
        cap = self.caps[counter]
        return (cap,) if isinstance(cap, int) else self.region(cap)

    def most(self, counter: str) -> int:
        """The most revisions that the cap of a counter may grant."""
        return granted(self.cap(counter))[1]

    def alone(self, counters: Collection[str]) -> frozenset[str]:
        """The counters among `counters` whose cap is an input that nothing else reads."""
        users = Counter(self.caps.values())
        return frozenset(
            counter
            for counter in counters
            if isinstance(cap := self.caps[counter], str)
            and users[cap] == 1
            and cap not in self.named
        )

    def _regions_in_guards(
        self, analysis: Analysis, given: Mapping[str, object], guards: Sequence[Guard]
    ) -> Iterator[tuple[str, Region]]:
        types = analysis.scope.guards.common
        enough = domains(guards, types, analysis.scope.input)
        reading = by_name(guards)
        for name in types.keys() & reading.keys() - {"attempt"}:
            none = (None,) if types[name].optional else ()
            whole = self._bounded.get(name, ())
            if name in given:
                yield name, (given[name],)
            elif whole and (name in self.caps.values() or len(whole) <= MOST_SINGLE):
                yield name, (*whole, *none) if none else whole
            elif name in enough:
                yield name, tuple(dict.fromkeys(map(alike(name, reading[name]), enough[name])))


def of_last_work(graph: Graph, name: str, guard: Guard) -> Guard:
    """A guard of a state that reads the facts of its last work instead of those of the new work."""
    return renamed(guard, _name_elsewhere(graph, name))


def _name_elsewhere(graph: Graph, name: str) -> Callable[[str], str]:
    own = own_names(graph, name)
    return lambda fact: f"{name}.{fact}" if fact in own else fact


def by_name(guards: Iterable[Guard]) -> Mapping[str, Sequence[Guard]]:
    found: dict[str, list[Guard]] = {}
    for guard in guards:
        for name in guard.names:
            found.setdefault(name, []).append(guard)
    return found


AGAIN = "again "
"""Whether a state has worked before, if that decides what its work takes."""
PROGRESS = "progress "
"""How many earlier attempts were judged completely, up to two."""
KEPT = "kept "
"""Whether a state may keep its artifact."""
LAST = "last "
"""Prefix of a fact: its value after the state's own last work, if that may be kept."""
WORKED = "worked "
"""How often a state has worked, if its work may be kept and a guard reads `attempt`."""
LIMITED = "limited "
"""Whether a limit was reached before."""


def facts_at(variables: Variables, name: str, values: Values) -> Iterator[tuple[str, object]]:
    """Each fact of the context of a state in a configuration; they are the same ones in each.

    An input is read as one value of its region, which is split as far as the state needs it.
    """
    read, named = variables.read[name], variables.named[name]
    for variable in read:
        if variable.kind in ("counter", "room"):
            yield ROOM + variable.name, _has_room(variables, variable.name, values)
        elif variable.kind == "fact" and variable.name in named:
            yield variable.name, values[variable]
        elif variable.kind == "input" and variable.name in named:
            yield variable.name, _stand_in(values[variable])
    if "attempt" in named:
        # Of the author of the judged artifact; else of this state, now included.
        works = variables.attempt(name)
        now = number(values[works]) + (works.kind == "works")
        yield "attempt", min(now, variables.most[works])
    yield from _facts_of_earlier(variables, name, values)
    if (judged := Variable("judged", name)) in read:
        yield PROGRESS, number(values[judged]) // 2
    for author in variables.author_of_what_is_judged(name):
        yield AUTHOR, values[author]
    if THEN in read:
        yield LIMITED, values[THEN]
    yield from _facts_of_counts(variables, name, values)


def _facts_of_counts(
    variables: Variables, name: str, values: Values
) -> Iterator[tuple[str, object]]:
    counting, known = variables.counting[name], variables.inputs.caps
    if counting and variables.counted.issuperset(counting):
        used = [number(values[Variable("counter", counter)]) for counter in counting]
        yield "revisions", used[0]
        if variables.reads_most(name):
            caps = (values.get(Variable("input", str(known[c])), (known[c],)) for c in counting)
            most = [_stand_in(cap) for cap in caps]
            left = [number(m) - n for m, n in zip(most, used, strict=True) if m is not UNKNOWN]
            yield "max_revisions", UNKNOWN if UNKNOWN in most else used[0] + min(left)


def _facts_of_earlier(
    variables: Variables, name: str, values: Values
) -> Iterator[tuple[str, object]]:
    """Where a run came from, what was found there, and what a state entered again may keep."""
    works = Variable("works", name)
    before = Variable("before", name)
    if before in variables.read[name]:
        yield CAME_FROM, values[before]
    if FOUND in variables.read[name]:
        yield FOUND_BY, values[FOUND]
    if name in variables.graph.keeping:
        yield KEPT, values[Variable("kept", name)] == 1
        yield from ((LAST + own.name, values[own]) for own in variables.own_facts(name))
        if "attempt" in variables.named[name]:
            yield WORKED, values[works]
    if name in variables.keeping_items:
        yield AGAIN, number(values[works]) > 0


def _has_room(variables: Variables, counter: str, values: Values) -> object:
    """Whether a counter has room in a configuration; UNKNOWN where its cap has not been split."""
    least, most = left_of(variables, counter, values)
    return UNKNOWN if least <= 0 < most else least > 0


def left_of(variables: Variables, counter: str, values: Values) -> tuple[int, int]:
    """The least and the most that may be left of a counter in a configuration."""
    whole = variables.inputs.cap(counter)
    if counter in variables.rooms:
        return granted(region_in(values, Variable("room", counter), whole))
    cap = Variable("input", str(variables.inputs.caps[counter]))
    spent = number(values[Variable("counter", counter)])
    least, most = granted(region_in(values, cap, whole))
    return least - spent, most - spent


def region_in(values: Values, variable: Variable, whole: Region) -> Region:
    """The region of an input or a room in a configuration: the whole one where it is undecided."""
    region = values.get(variable)
    return region if isinstance(region, tuple | range) else whole


def _stand_in(region: object) -> object:
    return region[0] if isinstance(region, tuple | range) else UNKNOWN
