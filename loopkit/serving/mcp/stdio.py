"""MCP over standard input and output, with one client."""

from __future__ import annotations

import sys
from errno import EMSGSIZE
from io import TextIOWrapper

from loopkit.serving.mcp.library import AsyncFile, run_sync, stdio_server
from loopkit.serving.mcp.server import server_of
from loopkit.serving.tools.toolbox import Toolbox

LONGEST_MESSAGE = 32_000_000
"""Characters of a message of the client."""


async def serve(toolbox: Toolbox) -> None:
    """Answer a client until it disconnects; its open calls are abandoned then.

    Meanwhile, everything that is printed goes to standard error. Raises OSError if the client no
    longer reads answers, or if a message is too long.
    """
    server = server_of(toolbox)
    try:
        messages = _Lines(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
        async with stdio_server(stdin=messages) as (requests, replies):
            await server.run(requests, replies, server.create_initialization_options())
    except ExceptionGroup as failed:
        lost, others = failed.split(OSError)
        if lost is None or others is not None:
            raise
        raise OSError(None, _first(lost).strerror) from failed


class _Lines(AsyncFile[str]):
    """Lines of bounded length: a client that never ends one would fill the memory."""

    async def readline(self) -> str:
        line = await run_sync(self.wrapped.readline, LONGEST_MESSAGE)
        if len(line) == LONGEST_MESSAGE:
            raise OSError(EMSGSIZE, f"a message of more than {LONGEST_MESSAGE:,} characters")
        return line


def _first(failed: BaseExceptionGroup[OSError]) -> OSError:
    inner = failed.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
