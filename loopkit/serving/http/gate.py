"""The gate in front of every page: it refuses what `access` refuses, and sets the headers."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from loopkit.serving.access import LOGIN, Access, Refusal
from loopkit.serving.http.answers import error_answer, error_page, wants_page
from loopkit.serving.http.library import (
    ASGIApp,
    Headers,
    Message,
    MutableHeaders,
    Receive,
    RedirectResponse,
    Response,
    Scope,
    Send,
)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may load: only what this server sends."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Without a referrer, browsers send no origin with a form either.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""The default headers of every response."""

ONCE = ("host", "origin", "authorization", "cookie", "content-type", "content-length")
"""Headers that may come only once: a proxy and this server could read different ones."""


class Gate:
    """Passes the requests that are allowed on to an application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = _ambiguity(headers) or self._access.refusal(
            scope["method"], scope["path"], headers
        )
        answer = self._app if refusal is None else _refusal_response(refusal, scope, headers)
        await answer(scope, receive, _with_headers(send))


def _ambiguity(headers: Headers) -> Refusal | None:
    """Why a request is refused that a proxy and this server could read differently; or None."""
    for name in ONCE:
        if len(headers.getlist(name)) > 1:
            return Refusal(400, f"the request has `{name}` more than once")
    if "content-length" in headers and "transfer-encoding" in headers:
        return Refusal(400, "the request names both a length and an encoding of its body")
    return None


def _refusal_response(refusal: Refusal, scope: Scope, headers: Headers) -> Response:
    is_page = wants_page(headers)
    is_wanted = is_page and scope["method"] == "GET" and "authorization" not in headers
    if refusal.status == 401 and is_wanted:
        return RedirectResponse(_sign_in(scope), 303)
    answer = (
        error_page(
            refusal.status,
            refusal.message,
            has_nav=False,
            # A form that was filled in is not lost: it can be sent again after signing in.
            is_signed_out=refusal.status == 401 and "authorization" not in headers,
        )
        if is_page
        else error_answer(refusal.status, refusal.message)
    )
    if refusal.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    # The rest of the request is not read.
    answer.headers["connection"] = "close"
    return answer


def _sign_in(scope: Scope) -> str:
    """The address of the sign-in page, which leads on to the requested page."""
    query = scope["query_string"].decode("latin-1")
    target = quote(scope["path"]) + (f"?{query}" if query else "")
    return LOGIN if target == "/" else f"{LOGIN}?{urlencode({'to': target})}"


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
