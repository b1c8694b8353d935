"""Answers to requests: JSON, and errors as JSON or as a page, each with its status."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from loopkit.agents.not_runnable import NotRunnable
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.drive.answer_refused import AnswerRefused
from loopkit.journal.errors import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.language.input_faults import InvalidInput
from loopkit.serving.http.library import (
    Headers,
    HTMLResponse,
    HTTPException,
    Request,
    Response,
)
from loopkit.views.page.rendering import render

STATUS: dict[type[Exception], int] = {
    UnknownRun: 404,
    AnswerRefused: 409,
    RunBusy: 409,
    NotRunnable: 409,
    InvalidInput: 422,
    ProblemsFound: 422,
    RunUnreadable: 500,
    JournalError: 503,
}
"""The status of each error that a request can cause; the first class that matches counts."""


TITLES = {
    401: "You are signed out",
    403: "This is not allowed",
    404: "There is no such page",
    409: "This can't be done now",
    421: "This server has another name",
    500: "Something is broken",
    503: "The journal can't be used",
}
"""The headings of error pages."""


class BadRequest(Exception):
    """A request that can't be answered as it is, with the status of the response."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def json_answer(data: Any, status: int = 200) -> Response:
    """Data as JSON."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def error_answer(status: int, message: str, problems: Sequence[dict[str, Any]] = ()) -> Response:
    """An error as JSON: a message, and each problem with its place."""
    return json_answer({"error": {"message": message, "problems": list(problems)}}, status)


def error_page(
    status: int,
    message: str,
    problems: Sequence[dict[str, Any]] = (),
    *,
    has_nav: bool = True,
    is_signed_out: bool = False,
) -> Response:
    """An error as a page; `has_nav` says whether the reader may go to other pages."""
    names = {
        "title": TITLES.get(status, "This did not work"),
        "message": message,
        "problems": problems,
        "has_nav": has_nav,
        "is_signed_out": is_signed_out,
        "place": "",
    }
    return HTMLResponse(render("error.html", names), status)


def wants_page(headers: Headers) -> bool:
    """Whether the client is a browser that shows pages; other programs get data."""
    return "text/html" in headers.get("accept", "")


def _error(
    request: Request, status: int, message: str, problems: Sequence[dict[str, Any]] = ()
) -> Response:
    tell = error_page if wants_page(request.headers) else error_answer
    return tell(status, message, problems)


def status_of(error: Exception) -> int | None:
    """The status of an error that a request has caused; None if it is a bug."""
    if isinstance(error, BadRequest):
        return error.status
    return next((code for kind, code in STATUS.items() if isinstance(error, kind)), None)


def _problems_of(error: Exception) -> list[dict[str, Any]]:
    if isinstance(error, InvalidInput):
        return [
            {"message": fault.message, "path": f"input.{fault.path}" if fault.path else ""}
            for fault in error.faults
        ]
    if isinstance(error, ProblemsFound):
        return [_problem(problem) for problem in error.problems]
    return []


def _problem(problem: Problem) -> dict[str, Any]:
    head = {"code": problem.code, "message": problem.message, "path": problem.path}
    return {**head, "help": problem.help}


async def tell_http(request: Request, error: Exception) -> Response:
    """The answer to a path or a method that does not exist."""
    assert isinstance(error, HTTPException)
    answer = _error(request, error.status_code, str(error.detail).lower())
    answer.headers.update(error.headers or {})
    return answer


async def tell_known(request: Request, error: Exception) -> Response:
    """The answer to an error that a request has caused."""
    status = status_of(error)
    assert status is not None
    return _error(request, status, str(error), _problems_of(error))


def bug_teller(say: Callable[[str], None]) -> Callable[[Request, Exception], Any]:
    """A handler that reports a bug with `say`, and tells the client no detail of it."""

    async def tell_bug(request: Request, bug: Exception) -> Response:
        trace = "".join(traceback.format_exception(bug)[-4:]).rstrip()
        say(f"internal error, a bug in loopkit; the server goes on\n{trace}")
        return _error(
            request, 500, "internal error: this is a bug in loopkit; its server printed it"
        )

    return tell_bug
