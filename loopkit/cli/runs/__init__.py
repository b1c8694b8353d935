"""`loopkit runs`: a command for each thing that is done with stored runs."""

from __future__ import annotations

import click

from loopkit.cli import LazyGroup
from loopkit.cli.examples import examples

COMMANDS = {
    "diff": ("loopkit.cli.runs.diff", "Compare two versions of ARTIFACT in RUN."),
    "logs": ("loopkit.cli.runs.logs", "Print the events of RUN."),
    "ls": ("loopkit.cli.runs.ls", "List runs, newest first."),
    "record": ("loopkit.cli.record", "Record RUN in FILE as a test case that replays it offline."),
    "rm": ("loopkit.cli.runs.rm", "Remove runs from the journal."),
    "show": ("loopkit.cli.runs.show", "Show the status of RUN, the reason, and what to do next."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    epilog=examples("loopkit runs ls", "loopkit runs show plan-1f09ab"),
)
def command() -> None:
    """List, show, compare, record and remove runs."""
