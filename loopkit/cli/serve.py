"""`loopkit serve`, and the address, names and token of a server: the same options for all."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from loopkit.cli.driving import Interruption
from loopkit.cli.inputs import MACHINE, PATH, journal_place, read_text
from loopkit.cli.machine import in_own_folder, load_checked
from loopkit.cli.terminal import ERROR, Stop, examples, gather, misuse, say
from loopkit.drive.preflight import needs_of, refuse_unprepared
from loopkit.language.load import Loaded
from loopkit.serving.access import (
    LOGIN,
    SHORTEST_TOKEN,
    Access,
    host_in_url,
    is_anywhere,
    is_loopback,
    origins_of,
)
from loopkit.values import Value

if TYPE_CHECKING:
    from loopkit.serving.http.server import Site
    from loopkit.serving.http.site_server import SiteServer

PORT = 8421
HOST = "127.0.0.1"
TOKEN = "LOOPKIT_TOKEN"  # noqa: S105 - the name of the variable


class Place(Value, frozen=True):
    """Where a server listens, as a command line says it."""

    port: int
    host: str
    urls: Sequence[str]
    token_file: Path | None


def listening_options(port: int) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """`--port`, `--host`, `--url` and `--token-file`."""
    return gather(
        "place",
        Place,
        click.option(
            "--port", default=port, show_default=True, type=click.IntRange(0, 65535),
            help="The port; 0 takes a free one.",
        ),
        click.option(
            "--host", default=HOST, show_default=True,
            help="The address to listen at. At any but the loopback others can reach the server.",
        ),
        click.option(
            "--url", "urls", multiple=True, metavar="URL",
            help="Where clients reach the server, if that is elsewhere, such as at a proxy.",
        ),
        click.option(
            "--token-file", type=PATH,
            help=f"A file with the token; without it, {TOKEN} or a new one is used.",
        ),
    )  # fmt: skip


@click.command(epilog=examples("loopkit serve --port 0", "loopkit serve plan.yaml --answer"))
@click.argument("machines", nargs=-1, type=MACHINE, metavar="[MACHINE]...")
@listening_options(PORT)
@click.option("--answer", is_flag=True, help="Let runs be started, answered, resumed, cancelled.")
def serve_command(
    machines: tuple[Path, ...],
    place: Place,
    answer: bool,
) -> int:
    """Show the runs of this project in a browser and over HTTP, as they happen.

    With --answer questions can be answered there and runs of the MACHINEs started; without it
    nothing is written. Whoever uses the server needs its token.
    """
    if machines and not answer:
        raise misuse("runs of a MACHINE can be started only with `--answer`")
    token = read_token(place.token_file)
    loaded = [in_own_folder(load_checked(path), path) for path in machines]
    for one in loaded:
        refuse_unprepared(needs_of(one.machine, folder=one.folder.absolute()))
    from loopkit.serving.http.server import Site
    from loopkit.serving.http.site_server import SiteServer
    from loopkit.serving.pages import page_routes

    with (
        listening_at(place, token, has_pages=True) as listening,
        Interruption() as interruption,
    ):
        site = Site.open(journal_place(), listening.access, say, loaded, may_answer=answer)
        _tell(listening, loaded, may_answer=answer)
        server = SiteServer(site, page_routes(site))
        asyncio.run(_serve(site, server, listening.socket, interruption))
        return interruption.code


async def _serve(
    site: Site, server: SiteServer, listening: socket.socket, interruption: Interruption
) -> None:
    async with site:
        go_on = "runs that it drove can be resumed" if site.host is not None else ""
        interruption.watch(server, go_on, STOPPING)
        await server.serve_on(listening)


def _tell(listening: Listening, machines: Sequence[Loaded], *, may_answer: bool) -> None:
    more = ", and can start and answer runs." if may_answer else "."
    listening.warn(f"sees every prompt and every answer{more}")
    say(f"serving at {listening.address}")
    if is_private():
        link = f"{listening.address}{listening.access.new_link()}"
        say(f"sign in, once and within ten minutes: {link}")
    elif not listening.token.is_secret:
        say(f"sign in with the token: {listening.address}{LOGIN}")
    listening.tell_token()
    names = ", ".join(f"`{loaded.machine.label}`" for loaded in machines)
    if not may_answer:
        say("runs can only be read; add `--answer` to start and answer them")
    elif names:
        say(f"runs of {names} can be started")


USUAL_PORTS = {"http": 80, "https": 443}
GIVE_IT = f"give it in {TOKEN} or with `--token-file`"
STOPPING = "the server ends; steps in hand are finished first; a second {second} aborts their calls"


@dataclass(frozen=True)
class Token:
    text: str
    is_new: bool
    """Whether it was made for this start."""

    @property
    def is_secret(self) -> bool:
        """Whether it is new and not shown, because standard error is not a terminal."""
        return self.is_new and not is_private()


def is_private() -> bool:
    """Whether standard error is a terminal; anything else may be a log, so no secret goes there."""
    return sys.stderr is not None and sys.stderr.isatty()


def read_token(file: Path | None) -> Token:
    """The token of a file or of the environment, else a new one; raises Stop."""
    # Programs that runs start must not see it.
    given = os.environ.pop(TOKEN, "")
    where = TOKEN
    if file is not None:
        given, where = read_text(file).strip(), str(file)
    if not given and file is None:
        return Token(secrets.token_urlsafe(32), is_new=True)
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable():
        told = f"at least {SHORTEST_TOKEN} printable ASCII characters"
        raise misuse(f"the token of {where} has to be {told}")
    return Token(given, is_new=False)


@dataclass(frozen=True)
class Listening:
    socket: socket.socket
    host: str
    address: str
    """The URL under which clients reach it."""
    token: Token
    access: Access

    def warn(self, reach: str) -> None:
        """Warn if others can reach the server; `reach` says what the token would let them do."""
        if not is_loopback(self.host):
            say(
                f"WARNING: the server listens at {self.host}, where others can reach it, and "
                f"nothing that it sends is encrypted. Whoever has the token {reach}"
            )

    def tell_token(self) -> None:
        """Show a new token, but only at a terminal."""
        if self.token.is_secret:
            told = "nobody can sign in, since a new token is shown at a terminal only"
            say(f"{told}: make one, and {GIVE_IT}")
        elif self.token.is_new:
            say(f"the token, for programs: {self.token.text}")


@contextmanager
def listening_at(place: Place, token: Token, *, has_pages: bool) -> Iterator[Listening]:
    """A socket while it listens; raises Stop. `has_pages` is whether browsers use the server."""
    host, urls = place.host, place.urls
    with _socket(host, place.port) as listening:
        port = listening.getsockname()[1]
        origins = origins_of(host, port) | {_origin(url) for url in urls}
        access = Access(token.text, origins, cookie=f"loopkit_{port}", has_pages=has_pages)
        shown = "127.0.0.1" if is_anywhere(host) else host
        address = _origin(urls[0]) if urls else f"http://{host_in_url(shown)}:{port}"
        yield Listening(listening, host, address, token, access)


def _origin(url: str) -> str:
    remedy = f"`--url {url}`: write `https://HOST` or `https://HOST:PORT`"
    try:
        parts = urlsplit(url.lower().removesuffix("/"))
        port, usual = parts.port, USUAL_PORTS.get(parts.scheme)
    except ValueError as error:
        raise misuse(remedy) from error
    host = host_in_url(parts.hostname or "")
    given = host if port is None else f"{host}:{port}"
    if not host or usual is None or parts.geturl() != f"{parts.scheme}://{given}":
        raise misuse(remedy)
    return f"{parts.scheme}://{host if port == usual else given}"


def _socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        remedy = "choose another with `--port`, or 0 for a free one"
        told = f"error: cannot listen at {host}:{port}: {error.strerror or error}; {remedy}"
        raise Stop(ERROR, told) from error
