"""The end of a run with trees of its own: a success is merged, a failure is left where it is."""

from __future__ import annotations

import asyncio

from loopkit.drive.active import ActiveRun
from loopkit.drive.inbox import store
from loopkit.drive.isolation import MergeConflict, merge_back, restore, trees_of
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Finished, Worked
from loopkit.engine.macrostep import Macrostep, suspend
from loopkit.language import FinalState
from loopkit.language.states.children import CONFLICT
from loopkit.outside.trees.isolation import drop_all


async def end(active: ActiveRun, name: str, state: FinalState) -> None:
    """Merge or leave the trees, then finish the run; it is suspended if that fails."""
    run = active.state
    try:
        await _merge_trees(active, state)
        ended = active.engine.finish(active.state)
    except MergeConflict as conflict:
        if run.isolate == "none":
            await _suspend(active, name, conflict)
            return
        # Its parent decides what becomes of it.
        ended = _in_conflict(active, conflict)
    except CallFailed as failed:
        await _suspend(active, name, failed)
        return
    before = active.mark()
    active.take(ended)
    await store(active, before, ())


def may_end(active: ActiveRun) -> bool:
    """Whether a run with trees of its own may end here, or has to let others merge first."""
    state = active.program.machine.states.get(active.state.state)
    return state is None or not state.succeeds or active.may_merge()


async def _suspend(active: ActiveRun, name: str, failed: CallFailed) -> None:
    work = Worked.with_failure(name, active.state.visit, failed.failure)
    active.take(suspend(active.state, work))
    await active.append()


def _in_conflict(active: ActiveRun, conflict: MergeConflict) -> Macrostep:
    step = Macrostep(active.state.copy())
    left = tuple(isolated.place for isolated in active.state.isolated.values())
    step.add(Finished(outcome=CONFLICT, success=False, conflicts=conflict.paths, left=left))
    return step


async def _merge_trees(active: ActiveRun, state: FinalState) -> None:
    """Merge the trees or leave them; what an earlier process has done is not done again."""
    run = active.state
    due = [isolated for isolated in run.isolated.values() if isolated.source not in run.merged]
    # Only once: if a merge failed, a person may have changed the trees since.
    picks = due and state.picks_best and run.restored_in != run.state
    best = run.best_round(state.of) if picks else None
    picked = best.snapshot if best else {}
    folders = {n: picked[n] for n in state.result if n in picked and picked[n].tree}
    folders = {**run.unrestored, **folders}
    if folders:
        await restore(active, folders)
    if state.succeeds:
        for isolated in due:
            await merge_back(active, isolated)
        await asyncio.to_thread(drop_all, trees_of(active))
