"""Answers to requests, their bodies, and streams of events, which share one reader of the journal.

The id of each event of a stream is its place in the journal, so a client that was disconnected
continues after the last event that it has seen. A client that does not read is disconnected.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

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
from loopkit.text.run_ids import BELOW
from loopkit.views.console import event_line
from loopkit.views.page.rendering import render

POLL_S = 0.02
RETRY_S = 1.0
MOST_KEPT = 2_000
MOST_KEPT_BYTES = 16_000_000


class FollowedRecord(NamedTuple):
    place: Place
    run: str
    type: str
    data: bytes


class Follower:
    """Polls a journal with short reads for as long as it has followers.

    A follower is only a place in the order of all records. The newest are kept in memory, once for
    all; a follower that is further behind reads from the journal.
    """

    def __init__(
        self, journal: Journal, tell: Callable[[Placed], bytes], poll_s: float = POLL_S
    ) -> None:
        """`tell` encodes a record for followers, once for all of those who keep up."""
        self.journal = journal
        self._tell = tell
        self._poll_s = poll_s
        self._kept: deque[FollowedRecord] = deque()
        self._kept_bytes = 0
        self._from: Place | None = None
        """All records after this place and up to `_to` are kept; None if none are."""
        self._to = Place()
        self._era = journal.era
        """That of the journal that the kept records belong to; a replaced one has another."""
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

    async def read(
        self, after: Place, family: str | None, *, is_last: bool = False
    ) -> tuple[Sequence[FollowedRecord], Place]:
        """The records after a place, in order, and the place to continue at.

        They are those of all runs, or of one and its children. If there are none, wait for the
        `news` that was taken before this call. With `is_last` the journal itself is read, because
        no news will follow. Raises JournalError.
        """
        known, kept_from = self._to, self._from
        is_kept = kept_from is not None and kept_from <= after and self._era == self.journal.era
        if is_kept and not is_last:
            return self._recent(after, family)
        if placed := await self.journal.records_after(after, family):
            return [self._prepare(one) for one in placed], placed[-1].place
        # The reader had come as far before, and none of it was for this follower.
        return (), max(after, known)

    def _recent(self, after: Place, family: str | None) -> tuple[Sequence[FollowedRecord], Place]:
        first = bisect_right(self._kept, after, key=lambda record: record.place)
        new = [self._kept[at] for at in range(first, len(self._kept))]
        if family is not None:
            below = f"{family}{BELOW}"
            new = [one for one in new if one.run == family or one.run.startswith(below)]
        return new, max(after, self._to)

    async def run(self) -> None:
        """Read the journal until cancelled or closed."""
        while not self.is_closed:
            try:
                if not self.followers or self._from is None:
                    await self._rest()
                placed = await self.journal.records_after(self._to)
                if self._era != self.journal.era:
                    self._from = None
                    continue
            except JournalError:
                # A follower that reads from the journal itself gets the error.
                await asyncio.sleep(RETRY_S)
                continue
            if placed:
                self._keep([self._prepare(one) for one in placed])
                self._wake()
            else:
                await asyncio.sleep(self._poll_s)

    def _forget(self, start: Place | None) -> None:
        self._kept.clear()
        self._kept_bytes = 0
        self._from = start

    async def _rest(self) -> None:
        self._forget(None)
        if not self.followers:
            self._wanted.clear()
            await self._wanted.wait()
        self._from = self._to = await self.journal.newest()
        self._era = self.journal.era
        # Earlier followers do not know what was written since.
        self._wake()

    def _keep(self, records: Sequence[FollowedRecord]) -> None:
        self._kept.extend(records)
        self._kept_bytes += sum(len(one.data) for one in records)
        self._to = records[-1].place
        while len(self._kept) > MOST_KEPT or self._kept_bytes > MOST_KEPT_BYTES:
            gone = self._kept.popleft()
            self._from = gone.place
            self._kept_bytes -= len(gone.data)

    def close(self) -> None:
        self.is_closed = True
        self._wanted.set()
        self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    def _prepare(self, placed: Placed) -> FollowedRecord:
        return FollowedRecord(placed.place, placed.run, placed.record.type, self._tell(placed))


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
PIECE_BYTES = 64_000
"""The most that is sent at once, unless one event is larger."""
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

    The first event is named `ready` and has only the place at which the stream begins. If the
    journal is replaced, `ready` comes again, before everything that is in the journal now. The last
    event of a stream of one run is named `end`, after the run has ended or was removed. If the
    journal can't be read, `fault` says why before the stream ends.
    """
    yield _event(str(after), "{}", "ready")
    journal, era = follower.journal, follower.journal.era
    is_removed, looked_at = False, time.monotonic()
    with follower.following():
        while not follower.is_closed:
            news = follower.news
            if era != journal.era:
                era, after, is_over = journal.era, Place(), False
                yield _event(str(after), "{}", "ready")
            try:
                found, after = await follower.read(after, run, is_last=is_over)
                if run is not None and not found and time.monotonic() - looked_at > LOOK_S:
                    looked_at = time.monotonic()
                    is_removed = not await journal.has(run)
            except JournalError as error:
                yield _event(str(after), json.dumps({"message": str(error)}), "fault")
                return
            if era != journal.era:
                continue
            for piece in _pieces(found):
                yield piece
            is_over = is_over or any(one.run == run and one.type in ENDS for one in found)
            if found:
                continue
            if is_over or is_removed:
                last = {"run": run, **({"is_removed": True} if is_removed else {})}
                yield _event(f"{after}.{OVER}", json.dumps(last), "end")
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await news.wait()


def _pieces(found: Sequence[FollowedRecord]) -> Iterator[bytes]:
    piece = bytearray()
    for one in found:
        if piece and len(piece) + len(one.data) > PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
        piece += one.data
    if piece:
        yield bytes(piece)


EVENTS: dict[str, Any] = {
    "type": "string",
    "description": (
        "Server-Sent Events. Each has an `id`, at which a client goes on with `Last-Event-ID`, and "
        "as `data` one event as JSON, as the event schema says. `ready` comes first and `end` last."
    ),
}
