"""The command line: parse, call, print, exit code. Each command is imported when it is called."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from loopkit import __version__
from loopkit.cli.terminal import (
    BUG,
    ERROR,
    SIGINT,
    USAGE,
    Stop,
    examples,
    prepare_output,
    report_bug,
    say,
    stop_for,
)
from loopkit.text import is_broken

NEW_OBJECTS = 200_000
"""New objects after which Python looks for cycles among them; a command loads up to 140,000."""
COMMANDS = {
    "run": ("loopkit.cli.run", "Run a machine until it ends, waits or is suspended."),
    "resume": ("loopkit.cli.answer", "Continue a suspended or interrupted run."),
    "answer": ("loopkit.cli.answer", "Answer the question that a run is waiting on."),
    "reply": ("loopkit.cli.answer", "Deliver the artifact that a run is waiting for."),
    "cancel": ("loopkit.cli.answer", "Cancel a run permanently."),
    "runs": ("loopkit.cli.runs", "List, show, compare, record and remove runs."),
    "submit": ("loopkit.cli.worker", "Leave runs to workers."),
    "worker": ("loopkit.cli.worker", "Drive submitted runs, with other workers."),
    "advance": ("loopkit.cli.worker", "Drive a run for a slice of time."),
    "report": ("loopkit.cli.show", "Write a run as a page."),
    "stats": ("loopkit.cli.stats", "Show defects, and what it took to correct them."),
    "ls": ("loopkit.cli.machines", "List the machines that can be run by name."),
    "show": ("loopkit.cli.machines", "Print the file of a machine."),
    "new": ("loopkit.cli.machines", "Write a machine to begin with, its cases and an input."),
    "check": ("loopkit.cli.check", "Check machine files for problems."),
    "doctor": ("loopkit.cli.doctor", "Show what runs need, and what of it is missing here."),
    "plan": ("loopkit.cli.plan", "Show what a run would do and its maximum cost."),
    "validate": ("loopkit.cli.run", "Run one validator of a machine on a file."),
    "serve": ("loopkit.cli.serve", "Show runs in a browser and over HTTP, and answer them there."),
    "mcp": ("loopkit.cli.mcp", "Serve machines to coding programs over MCP."),
    "test": ("loopkit.cli.test", "Run the test cases in scenario files."),
    "diagram": ("loopkit.cli.diagram", "Draw a machine, or the path of a run."),
    "journal": ("loopkit.cli.journal", "Make, change and fill a journal in PostgreSQL."),
    "schema": ("loopkit.cli.schema", "Print a JSON Schema for editors and tools."),
}


class LazyGroup(click.Group):
    """Subcommands by name; their modules load when they are called, so that `--help` is quick."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **options: Any) -> None:
        """`lazy` has the module of each subcommand, and what it does."""
        super().__init__(*args, **options)
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module = importlib.import_module(self._lazy[cmd_name][0])
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in self._lazy.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from loopkit.document.problems import did_you_mean

            hint = did_you_mean(str(args[0]), self._lazy)
            runs = self.get_command(ctx, "runs")
            if isinstance(runs, LazyGroup) and args[0] in runs.list_commands(ctx):
                hint = f"did you mean `runs {args[0]}`?"
            raise click.UsageError(f"no such command `{args[0]}`; {hint}", ctx) from error


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples("loopkit check machine.yaml", "loopkit run machine.yaml --set topic=tea"),
)
@click.version_option(__version__, prog_name="loopkit")
@click.option(
    "--journal",
    metavar="URL",
    envvar="LOOPKIT_JOURNAL",
    help="Keep runs in PostgreSQL: postgresql://HOST/DATABASE?schema=NAME.",
)
def app(journal: str | None) -> None:
    """Run validate-and-revise loops that are declared in YAML.

    `loopkit COMMAND --help` describes a command.
    """


def main() -> None:
    sys.unraisablehook = _unraisable
    prepare_output()
    # What is loaded stays, and there is no garbage in it. With the search for some, `check` of
    # plan_review takes half as long again: a sixth more while it loads, and a third at its end.
    gc.set_threshold(NEW_OBJECTS)
    # Pydantic would look for plug-ins in every installed package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    code = invoke(sys.argv[1:])
    # While Python takes itself apart an exception would come up anywhere.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        # A closed stream is None.
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        # Python would set an exit code of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    gc.freeze()
    sys.exit(code)


def invoke(argv: list[str]) -> int:
    if broken := next(filter(is_broken, argv), ""):
        say(f"error: the argument {broken!r} is not UTF-8 text")
        return USAGE
    try:
        with _logging():
            result = app.main(argv, prog_name="loopkit", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show(sys.stderr)
        return USAGE
    except click.Abort:
        say("stopped")
        return SIGINT
    except Stop as stop:
        if str(stop):
            say(str(stop))
        return stop.code
    except SystemExit:
        # click ends the process so, as if with a failure, where a reader such as `head` went away.
        return ERROR
    except OSError as error:
        # The journal reports its own failures; this one is of our output or of a user's file.
        place = "" if error.filename is None else f"{error.filename!r}: "
        say(f"error: {place}{error.strerror or error}")
        return ERROR
    except Exception as error:  # noqa: BLE001 - the last line of defence, told as the bug it is
        if (told := stop_for(error)) is not None:
            say(str(told))
            return told.code
        report_bug(error)
        return BUG


def _logging() -> AbstractContextManager[None]:
    path = os.environ.get("LOOPKIT_LOG")
    if not path:
        return nullcontext()
    from loopkit.cli.log_file import log_to

    return log_to(path)


def _unraisable(happened: sys.UnraisableHookArgs) -> None:
    """End the process on a Ctrl-C where Python drops exceptions, as in `__del__`."""
    if isinstance(happened.exc_value, KeyboardInterrupt):
        say("stopped")
        os._exit(SIGINT)
    sys.__unraisablehook__(happened)
