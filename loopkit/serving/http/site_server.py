"""The server of a site: its application with all of its routes, and an OpenAPI document of its API.

That is made of its table.
"""

from __future__ import annotations

import json
from asyncio import to_thread
from collections.abc import Sequence
from functools import cache
from typing import Any

from loopkit import __version__
from loopkit.serving.http.answers import (
    STATUS,
    BadRequest,
    bug_teller,
    json_answer,
    tell_http,
    tell_known,
)
from loopkit.serving.http.endpoints import API, Endpoint, Parameter, routes
from loopkit.serving.http.gate import Gate, sign_in_routes
from loopkit.serving.http.library import (
    BaseRoute,
    HTTPException,
    Request,
    Response,
    Route,
    Starlette,
)
from loopkit.serving.http.server import HttpServer, Site
from loopkit.views.schemas import records_of

SCHEMAS = "#/components/schemas/"
ERROR = {
    "description": "An error; every problem has the place in what was sent, where it has one.",
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "problems": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["message", "problems"],
        }
    },
    "required": ["error"],
}
ABOUT = (
    "Runs of loopkit, and the questions that they ask. Reading needs the token or a browser that "
    "has signed in; what changes something also needs a server that was started with `--answer`."
)


@cache
def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in API:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    nouns = {noun for each in API for noun in (each.takes, each.gives) if noun is not None}
    schemas = {**records_of(sorted(nouns, key=lambda noun: noun.__name__)), "Error": ERROR}
    for taken in (each.takes for each in API if each.takes is not None):
        # A request may omit keys that have a default, and may not have unknown keys.
        schema = schemas[taken.__name__]
        needed = [name for name, value in schema["properties"].items() if "default" not in value]
        schemas[taken.__name__] = {**schema, "required": needed, "additionalProperties": False}
    api = {
        "openapi": "3.1.0",
        "info": {"title": "loopkit", "version": __version__, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }
    resolved: dict[str, Any] = json.loads(json.dumps(api).replace("#/definitions/", SCHEMAS))
    return resolved


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    name = endpoint.handle.__name__
    media = {kind: {"schema": schema} for kind, schema in endpoint.media.items()}
    if endpoint.gives is not None:
        media |= _json_of(endpoint.gives.__name__)
    body: dict[str, Any] = {}
    if endpoint.takes is not None:
        content = _json_of(endpoint.takes.__name__)
        body = {"requestBody": {"required": True, "content": content}}
    status = "201" if name == "start_run" else "200"
    names = [part.strip("{}") for part in endpoint.path.split("/") if part.startswith("{")]
    in_path = {"in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "operationId": name,
        "summary": " ".join((endpoint.handle.__doc__ or "").split()),
        "parameters": [
            *({"name": name, **in_path} for name in names),
            *map(_in_query, endpoint.query),
        ],
        **body,
        "responses": {
            status: {"description": "Done.", "content": media},
            "default": {"description": "Why not.", "content": _json_of("Error")},
        },
    }


def _json_of(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": SCHEMAS + name}}}


def _in_query(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": parameter.kind}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {
        "name": parameter.name, "in": "query", "schema": schema, "description": parameter.does,
    }  # fmt: skip


async def show_document(_: Request) -> Response:
    return json_answer(await to_thread(document))


class SiteServer(HttpServer):
    def __init__(self, site: Site, pages: Sequence[BaseRoute]) -> None:
        """`pages` are those of the viewer, of which one has `/`."""
        app = Starlette(
            routes=[
                *sign_in_routes(site.access),
                Route("/api/openapi.json", show_document, methods=["GET"]),
                *routes(site, API),
                *pages,
            ],
            exception_handlers={
                HTTPException: tell_http,
                Exception: bug_teller(site.say),
                **dict.fromkeys((*STATUS, BadRequest), tell_known),
            },
        )
        super().__init__(Gate(app, site.access), site.stop, site.most)
