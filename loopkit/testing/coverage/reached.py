"""Reached goals: the states that one run entered, the edges it took, the caps it used up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from loopkit.engine.changes import apply
from loopkit.engine.events import Decided, Entered, Event, Resumed, Started, Suspended, Waiting
from loopkit.engine.macrostep import Engine
from loopkit.engine.revisions import has_room
from loopkit.engine.state import RunState
from loopkit.testing.coverage.goals import Goal

OF_ROOM = (Started, Decided, Resumed)
"""Events that change caps and counters."""


@dataclass
class Reached:
    """Names of states and ids of edges."""

    entered: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    """Back edges that had no room when their state decided, or asked its question."""

    def covers(self, goal: Goal) -> bool:
        """Whether the run reached a goal of its machine."""
        if goal.kind == "state":
            return goal.name in self.entered
        edges = self.taken if goal.kind == "transition" else self.closed
        return not edges.isdisjoint(goal.edges)


def collect_reached(engine: Engine, events: Iterable[Event]) -> Reached:
    """What a run reached by these events, from its start; the engine is that of its machine."""
    reached, before = Reached(), RunState()
    for event in events:
        _note(reached, engine, before, event)
        if isinstance(event, OF_ROOM):
            apply(before, event)
    return reached


def _note(reached: Reached, engine: Engine, run: RunState, event: Event) -> None:
    match event:
        case Entered():
            reached.entered.add(event.state)
        case Decided():
            reached.taken.add(event.edge)
            kind = engine.program.graph.by_id[event.edge].event
            reached.closed.update(_edges_without_room(engine, run, event.source, kind))
        case Waiting(call=None):
            reached.closed.update(_edges_without_room(engine, run, event.state, "done"))
        case Suspended():
            # A revise edge of `on_error` without room can't be taken: the run ends here.
            reached.closed.update(_edges_without_room(engine, run, event.state, event.reason))
        case _:
            pass


def _edges_without_room(engine: Engine, run: RunState, state: str, event: str) -> Iterator[str]:
    """The back edges of a state that an event could take if they had room."""
    for edge in engine.program.graph.outgoing[state]:
        if edge.back and edge.event == event and not has_room(engine.program, run, edge):
            yield edge.id
