"""The tool `mcp`: a tool of an MCP server, which must stay as the run first saw it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from loopkit.agents.command import as_agent_errors
from loopkit.agents.port import AgentError
from loopkit.agents.scripted import Unprepared
from loopkit.drive.active import ActiveRun
from loopkit.drive.retries import CallFailed, has_try_left, seconds_to_next_try
from loopkit.drive.servers import Servers
from loopkit.drive.state_files import workspace
from loopkit.drive.tools.call import (
    BadArguments,
    ToolCalled,
    ToolResult,
    as_data,
    output_of,
    run_records,
)
from loopkit.language import McpTool, Retry
from loopkit.machine.asked import AgentAsked
from loopkit.outside.mcp import Connection, OfferedTool, ServerFailed


async def run(called: ToolCalled) -> ToolResult:
    """Call the tool and return its answer, fenced; raises AgentError if the server fails."""
    tool, active = called.tool.tool, called.active
    assert isinstance(tool, McpTool)
    folder = await workspace(active, called.asked.workspace, writes=True)
    with as_agent_errors():
        played = active.commands.result(called.name, called.index, folder)
    if played is not None:
        return _result(called, output_of(played), is_error=played.exit_code != 0)
    if active.scenario is not None:
        raise Unprepared(
            f"the scenario has no result for the tool `{called.name}`, and no server is asked; "
            "add it under `commands:`"
        )
    _refuse_unsendable(called.arguments)
    digest = tool.digest or active.state.offered.get(tool.mcp, "")
    try:
        connection = _connection(active, tool.server, folder)
        given = await connection.call(tool.its_name, called.arguments, digest, tool.timeout)
    except ServerFailed as failed:
        raise AgentError("transient" if failed.transient else "fatal", failed.message) from failed
    return _result(called, given.text, given.left_out, is_error=given.is_error)


def _refuse_unsendable(arguments: Mapping[str, Any]) -> None:
    try:
        json.dumps(arguments)
    except RecursionError as error:
        raise BadArguments("the arguments are nested too deep") from error


def _result(called: ToolCalled, text: str, left_out: int = 0, *, is_error: bool) -> ToolResult:
    intro = "It failed, and says" if is_error else "It answers"
    fenced = as_data(intro, text, called.active.redact, left_out)
    return ToolResult(fenced, commands=run_records(called, int(is_error), text))


async def offers(
    active: ActiveRun, asked: AgentAsked, wanted: Mapping[str, McpTool], retry: Retry
) -> dict[str, OfferedTool]:
    """The descriptions of tools by their servers, by the names that an agent has for them.

    A server that can't be reached is tried again as a model is. Raises CallFailed, also if a tool
    is not the one that the machine or the run knows.
    """
    folder, found = await workspace(active, asked.workspace, writes=True), dict[str, OfferedTool]()
    for server in sorted({tool.server for tool in wanted.values()}):
        of_it = {name: tool for name, tool in wanted.items() if tool.server == server}
        listed = await _list_tools(active, server, of_it, folder, retry)
        for name, tool in of_it.items():
            found[name] = listed[tool.its_name]
            _refuse_another(active, tool, found[name].digest)
    return found


def digests(asked: AgentAsked, served: Mapping[str, OfferedTool]) -> dict[str, str]:
    """By `SERVER.TOOL`, the digests of tools as servers describe them."""
    tools = {name: asked.tools[name].tool for name in served}
    return {t.mcp: served[name].digest for name, t in tools.items() if isinstance(t, McpTool)}


async def _list_tools(
    active: ActiveRun, server: str, wanted: Mapping[str, McpTool], folder: Path, retry: Retry
) -> Mapping[str, OfferedTool]:
    names = sorted({tool.its_name for tool in wanted.values()})
    for failures in count(1):
        try:
            return await _connection(active, server, folder).tools(names)
        except ServerFailed as failed:
            message = active.redact(failed.message)
            if not failed.transient:
                raise CallFailed("fatal", message) from failed
            if not has_try_left(retry, failures, 0):
                raise CallFailed("transient", message) from failed
            await active.pause(seconds_to_next_try(retry, failures, None))
    raise AssertionError


def _connection(active: ActiveRun, server: str, folder: Path) -> Connection:
    active.servers = active.servers or Servers()
    return active.servers.connection(server, active.program.machine.mcp[server], folder)


def _refuse_another(active: ActiveRun, tool: McpTool, digest: str) -> None:
    known, by = tool.digest, "the machine pins"
    if known is None:
        known, by = active.state.offered.get(tool.mcp), "this run was first offered"
    if known is not None and known != digest:
        raise CallFailed(
            "fatal",
            f"`{tool.mcp}` is not the tool that {by}, {known}, but {digest}; look at what its "
            f"server says now, and write `digest: {digest}` on the tool if you mean that one",
        )
