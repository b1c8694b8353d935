"""Posting an answer: find its question, check that it fits, and put it into the inbox."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.questions import DOUBT, step_of_answer
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import HumanAnswer, Refused, Settled, Waiting, Worked
from loopkit.engine.macrostep import Engine
from loopkit.engine.records import Record, read_record
from loopkit.engine.state import RunState
from loopkit.journal.journal import Journal
from loopkit.text.run_ids import ancestors_of

ANSWER = "answer"
"""The kind of a message that answers a question."""
WAKE = "wake"
"""The kind of a message to a run that one of its children, which it names, was answered."""

NOBODY = ("script", "timeout")
"""The names under which loopkit itself answers."""


class PostedAnswer(Record, frozen=True, kw_only=True):
    """An answer on its way: it names the question that it belongs to."""

    question: str
    answer: HumanAnswer
    to_all: bool = False
    """Whether it is for all calls of the run that are in doubt, where one is asked about."""


class AnsweredTwice(AnswerRefused):
    """The answer to the question before this one was the same, so it may be meant for that one."""


async def post_answer(
    journal: Journal,
    engine: Engine,
    history: Sequence[Stored],
    state: RunState,
    given: tuple[HumanAnswer, str | None, bool],
    now: float,
) -> bool:
    """Post an answer, with the id of its question, to the inbox; False if it was posted before.

    Without an id it is for the open question. Raises NotRunnable if nothing is asked, and
    AnswerRefused if the answer does not fit or its question has another one by now.
    """
    answer, named, to_all = given
    question = open_question(state, named)
    refuse_nobody(answer.by)
    step_of_answer(engine, state, answer, now)
    if named is None:
        _refuse_twice(state, question, answer)
    data = PostedAnswer(question=question.question, answer=answer, to_all=to_all).to_json()
    first = await post_message(journal, history, state.run, (ANSWER, question.question, data), now)
    if first in (None, data):
        return first is None
    before = read_record(PostedAnswer, first).answer
    message = f"was answered with `{before.choice}` meanwhile, by {before.by}"
    raise AnswerRefused(f"question `{question.question}` {message}", "question")


def was_answered(
    history: Sequence[Stored], state: RunState, answer: HumanAnswer, named: str | None
) -> bool:
    """Whether it was given before: to the question that is named, else to the last of any state.

    Raises AnswerRefused if the named question had another answer.
    """
    if named is None:
        last = state.answers.values()
        return state.status != "waiting" and any(is_same_answer(one, answer) for one in last)
    if state.question is not None and state.question.question == named:
        return False
    before = answer_to(history, named)
    if before is None:
        return False
    if is_same_answer(before, answer):
        return True
    now = f"; `{state.question.question}` is" if state.question is not None else ""
    answered = f"{before.by} has answered it with `{before.choice}`"
    raise AnswerRefused(f"question `{named}` is no longer open{now} ({answered})", "question")


def answer_to(history: Sequence[Stored], question: str) -> HumanAnswer | None:
    """The answer to the question with an id; None if it had none, or is not known."""
    found: HumanAnswer | None = None
    is_asked = False
    for event in (stored.event for stored in history):
        if isinstance(event, Waiting):
            is_asked = event.question == question
        elif isinstance(event, Worked) and event.answer is not None and is_asked:
            found = event.answer
        elif isinstance(event, Settled) and question == f"{DOUBT}{event.key}":
            found = HumanAnswer(choice=event.choice)
    return found


async def post_message(
    journal: Journal,
    history: Sequence[Stored],
    run: str,
    message: tuple[str, str, str],
    now: float,
) -> str | None:
    """Post a message (its kind, the question that it is for, its data) to the inbox of a run.

    Returns the data that was posted for the same question before, which stays; else None.
    """
    kind, question, data = message
    place = f"{question}#{_count_refusals(history, question)}"
    first = await journal.post(run, kind, place, data, now)
    # This wakes whoever drives the family.
    child = run
    for parent in ancestors_of(run):
        await journal.post(parent, WAKE, f"{run}:{place}", child, now)
        child = parent
    return first


def refuse_nobody(by: str) -> None:
    """Raise AnswerRefused for a name that is not a person's."""
    if by in (*NOBODY, ""):
        raise AnswerRefused(f"`{by}` is nobody's name: say who answers", "by")


def open_question(state: RunState, named: str | None) -> Waiting:
    """The open question, which an answer is for; if `named` is given, it has to be its id.

    Raises NotRunnable if nothing is asked, and AnswerRefused if `named` is another one.
    """
    question = state.question
    if question is None or state.status != "waiting":
        raise NotRunnable(f"run `{state.run}` is not waiting for an answer; it is {state.status}")
    if named not in (None, question.question):
        message = f"question `{named}` is no longer open; `{question.question}` is"
        raise AnswerRefused(message, "question")
    return question


def _refuse_twice(state: RunState, question: Waiting, answer: HumanAnswer) -> None:
    """Raise AnsweredTwice if the state's question before this one had the same answer."""
    before = state.answers.get(question.state)
    if question.call is None and before is not None and is_same_answer(before, answer):
        message = f"the last question of `{question.state}` had this answer already"
        raise AnsweredTwice(f"{message}, and this is a new one")


def is_same_answer(before: HumanAnswer, answer: HumanAnswer) -> bool:
    """Whether it is the same answer; the stored one has the defaults of the form as well."""
    given = {name: before.form.get(name) for name in answer.form}
    return before.replace(form=given, by=answer.by) == answer


def _count_refusals(history: Sequence[Stored], question: str) -> int:
    """How many answers to a question were refused: each leaves room for another one."""
    refused = (stored.event for stored in history if isinstance(stored.event, Refused))
    return sum(event.message_id.startswith(f"{question}#") for event in refused)
