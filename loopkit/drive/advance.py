"""`advance`, the driver's loop: does the work of the active state, appends the events, repeats.

Each turn is one completed piece of work, one macrostep of the engine and one durable append. At the
end, the run's own trees are merged after a success, and left where they are after a failure.
"""

from __future__ import annotations

import asyncio

from loopkit.drive import answers
from loopkit.drive.active import (
    ActiveRun,
    AskedAboutDoubt,
    ChildrenStopped,
    Stopped,
    WorkspaceTaken,
)
from loopkit.drive.answers import AnswerRefused, Awaited, delivery_failures
from loopkit.drive.calls import called_in, policy_of
from loopkit.drive.inbox import ANSWER, consume, release, store
from loopkit.drive.isolation import MergeConflict, merge_back, restore, trees_of
from loopkit.drive.judging import take_baselines
from loopkit.drive.limits import LimitReached
from loopkit.drive.protection import undo_left
from loopkit.drive.retries import CallFailed
from loopkit.drive.states.performers import PERFORMERS, set_at_end
from loopkit.engine.events import Finished, InDoubt, Kept, Refused, Suspended, Waiting, Worked
from loopkit.engine.macrostep import Macrostep, is_kept, suspend
from loopkit.engine.payloads import HumanAnswer
from loopkit.engine.records import Failure
from loopkit.engine.state import RunState
from loopkit.journal.errors import JournalError
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.machine import Machine
from loopkit.language.states import FinalState
from loopkit.language.states.each import CONFLICT
from loopkit.language.template.errors import TemplateError
from loopkit.machine.compiler import NoEdge
from loopkit.outside.trees import drop_all
from loopkit.text.patterns import PatternTimeout

GOING = ("running", "waiting")
"""The statuses in which there may be work to do."""
CHANGE_IT = "correct the machine"
"""The remedy if nothing but another machine helps."""


async def advance(active: ActiveRun) -> None:
    """Drive a run until it is over or needs a person or a resume, then release it."""
    active.budget.run = active
    try:
        with active.children.inboxes.heeding_cancellation(active):
            while True:
                # The process that drove the run before may have been killed with a message in the
                # inbox; a run that is not stored yet has none.
                if active.claim.seq:
                    await consume(active)
                if active.state.status in GOING:
                    await _advance(active)
                if await release(active):
                    break
    finally:
        active.occupancy.leave(active.state.run)
        try:
            # However this ends, events that are staged and not written yet must not be lost.
            await active.append()
        finally:
            # As they name each other, they would stay in memory until a full collection.
            active.budget.run = None
            if active.servers is not None:
                await active.servers.close()


async def _advance(active: ActiveRun) -> None:
    if not active.state.state and not await _begin(active):
        return
    # An append of nothing would store what is staged: a commit more for each new run.
    if active.state.open_calls and (found := doubts(active.program.machine, active.state)):
        await active.append(*found)
    while active.state.status in GOING:
        if active.stopping:
            await interrupt(active)
            return
        if active.state.status == "waiting" and not await take_answer(active):
            return
        state = active.program.machine.states.get(active.state.state)
        if active.state.isolated and state and state.succeeds and not active.may_merge():
            # Others merge first.
            return
        if active.state.doubts:
            await answers.ask_about_doubt(active)
        if active.state.status == "running":
            await run_turn(active)


async def _begin(active: ActiveRun) -> bool:
    """Enter the initial state; False if the run stopped before."""
    try:
        if active.program.has_baselines and not await take_baselines(active):
            return False
    except Stopped:
        await interrupt(active)
        return False
    before = active.mark()
    try:
        step = active.engine.begin(active.state, active.clock.now())
    except TemplateError as error:
        start = active.program.machine.start
        visit = active.state.visit
        step = suspend(active.state, Worked.with_failure(start, visit, _of_template(error)))
    active.take(step)
    if not step.begins_call:
        await store(active, before, ())
    return True


async def take_answer(active: ActiveRun) -> bool:
    """Apply an answer to the open question if there is one; False if the run has to wait."""
    question = active.state.question
    await consume(active)
    if active.state.status != "waiting" or question is None:
        return True
    active.due = question.expires_at
    if _has_expired(active, question):
        if question.wanted is not None:
            return await _give_up(active, question)
        return await _answer_for_nobody(active, question)
    if question.wanted is not None:
        return False
    answer = await active.person.answer(active.engine, active.state)
    if answer is None:
        # The time may have run out while the person was being asked.
        return _has_expired(active, question)
    if any(message.kind == ANSWER.name for message in await active.claim.inbox()):
        # The sender of the posted answer was told that it is accepted.
        reason = "the question was answered by `loopkit answer` meanwhile"
        active.stage(Refused(message_id=question.question, reason=reason))
        return True
    await _answer(active, answer)
    return True


async def _answer_for_nobody(active: ActiveRun, question: Waiting) -> bool:
    """Answer with `otherwise`; False if that can't be taken now, and the question stays open."""
    absent = HumanAnswer(choice=question.otherwise or "", by="timeout")
    try:
        await _answer(active, absent)
    except AnswerRefused as error:
        reason = f"the time is over, and `otherwise` can't be taken: {error}"
        await active.append(Refused(message_id=question.question, reason=reason))
        active.due = None
        return False
    return True


async def _give_up(active: ActiveRun, question: Waiting) -> bool:
    """Stop waiting for a delivery; it is requested again after a resume."""
    assert question.wanted is not None
    why = f"nobody delivered `{question.wanted.artifact}` in time"
    before = active.mark()
    active.stage(*delivery_failures(active.state, why))
    stage_macrostep(active, _work_with_failure(active, Failure("transient", why)))
    await store(active, before, ())
    return True


def _has_expired(active: ActiveRun, question: Waiting) -> bool:
    return question.expires_at is not None and active.clock.now() >= question.expires_at


async def _answer(active: ActiveRun, answer: HumanAnswer) -> None:
    before = active.mark()
    await store(active, before, await answers.take(active, answer, to_all=False))


async def run_turn(active: ActiveRun) -> None:
    """Do one piece of work and take its macrostep; do neither if the run has to stop."""
    name = active.state.state
    plan = active.engine.plans[name]
    if plan.final is not None:
        await end(active, plan.final)
        return
    work: Worked | Kept | None
    try:
        await undo_left(active)
        if active.state.made_from and is_kept(active.program, active.state):
            work = Kept(state=name, visit=active.state.visit)
        else:
            if active.state.unrestored:
                await restore(active, active.state.unrestored)
            if plan.human is not None:
                reason = f"`{name}` is active and has no work to do"
                raise CallFailed("fatal", reason, remedy="restore the journal from a copy")
            doing = PERFORMERS[type(plan.state)]
            if active.gate is None:
                work = await doing(active, name, plan.state)
            else:
                async with active.gate.open_for(name, active.wait_for):
                    work = await doing(active, name, plan.state)
    except ENDS_EARLY as error:
        work = await _end_early(active, error)
        if work is None:
            return
    before = active.mark()
    if not stage_macrostep(active, work).begins_call:
        await store(active, before, (work,))


ENDS_EARLY = (
    *(Stopped, Awaited, AskedAboutDoubt, ChildrenStopped, LimitReached),
    *(CallFailed, TemplateError, NotJudged, PatternTimeout),
)
"""The exceptions that end work before it is complete."""


async def _end_early(active: ActiveRun, error: Exception) -> Worked | None:
    """The failed work for an exception that ended it; None if the run stops instead."""
    work: Worked | None = None
    match error:
        case Stopped() if active.stopping:
            await interrupt(active, error.time_s)
        case ChildrenStopped():
            await active.append(error.suspended)
        case WorkspaceTaken():
            await _stop(active, _work_with_failure(active, error.failure))
        case LimitReached():
            work = _work_with_failure(active, error.failure(active.state.run))
            work = work.replace(commands=error.commands, time_s=error.time_s)
            if error.budget is not None:
                # The run can't do without what it shares: its own `then` is for its own limits.
                await _stop(active, work)
                return None
        case CallFailed():
            work = _work_with_failure(active, error.failure)
        case TemplateError():
            work = _work_with_failure(active, _of_template(error))
        case NotJudged() | PatternTimeout():
            reason = "the answer could not be checked against its schema"
            if isinstance(error, PatternTimeout):
                reason = "a field could not be taken out of the text"
            work = _work_with_failure(active, Failure("fatal", f"{reason}: {error}"))
    return work


async def _stop(active: ActiveRun, work: Worked) -> None:
    """Suspend the run, even if an edge would catch the error."""
    active.take(suspend(active.state, work))
    await active.append()


def stage_macrostep(active: ActiveRun, work: Worked | Kept) -> Macrostep:
    """Stage and return the macrostep of completed work; it suspends the run if it can't be made."""
    try:
        try:
            step = active.engine.step(active.state, work, active.clock.now())
        except (TemplateError, NoEdge) as error:
            lost = Failure("fatal", str(error), CHANGE_IT)
            lost = _of_template(error) if isinstance(error, TemplateError) else lost
            step = suspend(active.state, _work_with_failure(active, lost))
        active.take(step)
    except JournalError as error:
        lost = Failure("fatal", f"what the step leaves can't be kept: {error}", CHANGE_IT)
        step = suspend(active.state, _work_with_failure(active, lost))
        active.take(step)
    return step


def _of_template(error: TemplateError) -> Failure:
    remedy = f"{error.help}; {CHANGE_IT}" if error.help else CHANGE_IT
    return Failure("fatal", f"a template could not be filled in: {error}", remedy)


def _work_with_failure(active: ActiveRun, failure: Failure) -> Worked:
    return Worked.with_failure(active.state.state, active.state.visit, failure)


def doubts(machine: Machine, run: RunState) -> list[InDoubt]:
    """One event for each call that an earlier process left open, with the policy of the call.

    A request for a delivery stays open: loopkit does not make that call itself.
    """
    return [
        InDoubt(key=key, policy=policy_of(called_in(machine, call)))
        for key, call in run.calls_in_flight.items()
    ]


async def interrupt(active: ActiveRun, time_s: float = 0.0) -> None:
    """Suspend the run after the finished step; `resume` continues it.

    `time_s` are the seconds of the unfinished work that no record has yet. An aborted run goes to
    its inbox instead, or to that of its root.
    """
    if active.state.is_over or active.aborting:
        return
    await active.append(
        Suspended(
            state=active.state.state or active.program.machine.start,
            reason="interrupted",
            message="stopped before its end, with everything stored",
            time_s=time_s,
        )
    )


async def end(active: ActiveRun, state: FinalState) -> None:
    """Merge or leave the trees, then finish the run; it is suspended if that fails."""
    run = active.state
    try:
        await undo_left(active)
        await _merge_trees(active, state)
        if state.mark is not None:
            await set_at_end(active, state.mark)
        ended = active.engine.finish(active.state)
    except MergeConflict as conflict:
        if run.isolate == "none":
            await _stop(active, _work_with_failure(active, conflict.failure))
            return
        # Its parent decides what becomes of it.
        ended, paths = Macrostep(run.copy()), conflict.paths
        left = tuple(isolated.place for isolated in run.isolated.values())
        ended.add(Finished(outcome=CONFLICT, success=False, conflicts=paths, left=left))
    except (CallFailed, Stopped, TemplateError) as early:
        if (work := await _end_early(active, early)) is not None:
            await _stop(active, work)
        return
    before = active.mark()
    active.take(ended)
    await store(active, before, ())


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
