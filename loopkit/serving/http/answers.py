"""Answers to requests: JSON, and errors with the status that says what became of them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from loopkit.agents.assignment import NotRunnable
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.drive.states.human import AnswerRefused
from loopkit.journal import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.language.input_faults import InvalidInput
from loopkit.serving.http.library import HTTPException, Request, Response
from loopkit.text import is_broken

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
"""The status of each error that a request can cause; of several classes the first one counts."""


class BadRequest(Exception):
    """A request that cannot be followed as it is, with the status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def json_answer(data: Any, status: int = 200) -> Response:
    """Data as JSON. Half characters, which only damaged records hold, are replaced."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    body = text.encode(errors="replace" if is_broken(text) else "strict")
    return Response(body, status, media_type="application/json")


def error_answer(status: int, message: str, problems: Sequence[dict[str, Any]] = ()) -> Response:
    """An error as every error is told: a message, and each problem with its place."""
    return json_answer({"error": {"message": message, "problems": list(problems)}}, status)


def answer_for(error: Exception) -> Response | None:
    """What is told of an error that a request has caused; none where it is a bug."""
    if isinstance(error, BadRequest):
        return error_answer(error.status, str(error))
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), None)
    if status is None:
        return None
    return error_answer(status, str(error), _problems_of(error))


def _problems_of(error: Exception) -> list[dict[str, Any]]:
    if isinstance(error, InvalidInput):
        return [
            {"message": fault.message, "path": f"input.{fault.missing}" if fault.missing else ""}
            for fault in error.faults
        ]
    if isinstance(error, ProblemsFound):
        return [_problem(problem) for problem in error.problems]
    return []


def _problem(problem: Problem) -> dict[str, Any]:
    told = {"code": problem.code, "message": problem.message, "path": problem.path}
    return {**told, "help": problem.help}


async def tell_http(_: Request, error: Exception) -> Response:
    """The answer to a path or method that there is not."""
    assert isinstance(error, HTTPException)
    answer = error_answer(error.status_code, str(error.detail).lower())
    answer.headers.update(error.headers or {})
    return answer


async def tell_known(_: Request, error: Exception) -> Response:
    """The answer to an error that a request has caused."""
    answer = answer_for(error)
    assert answer is not None
    return answer


def bug_teller(say: Callable[[str], None]) -> Callable[[Request, Exception], Any]:
    """Tells a bug to whoever runs the server, and nothing of it to a client."""

    async def tell_bug(_: Request, bug: Exception) -> Response:
        told = "".join(traceback.format_exception(bug)[-4:]).rstrip()
        say(f"internal error, a bug in loopkit; the server goes on\n{told}")
        return error_answer(500, "internal error: this is a bug in loopkit; its server printed it")

    return tell_bug
