"""Answers and deliveries from the page of a run; a refused form is shown again as it was typed."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.agents.not_runnable import NotRunnable
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.drive.deliveries import without_secrets
from loopkit.drive.inbox import AnyAnswer, given_before, who_gave
from loopkit.engine.events import Delivery
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.language import Machine
from loopkit.serving.http.answers import status_of
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint
from loopkit.serving.pages.forms import read_form, to_page
from loopkit.serving.pages.run import page_of, run_page
from loopkit.serving.run_pages import run_in_page_thread
from loopkit.views.page.answered import Faults, fields_with_text, read_given
from loopkit.views.page.asked import LIMIT
from loopkit.views.page.fields import Typed

PLACES = {"choice": "choice", "comment": "comment", "by": "by", "edit": "edit", "limits": LIMIT}
"""The fields of the page for the parts of an answer; other parts have many or none."""


async def to_question(call: Call) -> Response:
    """Answer a GET of the address of a form with a redirect to the question of the run."""
    return to_page(call, call.path["run"], at="#h-question")


async def give(call: Call) -> Response:
    """Answer the question that a form was for, or deliver what was wanted."""
    run, typed = call.path["run"], await read_form(call.request)
    page, question = await page_of(call, run), typed.one("question")
    asked = await run_in_page_thread(lambda: page.asked)
    if asked is None or asked.question.question != question:
        before = given_before(page.facts.history)[0].get(question)
        if before is None:
            return await _tell_late(call, typed, "This is no longer open.")
        if _is_same(before, typed, page.facts.engine.program.machine):
            return to_page(call, run)
        return await _tell_late(call, typed, f"{who_gave(before)}.")
    given, faults = await run_in_page_thread(lambda: read_given(asked, typed))
    if faults:
        return await _send_back(call, typed, faults)
    try:
        await call.host.post(run, given, question)
    except (AnswerRefused, NotRunnable, JournalError) as error:
        return await _refuse(call, typed, error)
    return to_page(call, run, given.by)


def _is_same(before: AnyAnswer, typed: Typed, machine: Machine) -> bool:
    """Whether the form repeats what counts."""
    by = typed.one("by").strip()
    if isinstance(before, Delivery):
        again = Delivery(text=typed.one("artifact") or None, by=by)
        return without_secrets(again, machine) == before
    counted = before.choice, before.comment, before.by
    return counted == (typed.one("choice"), typed.one("comment"), by)


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
    Endpoint("POST", "/runs/{run}/answer", "Answer a question.", give),
    Endpoint("GET", "/runs/{run}/answer", "Show the question.", to_question),
    Endpoint("POST", "/runs/{run}/deliver", "Deliver an artifact.", give),
    Endpoint("GET", "/runs/{run}/deliver", "Show what is wanted.", to_question),
)
