"""Signing in: a page that takes the token, and links that work once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import parse_qs

from loopkit.serving.access import LOGIN, Access
from loopkit.serving.http.bodies import body_of, decode
from loopkit.serving.http.library import (
    BaseRoute,
    HTMLResponse,
    RedirectResponse,
    Request,
    Response,
    Route,
)
from loopkit.views.page.rendering import render

MOST_BYTES = 10_000
HOME = "/"
LOCAL = re.compile(r"/(?![/\\])[^\x00-\x20\x7f\\]*")
"""An address on this server; one that browsers take for another host does not match."""
ASK = "This server shows runs to whoever has its token."


def sign_in_routes(access: Access) -> Sequence[BaseRoute]:
    """The pages on which browsers sign in and out."""

    async def show(request: Request) -> Response:
        to = _local(request.query_params.get("to", ""))
        if access.is_signed_in(request.headers.get("cookie", "")):
            return RedirectResponse(to, 303)
        # A browser withholds the cookie if a page of another site has led here.
        is_strange = request.headers.get("sec-fetch-site") == "cross-site"
        return _page(ASK, to, is_from_elsewhere=is_strange)

    async def take_token(request: Request) -> Response:
        form = parse_qs(decode(await body_of(request, MOST_BYTES)))
        to = _local("".join(form.get("to", ())))
        is_right = access.try_token("".join(form.get("token", ())))
        if is_right is None:
            message = "Too many wrong tokens: wait a minute, or use the link of the server's start."
            return _page(message, to, 429)
        if not is_right:
            return _page("That is not the token.", to, 401)
        return _welcome(access, request, to)

    async def follow_link(request: Request) -> Response:
        return _answer_link(access, request)

    async def sign_out(request: Request) -> Response:
        access.sign_out(request.headers.get("cookie", ""))
        return RedirectResponse(LOGIN, 303)

    return [
        Route(LOGIN, show, methods=["GET"]),
        Route(LOGIN, take_token, methods=["POST"]),
        Route(f"{LOGIN}/{{code}}", follow_link, methods=["GET"]),
        Route("/logout", sign_out, methods=["POST"]),
    ]


def _answer_link(access: Access, request: Request) -> Response:
    """The answer to a link that signs in."""
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
    """The address itself if it is on this server, else the first page."""
    return address if LOCAL.fullmatch(address) else HOME


def _page(message: str, to: str, status: int = 200, *, is_from_elsewhere: bool = False) -> Response:
    names = {
        "message": message,
        "to": to,
        "is_wrong": status != 200,
        "is_from_elsewhere": is_from_elsewhere,
    }
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
