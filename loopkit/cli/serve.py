"""`loopkit serve`."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import ERROR, USAGE, Stop, report_errors, say
from loopkit.cli.files import read_text
from loopkit.cli.interruption import Interruption
from loopkit.cli.machine import load_checked
from loopkit.cli.watching import Watcher
from loopkit.journal.folder import state_folder
from loopkit.language.load import Loaded
from loopkit.serving.access import (
    SHORTEST_TOKEN,
    Access,
    bracketed,
    is_anywhere,
    is_loopback,
    origins_of,
)

if TYPE_CHECKING:
    from loopkit.serving.http.server import SiteServer
    from loopkit.serving.http.site import Site

PORT = 8421
TOKEN = "LOOPKIT_TOKEN"  # noqa: S105 - the name of the variable
STOPPING = "the server ends; steps in hand are finished first; a second {second} aborts their calls"


@click.command(epilog=examples("loopkit serve --port 0", "loopkit serve plan.yaml --answer"))
@click.argument("machines", nargs=-1, type=click.Path(path_type=Path), metavar="[MACHINE]...")
@click.option(
    "--port",
    default=PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen at. At any but the loopback others can reach the server.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="Where browsers reach the server, if that is elsewhere, such as at a proxy.",
)
@click.option("--answer", is_flag=True, help="Let runs be started, answered, resumed, cancelled.")
@click.option(
    "--token-file", type=click.Path(path_type=Path),
    help=f"A file with the token; without it, {TOKEN} or a new one is used.",
)  # fmt: skip
def command(
    machines: tuple[Path, ...],
    port: int,
    host: str,
    urls: tuple[str, ...],
    answer: bool,
    token_file: Path | None,
) -> int:
    """Show the runs of this project in a browser and over HTTP, as they happen.

    With --answer questions can be answered there and runs of the MACHINEs started; without it
    nothing is written. Whoever uses the server needs its token.
    """
    if machines and not answer:
        raise Stop(USAGE, "error: runs of a MACHINE can be started only with `--answer`")
    token, is_new = _token(token_file)
    with report_errors():
        loaded = [load_checked(path) for path in machines]
    try:
        from loopkit.serving.http.server import SiteServer
        from loopkit.serving.http.site import Site
    except ImportError as error:
        raise Stop(USAGE, f"error: {error}") from error
    with _listening(host, port) as listening:
        port = listening.getsockname()[1]
        origins = origins_of(host, port) | {_origin(url) for url in urls}
        access = Access(token, origins, cookie=f"loopkit_{port}")
        with report_errors(), Interruption() as interruption:
            site = Site.open(state_folder(), access, say, loaded, may_answer=answer)
            address = _origin(urls[0]) if urls else f"http://{bracketed(_shown(host))}:{port}"
            _tell(host, address, access, loaded, is_new=is_new, may_answer=answer)
            asyncio.run(_serve(site, SiteServer(site), listening, interruption))
            return interruption.code


async def _serve(
    site: Site, server: SiteServer, listening: socket.socket, interruption: Interruption
) -> None:
    async with site:
        go_on = "runs that it drove can be resumed" if site.host is not None else ""
        interruption.watch(server, None, Watcher(), go_on, STOPPING)
        await server.serve_on(listening)


def _token(file: Path | None) -> tuple[str, bool]:
    """The token, and whether nobody knows it yet."""
    # Programs that runs start must not see it.
    given = os.environ.pop(TOKEN, "")
    where = TOKEN
    if file is not None:
        given, where = read_text(file).strip(), str(file)
    if not given and file is None:
        return secrets.token_urlsafe(32), True
    if len(given) < SHORTEST_TOKEN or not given.isascii() or not given.isprintable():
        told = f"at least {SHORTEST_TOKEN} printable ASCII characters"
        raise Stop(USAGE, f"error: the token of {where} has to be {told}")
    return given, False


def _origin(url: str) -> str:
    """The origin of a URL, as browsers write it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path not in ("", "/"):
        raise Stop(USAGE, f"error: `--url {url}`: write `https://HOST` or `https://HOST:PORT`")
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        remedy = "choose another with `--port`, or 0 for a free one"
        told = f"error: cannot listen at {host}:{port}: {error.strerror or error}; {remedy}"
        raise Stop(ERROR, told) from error


def _shown(host: str) -> str:
    return "127.0.0.1" if is_anywhere(host) else host


def _tell(
    host: str,
    address: str,
    access: Access,
    machines: Sequence[Loaded],
    *,
    is_new: bool,
    may_answer: bool,
) -> None:
    if not is_loopback(host):
        say(
            f"WARNING: the server listens at {host}, where others can reach it, and nothing that "
            "it sends is encrypted. Whoever has the token sees every prompt and every answer"
            + (", and can start and answer runs." if may_answer else ".")
        )
    say(f"serving at {address}")
    say(f"sign in, once and within ten minutes: {address}{access.new_link()}")
    if is_new and sys.stderr is not None and sys.stderr.isatty():
        say(f"the token, for programs: {access.token}")
    elif is_new:
        # What is no terminal is a log.
        say(f"programs need a token of yours: give it in {TOKEN} or with `--token-file`")
    names = ", ".join(f"`{loaded.machine.name or 'machine'}`" for loaded in machines)
    if not may_answer:
        say("runs can only be read; add `--answer` to start and answer them")
    elif names:
        say(f"runs of {names} can be started")
