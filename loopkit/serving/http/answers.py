"""Answers to requests, their bodies, and streams of events, which share one reader of the journal.

The id of each event of a stream is its place in the journal, so a client that was disconnected
continues after the last event that it has seen. A client that does not read is disconnected.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from loopkit.agents.port import NotRunnable
from loopkit.document.problems import ProblemsFound
from loopkit.drive.answers import AnswerRefused, AnswerUnfit
from loopkit.drive.stored_runs import read_stored
from loopkit.engine.events import ENDS
from loopkit.engine.records import Record, read_record
from loopkit.journal.errors import JournalError, RunBusy, RunUnreadable, UnknownRun
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place, Placed
from loopkit.language.input_faults import InvalidInput
from loopkit.serving.host import bug_text
from loopkit.serving.http.library import (
    ClientDisconnect,
    EventSourceResponse,
    Headers,
    HTMLResponse,
    HTTPException,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    SendTimeoutError,
)
from loopkit.text.json_text import NoJson, parse_json
from loopkit.views.console import event_line
from loopkit.views.page.rendering import render

POLL_S = 0.02
RETRY_S = 1.0


class Follower:
    """Looks whether a journal has new records, once for all who follow it."""

    def __init__(self, journal: Journal, poll_s: float = POLL_S) -> None:
        self.journal = journal
        self._poll_s = poll_s
        self.followers = 0
        self._wanted = asyncio.Event()
        self.is_closed = False
        self.news = asyncio.Event()
        """Set, and replaced, when there are new records, or when the follower is closed."""

    @contextmanager
    def following(self) -> Iterator[None]:
        self.followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.followers -= 1

    async def run(self) -> None:
        """Look until cancelled or closed, for as long as somebody follows."""
        seen: Place | None = None
        while not self.is_closed:
            if not self.followers:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                newest = await self.journal.newest()
            except JournalError:
                # Those who read the journal get the error.
                await asyncio.sleep(RETRY_S)
                continue
            if newest == seen:
                await asyncio.sleep(self._poll_s)
            else:
                seen = newest
                self._wake()

    def close(self) -> None:
        self.is_closed = True
        self._wanted.set()
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()


STATUS: dict[type[Exception], int] = {
    UnknownRun: 404,
    AnswerUnfit: 422,
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


class BadRequest(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def json_answer(data: Any, status: int = 200) -> Response:
    data = data.plain() if isinstance(data, Record) else data
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def error_answer(status: int, message: str, problems: Sequence[dict[str, Any]] = ()) -> Response:
    return json_answer({"error": {"message": message, "problems": list(problems)}}, status)


def error_page(
    status: int,
    message: str,
    problems: Sequence[dict[str, Any]] = (),
    *,
    has_nav: bool = True,
    is_signed_out: bool = False,
) -> Response:
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
    named = ("code", "message", "path", "help")
    problems = getattr(error, "problems", ())
    return [{name: getattr(problem, name) for name in named} for problem in problems]


async def tell_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _error(request, error.status_code, str(error.detail).lower())
    answer.headers.update(error.headers or {})
    return answer


async def tell_known(request: Request, error: Exception) -> Response:
    status = status_of(error)
    assert status is not None
    return _error(request, status, str(error), _problems_of(error))


def bug_teller(say: Callable[[str], None]) -> Callable[[Request, Exception], Any]:
    """A handler that reports a bug with `say`, and tells the client no detail of it."""

    async def tell_bug(request: Request, bug: Exception) -> Response:
        say(bug_text(bug, "the server goes on"))
        told = "internal error: this is a bug in loopkit; its server printed it"
        return _error(request, 500, told)

    return tell_bug


MOST_BYTES = 10_000_000
"""The size of a body: room for an edited artifact, or an input with files in it."""
LONGEST_S = 30.0
"""The time that a client may take to send a body."""

R = TypeVar("R", bound=Record)


async def record_of(request: Request, noun: type[R]) -> R:
    """The record that a body holds; raises BadRequest."""
    fault = "the body has to be JSON, with `Content-Type: application/json`"
    text = await text_of(request, MOST_BYTES, ("application/json", fault))
    # Read strictly first: what readers could understand differently must not get any further.
    value = parse_json(text)
    if isinstance(value, NoJson):
        raise BadRequest(f"the body is not JSON: {value.reason}")
    try:
        return read_record(noun, text.removeprefix("\ufeff"))
    except ValueError as error:
        raise BadRequest(f"the body does not fit: {error}", 422) from error


async def text_of(request: Request, most: int, only: tuple[str, str] | None = None) -> str:
    """The body of a request; raises BadRequest if it is too long, takes too long or is no UTF-8.

    `only` is the content type that it has to have, and the fault otherwise.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if only is not None and kind != only[0]:
        raise BadRequest(only[1], 415)
    body = bytearray()
    try:
        async with asyncio.timeout(LONGEST_S):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise BadRequest(f"the body has more than {most:,} bytes", 413)
    except TimeoutError as error:
        raise BadRequest(f"the body did not come within {LONGEST_S:g} s", 408) from error
    except ClientDisconnect as error:
        raise BadRequest("the client went away") from error
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start} is wrong") from error


LOOK_S = 2.0
OVER = "over"
"""The ending of the id of the last event of a run."""


class Stream(EventSourceResponse):
    """A stream that ends if its client does not read."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


def event_of_record(placed: Placed) -> bytes:
    """A record as an event of a stream: the line that `runs logs --jsonl` prints."""
    try:
        line = event_line(placed.run, read_stored(placed.run, placed.record))
    except RunUnreadable as fault:
        record, place = placed.record, {"run": placed.run, "seq": placed.record.seq}
        line = json.dumps({**place, "type": record.type, "unreadable": fault.cause})
    return _event(str(placed.place), line)


_BREAKS = str.maketrans({mark: f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"})
"""JSON escapes of characters that some readers take for a line end; JSON escapes the others."""


def _event(place: str, line: str, name: str = "") -> bytes:
    named = f"event: {name}\r\n" if name else ""
    data = line.translate(_BREAKS)
    return f"id: {place}\r\n{named}data: {data}\r\n\r\n".encode()


async def stream(
    follower: Follower, after: Place, run: str | None, *, is_over: bool = False
) -> AsyncIterator[bytes]:
    """The events after a place as they happen: of all runs, or of one and its children.

    The first event is named `ready` and has only the place at which the stream begins. The last
    event of a stream of one run is named `end`, after the run has ended. If the journal can't be
    read, `fault` says why before the stream ends.
    """
    yield _event(str(after), "{}", "ready")
    with follower.following():
        while not follower.is_closed:
            news = follower.news
            try:
                found = await follower.journal.records_after(after, run)
            except JournalError as error:
                yield _event(str(after), json.dumps({"message": str(error)}), "fault")
                return
            for record in found:
                yield event_of_record(record)
            is_over = is_over or any(one.run == run and one.record.type in ENDS for one in found)
            if found:
                after = found[-1].place
                continue
            if is_over:
                yield _event(f"{after}.{OVER}", json.dumps({"run": run}), "end")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await news.wait()


EVENTS: dict[str, Any] = {
    "type": "string",
    "description": (
        "Server-Sent Events. Each has an `id`, at which a client goes on with `Last-Event-ID`, and "
        "as `data` one event as JSON, as the event schema says. `ready` comes first and `end` last."
    ),
}
