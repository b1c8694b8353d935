"""The inbox of a run: answers and cancellations that other processes left for its owner."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from loopkit.drive.active import ActiveRun, Mark
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.deliveries import reply_from_delivery
from loopkit.drive.posted_deliveries import DELIVERY, PostedDelivery
from loopkit.drive.posting import ANSWER, WAKE, PostedAnswer
from loopkit.drive.questions import settlement, step_of_answer
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Cancelled, Event, Refused, Replied, Resumed
from loopkit.engine.macrostep import Macrostep
from loopkit.engine.records import read_record
from loopkit.journal.errors import MessageWaits
from loopkit.journal.records import InboxMessage

CANCEL = "cancel"
"""The kind of a message that asks to cancel a run."""
INBOX_SECONDS = 1.0
"""How often the inbox of a driven run is read."""


async def consume(active: ActiveRun) -> None:
    """Carry out every message that waits; one that can't be carried out is refused with the reason.

    A cancellation takes precedence over answers.
    """
    messages = await active.claim.inbox()
    if not messages:
        return
    messages.sort(key=lambda message: message.kind != CANCEL)
    before = active.mark()
    work: Sequence[Event] = ()
    for message in messages:
        try:
            work = await _carry_out(active, message)
        except (AnswerRefused, CallFailed, ValueError) as error:
            active.stage(Refused(message_id=message.message_id, reason=str(error)))
    # Together: the first may end the run, which releases the claim.
    await store(active, before, work, [message.message_id for message in messages])


def store(
    active: ActiveRun, before: Mark, work: Sequence[Event], consumes: Sequence[str] = ()
) -> Awaitable[None]:
    """Write what was staged since `before`.

    If this would finish the run and a cancellation waits, the run is cancelled instead: the same
    transaction decides. The `work` that led there is kept.
    """
    if active.state.finished is None:
        return active.append(consumes=consumes)
    return _store_end(active, before, work, consumes)


async def _store_end(
    active: ActiveRun, before: Mark, work: Sequence[Event], consumes: Sequence[str]
) -> None:
    try:
        await active.append(consumes=consumes, unless=(CANCEL,))
    except MessageWaits:
        asked = [m for m in await active.claim.inbox() if m.kind == CANCEL]
        active.roll_back(before)
        active.stage(*work, Cancelled(reason=asked[0].data))
        await active.append(consumes=[*consumes, *(message.message_id for message in asked)])


async def release(active: ActiveRun) -> bool:
    """Release the run; False if a message came that this process has to carry out."""
    if active.state.is_over:
        return True
    await active.append()
    awaited: tuple[str, ...] = ()
    if active.state.status == "waiting":
        awaited = (ANSWER, DELIVERY)
    if active.state.waits_for_children:
        awaited = (WAKE,)
    return await active.claim.release((CANCEL, *awaited))


async def _carry_out(active: ActiveRun, message: InboxMessage) -> Sequence[Event]:
    """Carry out a message; returns the work that it completes."""
    if message.kind == CANCEL:
        if not active.state.is_over:
            active.stage(Cancelled(reason=message.data))
        return ()
    if message.kind == WAKE:
        # A run that goes on resumes all children that can.
        if active.state.waits_for_children:
            active.stage(Resumed())
        return ()
    if message.kind == DELIVERY:
        active.stage(await _take_delivery(active, read_record(PostedDelivery, message.data)))
        # The next turn completes the work.
        return ()
    step = _take_answer(active, read_record(PostedAnswer, message.data))
    active.take(step)
    return step.events[:1]


async def _take_delivery(active: ActiveRun, posted: PostedDelivery) -> Replied:
    """The reply for a delivery; raises AnswerRefused if its request is no longer open."""
    question = active.state.question
    if question is None or question.wanted is None or question.question != posted.question:
        raise AnswerRefused(f"request `{posted.question}` is no longer open")
    return await reply_from_delivery(active, question.wanted, posted.delivery)


def _take_answer(active: ActiveRun, posted: PostedAnswer) -> Macrostep:
    question = active.state.question
    if question is None or question.question != posted.question:
        raise AnswerRefused(f"question `{posted.question}` is no longer open")
    step = step_of_answer(active.engine, active.state, posted.answer, active.clock.now())
    if posted.to_all and question.call is not None:
        for key in active.state.doubts:
            if key != question.call:
                step.add(settlement(key, posted.answer))
    return step
