"""A server over standard input and output, for both protocols of MCP."""

from __future__ import annotations

import json
import sys
import traceback
from errno import EMSGSIZE
from io import TextIOWrapper
from typing import Any

from loopkit import __version__
from loopkit.serving.mcp_library import (
    AsyncFile,
    Server,
    ServerRequestContext,
    run_sync,
    stdio_server,
    types,
)
from loopkit.serving.toolbox import CallRefused, ServedTool, Toolbox

LONGEST_MESSAGE = 32_000_000
"""Characters of a message of the client."""


async def serve(toolbox: Toolbox) -> None:
    """Answer a client until it goes away; calls in hand are given up then.

    Meanwhile, what anybody prints goes to standard error. Raises OSError where nobody reads the
    answers any more, or a message has no end.
    """
    server = _server(toolbox)
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


def _server(toolbox: Toolbox) -> Server[Any]:
    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(offered) for offered in toolbox.offered])

    async def call_tool(
        _: ServerRequestContext[Any], called: types.CallToolRequestParams
    ) -> types.CallToolResult:
        try:
            result = await toolbox.call(called.name, called.arguments or {})
        except CallRefused as refused:
            return _failed(f"error: {refused}")
        except Exception as bug:  # noqa: BLE001 - what it says is for whoever runs the server
            traceback.print_exception(bug)
            return _failed("internal error: this is a bug in loopkit; its server printed it")
        # Many clients show a model only the text.
        text = types.TextContent(text=json.dumps(result, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=result)

    return Server(
        "loopkit",
        version=__version__,
        instructions=toolbox.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _failed(why: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=why)], is_error=True)


def _tool(offered: ServedTool) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=True) if offered.changes_nothing else None
    return types.Tool(
        name=offered.name,
        description=offered.description,
        input_schema=dict(offered.arguments),
        output_schema=dict(offered.result),
        annotations=hints,
    )
