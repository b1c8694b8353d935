"""Streams of events, as the browser's EventSource reads them.

The id of each event is its place in the journal, so a client that was disconnected continues after
the last event that it has seen. A client that does not read is disconnected, and can reconnect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

from loopkit.drive.archive import read_record
from loopkit.engine.events import ENDS
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.journal.records import Place, Placed
from loopkit.serving.following import FollowedRecord, Follower
from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.library import (
    EventSourceResponse,
    Receive,
    Scope,
    Send,
    SendTimeoutError,
)
from loopkit.views.event_lines import event_line

LOOK_S = 2.0
"""The interval at which a quiet stream checks whether its run still exists."""
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
        line = event_line(placed.run, read_record(placed.run, placed.record))
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


def place_in(cursor: str) -> Place:
    """The place that a client names; raises BadRequest."""
    removals, dot, row = cursor.removesuffix(f".{OVER}").partition(".")
    if not (dot and _is_number(removals) and _is_number(row)):
        raise BadRequest("there is no such place in the stream: give the id of an event")
    return Place(int(removals), int(row))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


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
    era = follower.era
    is_removed, looked_at = False, time.monotonic()
    with follower.following():
        while not follower.is_closed:
            news = follower.news
            if era != follower.era:
                era, after, is_over = follower.era, Place(), False
                yield _event(str(after), "{}", "ready")
            try:
                found, after = await follower.read(after, run, is_last=is_over)
                if run is not None and not found and time.monotonic() - looked_at > LOOK_S:
                    looked_at = time.monotonic()
                    is_removed = not await follower.has(run)
            except JournalError as error:
                yield _event(str(after), json.dumps({"message": str(error)}), "fault")
                return
            if era != follower.era:
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
    """The events in pieces of bounded size."""
    piece: list[bytes] = []
    size = 0
    for one in found:
        if piece and size + len(one.data) > PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(one.data)
        size += len(one.data)
    if piece:
        yield b"".join(piece)


EVENTS: dict[str, Any] = {
    "type": "string",
    "description": (
        "Server-Sent Events. Each has an `id`, at which a client goes on with `Last-Event-ID`, and "
        "as `data` one event as JSON, as the event schema says. `ready` comes first and `end` last."
    ),
}
"""The schema of a stream."""
