"""Posting a delivery: find its request, check that it fits, and put it into the inbox."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.posting import AnsweredTwice, open_question, post_message, refuse_nobody
from loopkit.drive.sizes import LONGEST_ANSWER, is_answer
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import Delivery, Replied, Waiting, Wanted
from loopkit.engine.records import Record, read_record
from loopkit.engine.state import RunState
from loopkit.journal.journal import Journal
from loopkit.language import Machine
from loopkit.outside.redaction import redactor
from loopkit.outside.trees.listing import TooLarge
from loopkit.outside.trees.tree import read_tree
from loopkit.outside.workspace import FileMark, OutsideWorkspace, resolve_inside, was_written_since
from loopkit.text import is_broken

DELIVERY = "delivery"
"""The kind of a message that delivers an artifact."""


class PostedDelivery(Record, frozen=True, kw_only=True):
    """A delivery on its way: it names the request that it belongs to."""

    question: str
    delivery: Delivery


def without_secrets(delivery: Delivery, machine: Machine) -> Delivery:
    """A delivery as it is stored, and compared with others: secrets of the environment removed."""
    if delivery.text is None:
        return delivery
    return delivery.replace(text=redactor(os.environ, machine.key_names)(delivery.text))


async def post_delivery(
    journal: Journal,
    history: Sequence[Stored],
    state: RunState,
    delivery: Delivery,
    named: str | None,
    now: float,
) -> bool:
    """Post a delivery, with the id of its request, to the inbox; False if it was posted before.

    Without an id it is for the open request. Raises NotRunnable if the run does not wait, and
    AnswerRefused if the delivery does not fit or its request has another one by now.
    """
    question = open_question(state, named)
    wanted = question.wanted
    if wanted is None:
        message = f"`{question.state}` waits for an answer, not for an artifact"
        raise AnswerRefused(f"{message}: see `loopkit runs show {state.run}`")
    refuse_nobody(delivery.by)
    _refuse(wanted, delivery.text)
    if named is None:
        await _refuse_twice(state, wanted, delivery)
    data = PostedDelivery(question=question.question, delivery=delivery).to_json()
    first = await post_message(
        journal, history, state.run, (DELIVERY, question.question, data), now
    )
    if first in (None, data):
        return first is None
    by = read_record(PostedDelivery, first).delivery.by
    raise AnswerRefused(
        f"request `{question.question}` had another delivery meanwhile, by {by}", "question"
    )


def was_delivered(
    history: Sequence[Stored], state: RunState, delivery: Delivery, named: str | None
) -> bool:
    """Whether it was delivered before: to the request that is named, else to the last one.

    Of the workspace nobody can tell later whether it is as it was, unless the request is named.
    Raises AnswerRefused if the named request had another delivery.
    """
    if named is None and delivery.text is None:
        return False
    if named is None:
        asked = [s.event for s in history if isinstance(s.event, Waiting) and s.event.wanted]
        if state.status == "waiting" or not asked:
            return False
        named = asked[-1].question
        is_meant = False
    else:
        if state.question is not None and state.question.question == named:
            return False
        is_meant = True
    reply = reply_to(history, named)
    if reply is None:
        return False
    if (reply.text, reply.by) == (delivery.text or "", delivery.by):
        return True
    if is_meant:
        raise AnswerRefused(
            f"request `{named}` is over: it had another delivery, by {reply.by}", "question"
        )
    return False


def reply_to(history: Sequence[Stored], question: str) -> Replied | None:
    """The delivery to a request; None if it had none, or is not known."""
    events = [stored.event for stored in history]
    calls = {
        event.wanted.call
        for event in events
        if isinstance(event, Waiting) and event.wanted and event.question == question
    }
    replies = (event for event in events if isinstance(event, Replied) and event.key in calls)
    return next(replies, None)


def _refuse(wanted: Wanted, text: str | None) -> None:
    """Raise AnswerRefused for a text that can't be the artifact that is wanted."""
    where = f"the {wanted.form} {wanted.path!r} in {wanted.workspace!r}"
    if text is None:
        if not wanted.is_left:
            message = f"`{wanted.artifact}` is {_WORDS[wanted.form]}"
            raise AnswerRefused(f"{message}: deliver that, and not the workspace as it is")
        return
    if not wanted.takes_text:
        message = f"`{wanted.artifact}` is {where}"
        raise AnswerRefused(f"{message}: put it there, and deliver the workspace as it is")
    if is_broken(text):
        message = "the delivery has half a surrogate pair in it, which is not a character"
        raise AnswerRefused(message)
    if not is_answer(text):
        message = f"the delivery has {len(text):,} characters"
        raise AnswerRefused(f"{message}, and {LONGEST_ANSWER:,} can be kept; deliver less")


_WORDS = {"text": "a text", "data": "JSON data"}


async def _refuse_twice(state: RunState, wanted: Wanted, delivery: Delivery) -> None:
    """Raise AnsweredTwice if the request before this one had the same delivery."""
    exchanges = state.conversations.get((state.state, wanted.agent))
    if not exchanges or not exchanges[-1].reply.by:
        return
    is_same = exchanges[-1].reply.text == (delivery.text or "")
    if delivery.text is None:
        is_same = await asyncio.to_thread(_is_untouched, state, wanted)
    if is_same:
        before = f"the last request of `{state.state}` had this delivery already"
        raise AnsweredTwice(f"{before}, and this is a new one")


def _is_untouched(state: RunState, wanted: Wanted) -> bool:
    """Whether the workspace is as it was when this was asked for."""
    if wanted.form == "file":
        try:
            path = resolve_inside(Path(wanted.workspace), wanted.path)
        except OutsideWorkspace:
            return False
        return not was_written_since(path, FileMark.of_text(wanted.before))
    captured = state.captured.get(state.open_calls[wanted.call].task)
    if captured is None:
        return False
    place, origin = Path(captured.place), None
    for own in state.isolated.values():
        if place.is_relative_to(own.place):
            origin = Path(own.source) / place.relative_to(own.place)
    try:
        tree = read_tree(place, origin)
    except (TooLarge, OSError):
        return False
    return (tree.digest, tree.times) == (captured.tree, captured.times)
