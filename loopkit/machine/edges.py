"""Edges: every way out of a state that a machine declares, with its number and its counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

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


class Revision(NamedTuple):
    """A back edge as it is written; a transition to several origins is one revision for each."""

    id: str
    to: str
    path: DocPath
    written: Transition | ErrorEdge
    origin: str | None = None

    def counters(self, machine: Machine) -> tuple[str, ...]:
        """The counters in which it needs room and which it spends, in the order of an edge."""
        budget = self.written.budget_of(self.to)
        own = (self.id,) if self.written.max is not None else ()
        shared = (budget_key(budget),) if budget is not None else ()
        is_of_author = machine.limits.revisions is not None or not (shared or own)
        author = (author_key(self.to),) if is_of_author else ()
        total = (TOTAL,) if machine.limits.total_revisions is not None else ()
        return (*author, *shared, *own, *total)


def edges_of(machine: Machine) -> Iterator[Edge]:
    """Every edge, state by state, in the order in which they are tried."""
    for name, state in machine.states_of(WorkingState).items():
        if state.next is not None:
            path: DocPath = ("states", name, "next")
            yield Edge(f"{name}[0]", name, state.next, "done", path, is_brief=True)
        for index, transition in enumerate(state.transitions or ()):
            yield from _transition(machine, name, index, transition)
        for event, written in _error_targets(state):
            yield _error_edge(machine, name, event, error_path(state, name, event), written)
        if machine.limits.then and state.works_outside:
            then, path = machine.limits.then, ("limits", "then")
            yield Edge(f"{name}.limit", name, then, "limit", path, is_brief=True)


def caps_of(machine: Machine, raised: Mapping[str, object]) -> dict[str, Bound]:
    """The cap of every counter: a number, or the input that holds it.

    `raised` are the limits that are set for a run, by name.
    """
    limits = machine.limits
    caps: dict[str, Bound] = {budget_key(name): bound for name, bound in limits.budgets.items()}
    for revision in _revisions(machine):
        if (most := revision.written.max) is not None:
            caps[revision.id] = most
        if (author := author_key(revision.to)) in revision.counters(machine):
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
    if written.target is not None:
        yield Edge(
            f"{name}[{index}]",
            name,
            written.target,
            "done",
            ("states", name, "transitions", index),
            guard=written.guard,
            emit=Emission.of(written.emit),
        )
    for revision in _revisions_of(machine, name, index, written):
        yield Edge(
            revision.id,
            name,
            revision.to,
            "done",
            revision.path,
            guard=written.guard,
            back=True,
            counters=revision.counters(machine),
            feedback=written.feedback,
            resets=_reset_by(machine, revision, written.resets),
            previous=written.previous,
            from_best=written.from_ == "best",
            emit=Emission.of(written.emit),
            origin=revision.origin,
        )


def _revisions_of(
    machine: Machine, name: str, index: int, written: Transition
) -> Iterator[Revision]:
    edge_id = f"{name}[{index}]"
    path: DocPath = ("states", name, "transitions", index)
    for origin in written.origins:
        yield Revision(f"{edge_id}.{origin}", origin, path, written, origin)
    if isinstance(written.revise, str):
        # Each defect of a judged artifact goes to its origin; a person can always send back.
        is_routed = bool(machine.origins) and machine.states[name].judges is not None
        to = written.revise
        yield Revision(edge_id, to, path, written, to if is_routed else None)


def _error_edge(
    machine: Machine, name: str, event: EdgeEvent, path: DocPath, written: Caught
) -> Edge:
    edge_id = f"{name}.on_error.{event}"
    if isinstance(written, str):
        return Edge(edge_id, name, written, event, path, is_brief=True)
    emit = Emission.of(written.emit)
    if isinstance(written, ErrorExit):
        return Edge(edge_id, name, written.target, event, path, emit=emit)
    counters = Revision(edge_id, written.revise, path, written).counters(machine)
    return Edge(
        edge_id, name, written.revise, event, path,
        back=True, counters=counters, feedback=written.feedback, emit=emit,
    )  # fmt: skip


def _reset_by(machine: Machine, revision: Revision, states: tuple[str, ...]) -> tuple[str, ...]:
    if not states:
        return ()
    others = (r for r in _revisions(machine) if r.id != revision.id and r.to in states)
    counters = dict.fromkeys(c for other in others for c in other.counters(machine))
    never = {TOTAL}
    if machine.limits.revisions is not None:
        never.update(map(author_key, states))
    else:
        # What the other edges of an author have together is the edge's own count too.
        never.update({author_key(revision.to)}.intersection(revision.counters(machine)))
    return tuple(counter for counter in counters if counter not in never)


def _revisions(machine: Machine) -> Iterator[Revision]:
    for name, state in machine.states_of(WorkingState).items():
        for index, transition in enumerate(state.transitions or ()):
            yield from _revisions_of(machine, name, index, transition)
        for event, written in _error_targets(state):
            if isinstance(written, ErrorEdge):
                path = error_path(state, name, event)
                edge_id = f"{name}.on_error.{event}"
                yield Revision(edge_id, written.revise, path, written)


def _error_targets(state: WorkingState) -> Iterator[tuple[EdgeEvent, Caught]]:
    targets = state.on_error
    for event in ERROR_EVENTS:
        written = getattr(targets, event) if isinstance(targets, ErrorTargets) else targets
        if written is not None:
            yield event, written
