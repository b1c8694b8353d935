"""`unknown-server`: a tool of an MCP server that is not declared."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem, did_you_mean
from loopkit.language import McpTool


def check_servers(subject: Subject) -> Iterator[Problem]:
    """The servers of tools. Their tools are known only at the first call."""
    servers = subject.machine.mcp
    for path, tool in subject.tools_of(McpTool):
        if tool.server not in servers:
            remedy = did_you_mean(tool.server, servers)
            remedy = remedy or f"declare it: `mcp: {{{tool.server}: {{command: [PROGRAM]}}}}`"
            message = f"there is no MCP server `{tool.server}`"
            yield subject.source.problem((*path, "mcp"), "unknown-server", message, help=remedy)
