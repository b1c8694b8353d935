"""Serving tools of MCP over HTTP, where runs go on when a client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from loopkit.cli.exit_codes import USAGE, Stop, say
from loopkit.cli.interruption import Interruption
from loopkit.cli.listening import GIVE_IT, STOPPING, Listening, listening_at, read_token
from loopkit.cli.watching import Watcher
from loopkit.serving.host import Host
from loopkit.serving.machines import MachineToolbox

if TYPE_CHECKING:
    from loopkit.serving.mcp.streamable import StreamableServer

PORT = 8422
OPTIONS = {"port": "--port", "host": "--host", "urls": "--url", "token_file": "--token-file"}


@dataclass(frozen=True)
class Place:
    """Where to listen, as it is given at the command line."""

    host: str
    port: int
    urls: Sequence[str]
    token_file: Path | None


def refuse_place() -> None:
    """Raise Stop where it is given where to listen, and nobody will."""
    context = click.get_current_context()
    for name, option in OPTIONS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise Stop(USAGE, f"error: `{option}` is for a server over HTTP: add `--http`")


def serve_at(place: Place, host: Host, toolbox: MachineToolbox, interruption: Interruption) -> int:
    """Serve until a signal comes; the exit code that tells of it."""
    try:
        from loopkit.serving.mcp.streamable import PATH, StreamableServer
    except ImportError as error:
        raise Stop(USAGE, f"error: {error}") from error
    token = read_token(place.token_file)
    if token.is_secret:
        raise Stop(USAGE, f"error: clients need a token: {GIVE_IT}")
    with listening_at(place.host, place.port, place.urls, token, has_pages=False) as listening:
        listening.warn("starts runs of the machines, and sees what comes of them.")
        say(f"serving at {listening.address}{PATH}")
        listening.tell_token()
        server = StreamableServer(toolbox, listening.access, say, host.stop)
        asyncio.run(_serve(host, server, listening, interruption))
    return interruption.code


async def _serve(
    host: Host, server: StreamableServer, listening: Listening, interruption: Interruption
) -> None:
    async with host:
        interruption.watch(server, None, Watcher(), "the runs can be resumed", STOPPING)
        await server.serve_on(listening.socket)
