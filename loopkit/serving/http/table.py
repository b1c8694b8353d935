"""The table of an API, of which the server and its description are made: each endpoint once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from loopkit.engine.records import Record
from loopkit.serving.host import Host
from loopkit.serving.http.answers import BadRequest, record_of
from loopkit.serving.http.library import BaseRoute, Request, Response, Route
from loopkit.serving.http.server import Site

ONLY_SHOWS = "this server only shows runs; start it with `--answer`"
Kind: TypeAlias = Literal["string", "integer"]


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    does: str
    default: int | str | None = None
    most: int | None = None


@dataclass(frozen=True)
class Call:
    site: Site
    request: Request
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    """The record that the endpoint takes; None if it takes none."""

    @property
    def host(self) -> Host:
        """The host that drives runs; raises BadRequest if the server only shows runs."""
        if self.site.host is None:
            raise BadRequest(ONLY_SHOWS, 403)
        return self.site.host


@dataclass(frozen=True)
class Endpoint:
    method: Literal["GET", "POST"]
    path: str
    """As in OpenAPI: `/api/runs/{run}`."""
    does: str
    handle: Callable[[Call], Awaitable[Response]]
    query: Sequence[Parameter] = ()
    takes: type[Record] | None = None
    gives: type[Record] | None = None
    media: Mapping[str, Any] = field(default_factory=dict)
    """The schemas of its other answers, by content type."""

    @property
    def name(self) -> str:
        return self.handle.__name__


def routes(site: Site, table: Sequence[Endpoint]) -> Sequence[BaseRoute]:
    return [_route(site, endpoint) for endpoint in table]


def _route(site: Site, endpoint: Endpoint) -> BaseRoute:
    async def answer(request: Request) -> Response:
        path = {name: _plain(value) for name, value in request.path_params.items()}
        query = {each.name: _value(each, request) for each in endpoint.query}
        if endpoint.method == "POST" and site.host is None:
            raise BadRequest(ONLY_SHOWS, 403)
        taken = None if endpoint.takes is None else await record_of(request, endpoint.takes)
        return await endpoint.handle(Call(site, request, path, query, taken))

    # Ids of children have slashes in them.
    path = endpoint.path.replace("{run}", "{run:path}")
    return Route(path, answer, methods=[endpoint.method])


def _plain(text: str) -> str:
    if "\0" in text:
        raise BadRequest("there is nothing of that name", 404)
    return text


def _value(parameter: Parameter, request: Request) -> Any:
    written = request.query_params.get(parameter.name)
    if written is None:
        return parameter.default
    if parameter.kind == "string":
        return _plain(written)
    if not (written.isascii() and written.isdigit() and len(written) < 19):
        raise BadRequest(f"`{parameter.name}` has to be a whole number, 0 or more")
    return int(written) if parameter.most is None else min(int(written), parameter.most)
