"""Pages as responses: a template, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.serving.http.library import HTMLResponse, Response
from loopkit.serving.http.table import Call
from loopkit.serving.run_pages import run_in_page_thread
from loopkit.views.page.rendering import render


async def page(call: Call, template: str, names: Mapping[str, Any], status: int = 200) -> Response:
    """A page of the site; every template also gets its `place`, for the navigation links."""
    known = {"place": call.request.url.path, **names}
    text = await run_in_page_thread(lambda: render(template, known))
    return HTMLResponse(text, status)
