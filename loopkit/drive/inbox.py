"""The inbox of a run: what people and outside agents give it, and cancellations, for its owner.

An answer and a delivery are one message, which is posted, consumed and refused here. What differs
between them is what a module of its own says of each, and `KINDS` names it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive import answers, deliveries
from loopkit.drive.active import ActiveRun, Mark
from loopkit.drive.answer_refused import AnsweredTwice, AnswerRefused
from loopkit.drive.repair.refusals import refuse_over
from loopkit.drive.retries import CallFailed
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import (
    Cancelled,
    Delivery,
    Event,
    HumanAnswer,
    Refused,
    Resumed,
    Waiting,
)
from loopkit.engine.macrostep import Engine
from loopkit.engine.records import Record, read_record
from loopkit.engine.state import RunState
from loopkit.journal import InboxMessage, Journal, MessageWaits
from loopkit.language import Machine
from loopkit.text.run_ids import ancestors_of

WAKE = "wake"
"""The kind of a message to a run that one of its children, which it names, was answered."""
CANCEL = "cancel"
"""The kind of a message that asks to cancel a run."""
INBOX_SECONDS = 1.0
"""How often the inbox of a driven run is read."""
NOBODY = ("script", "timeout", "")
"""The names under which loopkit itself answers."""

Given: TypeAlias = HumanAnswer | Delivery
G = TypeVar("G")


class Kind(Protocol[G]):
    """What differs between the kinds of what is given to a run."""

    NAME: str
    """Its name in messages, and the kind of them in the inbox."""
    NOUN: str
    """The name of what it is given to."""
    AGAIN: str
    """What giving the same again is called."""

    def as_stored(self, given: G, machine: Machine, /) -> G:
        """It as it is stored and compared."""

    def is_same(self, before: G, given: G, /) -> bool:
        """Whether what was stored before is the same."""

    def words_of(self, before: G, /) -> str:
        """What somebody has done who has given it to a question."""

    def given_to(self, history: Sequence[Stored], question: str, /) -> G | None:
        """What was given to the question with an id."""

    def last_given(self, history: Sequence[Stored], state: RunState, /) -> Iterable[G]:
        """What was given last, if no question is named."""

    def judge(self, engine: Engine, state: RunState, given: G, now: float, /) -> None:
        """Raise AnswerRefused if the open question does not take it."""

    async def is_repeated(self, state: RunState, question: Waiting, given: G, /) -> bool:
        """Whether the question before the open one was given the same."""

    async def take(self, active: ActiveRun, given: G, to_all: bool, /) -> Sequence[Event]:
        """Take it from the inbox; returns the work that it completes. Raises AnswerRefused."""


KINDS: Mapping[type[Given], Kind[Any]] = {HumanAnswer: answers, Delivery: deliveries}


class Posted(Record, frozen=True, kw_only=True, omit_defaults=True):
    """What is given to a run, on its way: it names the question that it belongs to."""

    question: str
    answer: HumanAnswer | None = None
    delivery: Delivery | None = None
    to_all: bool = False
    """Whether it is for all calls of the run that are in doubt, where one is asked about."""

    @property
    def given(self) -> Given:
        """The answer or delivery; raises ValueError if there is none."""
        given = self.answer or self.delivery
        if given is None:
            raise ValueError("the message gives nothing")
        return given


class Asked(NamedTuple):
    """A stored run, for which something is posted."""

    journal: Journal
    engine: Engine
    history: Sequence[Stored]
    state: RunState


async def post(
    run: Asked, given: Given, named: str | None, now: float, *, to_all: bool = False
) -> bool:
    """Post an answer or a delivery to the inbox of a run; False if it was given before.

    It is for the question of the id `named`; without one for the open question. Raises NotRunnable
    if nothing is asked, and AnswerRefused if it does not fit, if its question was given another one
    by now, and, where no question is named, if the one before was given the same.
    """
    kind, state = KINDS[type(given)], run.state
    given = kind.as_stored(given, run.engine.program.machine)
    if _was_given(run, kind, given, named):
        return False
    refuse_over(state)
    question = _open_question(kind, state, named)
    if given.by in NOBODY:
        raise AnswerRefused(f"`{given.by}` is nobody's name: say who answers", "by")
    kind.judge(run.engine, state, given, now)
    if named is None and await kind.is_repeated(state, question, given):
        last = f"the last {kind.NOUN} of `{question.state}` had this {kind.NAME} already"
        raise AnsweredTwice(f"{last}, and this is a new one", kind.AGAIN)
    content: dict[str, Any] = {kind.NAME: given}
    posted = Posted(question=question.question, to_all=to_all, **content)
    first = await _post(run, kind.NAME, posted, now)
    if first in (None, posted):
        return first is None
    raise _late(kind, state, question.question, first.given)


def _was_given(run: Asked, kind: Kind[Any], given: Given, named: str | None) -> bool:
    """Whether it was given before: to the question that is named, else last.

    Raises AnswerRefused if the named question was given another one.
    """
    state = run.state
    if named is None:
        last = kind.last_given(run.history, state)
        return state.status != "waiting" and any(kind.is_same(one, given) for one in last)
    if state.question is not None and state.question.question == named:
        return False
    before = kind.given_to(run.history, named)
    if before is None or kind.is_same(before, given):
        return before is not None
    raise _late(kind, state, named, before)


def _open_question(kind: Kind[Any], state: RunState, named: str | None) -> Waiting:
    question = state.question
    if question is None or state.status != "waiting":
        raise NotRunnable(f"run `{state.run}` is not waiting for an answer; it is {state.status}")
    if named not in (None, question.question):
        raise _late(kind, state, named)
    return question


def _late(
    kind: Kind[Any], state: RunState, named: str, before: Given | None = None
) -> AnswerRefused:
    """The refusal of what is for a question that is over; `before` is what it was given."""
    now = state.question.question if state.question is not None else named
    message = f"{kind.NOUN} `{named}` is no longer open"
    message += f"; `{now}` is" if now != named else ""
    message += f" ({who_gave(before)})" if before is not None else ""
    return AnswerRefused(message, "question")


async def _post(run: Asked, kind: str, posted: Posted, now: float) -> Posted | None:
    """Post a message; what was posted for the same question before stays, and is returned."""
    name = run.state.run
    refused = (stored.event for stored in run.history if isinstance(stored.event, Refused))
    # Each that was refused leaves room for another one.
    count = sum(event.message_id.startswith(f"{posted.question}#") for event in refused)
    place = f"{posted.question}#{count}"
    first = await run.journal.post(name, kind, place, posted.to_json(), now)
    # This wakes whoever drives the family.
    child = name
    for parent in ancestors_of(name):
        await run.journal.post(parent, WAKE, f"{name}:{place}", child, now)
        child = parent
    return None if first is None else read_record(Posted, first)


def given_to(history: Sequence[Stored], question: str) -> Given | None:
    """What was given to the question or request with an id; None if it had nothing."""
    found = (kind.given_to(history, question) for kind in KINDS.values())
    return next((one for one in found if one is not None), None)


def who_gave(before: Given) -> str:
    return f"{before.by} has {KINDS[type(before)].words_of(before)}"


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
    posted = read_record(Posted, message.data)
    kind, question = KINDS[type(posted.given)], active.state.question
    if question is None or question.question != posted.question:
        raise AnswerRefused(f"{kind.NOUN} `{posted.question}` is no longer open")
    return await kind.take(active, posted.given, posted.to_all)


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
        awaited = tuple(kind.NAME for kind in KINDS.values())
    if active.state.waits_for_children:
        awaited = (WAKE,)
    return await active.claim.release((CANCEL, *awaited))
