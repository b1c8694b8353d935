"""The inbox of a run: answers and cancellations that other processes left for its owner."""

from __future__ import annotations

from loopkit.events import Cancelled, Event, HumanAnswer, Refused
from loopkit.journal import InboxMessage
from loopkit.records import Record, read_record
from loopkit.runner.active import ActiveRun
from loopkit.runner.questions import answer_events
from loopkit.runner.work.human import AnswerRefused


class PostedAnswer(Record, frozen=True, kw_only=True):
    """An answer on its way: it names the question that it belongs to."""

    question: str
    answer: HumanAnswer


async def consume(active: ActiveRun) -> None:
    """Follow every message that waits; what cannot be followed is refused, with the reason."""
    for message in await active.claim.inbox():
        events = _followed(active, message)
        await active.append(*events, consumes=[message.message_id])


def _followed(active: ActiveRun, message: InboxMessage) -> list[Event]:
    try:
        if message.kind == "cancel":
            return [Cancelled(reason=message.data)]
        return _answer(active, read_record(PostedAnswer, message.data))
    except (AnswerRefused, ValueError) as error:
        return [Refused(message_id=message.message_id, reason=str(error))]


def _answer(active: ActiveRun, posted: PostedAnswer) -> list[Event]:
    question = active.state.question
    if question is None or question.question != posted.question:
        raise AnswerRefused(f"question `{posted.question}` is not open any more")
    return answer_events(active.engine, active.state, posted.answer, active.clock.now())
