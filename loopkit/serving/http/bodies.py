"""Bodies of requests: JSON of bounded size and depth that fits its record."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from loopkit.engine.records import Record, read_record
from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.library import ClientDisconnect, Request
from loopkit.text.json_text import NoJson, parse_json

MOST_BYTES = 10_000_000
"""The size of a body: room for an edited artifact, or an input with files in it."""
LONGEST_S = 30.0
"""The time that a client may take to send a body."""

R = TypeVar("R", bound=Record)


async def record_of(request: Request, noun: type[R]) -> R:
    """The record that a body holds; raises BadRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest("the body has to be JSON, with `Content-Type: application/json`", 415)
    text = decode(await body_of(request, MOST_BYTES))
    # Read strictly first: what readers could understand differently must not get any further.
    value = parse_json(text)
    if isinstance(value, NoJson):
        raise BadRequest(f"the body is not JSON: {value.reason}")
    try:
        return read_record(noun, text.removeprefix("\ufeff"))
    except ValueError as error:
        raise BadRequest(f"the body does not fit: {error}", 422) from error


async def body_of(request: Request, most: int) -> bytes:
    """The body of a request; raises BadRequest if it is too long or takes too long."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(LONGEST_S):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise BadRequest(f"the body has more than {most:,} bytes", 413)
                parts.append(part)
    except TimeoutError as error:
        raise BadRequest(f"the body did not come within {LONGEST_S:g} s", 408) from error
    except ClientDisconnect as error:
        raise BadRequest("the client went away") from error
    return b"".join(parts)


def decode(body: bytes) -> str:
    """The text of a body; raises BadRequest if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not UTF-8: byte {error.start} is wrong") from error
