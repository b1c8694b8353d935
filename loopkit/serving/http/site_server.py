"""The server of a site: its application, with all of its routes."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.serving.http.answers import STATUS, BadRequest, bug_teller, tell_http, tell_known
from loopkit.serving.http.gate import Gate, sign_in_routes
from loopkit.serving.http.library import (
    ASGIApp,
    BaseRoute,
    HTTPException,
    RedirectResponse,
    Request,
    Response,
    Route,
    Starlette,
)
from loopkit.serving.http.openapi import TABLE, api_routes
from loopkit.serving.http.server import HttpServer, Site
from loopkit.serving.http.table import routes


def application(site: Site, pages: Sequence[BaseRoute] = ()) -> ASGIApp:
    """The application of a site. `pages` are those of a viewer, which has `/`, if there is one."""

    async def to_api(_: Request) -> Response:
        return RedirectResponse("/api", 303)

    app = Starlette(
        routes=[
            *sign_in_routes(site.access),
            *api_routes(),
            *routes(site, TABLE),
            *(pages or [Route("/", to_api, methods=["GET"])]),
        ],
        exception_handlers={
            HTTPException: tell_http,
            Exception: bug_teller(site.say),
            **dict.fromkeys((*STATUS, BadRequest), tell_known),
        },
    )
    return Gate(app, site.access)


class SiteServer(HttpServer):
    def __init__(self, site: Site, pages: Sequence[BaseRoute] = ()) -> None:
        super().__init__(application(site, pages), site.stop, site.room)
