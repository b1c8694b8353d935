"""Edges: every way out of a state that a machine declares, with its number and its counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from loopkit.document.document import DocPath
from loopkit.language.machine import Machine
from loopkit.language.section import Bound, Emission, ErrorClass
from loopkit.language.states import State
from loopkit.language.states.state import WorkingState
from loopkit.language.transitions import ErrorEdge, ErrorExit, ErrorTargets, Transition
from loopkit.values import Value

EdgeEvent = Literal["done", "transient", "content", "fatal", "limit"]
ERROR_EVENTS: tuple[ErrorClass, ...] = ("transient", "content", "fatal")
TOTAL = "total"
DEFAULT_REVISIONS = 2
"""How often an author may be revised where nothing says so."""

Caught = str | ErrorEdge | ErrorExit


class Edge(Value, frozen=True):
    id: str
    """`validate[2]` for the third transition, `validate[2].design` for its edge to one of several
    origins, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    event: EdgeEvent
    path: DocPath
    guard: str | None = None
    back: bool = False
    counters: tuple[str, ...] = ()
    """The counters that a back edge needs and spends: of its target, its budget, its own, all."""
    max: Bound | None = None
    """The cap of its own counter, where it has one."""
    feedback: str | None = None
    resets: tuple[str, ...] = ()
    """The counters that it sets to zero before it spends any."""
    previous: Literal["auto", "show", "hide"] = "auto"
    """Whether the author is shown the version that is refused."""
    from_best: bool = False
    """Whether the best version becomes the current one again."""
    emit: Emission | None = None
    is_brief: bool = False
    """Whether the document gives nothing but its target."""
    origin: str | None = None
    """It can be taken only if this is the earliest origin of the findings."""

    @property
    def counting(self) -> tuple[str, ...]:
        """The counters that guards read as `revisions` and `max_revisions`."""
        return tuple(counter for counter in self.counters if counter != TOTAL)

    def judges_again(self, states: Mapping[str, State]) -> bool:
        """Whether a person sends the same work back to be judged again, without feedback."""
        target = states.get(self.target)
        is_asked = self.back and self.feedback is None and states[self.source].waits
        return is_asked and target is not None and target.judges is not None

    @property
    def forward(self) -> bool:
        """Whether it counts for the order of states: not back, and not taken at a limit."""
        return not self.back and self.event != "limit"


def edges_of(machine: Machine) -> list[Edge]:
    """Every edge, state by state, in the order in which they are tried."""
    working = machine.states_of(WorkingState).items()
    edges = [edge for name, state in working for edge in _edges_from(machine, name, state)]
    back = [edge for edge in edges if edge.back]
    return [
        edge.replace(resets=_reset_by(machine, edge, back)) if edge.resets else edge
        for edge in edges
    ]


def _edges_from(machine: Machine, name: str, state: WorkingState) -> Iterator[Edge]:
    """The edges out of a state, whose `resets` are still states instead of counters."""
    if state.next is not None:
        path: DocPath = ("states", name, "next")
        yield Edge(f"{name}[0]", name, state.next, "done", path, is_brief=True)
    for index, transition in enumerate(state.transitions or ()):
        yield from _transition(machine, name, index, transition)
    for event in ERROR_EVENTS:
        caught = state.on_error
        written = getattr(caught, event) if isinstance(caught, ErrorTargets) else caught
        if written is not None:
            yield _error_edge(machine, name, event, error_path(state, name, event), written)
    if machine.limits.then and state.works_outside:
        then, path = machine.limits.then, ("limits", "then")
        yield Edge(f"{name}.limit", name, then, "limit", path, is_brief=True)


def caps_of(
    machine: Machine, edges: Iterable[Edge], raised: Mapping[str, object]
) -> dict[str, Bound]:
    """The cap of every counter: a number, or the input that holds it.

    `raised` are the limits that are set for a run, by name.
    """
    limits = machine.limits
    caps: dict[str, Bound] = {budget_key(name): bound for name, bound in limits.budgets.items()}
    for edge in edges:
        if edge.max is not None:
            caps[edge.id] = edge.max
        if (author := author_key(edge.target)) in edge.counters:
            caps[author] = DEFAULT_REVISIONS if limits.revisions is None else limits.revisions
    if limits.total_revisions is not None:
        caps[TOTAL] = limits.total_revisions
    new = {counter: raised.get(limit_of(counter)) for counter in caps}
    return caps | {counter: cap for counter, cap in new.items() if isinstance(cap, int)}


def budget_key(name: str) -> str:
    return f"budget:{name}"


def author_key(state: str) -> str:
    return f"revisions:{state}"


OF_REVISIONS = ("revisions", "total_revisions")


def limit_of(counter: str) -> str:
    """The limit that is the cap of a counter; empty where that is a `max` or a budget."""
    if counter == TOTAL:
        return "total_revisions"
    return "revisions" if counter.startswith(author_key("")) else ""


def error_path(state: WorkingState, name: str, event: str) -> DocPath:
    base: DocPath = ("states", name, "on_error")
    return (*base, event) if isinstance(state.on_error, ErrorTargets) else base


def _transition(machine: Machine, name: str, index: int, written: Transition) -> Iterator[Edge]:
    edge_id = f"{name}[{index}]"
    edge = Edge(
        edge_id,
        name,
        written.target or "",
        "done",
        ("states", name, "transitions", index),
        guard=written.guard,
        emit=Emission.of(written.emit),
    )
    if written.target is not None:
        yield edge
    routes = [(f"{edge_id}.{origin}", origin, origin) for origin in written.origins]
    if isinstance(to := written.revise, str):
        # Each defect of a judged artifact goes to its origin; a person can always send back.
        is_routed = bool(machine.origins) and machine.states[name].judges is not None
        routes.append((edge_id, to, to if is_routed else ""))
    for own_id, to, origin in routes:
        yield edge.replace(
            id=own_id,
            target=to,
            back=True,
            counters=_counters(machine, own_id, to, written),
            max=written.max,
            feedback=written.feedback,
            resets=written.resets,
            previous=written.previous,
            from_best=written.from_ == "best",
            origin=origin or None,
        )


def _error_edge(
    machine: Machine, name: str, event: EdgeEvent, path: DocPath, written: Caught
) -> Edge:
    edge_id = f"{name}.on_error.{event}"
    if isinstance(written, str):
        return Edge(edge_id, name, written, event, path, is_brief=True)
    emit = Emission.of(written.emit)
    if isinstance(written, ErrorExit):
        return Edge(edge_id, name, written.target, event, path, emit=emit)
    counters = _counters(machine, edge_id, written.revise, written)
    return Edge(
        edge_id, name, written.revise, event, path, back=True, counters=counters,
        max=written.max, feedback=written.feedback, emit=emit,
    )  # fmt: skip


def _counters(
    machine: Machine, edge: str, to: str, written: Transition | ErrorEdge
) -> tuple[str, ...]:
    """The counters in which a back edge needs room and which it spends, in their order."""
    budget = written.budget_of(to)
    own = (edge,) if written.max is not None else ()
    shared = (budget_key(budget),) if budget is not None else ()
    is_of_author = machine.limits.revisions is not None or not (shared or own)
    author = (author_key(to),) if is_of_author else ()
    total = (TOTAL,) if machine.limits.total_revisions is not None else ()
    return (*author, *shared, *own, *total)


def _reset_by(machine: Machine, edge: Edge, back: Iterable[Edge]) -> tuple[str, ...]:
    """The counters that an edge sets to zero: those of the other edges to the states it names."""
    others = (other for other in back if other.id != edge.id and other.target in edge.resets)
    counters = dict.fromkeys(counter for other in others for counter in other.counters)
    never = {TOTAL}
    if machine.limits.revisions is not None:
        never.update(map(author_key, edge.resets))
    else:
        # What the other edges of an author have together is the edge's own count too.
        never.update({author_key(edge.target)}.intersection(edge.counters))
    return tuple(counter for counter in counters if counter not in never)
