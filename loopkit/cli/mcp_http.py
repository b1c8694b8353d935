"""Serving tools of MCP over HTTP, where runs go on when a client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from loopkit.cli.exit_codes import USAGE, Stop, say
from loopkit.cli.interruption import Interruption
from loopkit.cli.listening import GIVE_IT, STOPPING, Token, listening_at, read_token
from loopkit.serving.appointments import Appointments
from loopkit.serving.host import Host
from loopkit.serving.tools.machines import MachineToolbox

PORT = 8422
OPTIONS = {"port": "--port", "host": "--host", "urls": "--url", "token_file": "--token-file"}


@dataclass(frozen=True)
class Place:
    """The address given on the command line, and the token."""

    host: str
    port: int
    urls: Sequence[str]
    token: Token

    @classmethod
    def from_options(
        cls, host: str, port: int, urls: Sequence[str], token_file: Path | None
    ) -> Place:
        """Raises Stop where no client could know the token."""
        token = read_token(token_file)
        if token.is_secret:
            raise Stop(USAGE, f"error: clients need a token: {GIVE_IT}")
        return cls(host, port, urls, token)


def refuse_place() -> None:
    """Raise Stop where options of a server over HTTP are given without `--http`."""
    context = click.get_current_context()
    for name, option in OPTIONS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Stop(USAGE, f"error: `{option}` is for a server over HTTP: add `--http`")


async def serve_at(
    place: Place, host: Host, toolbox: MachineToolbox, interruption: Interruption
) -> None:
    """Serve until a signal comes; raises Stop where that cannot begin."""
    try:
        from loopkit.serving.mcp.streamable import PATH, StreamableServer
    except ImportError as error:
        raise Stop(USAGE, f"error: {error}") from error
    with listening_at(
        place.host, place.port, place.urls, place.token, has_pages=False
    ) as listening:
        listening.warn("starts runs of the machines, and sees what comes of them.")
        say(f"serving at {listening.address}{PATH}")
        listening.tell_token()
        appointments = Appointments(host, host.app.journal, say)

        def stop() -> None:
            appointments.stop()
            host.stop()

        server = StreamableServer(toolbox, listening.access, say, stop)
        keeping = asyncio.create_task(appointments.run())
        interruption.watch(server, "the runs can be resumed", STOPPING)
        try:
            await server.serve_on(listening.socket)
        finally:
            appointments.stop()
            # It may be about to take a run, which it has to let go of.
            await keeping
