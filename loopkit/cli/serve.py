"""`loopkit serve`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import USAGE, Stop, report_errors, say
from loopkit.cli.interruption import Interruption
from loopkit.cli.listening import STOPPING, Listening, listening_at, listening_options, read_token
from loopkit.cli.machine import load_checked
from loopkit.journal.files import state_folder
from loopkit.language.load import Loaded

if TYPE_CHECKING:
    from loopkit.serving.http.site import Site
    from loopkit.serving.http.site_server import SiteServer

PORT = 8421


@click.command(epilog=examples("loopkit serve --port 0", "loopkit serve plan.yaml --answer"))
@click.argument("machines", nargs=-1, type=click.Path(path_type=Path), metavar="[MACHINE]...")
@listening_options(PORT)
@click.option("--answer", is_flag=True, help="Let runs be started, answered, resumed, cancelled.")
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
    token = read_token(token_file)
    with report_errors():
        loaded = [load_checked(path) for path in machines]
    try:
        from loopkit.serving.http.site import Site
        from loopkit.serving.http.site_server import SiteServer
        from loopkit.serving.pages.table import page_routes
    except ImportError as error:
        raise Stop(USAGE, f"error: {error}") from error
    with (
        listening_at(host, port, urls, token, has_pages=True) as listening,
        report_errors(),
        Interruption() as interruption,
    ):
        site = Site.open(state_folder(), listening.access, say, loaded, may_answer=answer)
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
    link = f"{listening.address}{listening.access.new_link()}"
    say(f"sign in, once and within ten minutes: {link}")
    listening.tell_token()
    names = ", ".join(f"`{loaded.machine.label}`" for loaded in machines)
    if not may_answer:
        say("runs can only be read; add `--answer` to start and answer them")
    elif names:
        say(f"runs of {names} can be started")
