"""The machine as a graph: every edge with its number, its counters and where it stands.

Derived from the definition alone; the checks, the compiler, the engine and the
diagram read this instead of each reading the YAML in a way of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from loopkit.language import (
    Bound,
    ErrorEdge,
    ErrorTargets,
    JudgeRule,
    Machine,
    Rule,
    State,
    Transition,
    ValidateState,
    WorkingState,
    rules_of,
)

EdgeEvent = Literal["done", "transient", "content", "fatal", "limit"]
ERROR_EVENTS: tuple[Literal["transient", "content", "fatal"], ...] = (
    "transient",
    "content",
    "fatal",
)
TOTAL = "total"
DocPath = tuple[str | int, ...]
_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Edge:
    """One way out of a state."""

    id: str
    """`validate[2]` for the third transition, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    event: EdgeEvent
    path: DocPath
    """Where it stands in the document."""
    guard: str | None = None
    back: bool = False
    counters: tuple[str, ...] = ()
    """What a back edge needs room in and spends; the first one is its own count."""
    feedback: str | None = None
    resets: tuple[str, ...] = ()
    """The counters that it sets to zero before it counts."""
    emit: str | None = None

    @property
    def forward(self) -> bool:
        """Whether it counts for the order of states: not back, and not taken at a limit."""
        return not self.back and self.event != "limit"


class Graph:
    """States and edges of one machine; immutable once made."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.states: Mapping[str, State] = machine.states
        edges = tuple(_edges(machine))
        onward = (edge for edge in edges if edge.event == "done" and not edge.back)
        self._onward = _grouped(onward, lambda edge: edge.source)
        self.edges: tuple[Edge, ...] = tuple(e for e in edges if not self._left_to_the_judge(e))

    def _left_to_the_judge(self, edge: Edge) -> bool:
        """An author's content fault goes to the judging state unless `content:` says otherwise."""
        state = self.states[edge.source]
        if edge.event != "content" or edge.path[-1] == "content":
            return False
        return bool(state.call) and self.judging_follows(edge.source)

    @cached_property
    def outgoing(self) -> dict[str, tuple[Edge, ...]]:
        """All edges out of each state, in their order."""
        return dict.fromkeys(self.states, ()) | _grouped(self.edges, lambda edge: edge.source)

    @cached_property
    def incoming(self) -> dict[str, tuple[Edge, ...]]:
        return dict.fromkeys(self.states, ()) | _grouped(self.edges, lambda edge: edge.target)

    @cached_property
    def by_id(self) -> dict[str, Edge]:
        return {edge.id: edge for edge in self.edges}

    def on(self, state: str, event: EdgeEvent) -> tuple[Edge, ...]:
        """The edges that an event can take out of a state, in their order."""
        return self._by_event.get((state, event), ())

    @cached_property
    def _by_event(self) -> dict[tuple[str, str], tuple[Edge, ...]]:
        return _grouped(self.edges, lambda edge: (edge.source, edge.event))

    @cached_property
    def revise_edges(self) -> dict[str, tuple[Edge, ...]]:
        """The revise edges among the transitions of each state."""
        return {s: tuple(e for e in self.on(s, "done") if e.back) for s in self.states}

    @cached_property
    def caps(self) -> dict[str, Bound]:
        """The cap of every counter: a number, or the input that holds it."""
        return _caps(self)

    @cached_property
    def authors(self) -> frozenset[str]:
        """The states that write an artifact."""
        return frozenset(s for s in self.states if artifact_of(self.machine, s))

    @cached_property
    def artifacts(self) -> dict[str, tuple[str, ...]]:
        """The states that write each artifact."""
        written: dict[str, tuple[str, ...]] = {}
        for name in self.states:
            if artifact := artifact_of(self.machine, name):
                written[artifact] = (*written.get(artifact, ()), name)
        return written

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
        """The rules by which a validate state judges, judges included; none of any other state."""
        validators = self.machine.validators
        for item in self.judges[name].by if name in self.judges else ():
            yield from rules_of(validators.get(item, ()) if isinstance(item, str) else item)

    def scores(self, name: str) -> bool:
        """Whether a judge of a validate state gives a score."""
        return name in self._scoring

    @cached_property
    def _scoring(self) -> frozenset[str]:
        return frozenset(
            name
            for name in self.judges
            for rule in self.rules_at(name)
            if isinstance(rule, JudgeRule) and rule.score is not None
        )

    def judging_follows(self, author: str) -> bool:
        """Whether every way on from an author meets a state that judges its artifact first."""
        artifact = artifact_of(self.machine, author)
        seen, front = {author}, [author]
        while front:
            ways = [edge.target for edge in self._onward.get(front.pop(), ())]
            ahead = {name for name in ways if not self._judges(name, artifact)}
            if not ways or any(self._rewrites(name, artifact) for name in ahead):
                return False
            front += ahead - seen
            seen |= ahead
        return True

    def _judges(self, name: str, artifact: str | None) -> bool:
        state = self.states.get(name)
        return state is not None and artifact is not None and state.judges == artifact

    def _rewrites(self, name: str, artifact: str | None) -> bool:
        return artifact_of(self.machine, name) == artifact

    @cached_property
    def last_first(self) -> tuple[str, ...]:
        """The states, each after all that forward edges lead to, where these go in no circle."""
        order: dict[str, None] = {}
        seen: set[str] = set()
        for start in self.states:
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

    def _ahead(self, name: str) -> Iterator[str]:
        ways = self.outgoing.get(name, ())
        return (edge.target for edge in ways if edge.forward and edge.target in self.states)

    def reachable(self, start: str, *, back: bool = True) -> set[str]:
        """Every state that some path from `start` enters, itself included."""
        seen, front = {start}, [start]
        while front:
            for edge in self.outgoing.get(front.pop(), ()):
                if (
                    (back or not edge.back)
                    and edge.target not in seen
                    and edge.target in self.states
                ):
                    seen.add(edge.target)
                    front.append(edge.target)
        return seen


def _grouped(edges: Iterable[Edge], key: Callable[[Edge], _Key]) -> dict[_Key, tuple[Edge, ...]]:
    groups: dict[_Key, list[Edge]] = {}
    for edge in edges:
        groups.setdefault(key(edge), []).append(edge)
    return {name: tuple(members) for name, members in groups.items()}


def artifact_of(machine: Machine, name: str) -> str | None:
    """The artifact that a state writes, or nothing."""
    state = machine.states.get(name)
    output = state.output_at(name) if state is not None else None
    return None if output is None else output.name


def cap_value(bound: Bound, inputs: Mapping[str, object]) -> int:
    """The number behind a bound, for a run with this input."""
    if isinstance(bound, int):
        return bound
    value: object = inputs
    for part in bound.split(".")[1:]:
        value = value.get(part) if isinstance(value, Mapping) else None
    # The checks let only bounded whole inputs pass; anything else grants nothing.
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _edges(machine: Machine) -> Iterator[Edge]:
    for name, state in machine.states_of(WorkingState).items():
        yield from _transitions(machine, name, state)
        yield from _error_edges(machine, name, state)
        if machine.limits.then and state.works_outside:
            yield Edge(f"{name}.limit", name, machine.limits.then, "limit", ("limits", "then"))


def _transitions(machine: Machine, name: str, state: WorkingState) -> Iterator[Edge]:
    if state.next is not None:
        yield Edge(f"{name}[0]", name, state.next, "done", ("states", name, "next"))
    for index, transition in enumerate(state.transitions or ()):
        yield _edge(machine, name, index, transition)


def _edge(machine: Machine, name: str, index: int, transition: Transition) -> Edge:
    edge_id = f"{name}[{index}]"
    path: DocPath = ("states", name, "transitions", index)
    guard, emit = transition.guard, transition.emit
    if transition.target is not None:
        return Edge(edge_id, name, transition.target, "done", path, guard=guard, emit=emit)
    return Edge(
        edge_id,
        name,
        transition.revise or "",
        "done",
        path,
        guard=guard,
        back=True,
        counters=_counters(machine, edge_id, transition),
        feedback=transition.feedback,
        resets=_reset_counters(machine, edge_id, transition.resets),
        emit=emit,
    )


def _counters(machine: Machine, edge_id: str, edge: Transition | ErrorEdge) -> tuple[str, ...]:
    own = (edge_id,) if edge.budget is None or edge.max is not None else ()
    shared = (budget_key(edge.budget),) if edge.budget is not None else ()
    total = (TOTAL,) if machine.limits.total_revisions is not None else ()
    return (*shared, *own, *total)


def budget_key(name: str) -> str:
    """The counter of a shared budget."""
    return f"budget:{name}"


def _reset_counters(machine: Machine, edge_id: str, states: tuple[str, ...]) -> tuple[str, ...]:
    if not states:
        return ()
    counters = (
        counter
        for other_id, other in _revisions(machine)
        if other_id != edge_id and other.revise in states
        for counter in _counters(machine, other_id, other)
        if counter != TOTAL
    )
    return tuple(dict.fromkeys(counters))


def _revisions(machine: Machine) -> Iterator[tuple[str, Transition | ErrorEdge]]:
    """Every back edge that the machine declares, with its id."""
    for name, state in machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            if transition.revise is not None:
                yield f"{name}[{index}]", transition
        for event, written in _error_targets(state):
            if isinstance(written, ErrorEdge):
                yield f"{name}.on_error.{event}", written


def _error_targets(state: WorkingState) -> Iterator[tuple[EdgeEvent, str | ErrorEdge]]:
    match state.on_error:
        case None:
            return
        case ErrorTargets() as targets:
            for event in ERROR_EVENTS:
                if (written := getattr(targets, event)) is not None:
                    yield event, written
        case written:
            for event in ERROR_EVENTS:
                yield event, written


def _error_edges(machine: Machine, name: str, state: WorkingState) -> Iterator[Edge]:
    for event, written in _error_targets(state):
        edge_id = f"{name}.on_error.{event}"
        path = error_path(state, name, event)
        if isinstance(written, str):
            yield Edge(edge_id, name, written, event, path)
        else:
            counters = _counters(machine, edge_id, written)
            yield Edge(
                edge_id, name, written.revise, event, path,
                back=True, counters=counters, feedback=written.feedback,
            )  # fmt: skip


def error_path(state: WorkingState, name: str, event: str) -> DocPath:
    """Where an error edge stands in the document."""
    base: DocPath = ("states", name, "on_error")
    return (*base, event) if isinstance(state.on_error, ErrorTargets) else base


def _caps(graph: Graph) -> dict[str, Bound]:
    limits = graph.machine.limits
    caps: dict[str, Bound] = {budget_key(name): bound for name, bound in limits.budgets.items()}
    for edge_id, written in _revisions(graph.machine):
        if edge_id in _counters(graph.machine, edge_id, written):
            caps[edge_id] = limits.revisions if written.max is None else written.max
    if limits.total_revisions is not None:
        caps[TOTAL] = limits.total_revisions
    return caps
