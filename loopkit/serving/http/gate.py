"""The gate in front of every page: it refuses what `access` refuses, sets the headers, signs in.

A browser signs in on a page that takes the token, or with a link that works once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs, quote, urlencode

from loopkit.serving.access import LOGIN, Access, Refusal
from loopkit.serving.http.answers import error_answer, error_page, text_of, wants_page
from loopkit.serving.http.library import (
    ASGIApp,
    BaseRoute,
    Headers,
    HTMLResponse,
    Message,
    MutableHeaders,
    Receive,
    RedirectResponse,
    Request,
    Response,
    Route,
    Scope,
    Send,
)
from loopkit.views.page.rendering import render

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

ONCE = ("host", "origin", "authorization", "cookie", "content-type", "content-length")
"""Headers that may come only once: a proxy and this server could read different ones."""


class Gate:
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

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        await answer(scope, receive, send_with_headers)


def _ambiguity(headers: Headers) -> Refusal | None:
    """Why a request is refused that a proxy and this server could read differently; or None."""
    for name in ONCE:
        if len(headers.getlist(name)) > 1:
            return Refusal(400, f"the request has `{name}` more than once")
    if "content-length" in headers and "transfer-encoding" in headers:
        return Refusal(400, "the request names both a length and an encoding of its body")
    return None


def _refusal_response(refusal: Refusal, scope: Scope, headers: Headers) -> Response:
    status, message = refusal
    is_signed_out = status == 401 and "authorization" not in headers
    if not wants_page(headers):
        answer = error_answer(status, message)
    elif is_signed_out and scope["method"] == "GET":
        return RedirectResponse(_sign_in(scope), 303)
    else:
        # A form that was filled in is not lost: it can be sent again after signing in.
        answer = error_page(status, message, has_nav=False, is_signed_out=is_signed_out)
    if status == 401:
        answer.headers["www-authenticate"] = "Bearer"
    # The rest of the request is not read.
    answer.headers["connection"] = "close"
    return answer


def _sign_in(scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    target = quote(scope["path"]) + (f"?{query}" if query else "")
    return LOGIN if target == "/" else f"{LOGIN}?{urlencode({'to': target})}"


MOST_BYTES = 10_000
HOME = "/"
LOCAL = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")
"""An address on this server; one that browsers take for another host does not match."""
ASK = "This server shows runs to whoever has its token."


def sign_in_routes(access: Access) -> Sequence[BaseRoute]:

    async def show(request: Request) -> Response:
        to = _local(request.query_params.get("to", ""))
        if access.is_signed_in(request.headers.get("cookie", "")):
            return RedirectResponse(to, 303)
        # A browser withholds the cookie if a page of another site has led here.
        is_strange = request.headers.get("sec-fetch-site") == "cross-site"
        return _page(ASK, to, is_from_elsewhere=is_strange)

    async def take_token(request: Request) -> Response:
        form = parse_qs(await text_of(request, MOST_BYTES))
        to = _local("".join(form.get("to", ())))
        if not access.is_token("".join(form.get("token", ()))):
            return _page("That is not the token.", to, 401)
        return _welcome(access, request, to)

    async def sign_out(request: Request) -> Response:
        access.sign_out(request.headers.get("cookie", ""))
        return RedirectResponse(LOGIN, 303)

    return [
        Route(LOGIN, show, methods=["GET"]),
        Route(LOGIN, take_token, methods=["POST"]),
        Route(f"{LOGIN}/{{code}}", partial(_follow_link, access), methods=["GET"]),
        Route("/logout", sign_out, methods=["POST"]),
    ]


async def _follow_link(access: Access, request: Request) -> Response:
    # Browsers may request an address twice that is typed or opened from elsewhere.
    if access.is_signed_in(request.headers.get("cookie", "")):
        return RedirectResponse(HOME, 303)
    if request.method == "HEAD":
        # A request that only checks the link does not use it up.
        return _page(ASK, HOME)
    if access.use_code(request.path_params["code"]):
        return _welcome(access, request, HOME)
    message = "That link was used before, or is too old. The token works all the same."
    return _page(message, HOME, 401)


def _local(address: str) -> str:
    return address if LOCAL.fullmatch(address) else HOME


def _page(message: str, to: str, status: int = 200, *, is_from_elsewhere: bool = False) -> Response:
    names = {"message": message, "to": to, "is_wrong": status != 200}
    names["is_from_elsewhere"] = is_from_elsewhere
    return HTMLResponse(render("login.html", names), status)


def _welcome(access: Access, request: Request, to: str) -> Response:
    answer = RedirectResponse(to, 303)
    answer.set_cookie(
        access.cookie,
        access.sign_in(),
        httponly=True,
        samesite="strict",
        secure=access.is_encrypted(request.headers.get("host", "")),
    )
    return answer
