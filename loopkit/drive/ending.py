"""The end of a run with trees of its own: a success is merged, a failure is left where it is."""

from __future__ import annotations

import asyncio

from loopkit.drive.active import ActiveRun
from loopkit.drive.inbox import store
from loopkit.drive.isolation import MergeConflict, merge_back, restore, trees_of
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Worked
from loopkit.engine.macrostep import suspend
from loopkit.language import FinalState
from loopkit.outside.trees.isolation import drop_all


async def end(active: ActiveRun, name: str, state: FinalState) -> None:
    """Bring the trees to their end and then the run; it is suspended where that can't be."""
    run = active.state
    try:
        await _settle(active, state)
    except CallFailed as failed:
        work = Worked(
            state=name,
            visit=run.visit,
            outcome=failed.error_class,
            error=failed.message,
            remedy=failed.remedy if isinstance(failed, MergeConflict) else "",
        )
        active.take(suspend(active.state, work))
        await active.append()
        return
    before = active.mark()
    active.take(active.engine.finish(active.state))
    await store(active, before, ())


async def _settle(active: ActiveRun, state: FinalState) -> None:
    """Merge the trees or leave them; what an earlier process has done is not done again."""
    run = active.state
    due = [isolated for isolated in run.isolated.values() if isolated.source not in run.merged]
    best = run.best_round(state.of) if due and state.picks_best else None
    picked = best.snapshot if best else {}
    folders = {n: picked[n] for n in state.result if n in picked and picked[n].tree}
    if folders:
        await restore(active, folders)
    if state.succeeds:
        for isolated in due:
            await merge_back(active, isolated)
        await asyncio.to_thread(drop_all, trees_of(active))
