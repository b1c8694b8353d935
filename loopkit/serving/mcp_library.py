"""mcp, an optional library that is not installed with loopkit. Importing it takes half a second."""

from __future__ import annotations

try:
    from anyio import wrap_file
    from mcp import types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
except ImportError as error:
    raise ImportError(
        "MCP needs a library that is not installed: pip install 'loopkit[mcp]'"
    ) from error

__all__ = ["Server", "ServerRequestContext", "stdio_server", "types", "wrap_file"]
