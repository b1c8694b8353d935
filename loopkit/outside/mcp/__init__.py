"""MCP servers: what they offer, and calls of their tools, each server behind a process of ours.

Nobody knows what a server will do. It may hang, die, answer ten megabytes, or send a schema whose
pattern takes a regular expression for ever, which no thread of Python can be stopped in. So a
worker process speaks with it: it reads what the server writes, cuts it, and can be killed.
"""

from loopkit.outside.mcp.connection import (
    Address,
    Connection,
    OfferedTool,
    Program,
    ServerFailed,
    ToolText,
    Website,
)

__all__ = [
    "Address",
    "Connection",
    "OfferedTool",
    "Program",
    "ServerFailed",
    "ToolText",
    "Website",
]
