"""`loopkit mcp tools`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import click

from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import ERROR, OK, USAGE, Stop, report_errors, say
from loopkit.cli.machine import load_checked
from loopkit.document.problems import did_you_mean
from loopkit.drive.servers import Servers
from loopkit.language import Machine
from loopkit.outside.mcp import OfferedTool, ServerFailed
from loopkit.outside.redaction import redactor
from loopkit.text import one_line, printable


@click.command(
    short_help="List what the MCP servers of MACHINE offer.",
    epilog=examples("loopkit mcp tools planner.yaml files"),
)
@click.argument("machine", type=click.Path(path_type=Path))
@click.argument("server", required=False)
def tools(machine: Path, server: str | None) -> int:
    """List what the MCP servers of MACHINE offer, or one of them, with the digests of the tools."""
    with report_errors():
        declared = load_checked(machine).machine
        names = _names(declared, server)
        redact = redactor(os.environ, declared.key_names)
        failed = False
        for name, offered in asyncio.run(_ask(declared, names)).items():
            if isinstance(offered, ServerFailed):
                say(redact(f"error: {offered.message}"))
                failed = True
            else:
                click.echo(redact("\n".join(_lines(name, offered))))
    return ERROR if failed else OK


def _names(machine: Machine, server: str | None) -> Sequence[str]:
    if server is None:
        if not machine.mcp:
            raise Stop(USAGE, "error: the machine declares no MCP server; see `mcp:`")
        return list(machine.mcp)
    if server not in machine.mcp:
        remedy = did_you_mean(server, machine.mcp)
        raise Stop(USAGE, f"error: there is no MCP server `{server}`; {remedy}".rstrip("; "))
    return [server]


async def _ask(
    machine: Machine, names: Sequence[str]
) -> dict[str, Sequence[OfferedTool] | ServerFailed]:
    servers, found = Servers(), dict[str, Sequence[OfferedTool] | ServerFailed]()
    try:
        for name in names:
            try:
                connection = servers.connection(name, machine.mcp[name], Path.cwd())
                found[name] = await connection.every_tool()
            except ServerFailed as failed:
                found[name] = failed
    finally:
        await servers.close()
    return found


def _lines(server: str, offered: Sequence[OfferedTool]) -> Sequence[str]:
    if not offered:
        return [f"{server} offers no tools"]
    descriptions = ((tool, one_line(tool.description)) for tool in offered)
    return [
        f"{server}.{printable(tool.name)}  {tool.digest}" + (f"\n  {line}" if line else "")
        for tool, line in descriptions
    ]
