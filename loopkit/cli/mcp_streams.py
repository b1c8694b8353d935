"""Servers of MCP on standard input and output, which are the client's."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import TextIO, TypeAlias

from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.serving.tools.toolbox import Toolbox

Serve: TypeAlias = Callable[[Toolbox], Awaitable[None]]


def stdio_server() -> Serve:
    """The server that speaks with the client; raises Stop if its library is not installed."""
    try:
        from loopkit.serving.mcp.stdio import serve
    except ImportError as error:
        raise Stop(USAGE, f"error: {error}") from error
    return serve


def refuse_streams(named: Iterable[str]) -> None:
    """Raise Stop where the streams are closed, or one of the files named would be one of them."""
    # Python has none of a stream that is closed, whatever its stubs say.
    streams: tuple[TextIO | None, ...] = (sys.stdin, sys.stdout)
    if None in streams:
        raise Stop(USAGE, "error: standard input or output is closed, and the client speaks there")
    if "-" in named:
        raise Stop(USAGE, "error: the client speaks on standard input: name a file instead of `-`")
