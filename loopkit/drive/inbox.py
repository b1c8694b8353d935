"""The inbox of a run: what people and outside agents give it, and cancellations, for its owner.

An answer and a delivery are one message, which is posted, consumed and refused here. What differs
between them stands in `KINDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from loopkit.agents.port import NotRunnable
from loopkit.drive import answers
from loopkit.drive.active import CANCEL, ActiveRun, Mark
from loopkit.drive.answers import DOUBT, AnsweredTwice, AnswerRefused, AnswerUnfit
from loopkit.drive.repair import refuse_over
from loopkit.drive.retries import CallFailed
from loopkit.drive.stored_runs import Stored, open_children
from loopkit.engine.events import (
    Cancelled,
    Event,
    InDoubt,
    Refused,
    Replied,
    Resumed,
    Settled,
    Waiting,
    Worked,
)
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.engine.records import Record, read_record
from loopkit.engine.state import RunState
from loopkit.journal.errors import MessageWaits
from loopkit.journal.journal import Journal
from loopkit.journal.records import NOW, InboxMessage
from loopkit.language.machine import Machine
from loopkit.text.run_ids import ancestors_of, is_child, resume_line, root_of

WAKE = "wake"
"""The kind of a message to a run that one of its children, which it names, was answered."""
NOBODY = ("script", "timeout", "")
"""The names under which loopkit itself answers."""

AnyAnswer: TypeAlias = HumanAnswer | Delivery
Asked: TypeAlias = tuple[str, str]
"""Who is asked: the state, and the agent, which is "" for a person."""


class Kind(NamedTuple):
    """What differs between the kinds of what is given to a run."""

    name: str
    """Its name in messages and in the inbox, before what it is given to and the verb for that."""
    noun: str
    verb: str
    judge: Callable[[Engine, RunState, Any, float], object]
    """Raises AnswerRefused if the open question does not take it."""
    take: Callable[[ActiveRun, Any, bool], Awaitable[Sequence[Event]]]
    """Takes it from the inbox; returns the work that it completes. Raises AnswerRefused."""
    as_stored: Callable[[Any, Machine], Any] = lambda given, _: given
    """It as it is stored and compared."""
    may_differ: Callable[[RunState, Any], bool] = lambda _, __: False
    """Whether it may be another one than the last, although both look the same."""


ANSWER = Kind("answer", "question", "answer", answers.step_of_answer, answers.take)
DELIVERY = Kind(
    "delivery", "request", "deliver", answers.judge_delivery, answers.take_delivery,
    answers.without_secrets, answers.delivery_may_differ,
)  # fmt: skip
KINDS: Mapping[type[AnyAnswer], Kind] = {HumanAnswer: ANSWER, Delivery: DELIVERY}


class Posting(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What is given to a run, on its way: it names the question that it belongs to."""

    question: str
    answer: HumanAnswer | None = None
    delivery: Delivery | None = None
    to_all: bool = False
    """Whether it is for all calls of the run that are in doubt, where one is asked about."""

    @property
    def given(self) -> AnyAnswer:
        """The answer or delivery; raises ValueError if there is none."""
        given = self.answer or self.delivery
        if given is None:
            raise ValueError("the message gives nothing")
        return given


class StoredRun(NamedTuple):
    journal: Journal
    engine: Engine
    history: Sequence[Stored]
    state: RunState


async def post(
    run: StoredRun, given: AnyAnswer, named: str | None, now: float, *, to_all: bool = False
) -> bool:
    """Post an answer or a delivery to the inbox of a run; False if it was given before.

    It is for the question of the id `named`; without one for the open question. Raises NotRunnable
    if nothing is asked, and AnswerRefused if it does not fit, if its question was given another one
    by now, and, where no question is named, if the one before was given the same.
    """
    kind, state, question = KINDS[type(given)], run.state, run.state.question
    given = kind.as_stored(given, run.engine.program.machine)
    by_question, by_asked = given_before(run.history)
    if named in by_question and (question is None or named != question.question):
        if not is_same(by_question[named], given):
            raise _late(kind, state, named, by_question[named])
        return False
    lately = by_asked.values() if named is None and state.status != "waiting" else ()
    if await _is_repeated(kind, state, lately, given):
        return False
    refuse_over(state)
    if question is None or state.status != "waiting":
        raise NotRunnable(f"run `{state.run}` waits for no {kind.name} now: {_why_not(state)}")
    if named not in (None, question.question):
        raise _late(kind, state, named)
    if given.by in NOBODY:
        raise AnswerUnfit(f"`{given.by}` is nobody's name: say who answers", "by")
    last = () if named else list(by_question.values())[-1:]
    if await _is_for_last(kind, run, last, given, now):
        return False
    before = by_asked.get(_asked(question)) if named is None and question.call is None else None
    if before is not None and await _is_repeated(kind, state, [before], given):
        message = f"the last {kind.noun} of `{question.state}` had this {kind.name} already"
        raise AnsweredTwice(f"{message}, and this is a new one", f"{kind.verb} the same")
    content: dict[str, Any] = {kind.name: given, "to_all": to_all}
    first = await _post(run, kind.name, Posting(question=question.question, **content), now)
    if first is not None and not is_same(first.given, given):
        raise _late(kind, state, question.question, first.given)
    return first is None


def _why_not(state: RunState) -> str:
    if (stopped := state.suspended) is None or stopped.reason not in ("interrupted", "transient"):
        return f"it is {state.status}; see `loopkit runs show {state.run}`"
    line = resume_line(root_of(state.run))
    return f"it is suspended ({stopped.message}); resume it first: `{line}`"


async def _is_for_last(
    kind: Kind, run: StoredRun, last: Iterable[AnyAnswer], given: AnyAnswer, now: float
) -> bool:
    """Whether it is for the question before; raises AnswerRefused if neither takes it."""
    try:
        kind.judge(run.engine, run.state, given, now)
    except AnswerUnfit as unfit:
        if unfit.at in ("choice", "form") and await _is_repeated(kind, run.state, last, given):
            return True
        raise
    return False


async def _is_repeated(
    kind: Kind, state: RunState, before: Iterable[AnyAnswer], given: AnyAnswer
) -> bool:
    """Whether the same was given before, as far as that can be known."""
    same = any(is_same(one, given) for one in before)
    return same and not await asyncio.to_thread(kind.may_differ, state, given)


def given_before(history: Sequence[Stored]) -> tuple[dict[str, AnyAnswer], dict[Asked, AnyAnswer]]:
    """What a run was given so far: by the id of the question, and the last one by who is asked."""
    by_question: dict[str, AnyAnswer] = {}
    by_asked: dict[Asked, AnyAnswer] = {}
    asked, requests, doubts = "", dict[str, Waiting](), dict[str, str]()
    for event in (stored.event for stored in history):
        match event:
            case Waiting(question=asked, wanted=wanted, call=call):
                if wanted is not None:
                    requests[wanted.call] = event
                if call is not None:
                    doubts[call] = asked
            case Worked(answer=HumanAnswer() as answer):
                by_question[asked] = by_asked[event.state, ""] = answer
            case Settled():
                question = doubts.pop(event.key, f"{DOUBT}{event.key}")
                by_question[question] = HumanAnswer(choice=event.choice)
            case Replied() if (request := requests.get(event.key)) is not None:
                delivery = Delivery(text=event.text or None, by=event.by)
                by_question[request.question] = by_asked[_asked(request)] = delivery
    return by_question, by_asked


def _asked(question: Waiting) -> Asked:
    return question.state, question.wanted.agent if question.wanted else ""


def is_same(before: AnyAnswer, given: AnyAnswer) -> bool:
    if isinstance(before, HumanAnswer) and isinstance(given, HumanAnswer):
        # What is stored has the defaults of the form as well.
        before = before.replace(form={name: before.form.get(name) for name in given.form})
    if isinstance(before, Delivery) and isinstance(given, Delivery):
        # A reply is stored alike of an empty text and of the workspace as it is.
        return (before.text or "") == (given.text or "")
    return before.replace(by=given.by) == given


def who_gave(before: AnyAnswer) -> str:
    if isinstance(before, HumanAnswer):
        return f"{before.by} has answered it with `{before.choice}`"
    return f"{before.by} has delivered it"


def _late(
    kind: Kind, state: RunState, named: str, before: AnyAnswer | None = None
) -> AnswerRefused:
    now = state.question.question if state.question is not None else named
    message = f"{kind.noun} `{named}` is no longer open"
    message += f"; `{now}` is" if now != named else ""
    message += f" ({who_gave(before)})" if before is not None else ""
    return AnswerRefused(message, "question")


async def _post(run: StoredRun, kind: str, posted: Posting, now: float) -> Posting | None:
    """Post a message; what was posted for the same question before stays, and is returned."""
    name = run.state.run
    refused = (stored.event for stored in run.history if isinstance(stored.event, Refused))
    # Each that was refused leaves room for another one.
    count = sum(event.message_id.startswith(f"{posted.question}#") for event in refused)
    place = f"{posted.question}#{count}"
    first = await run.journal.post(name, kind, place, posted.to_json(), now)
    # This wakes whoever drives the family.
    for child, parent in pairwise((name, *ancestors_of(name))):
        await run.journal.post(parent, WAKE, f"{name}:{place}", child, now)
    return None if first is None else read_record(Posting, first)


async def consume(active: ActiveRun) -> None:
    """Carry out each message that waits, cancellations first, or refuse it with the reason."""
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


async def _carry_out(active: ActiveRun, message: InboxMessage) -> Sequence[Event]:
    if message.kind == CANCEL:
        if not active.state.is_over:
            for child in open_children(active.state):
                await active.children.cancel_child(child.started.child, "its parent is cancelled")
            active.stage(*cancellation(active.state, message.data))
        return ()
    if message.kind == WAKE:
        # A run that goes on resumes all children that can.
        if active.state.waits_for_children:
            active.stage(Resumed())
        return ()
    posted = read_record(Posting, message.data)
    kind = KINDS[type(posted.given)]
    question = active.state.question
    if question is None or question.question != posted.question:
        raise AnswerRefused(f"{kind.noun} `{posted.question}` is no longer open")
    return await kind.take(active, posted.given, posted.to_all)


def cancellation(run: RunState, reason: str) -> list[Event]:
    """The events that cancel a run; its open calls stay charged, and nobody is asked about them."""
    why = "the run is cancelled"
    lost = [InDoubt(key=key, policy="fail", reason=why) for key in run.calls_in_flight]
    return [*lost, Cancelled(reason=reason)]


async def store(
    active: ActiveRun, before: Mark, work: Sequence[Event], consumes: Sequence[str] = ()
) -> None:
    """Write what was staged since `before`.

    If this would finish the run and a cancellation waits, the run is cancelled instead: the same
    transaction decides. The `work` that led there is kept.
    """
    unless = () if active.state.finished is None else (CANCEL,)
    try:
        await active.append(consumes=consumes, unless=unless)
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
        awaited = tuple(kind.name for kind in KINDS.values())
    if active.state.waits_for_children:
        awaited = (WAKE,)
    due = active.due if active.state.status == "waiting" else None
    suspended = active.state.suspended
    # A child continues with its parent, which is suspended with it.
    if suspended is not None and not is_child(active.state.run):
        due = suspended.resume_at
    is_cut_short = suspended.reason == "interrupted" if suspended else not active.state.question
    if active.is_due_again and is_cut_short:
        due = NOW
    return await active.claim.release((CANCEL, *awaited), due=due)
