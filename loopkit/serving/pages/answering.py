"""Answers and deliveries from the page of a run; a refused form is shown again as it was typed."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.posted_deliveries import reply_to, without_secrets
from loopkit.drive.posting import answer_to
from loopkit.engine.events import Delivery, HumanAnswer
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.serving.http.answers import status_of
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint
from loopkit.serving.pages.forms import read_form, to_page
from loopkit.serving.pages.run import page_of, run_page
from loopkit.serving.run_pages import run_in_page_thread
from loopkit.views.page.answered import Faults, fields_with_text, read_answer, read_delivery
from loopkit.views.page.asked import LIMIT, QuestionForm
from loopkit.views.page.fields import Typed
from loopkit.views.page.run_page import RunPage

PLACES = {"choice": "choice", "comment": "comment", "by": "by", "edit": "edit", "limits": LIMIT}
"""The fields of the page for the parts of an answer; other parts have many or none."""


async def to_question(call: Call) -> Response:
    """Answer a GET of the address of a form with a redirect to the question of the run."""
    return to_page(call, call.path["run"], at="#h-question")


async def answer_question(call: Call) -> Response:
    run, typed = call.path["run"], await read_form(call.request)
    page, question = await page_of(call, run), typed.one("question")
    asked = await run_in_page_thread(lambda: _open(page, question))
    if asked is None or asked.question.wanted is not None:
        before = answer_to(page.facts.history, question)
        if before is not None and _is_same(before, typed):
            return to_page(call, run)
        return await _tell_late(call, typed, _who_answered(before))
    answer, faults = await run_in_page_thread(lambda: read_answer(asked, typed))
    if faults:
        return await _send_back(call, typed, faults)
    try:
        await call.host.answer(run, answer, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, answer.by)


async def deliver_artifact(call: Call) -> Response:
    run, typed = call.path["run"], await read_form(call.request)
    page, question = await page_of(call, run), typed.one("question")
    asked = await run_in_page_thread(lambda: _open(page, question))
    if asked is None or asked.question.wanted is None:
        before = reply_to(page.facts.history, question)
        again = Delivery(text=typed.one("artifact"), by=typed.one("by").strip())
        again = without_secrets(again, page.facts.engine.program.machine)
        if before is not None and (before.text, before.by) == (again.text, again.by):
            return to_page(call, run)
        late = "This is no longer wanted." if before is None else f"{before.by} has delivered it."
        return await _tell_late(call, typed, late)
    delivery, faults = read_delivery(asked.question.wanted, typed)
    if faults:
        return await _send_back(call, typed, faults)
    try:
        await call.host.reply(run, delivery, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, delivery.by)


def _open(page: RunPage, question: str) -> QuestionForm | None:
    """The open question of a run, if it is the one that the form was for."""
    asked = page.asked
    return asked if asked is not None and asked.question.question == question else None


def _is_same(before: HumanAnswer, typed: Typed) -> bool:
    """Whether the form repeats the answer that counts."""
    counted = before.choice, before.comment, before.by
    return counted == (typed.one("choice"), typed.one("comment"), typed.one("by").strip())


def _who_answered(before: HumanAnswer | None) -> str:
    if before is None:
        return "This question is no longer open."
    return f"{before.by} has answered this question meanwhile, with {before.choice}."


async def _refuse(call: Call, typed: Typed, error: Exception) -> Response:
    """The form as it was typed, with the error."""
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
    call: Call, typed: Typed, faults: Faults, message: str = "", status: int = 422
) -> Response:
    names = {"typed": typed, "faults": faults, "told": message}
    return await run_page(call, call.path["run"], status, names)


async def _tell_late(call: Call, typed: Typed, message: str) -> Response:
    """The page of the run, with the texts that were typed for a question that has closed."""
    names = {"late": message, "lost": list(fields_with_text(typed)), "by": typed.one("by")}
    return await run_page(call, call.path["run"], 409, names)


ANSWERING: Sequence[Endpoint] = (
    Endpoint("POST", "/runs/{run}/answer", "Answer a question.", answer_question),
    Endpoint("GET", "/runs/{run}/answer", "Show the question.", to_question),
    Endpoint("POST", "/runs/{run}/deliver", "Deliver an artifact.", deliver_artifact),
    Endpoint("GET", "/runs/{run}/deliver", "Show what is wanted.", to_question),
)
