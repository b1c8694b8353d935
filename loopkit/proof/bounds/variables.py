"""Variables of a configuration: the values that something reachable still reads."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Literal, NamedTuple

from loopkit.language import EachState
from loopkit.language.facts import CAME_FROM, COUNTING, OF_PROGRESS, ORIGIN
from loopkit.language.guard import Guard
from loopkit.language.guard.kleene import UNKNOWN
from loopkit.language.guard.tree import names_in
from loopkit.machine.edges import TOTAL, Edge
from loopkit.machine.graph import artifact_of
from loopkit.machine.known_inputs import item_count_in
from loopkit.machine.sources import judges_behind
from loopkit.proof.bounds.inputs import Inputs
from loopkit.proof.bounds.last_work import facts_of_last_work, of_last_work
from loopkit.proof.outcomes import Analysis

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
FOUND = Variable("fact", ORIGIN)
"""The validate state that found something last, whose origin a person may change."""
Values = Mapping[Variable, object]


class Variables:
    """Which variables matter at each state, and what they start with."""

    def __init__(
        self,
        analysis: Analysis,
        inputs: Mapping[str, object],
        counted: Collection[str] | None = None,
        *,
        keeps_inputs: bool = False,
    ) -> None:
        """`inputs` are the known values, by dotted name.

        `counted` are the tracked counters, by default all; any other counter may or may not have
        room whenever it is read. `keeps_inputs` holds every cap instead of the room left.
        """
        self.analysis = analysis
        self._given = inputs
        self.graph = analysis.graph
        self.counted = frozenset(self.graph.caps if counted is None else counted)
        every = [*self.guards.values(), *self.rule_guards.values()]
        self.inputs = Inputs(analysis, inputs, [guard for guards in every for guard in guards])
        alone = self.inputs.alone(self.counted - self._read_as_numbers - self._reset)
        self.rooms = frozenset[str]() if keeps_inputs else alone
        """The counters of which only the room left is held."""
        self.read = {name: tuple(dict.fromkeys(self._reads(name))) for name in self.graph.states}
        """The variables that decide how a state's work can go on."""

    @cached_property
    def _read_as_numbers(self) -> frozenset[str]:
        """The counters that guards read as `revisions` or `max_revisions`."""
        return frozenset(
            edges[0].counters[0]
            for name, edges in self.graph.revise_edges.items()
            if len(edges) == 1 and not self.named[name].isdisjoint(COUNTING)
        )

    @cached_property
    def _reset(self) -> frozenset[str]:
        return frozenset(counter for edge in self.graph.edges for counter in edge.resets)

    @cached_property
    def decided_by_total(self) -> Mapping[str, int]:
        """The caps of the counters whose edges all spend the total as well.

        One with more room than the total has left decides nothing any more.
        """
        is_known = isinstance(self.inputs.caps.get(TOTAL), int) and TOTAL in self.counted
        return {counter.name: cap for counter, cap in self.by_room.items()} if is_known else {}

    @cached_property
    def by_room(self) -> Mapping[Variable, int]:
        """The counters that are read only for their room, with their caps."""
        caps, some = self.inputs.caps, self.counted - self._read_as_numbers - {TOTAL}
        return {Variable("counter", c): cap for c in some if isinstance(cap := caps[c], int)}

    @cached_property
    def guards(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of each state's transitions, as far as they can be used."""
        whole = self.analysis.guards.whole
        return {
            name: tuple(
                guard
                for edge in self.graph.on(name, "done")
                if edge.guard is not None and (guard := whole(edge.guard)) is not None
            )
            for name in self.graph.states
        }

    @cached_property
    def rule_guards(self) -> Mapping[str, tuple[Guard, ...]]:
        """The guards of the rules by which each validate state judges."""
        whole = self.analysis.guards.whole
        return {
            name: tuple(
                guard
                for r in rules
                if r.guard is not None and (guard := whole(r.guard)) is not None
            )
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
            name: frozenset[str]().union(
                *(guard.names for guard in (*self.guards[name], *self.rule_guards.get(name, ())))
            )
            for name in self.graph.states
        }

    # -- what is read ----------------------------------------------------------------------

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
        if is_version_read or self.keeps_items(name):
            yield Variable("works", name)
        if name in self.graph.keeping:
            yield Variable("kept", name)

    def variables_of_room(self, edge: Edge) -> Iterator[Variable]:
        """The variables that decide whether an edge has room."""
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
        read = facts_of_last_work(self.graph, name, self.named[name])
        return tuple(Variable("fact", fact) for fact in read)

    def attempt(self, name: str) -> Variable:
        """The variable that `attempt` means in a state."""
        judged = self.graph.states[name].judges
        return Variable("works", name) if judged is None else Variable("version", judged)

    def author_of_what_is_judged(self, name: str) -> tuple[Variable, ...]:
        """The author of the judged artifact, if findings go back to several authors."""
        judged = self.graph.states[name].judges
        several = self.graph.origins and len(self.graph.artifacts.get(judged or "", ())) > 1
        return (Variable("author", judged),) if judged and several else ()

    def keeps_items(self, name: str) -> bool:
        """Whether an `each` state may be entered again, so that items may be kept."""
        return name in self._entered_again

    @cached_property
    def behind(self) -> Mapping[str, tuple[str, ...]]:
        """For each author, the validate states with a count of judged versions that judge what was
        made from its artifact."""
        return judges_behind(self.graph, filter(self.versions_judged_before, self.graph.judges))

    @cached_property
    def _entered_again(self) -> frozenset[str]:
        ahead = {
            name: {edge.target for edge in self.graph.outgoing[name]}
            for name in self.graph.machine.states_of(EachState)
        }
        return frozenset(
            name
            for name, targets in ahead.items()
            if any(name in self.graph.reachable(target) for target in targets)
        )

    def items(self, name: str) -> int | None:
        """The number of items in a state's list; None if it is unknown."""
        state = self.graph.states[name]
        return item_count_in(state, self._given) if isinstance(state, EachState) else None

    def versions_judged_before(self, name: str) -> int:
        """The most versions judged before the current one that a guard distinguishes."""
        if name not in self.graph.judges:
            return 0
        read = {n for g in (*self.guards[name], *self.elsewhere[name]) for n in g.names}
        told = (OF_PROGRESS.get(fact.removeprefix(f"{name}."), 0) for fact in read)
        return max(told, default=0)

    # -- how far it is counted -------------------------------------------------------------

    @cached_property
    def most(self) -> Mapping[Variable, int]:
        """The number of works above which no guard distinguishes any; also for versions."""
        most: dict[Variable, int] = {}
        for name in self.graph.states:
            if "attempt" in self.named[name]:
                guards = (*self.guards[name], *self.rule_guards.get(name, ()))
                compared = [n for guard in guards for n in self._numbers_compared(name, guard)]
                counted = self.attempt(name)
                most[counted] = max(most.get(counted, 0), *(n + 1 for n in compared), 1)
        for name in self._entered_again:
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
            yield from (self.inputs.region(o).high for o in others & self.inputs.named.keys())
            if others & COUNTING.keys():
                for edge in self.graph.revise_edges[name]:
                    yield from (self.inputs.cap(counter).high for counter in edge.counters)

    def largest(self, variable: Variable) -> int | None:
        """The largest value of a variable that counts; None for any other variable."""
        match variable.kind:
            case "counter":
                return self.inputs.cap(variable.name).high
            case "works" | "version":
                return self.most.get(variable, 1)
            case "judged":
                return 2 * self.versions_judged_before(variable.name)
            case "then" | "kept":
                return 1
            case _:
                return None

    # -- what it starts with ---------------------------------------------------------------

    def start(self, variable: Variable) -> object:
        """The value of a variable at the start of a run."""
        match variable.kind:
            case "input":
                return self.inputs.region(variable.name)
            case "room":
                return self.inputs.cap(variable.name)
            case "author":
                return None
            case "fact":
                return None if variable == FOUND else UNKNOWN
            case "before":
                return None
            case _:
                return 0


def owner_of(fact: str) -> str:
    """The state that a dotted fact belongs to."""
    return fact.removeprefix("reports.").partition(".")[0]
