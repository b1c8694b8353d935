"""`loopkit mcp machines`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click

from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import OK, report_errors, say
from loopkit.cli.interruption import Interruption
from loopkit.cli.listening import STOPPING, listening_options
from loopkit.cli.machine import load_checked
from loopkit.cli.machine_files import machine_files
from loopkit.cli.mcp_http import PORT, Place, refuse_place, serve_at
from loopkit.cli.mcp_streams import Serve, refuse_streams, stdio_server
from loopkit.journal.files import state_folder
from loopkit.outside.redaction import redactor
from loopkit.serving.host import Host
from loopkit.serving.tools.machines import MachineToolbox


@click.command(
    short_help="Serve machines as tools that run them.",
    epilog=examples("loopkit mcp machines plan.yaml", "loopkit mcp machines machines"),
)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[FOLDER|MACHINE]...")
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP instead.")
@click.option(
    "--viewer", default="", metavar="URL", help="Where `loopkit serve` shows the runs to people."
)
@listening_options(PORT)
def machines(
    paths: tuple[Path, ...],
    viewer: str,
    over_http: bool,
    port: int,
    host: str,
    urls: tuple[str, ...],
    token_file: Path | None,
) -> int:
    """Serve machines as tools that run them, over standard input and output.

    Without a path, those below this folder. A question to a person is shown to the user of the
    client, if that can show forms; no tool takes the answer. With --http many clients use one
    server, each with its token, and runs go on when a client is gone.
    """
    if over_http:
        place = Place.from_options(host, port, urls, token_file)
    else:
        refuse_place()
        refuse_streams(map(str, paths))
    with report_errors(), Interruption() as interruption:
        loaded = [load_checked(path) for path in machine_files(paths or [Path()])[0]]
        redact = redactor(os.environ, [name for one in loaded for name in one.machine.key_names])

        async def serve() -> None:
            async with Host(state_folder(), loaded, say) as driving:
                toolbox = MachineToolbox(
                    driving, redact, stops_with_call=not over_http, pages=viewer.rstrip("/")
                )
                if over_http:
                    await serve_at(place, driving, toolbox, interruption)
                    return
                serving = await _Serving(driving).go_on(stdio_server(), toolbox, interruption)
            if interruption.signal is not None:
                # A thread waits for standard input, and Python would wait for that thread.
                sys.stderr.flush()
                os._exit(interruption.code)
            await serving

        asyncio.run(serve())
    return interruption.code if over_http else OK


class _Serving:
    """A server until its client goes away, or a signal comes."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._stopped = asyncio.Event()
        self.stopping = False

    async def go_on(
        self, serve: Serve, toolbox: MachineToolbox, interruption: Interruption
    ) -> asyncio.Future[None]:
        """Serve until the end; the task that served, which may still wait for standard input."""
        names = ", ".join(f"`{name}`" for name in self._host.machines)
        say(f"serving {names} over MCP until standard input ends")
        interruption.watch(self, "the runs can be resumed", STOPPING)
        serving = asyncio.ensure_future(serve(toolbox))
        stopped = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        return serving

    def stop(self) -> None:
        """End, and stop runs in hand after their step."""
        self._host.stop()
        self._stopped.set()
