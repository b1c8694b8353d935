"""`loopkit runs logs`."""

from __future__ import annotations

import asyncio

import click

from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.stored_runs import has_driver, run_argument, with_runs
from loopkit.drive.archive import ReadState
from loopkit.drive.stored_runs import StoredRuns
from loopkit.text.command_lines import resume_line
from loopkit.views.console import lines
from loopkit.views.event_lines import event_line
from loopkit.views.progress import Progress

FOLLOW_SECONDS = 0.5


@click.command(epilog=examples("loopkit runs logs plan-1f09ab --follow"))
@run_argument()
@click.option(
    "-f", "--follow", is_flag=True, help="Print new events as they occur, until the run stops."
)
@click.option("--jsonl", is_flag=True, help="Print each event as a line of JSON.")
@click.option(
    "--after", "behind", default=0, metavar="SEQ", help="Print only events after this number."
)
def command(run: str, follow: bool, jsonl: bool, behind: int) -> int:
    """Print the events of RUN."""

    async def print_events(stored: StoredRuns) -> None:
        after, progress, read = 0, Progress(), ReadState(run, is_counted=False)
        while True:
            # Checked before reading, so that all that a process wrote before its end is read.
            is_driven = await has_driver(stored, run)
            new = await stored.events(run, after)
            for one in new:
                after = one.seq
                if one.seq > behind:
                    told = [line.text for line in lines(progress, one)]
                    for line in [event_line(run, one)] if jsonl else told:
                        click.echo(line)
                progress = progress.after(one)
            # Of what was printed: what is stored since is printed before this ends.
            state = read.after(new)
            if not follow or state.status not in ("new", "running"):
                return
            if not (is_driven or new):
                exit_codes.say(
                    f"the process that drove {run} is gone; resume with: {resume_line(run)}"
                )
                return
            await asyncio.sleep(FOLLOW_SECONDS)

    with_runs(print_events)
    return exit_codes.OK
