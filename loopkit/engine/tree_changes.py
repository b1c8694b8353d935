"""The changes that events of folders make: what was captured, isolated, merged and restored."""

from __future__ import annotations

from loopkit.engine.events import Captured, Isolated, Merged, Merging, Restored
from loopkit.engine.state import RunState


def capture(state: RunState, event: Captured) -> None:
    state.captured[event.task] = event
    if event.tree:
        state.originals = {(event.artifact, event.place): event.tree, **state.originals}


def end_restore(state: RunState, event: Restored) -> None:
    left = {name: a for name, a in state.unrestored.items() if name not in event.artifacts}
    state.unrestored = left
    state.restored_in = state.state


def isolate(state: RunState, event: Isolated) -> None:
    state.isolated = {**state.isolated, event.source: event}


def merge(state: RunState, event: Merging) -> None:
    state.merging = {**state.merging, event.source: event}


def end_merge(state: RunState, event: Merged) -> None:
    state.merging = {source: m for source, m in state.merging.items() if source != event.source}
    state.merged |= {event.source}
