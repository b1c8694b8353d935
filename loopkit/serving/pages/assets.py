"""Style sheets and scripts of the pages; they need no token."""

from __future__ import annotations

from collections.abc import Sequence

from loopkit.serving.http.answers import BadRequest
from loopkit.serving.http.library import Response
from loopkit.serving.http.table import Call, Endpoint, Parameter
from loopkit.views.page.rendering import asset, asset_version

MEDIA = {"page.css": "text/css", "site.css": "text/css", "site.js": "text/javascript"}
FOR_EVER = "public, max-age=31536000, immutable"


async def show_asset(call: Call) -> Response:
    name = call.path["name"]
    if name not in MEDIA:
        raise BadRequest("there is nothing of that name", 404)
    # The content at an address with a version never changes.
    is_named = call.query["v"] == asset_version(name)
    headers = {"cache-control": FOR_EVER if is_named else "no-cache"}
    return Response(asset(name), media_type=MEDIA[name], headers=headers)


ASSETS: Sequence[Endpoint] = (
    Endpoint(
        "GET", "/assets/{name}", "Send a style sheet or script.", show_asset,
        [Parameter("v", "string", "Its version.")],
    ),
)  # fmt: skip
