"""mcp, an optional library that is not installed with loopkit. Importing it takes half a second."""

from __future__ import annotations

try:
    from anyio import AsyncFile
    from anyio.to_thread import run_sync
    from mcp import MCPError, types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise ImportError(
        "MCP needs a library that is not installed: pip install 'loopkit[mcp]'"
    ) from error
