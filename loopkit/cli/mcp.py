"""`loopkit mcp`, and its command `validators`."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli.examples import examples
from loopkit.cli.exit_codes import OK, SIGINT, SIGTERM, USAGE, Stop, report_errors, say
from loopkit.cli.inputs import input_options, inputs_without_defaults
from loopkit.cli.machine import load_checked
from loopkit.cli.mcp_machines import machines
from loopkit.cli.mcp_streams import Serve, refuse_streams, stdio_server
from loopkit.cli.mcp_tools import tools
from loopkit.drive.standalone import StandaloneValidator
from loopkit.language.load import Loaded
from loopkit.outside.groups import GROUPS
from loopkit.outside.redaction import redactor
from loopkit.serving.tools.validator_tools import Choice, choose
from loopkit.serving.tools.validators import ValidatorToolbox


@click.group(epilog=examples("loopkit mcp validators plan.yaml", "loopkit mcp machines machines"))
def command() -> None:
    """Serve machines to coding programs over MCP, and look at the servers of a machine."""


command.add_command(machines)
command.add_command(tools)


@command.command(
    short_help="Serve the validators of MACHINE as tools.",
    epilog=examples("loopkit mcp validators plan.yaml --set issue=@issue.md"),
)
@click.argument("machine", type=click.Path(path_type=Path))
@input_options
@click.option("--judges", is_flag=True, help="Offer also validators that ask a judge.")
def validators(
    machine: Path,
    input_file: str | None,
    sets: tuple[str, ...],
    set_json: tuple[str, ...],
    judges: bool,
) -> int:
    """Serve the validators of MACHINE as tools, over standard input and output.

    An input that is given here is fixed; the client gives the others with each draft.
    """
    files = [value.partition("=@")[2] for value in sets]
    refuse_streams([str(machine), input_file or "", *files])
    with report_errors():
        loaded = load_checked(machine)
        fixed = inputs_without_defaults(loaded.machine, input_file, sets, set_json)
        known = [StandaloneValidator(loaded, name) for name in loaded.machine.validators]
        choice = choose(known, fixed, judges=judges)
        serve = stdio_server()
        _tell(machine, choice)
        _leave_at_signals()
        asyncio.run(_serve(serve, loaded, choice))
    return OK


async def _serve(serve: Serve, loaded: Loaded, choice: Choice) -> None:
    async with App.open(None) as app:
        redact = redactor(os.environ, loaded.machine.key_names)
        await serve(ValidatorToolbox(app, choice.tools, redact))


def _leave_at_signals() -> None:
    """A signal ends the process and the programs that it started.

    A thread waits for standard input, and Python would wait for that thread.
    """
    for number, code in ((signal.SIGINT, SIGINT), (signal.SIGTERM, SIGTERM)):
        signal.signal(number, lambda *_, code=code: GROUPS.end(lambda: os._exit(code)))


def _tell(machine: Path, choice: Choice) -> None:
    for name, reason in choice.left_out.items():
        say(f"`{name}` is not offered: {reason}")
    if not choice.tools:
        raise Stop(USAGE, f"error: {machine} has no validator to offer")
    names = ", ".join(f"`{tool.validator.name}`" for tool in choice.tools)
    say(f"serving {names} over MCP until standard input ends")
