"""The MCP servers of a run: connected when a tool of theirs is first needed, until it stops."""

from __future__ import annotations

import os
from pathlib import Path

from loopkit.language.agents.tools import McpServer
from loopkit.outside.mcp.connection import Address, Connection, Program, ServerFailed, Website
from loopkit.outside.processes import command_environment


class Servers:
    """Connections by server and by the folder of the work that uses it.

    No two runs share one: a server may remember what it was asked before.
    """

    __slots__ = ("_connections",)

    def __init__(self) -> None:
        self._connections: dict[tuple[str, Path], Connection] = {}

    def connection(self, name: str, server: McpServer, folder: Path) -> Connection:
        """The connection with a server; raises ServerFailed if a variable of it is not set."""
        known = self._connections.get((name, folder))
        if known is None:
            known = Connection(name, _address(name, server, folder), server.timeout)
            self._connections[name, folder] = known
        return known

    async def close(self) -> None:
        while self._connections:
            _, connection = self._connections.popitem()
            await connection.close()


def _address(name: str, server: McpServer, folder: Path) -> Address:
    if server.command is not None:
        return Program(server.command, command_environment(server.env), folder.absolute())
    try:
        return Website(server.url or "", server.headers_with(os.environ))
    except KeyError as error:
        message = f"MCP server `{name}`: the environment variable `{error.args[0]}` is not set"
        raise ServerFailed(message, transient=False) from error
