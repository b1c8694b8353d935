"""What a repair changes in the state of a run: names of edges, tasks, and what was spent."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.engine.events import Deferral, Repaired
from loopkit.engine.log import Log
from loopkit.engine.state import RunState


def repair(state: RunState, event: Repaired) -> None:
    """Change to the other definition; the event has the names that differ there."""
    state.definition = event.definition
    state.repairs += 1
    state.input = {**state.input, **event.input}
    state.limits = {name: v for name, v in state.limits.items() if name not in event.limits}
    state.route = Log([event.edges.get(edge, edge) for edge in state.route])
    if state.entered_by is not None:
        state.entered_by = event.edges.get(state.entered_by, state.entered_by)
    _rename_edges(state, event.edges)
    state.counters = dict(event.counters)
    _move_tasks(state, event.tasks)
    if not state.state:
        # Nothing has been done yet, so the baselines are taken again.
        state.baselines = {}


def _rename_edges(state: RunState, names: Mapping[str, str]) -> None:
    """Give feedback and deferrals that wait the new ids of their edges."""

    def rename(each: Deferral) -> Deferral:
        return each.replace(edge=names.get(each.edge or "", each.edge))

    state.deferred = {to: tuple(map(rename, waiting)) for to, waiting in state.deferred.items()}
    state.pending = {
        to: tuple(each.replace(tells=each.tells and rename(each.tells)) for each in waiting)
        for to, waiting in state.pending.items()
    }


def _move_tasks(state: RunState, names: Mapping[str, str]) -> None:
    named = ((names.get(task, task), known) for task, known in state.tasks.items())
    state.tasks = {name: known for name, known in named if name}
    moved = {names.get(task, task): event for task, event in state.captured.items()}
    state.captured = {name: event for name, event in moved.items() if name}
    state.refused = frozenset(names.get(task, task) for task in state.refused)
    state.doubts = {
        key: intent.replace(task=names.get(intent.task, intent.task))
        for key, intent in state.doubts.items()
    }
