"""Answers and deliveries from the page of a run: what is refused comes back as it was typed."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.agents.assignment import NotRunnable
from loopkit.drive.human_answers import AnswerRefused
from loopkit.drive.posted_deliveries import reply_to, without_secrets
from loopkit.drive.posting import answer_to
from loopkit.engine.events import Delivery, HumanAnswer
from loopkit.journal import JournalError, RunUnreadable
from loopkit.serving.http.answers import status_of
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint
from loopkit.serving.pages.forms import to_page, typed_in
from loopkit.serving.pages.run import page_of, run_page
from loopkit.serving.run_pages import made
from loopkit.views.page.answered import Faults, read_answer, read_delivery, said
from loopkit.views.page.asked import LIMIT, Asked
from loopkit.views.page.fields import Typed
from loopkit.views.page.run_page import RunPage

PLACES = {"choice": "choice", "comment": "comment", "by": "by", "edit": "edit", "limits": LIMIT}
"""The fields of the page for the parts of an answer; other parts have many or none."""


async def to_question(call: Call) -> Response:
    """Answers a GET of the address of a form: leads to the page of the run."""
    return to_page(call, call.path["run"], at="#h-question")


async def answer_question(call: Call) -> Response:
    run, typed = call.path["run"], await typed_in(call.request)
    page, question = await page_of(call, run), typed.one("question")
    asked = await made(lambda: _open(page, question))
    if asked is None or asked.question.wanted is not None:
        before = answer_to(page.facts.history, question)
        if before is not None and _is_same(before, typed):
            return to_page(call, run)
        return await _tell_late(call, typed, _who_answered(before))
    answer, faults = await made(lambda: read_answer(asked, typed))
    if faults:
        return await _send_back(call, typed, faults)
    try:
        await call.host.answer(run, answer, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, answer.by)


async def deliver_artifact(call: Call) -> Response:
    run, typed = call.path["run"], await typed_in(call.request)
    page, question = await page_of(call, run), typed.one("question")
    asked = await made(lambda: _open(page, question))
    if asked is None or asked.question.wanted is None:
        before = reply_to(page.facts.history, question)
        again = Delivery(text=typed.one("artifact"), by=typed.one("by").strip())
        again = without_secrets(again, page.facts.engine.program.machine)
        if before is not None and (before.text, before.by) == (again.text, again.by):
            return to_page(call, run)
        told = "This is no longer wanted." if before is None else f"{before.by} has delivered it."
        return await _tell_late(call, typed, told)
    delivery, faults = read_delivery(asked.question.wanted, typed)
    if faults:
        return await _send_back(call, typed, faults)
    try:
        await call.host.reply(run, delivery, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, delivery.by)


def _open(page: RunPage, question: str) -> Asked | None:
    """What a form was for, where that is still open."""
    asked = page.asked
    return asked if asked is not None and asked.question.question == question else None


def _is_same(before: HumanAnswer, typed: Typed) -> bool:
    """Whether a form that was sent twice is the answer that counts."""
    told = before.choice, before.comment, before.by
    return told == (typed.one("choice"), typed.one("comment"), typed.one("by").strip())


def _who_answered(before: HumanAnswer | None) -> str:
    if before is None:
        return "This question is no longer open."
    return f"{before.by} has answered this question meanwhile, with {before.choice}."


async def _refuse(call: Call, typed: Typed, error: Exception) -> Response:
    """What was typed, with what the run says to it."""
    if isinstance(error, RunUnreadable):
        raise error
    at = error.at if isinstance(error, AnswerRefused) else ""
    if at == "question":
        return await _tell_late(call, typed, str(error))
    faults = {PLACES[at]: str(error)} if at in PLACES else {}
    return await _send_back(
        call, typed, faults, "" if faults else str(error), status_of(error) or 500
    )


async def _send_back(
    call: Call, typed: Typed, faults: Faults, told: str = "", status: int = 422
) -> Response:
    names = {"typed": typed, "faults": faults, "told": told}
    return await run_page(call, call.path["run"], status, names)


async def _tell_late(call: Call, typed: Typed, told: str) -> Response:
    """The run as it is now, with what was typed for a question that is over."""
    names = {"late": told, "lost": list(said(typed)), "by": typed.one("by")}
    return await run_page(call, call.path["run"], 409, names)


ANSWERING: Sequence[Endpoint] = (
    Endpoint("POST", "/runs/{run}/answer", "Answer a question.", answer_question),
    Endpoint("GET", "/runs/{run}/answer", "Show the question.", to_question),
    Endpoint("POST", "/runs/{run}/deliver", "Deliver an artifact.", deliver_artifact),
    Endpoint("GET", "/runs/{run}/deliver", "Show what is wanted.", to_question),
)
