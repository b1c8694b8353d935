"""Pages as answers to requests: a template, filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopkit.serving.http.library import HTMLResponse, Response
from loopkit.serving.http.table import Call
from loopkit.views.page.rendering import render


def page(call: Call, template: str, names: Mapping[str, Any], status: int = 200) -> Response:
    """A page of the site; every template also gets its `place`, for the links to all pages."""
    text = render(template, {"place": call.request.url.path, **names})
    return HTMLResponse(text, status)
