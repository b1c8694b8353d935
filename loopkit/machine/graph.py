"""The machine as a graph: every edge with its number, its counters and its place.

Derived from the definition alone; the checks, the compiler, the engine and the
diagram read this, so none of them interprets the YAML by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, reduce
from operator import or_
from typing import TypeVar

from loopkit.language import Bound, Machine, Rule, State, ValidateState, rules_of
from loopkit.language.guard import Guard, GuardError, expand, readable
from loopkit.language.guard import parse as parse_guard
from loopkit.machine.components import strong_components
from loopkit.machine.edges import Edge, EdgeEvent, caps_of, edges_of
from loopkit.machine.junctions import Junctions
from loopkit.machine.origins import Origins

_Key = TypeVar("_Key", bound=Hashable)


class Graph:
    """States and edges of one machine; immutable."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.states: Mapping[str, State] = machine.states
        edges = tuple(edges_of(machine))
        onward = (edge for edge in edges if edge.event == "done" and not edge.back)
        self._onward = _group(onward, lambda edge: edge.source)
        self.edges: tuple[Edge, ...] = tuple(e for e in edges if not self._goes_to_judge(e))
        self.caps: dict[str, Bound] = caps_of(machine)
        """The cap of every counter: a number, or the input that holds it."""
        self.has_origins = bool(machine.origins)
        """Whether the machine says which states can have injected what is found."""
        self.notes_told = self.has_origins or any(edge.from_best for edge in self.edges)
        """Whether feedback has to record which findings it names.

        Findings may go to other states, or be given up with their version.
        """

    def _goes_to_judge(self, edge: Edge) -> bool:
        """An author's content fault goes to the judging state unless `content:` says otherwise."""
        state = self.states[edge.source]
        if edge.event != "content" or edge.path[-1] == "content":
            return False
        return bool(state.call) and self.judging_follows(edge.source)

    @cached_property
    def outgoing(self) -> dict[str, tuple[Edge, ...]]:
        """All edges out of each state, in their order."""
        return dict.fromkeys(self.states, ()) | _group(self.edges, lambda edge: edge.source)

    @cached_property
    def incoming(self) -> dict[str, tuple[Edge, ...]]:
        return dict.fromkeys(self.states, ()) | _group(self.edges, lambda edge: edge.target)

    @cached_property
    def by_id(self) -> dict[str, Edge]:
        return {edge.id: edge for edge in self.edges}

    def on(self, state: str, event: EdgeEvent) -> tuple[Edge, ...]:
        """The edges that an event can take out of a state, in their order."""
        return self._by_event.get((state, event), ())

    def guard_of(self, edge: Edge) -> Guard | None:
        """The whole guard of an edge; None where it has none, or one that the checks report."""
        if edge.guard is None:
            return None
        with suppress(GuardError):
            return expand(parse_guard(edge.guard), self._named_guards)
        return None

    @cached_property
    def _named_guards(self) -> dict[str, Guard]:
        return readable(self.machine.guards)

    @cached_property
    def _by_event(self) -> dict[tuple[str, str], tuple[Edge, ...]]:
        return _group(self.edges, lambda edge: (edge.source, edge.event))

    @cached_property
    def revise_edges(self) -> dict[str, tuple[Edge, ...]]:
        """The revise edges among the transitions of each state."""
        return {s: tuple(e for e in self.on(s, "done") if e.back) for s in self.states}

    @cached_property
    def written(self) -> dict[str, str]:
        """The artifact that each state writes, of those that write one."""
        named = ((name, artifact_of(self.machine, name)) for name in self.states)
        return {name: artifact for name, artifact in named if artifact}

    @cached_property
    def authors(self) -> frozenset[str]:
        """The states that write an artifact."""
        return frozenset(self.written)

    @cached_property
    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """The states that write each artifact."""
        by: dict[str, tuple[str, ...]] = {}
        for name, artifact in self.written.items():
            by[artifact] = (*by.get(artifact, ()), name)
        return by

    @cached_property
    def fallbacks(self) -> frozenset[str]:
        """The states whose artifact is marked as a fallback."""
        states = self.states
        return frozenset(n for n in self.written if getattr(states[n], "fallback", False))

    @cached_property
    def attempting(self) -> dict[str, tuple[str, ...]]:
        """The states whose work on each artifact is an attempt: all that write it but fallbacks."""
        by = self.artifacts.items()
        return {a: tuple(n for n in names if n not in self.fallbacks) for a, names in by}

    @cached_property
    def origins(self) -> Origins:
        """The states that can have injected what is found."""
        return Origins(self)

    @cached_property
    def judged(self) -> dict[str, tuple[str, ...]]:
        """The validate states that judge each artifact."""
        found: dict[str, tuple[str, ...]] = {}
        for name, state in self.judges.items():
            found[state.validate_] = (*found.get(state.validate_, ()), name)
        return found

    @cached_property
    def judges(self) -> dict[str, ValidateState]:
        """The validate states, by name."""
        return self.machine.states_of(ValidateState)

    def rules_at(self, name: str) -> Iterator[Rule]:
        """The rules of a validate state, judges included; any other state has none."""
        validators = self.machine.validators
        for item in self.judges[name].by if name in self.judges else ():
            yield from rules_of(validators.get(item, ()) if isinstance(item, str) else item)

    @cached_property
    def scoring(self) -> frozenset[str]:
        """The validate states in which a judge gives a score."""
        rules = ((name, rule) for name in self.judges for rule in self.rules_at(name))
        return frozenset(name for name, rule in rules if rule.score_range is not None)

    def judging_follows(self, author: str) -> bool:
        """Whether every path judges an author's artifact before it is rewritten or the run ends."""
        return not self._unjudged[author] & self._written[artifact_of(self.machine, author)]

    @cached_property
    def _written(self) -> dict[str | None, int]:
        """A bit for each artifact, and one for None."""
        written = dict.fromkeys((None, *(artifact_of(self.machine, name) for name in self.states)))
        return {artifact: 1 << number for number, artifact in enumerate(written)}

    @cached_property
    def _unjudged(self) -> dict[str, int]:
        """For each state, the bits of artifacts that may be rewritten, or final, unjudged."""
        every = (1 << len(self._written)) - 1
        ways = {name: {edge.target for edge in self._onward.get(name, ())} for name in self.states}
        found = {name: 0 if onward else every for name, onward in ways.items()}

        def entering(name: str) -> int:
            if name not in found:
                return every
            judged = self._written.get(self.states[name].judges or "", 0)
            return (found[name] | self._written[artifact_of(self.machine, name)]) & ~judged

        leads = {name: onward & found.keys() for name, onward in ways.items()}
        for component in reversed(list(strong_components(leads))):
            changed = True
            while changed:
                before = {name: found[name] for name in component}
                for name in component:
                    found[name] |= reduce(or_, map(entering, ways[name]), 0)
                changed = len(component) > 1 and any(found[n] != before[n] for n in component)
        return found

    @cached_property
    def first_author(self) -> str | None:
        """The first state that reads feedback and is on every path to an end."""

        def is_passed_by(name: str) -> bool:
            start = self.machine.start
            others = self.reachable(start, without=name) if name != start else ()
            return any(self.states[state].ends for state in others)

        authors = (name for name in reversed(self.last_first) if self.states[name].reads_feedback)
        return next((name for name in authors if not is_passed_by(name)), None)

    @cached_property
    def keeping(self) -> frozenset[str]:
        """The states that may keep their artifact when a forward edge enters them again."""
        may_be_kept = {name for name in self.states if self.machine.may_be_kept(name)}
        if not may_be_kept:
            return frozenset()
        leads = {
            name: [edge.target for edge in edges if edge.target in self.states]
            for name, edges in self.outgoing.items()
        }
        components = enumerate(strong_components(leads))
        component_of = {name: number for number, names in components for name in names}
        again = (
            edge.target
            for edge in self.edges
            if not edge.back and component_of.get(edge.target) == component_of[edge.source]
        )
        return frozenset(may_be_kept.intersection(again))

    @cached_property
    def junctions(self) -> Junctions:
        """The states whose edges depend on the state from which a run came."""
        return Junctions(self)

    @cached_property
    def last_first(self) -> tuple[str, ...]:
        """The states, each after all that its forward edges lead to, if these have no cycle."""
        if not self.junctions.before:
            return self.nodes_last_first
        return tuple(dict.fromkeys(map(self.junctions.state_of, self.nodes_last_first)))

    @cached_property
    def nodes_last_first(self) -> tuple[str, ...]:
        """The nodes in the same order; a junction has several nodes."""
        order: dict[str, None] = {}
        seen: set[str] = set()
        for start in (*self.states, *self.junctions.before):
            trail = [(start, self._ahead(start))] if start not in seen else []
            seen.add(start)
            while trail:
                onward = next((name for name in trail[-1][1] if name not in seen), None)
                if onward is None:
                    order[trail.pop()[0]] = None
                else:
                    seen.add(onward)
                    trail.append((onward, self._ahead(onward)))
        return tuple(order)

    def _ahead(self, node: str) -> Iterator[str]:
        ways, to = self.junctions.ways.get(node, ()), self.junctions.to
        return (to(edge) for edge in ways if edge.forward and edge.target in self.states)

    def reachable(self, start: str, *, back: bool = True, without: str = "") -> set[str]:
        """Every state that some path from `start` enters, itself included.

        `without` is a state that the paths don't enter.
        """
        ways, enters = self.junctions.ways, self.junctions.entered
        seen, front = {start}, [start]
        while front:
            for edge in ways.get(front.pop(), ()):
                node = enters.get(edge.id, edge.target) if enters else edge.target
                if (
                    (back or not edge.back)
                    and node not in seen
                    and edge.target != without
                    and edge.target in self.states
                ):
                    seen.add(node)
                    front.append(node)
        return {self.junctions.state_of(node) for node in seen} if enters else seen


def _group(edges: Iterable[Edge], key: Callable[[Edge], _Key]) -> dict[_Key, tuple[Edge, ...]]:
    groups: dict[_Key, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(key(edge), []).append(edge)
    return {name: tuple(members) for name, members in groups.items()}


def artifact_of(machine: Machine, name: str) -> str | None:
    """The artifact that a state writes; None where it writes none."""
    state = machine.states.get(name)
    output = state.output_at(name) if state is not None else None
    return None if output is None else output.name


def cap_value(bound: Bound, inputs: Mapping[str, object]) -> int:
    """The value of a bound in a run with this input."""
    if isinstance(bound, int):
        return bound
    value: object = inputs
    for part in bound.split(".")[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    # The checks allow only bounded whole numbers here; anything else grants nothing.
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
