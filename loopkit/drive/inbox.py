"""The inbox of a run: answers and cancellations that other processes left for its owner."""

from __future__ import annotations

from loopkit.drive.active import ActiveRun
from loopkit.drive.posting import PostedAnswer
from loopkit.drive.questions import step_of_answer
from loopkit.drive.states.human import AnswerRefused
from loopkit.engine.events import Cancelled, Refused
from loopkit.engine.macrostep import Macrostep
from loopkit.engine.records import read_record
from loopkit.journal import InboxMessage


async def consume(active: ActiveRun) -> None:
    """Follow every message that waits; what cannot be followed is refused, with the reason."""
    messages = await active.claim.inbox()
    for message in messages:
        try:
            _follow(active, message)
        except (AnswerRefused, ValueError) as error:
            active.stage(Refused(message_id=message.message_id, reason=str(error)))
    # Together: the first may end the run, and with its end the claim is let go.
    await active.append(consumes=[message.message_id for message in messages])


async def cancelled_before(active: ActiveRun, step: Macrostep) -> bool:
    """Whether a step that would end the run ends it as cancelled, as was asked for meanwhile.

    Its work is kept.
    """
    if not step.run.is_over:
        return False
    asked = [message for message in await active.claim.inbox() if message.kind == "cancel"]
    if not asked:
        return False
    active.stage(step.events[0], Cancelled(reason=asked[0].data))
    await active.append(consumes=[message.message_id for message in asked])
    return True


def _follow(active: ActiveRun, message: InboxMessage) -> None:
    if message.kind == "cancel":
        active.stage(Cancelled(reason=message.data))
    else:
        active.take(_answer(active, read_record(PostedAnswer, message.data)))


def _answer(active: ActiveRun, posted: PostedAnswer) -> Macrostep:
    question = active.state.question
    if question is None or question.question != posted.question:
        raise AnswerRefused(f"question `{posted.question}` is no longer open")
    return step_of_answer(active.engine, active.state, posted.answer, active.clock.now())
