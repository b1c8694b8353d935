"""The gate in front of every page: refuses what `access` refuses, and says what browsers may do."""

from __future__ import annotations

from loopkit.serving.access import Access, Refusal
from loopkit.serving.http.answers import error_answer
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
"""What a page may load: nothing but what this server sends it."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Without any referrer browsers name no origin for a form, either.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Of every response that does not say otherwise itself."""


class Gate:
    """Lets requests through to an application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._access.refusal(scope["method"], scope["path"], headers)
        answer = self._app if refusal is None else _refused(refusal, scope, headers)
        await answer(scope, receive, _with_headers(send))


def _refused(refusal: Refusal, scope: Scope, headers: Headers) -> Response:
    is_page = scope["method"] == "GET" and "text/html" in headers.get("accept", "")
    if refusal.status == 401 and is_page and "authorization" not in headers:
        return RedirectResponse("/login", 303)
    answer = error_answer(refusal.status, refusal.message)
    if refusal.status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    # What is left of the request is not read.
    answer.headers["connection"] = "close"
    return answer


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
