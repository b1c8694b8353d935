"""Forms that browsers send, and the names of the people who send them."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.bodies import body_of, decode
from loopkit.serving.http.library import RedirectResponse, Request, Response
from loopkit.serving.http.table import Call
from loopkit.views.page.fields import Typed
from loopkit.views.page.run_page import path_of

MOST_BYTES = 20_000_000
"""The size of a form: browsers encode many characters of an artifact as three or nine bytes."""
MOST_FIELDS = 10_000
KIND = "application/x-www-form-urlencoded"
BY = "loopkit_by"
"""The name of the cookie with the name of the last sender."""
REMEMBERED_S = 365 * 24 * 3600


async def read_form(request: Request) -> Typed:
    """The fields of a form; raises BadRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != KIND:
        raise BadRequest(f"a form has to be sent as {KIND}", 415)
    body = decode(await body_of(request, MOST_BYTES))
    try:
        # Long texts take a second; other requests must not wait for that.
        return Typed(await asyncio.to_thread(_pairs, body))
    except ValueError as error:
        raise BadRequest(f"the form can't be read: {error}") from error


def _pairs(body: str) -> dict[str, list[str]]:
    return parse_qs(body, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)


def name_from_cookie(request: Request) -> str:
    """The name that was last entered in this browser."""
    return unquote(request.cookies.get(BY, ""))


def to_page(call: Call, run: str, by: str = "", at: str = "") -> Response:
    """A redirect to the page of a run, so a reload does not send the form again; keeps `by`."""
    answer = RedirectResponse(path_of(run) + at, 303)
    if by:
        secure = call.site.access.is_encrypted(call.request.headers.get("host", ""))
        named: dict[str, Any] = {"httponly": True, "samesite": "strict", "secure": secure}
        answer.set_cookie(BY, quote(by, safe=""), max_age=REMEMBERED_S, **named)
    return answer
