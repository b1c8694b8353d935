"""starlette, uvicorn and sse-starlette: optional, and a tenth of a second to import."""

from __future__ import annotations

from loopkit import DISTRIBUTION

try:
    from sse_starlette import EventSourceResponse
    from sse_starlette.sse import SendTimeoutError
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, RedirectResponse, Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Config, Server
except ImportError as error:
    raise ImportError(
        f"serving runs needs libraries that are not installed: pip install '{DISTRIBUTION}[serve]'"
    ) from error
