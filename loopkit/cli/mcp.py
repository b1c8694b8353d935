"""`loopkit mcp`: serves machines or validators as tools, and lists the tools of other servers.

On standard input and output, which are the client's, there is one client. Over HTTP there are many,
and runs go on when a client is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO, TypeAlias

import click
from click.core import ParameterSource

from loopkit.app import App
from loopkit.cli.check import machine_files
from loopkit.cli.driving import Interruption, Stopper
from loopkit.cli.inputs import MACHINE, Given, input_options, journal_place, read_inputs
from loopkit.cli.machine import in_own_folder, load_checked
from loopkit.cli.serve import (
    GIVE_IT,
    STOPPING,
    Listening,
    Place,
    listening_at,
    listening_options,
    read_token,
)
from loopkit.cli.terminal import (
    ERROR,
    OK,
    SIGINT,
    SIGTERM,
    echo,
    examples,
    misuse,
    say,
)
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import Servers
from loopkit.drive.claimed_runs import StandaloneValidator
from loopkit.language.machine import Machine
from loopkit.outside.mcp.connection import OfferedTool, ServerFailed
from loopkit.outside.processes import GROUPS
from loopkit.outside.redaction import redactor
from loopkit.serving.host import Host
from loopkit.serving.tools.arguments import Toolbox, ValidatorToolbox, choose
from loopkit.serving.tools.machines import MachineToolbox
from loopkit.text import one_line, printable

PORT = 8422


@click.group(epilog=examples("loopkit mcp validators plan.yaml", "loopkit mcp machines machines"))
def mcp_command() -> None:
    """Serve machines to coding programs over MCP, and look at the servers of a machine."""


@mcp_command.command(
    short_help="Serve machines as tools that run them.",
    epilog=examples("loopkit mcp machines plan.yaml", "loopkit mcp machines machines"),
)
@click.argument("paths", nargs=-1, type=MACHINE, metavar="[FOLDER|MACHINE]...")
@click.option("--http", "over_http", is_flag=True, help="Serve over HTTP instead.")
@click.option(
    "--viewer", default="", metavar="URL", help="Where `loopkit serve` shows the runs to people."
)
@listening_options(PORT)
def machines(
    paths: tuple[Path, ...],
    viewer: str,
    over_http: bool,
    place: Place,
) -> int:
    """Serve machines as tools that run them, over standard input and output.

    Without a path, those below this folder. A question to a person is shown to the user of the
    client, if that can show forms; no tool takes the answer. With --http many clients use one
    server, each with its token, and runs go on when a client is gone.
    """
    if over_http:
        token = read_token(place.token_file)
        if token.is_secret:
            raise misuse(f"clients need a token: {GIVE_IT}")
    else:
        refuse_place()
        refuse_streams(map(str, paths))
    with Interruption() as interruption:
        found = machine_files(paths or [Path()])[0]
        loaded = [in_own_folder(load_checked(path), path) for path in found]
        redact = redactor(os.environ, [name for one in loaded for name in one.machine.key_names])

        async def serve() -> None:
            async with Host(journal_place(), loaded, say) as driving:
                toolbox = MachineToolbox(
                    driving, redact, stops_with_call=not over_http, pages=viewer.rstrip("/")
                )
                if over_http:
                    listening = listening_at(place, token, has_pages=False)
                    await serve_at(listening, driving, toolbox, interruption)
                    return
                serving = await _serve_once(driving, stdio_server(), toolbox, interruption)
            if interruption.signal is not None:
                # A thread waits for standard input, and Python would wait for that thread.
                sys.stderr.flush()
                os._exit(interruption.code)
            await serving

        asyncio.run(serve())
    return interruption.code if over_http else OK


@mcp_command.command(
    short_help="List what the MCP servers of MACHINE offer.",
    epilog=examples("loopkit mcp tools planner.yaml files"),
)
@click.argument("machine", type=MACHINE)
@click.argument("server", required=False)
def tools(machine: Path, server: str | None) -> int:
    """List what the MCP servers of MACHINE offer, or one of them, with the digests of the tools."""
    declared = load_checked(machine).machine
    names = _names(declared, server)
    redact = redactor(os.environ, declared.key_names)
    failed = False
    for name, offered in asyncio.run(_ask(declared, names)).items():
        if isinstance(offered, ServerFailed):
            say(redact(f"error: {offered.message}"))
            failed = True
        else:
            echo(redact("\n".join(_lines(name, [one for one in offered if not one.fault]))))
            for tool in (one for one in offered if one.fault):
                left_out = f"warning: `{name}.{one_line(tool.name)}` is left out: {tool.fault}"
                say(redact(printable(left_out)))
    return ERROR if failed else OK


@mcp_command.command(
    short_help="Serve the validators of MACHINE as tools.",
    epilog=examples("loopkit mcp validators plan.yaml --set issue=@issue.md"),
)
@click.argument("machine", type=MACHINE)
@input_options
@click.option("--judges", is_flag=True, help="Offer also validators that ask a judge.")
def validators(
    machine: Path,
    given: Given,
    judges: bool,
) -> int:
    """Serve the validators of MACHINE as tools, over standard input and output.

    An input that is given here is fixed; the client gives the others with each draft.
    """
    files = [value.partition("=@")[2] for value in given.sets]
    refuse_streams([str(machine), given.input_file or "", *files])
    loaded = in_own_folder(load_checked(machine), machine)
    fixed = read_inputs(loaded.machine, given, "given")
    known = [StandaloneValidator(loaded, name) for name in loaded.machine.validators]
    offered, left_out = choose(known, fixed, judges=judges)
    serve = stdio_server()
    for name, reason in left_out.items():
        say(f"`{name}` is not offered: {reason}")
    if not offered:
        raise misuse(f"{machine} has no validator to offer")
    say_serving(tool.validator.name for tool in offered)
    _leave_at_signals()

    async def judge() -> None:
        async with App.open(None) as app:
            redact = redactor(os.environ, loaded.machine.key_names)
            await serve(ValidatorToolbox(app, offered, redact))

    asyncio.run(judge())
    return OK


def say_serving(names: Iterable[str]) -> None:
    named = ", ".join(f"`{name}`" for name in names)
    say(f"serving {named} over MCP until standard input ends")


def _leave_at_signals() -> None:
    """A signal ends the process and the programs that it started.

    A thread waits for standard input, and Python would wait for that thread.
    """
    for number, code in ((signal.SIGINT, SIGINT), (signal.SIGTERM, SIGTERM)):
        signal.signal(number, lambda *_, code=code: GROUPS.end(lambda: os._exit(code)))


async def _serve_once(
    host: Host, serve: Serve, toolbox: MachineToolbox, interruption: Interruption
) -> asyncio.Future[None]:
    """Serve until the client goes away, or a signal comes, which stops runs after their step.

    The task that served may still wait for standard input.
    """
    say_serving(host.machines)
    stopped = asyncio.Event()
    serving = asyncio.ensure_future(serve(toolbox))

    def stop() -> None:
        host.stop()
        stopped.set()

    interruption.watch(Stopper(stop), "the runs can be resumed", STOPPING)
    ended = (serving, asyncio.ensure_future(stopped.wait()))
    await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
    serving.cancel()
    return serving


def _names(machine: Machine, server: str | None) -> Sequence[str]:
    if server is None:
        if not machine.mcp:
            raise misuse("the machine declares no MCP server; see `mcp:`")
        return list(machine.mcp)
    if server not in machine.mcp:
        remedy = did_you_mean(server, machine.mcp)
        raise misuse(f"there is no MCP server `{server}`; {remedy}".rstrip("; "))
    return [server]


async def _ask(
    machine: Machine, names: Sequence[str]
) -> dict[str, Sequence[OfferedTool] | ServerFailed]:
    servers = Servers()
    found = dict[str, Sequence[OfferedTool] | ServerFailed]()
    try:
        for name in names:
            try:
                connection = servers.connection(name, machine.mcp[name], Path.cwd())
                found[name] = list((await connection.tools()).values())
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


Serve: TypeAlias = Callable[[Toolbox], Awaitable[None]]


def stdio_server() -> Serve:
    """The server that speaks with the client; raises ImportError if its library is missing."""
    from loopkit.serving.mcp import serve

    return serve


def refuse_streams(named: Iterable[str]) -> None:
    """Raise Stop where the streams are closed, or one of the files named would be one of them."""
    # Python has none of a stream that is closed, whatever its stubs say.
    streams: tuple[TextIO | None, ...] = (sys.stdin, sys.stdout)
    if None in streams:
        raise misuse("standard input or output is closed, and the client speaks there")
    if "-" in named:
        raise misuse("the client speaks on standard input: name a file instead of `-`")


OPTIONS = {"port": "--port", "host": "--host", "urls": "--url", "token_file": "--token-file"}


def refuse_place() -> None:
    """Raise Stop where options of a server over HTTP are given without `--http`."""
    context = click.get_current_context()
    for name, option in OPTIONS.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise misuse(f"`{option}` is for a server over HTTP: add `--http`")


async def serve_at(
    place: AbstractContextManager[Listening],
    host: Host,
    toolbox: MachineToolbox,
    interruption: Interruption,
) -> None:
    from loopkit.serving.mcp import PATH, StreamableServer

    with place as listening:
        listening.warn("starts runs of the machines, and sees what comes of them.")
        say(f"serving at {listening.address}{PATH}")
        listening.tell_token()
        server = StreamableServer(toolbox, listening.access, say, host.stop)
        host.keep_appointments()
        interruption.watch(server, "the runs can be resumed", STOPPING)
        await server.serve_on(listening.socket)
