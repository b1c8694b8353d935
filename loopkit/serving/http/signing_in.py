"""Signing in: a page that takes the token, and links that work once."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import parse_qs

from loopkit.serving.access import LOGIN, Access
from loopkit.serving.http.bodies import body_of, decoded
from loopkit.serving.http.library import (
    BaseRoute,
    HTMLResponse,
    RedirectResponse,
    Request,
    Response,
    Route,
)

MOST_BYTES = 10_000
HOME = "/"
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Sign in · loopkit</title>
<main>
<h1>loopkit</h1>
<p>{told}</p>
<form method="post" action="/login">
<label>Token <input type="password" name="token" autocomplete="off" required autofocus></label>
<button>Sign in</button>
</form>
</main>
</html>
"""
ASK = "This server shows runs to whoever has its token."


def sign_in_routes(access: Access) -> Sequence[BaseRoute]:
    """The pages on which browsers sign in and out."""

    async def show(request: Request) -> Response:
        if access.is_signed_in(request.headers.get("cookie", "")):
            return RedirectResponse(HOME, 303)
        return _page(ASK)

    async def take_token(request: Request) -> Response:
        form = parse_qs(decoded(await body_of(request, MOST_BYTES)))
        if not access.is_token("".join(form.get("token", ()))):
            return _page("That is not the token.", 401)
        return _welcome(access, request)

    async def follow_link(request: Request) -> Response:
        # Browsers may ask twice for what somebody types or opens from elsewhere.
        if access.is_signed_in(request.headers.get("cookie", "")):
            return RedirectResponse(HOME, 303)
        if access.use_code(request.path_params["code"]):
            return _welcome(access, request)
        return _page("That link was used before, or is too old. The token works all the same.", 401)

    async def sign_out(request: Request) -> Response:
        access.sign_out(request.headers.get("cookie", ""))
        return RedirectResponse(LOGIN, 303)

    return [
        Route(LOGIN, show, methods=["GET"]),
        Route(LOGIN, take_token, methods=["POST"]),
        Route(f"{LOGIN}/{{code}}", follow_link, methods=["GET"]),
        Route("/logout", sign_out, methods=["POST"]),
    ]


def _page(told: str, status: int = 200) -> Response:
    return HTMLResponse(PAGE.format(told=html.escape(told)), status)


def _welcome(access: Access, request: Request) -> Response:
    answer = RedirectResponse(HOME, 303)
    answer.set_cookie(
        access.cookie,
        access.sign_in(),
        httponly=True,
        samesite="strict",
        secure=access.is_encrypted(request.headers.get("host", "")),
    )
    return answer
