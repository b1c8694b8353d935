"""`loopkit runs`, with its commands `diff`, `logs` and `ls`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

import click

from loopkit.cli import LazyGroup, terminal
from loopkit.cli.stored_runs import has_driver, run_argument, with_runs
from loopkit.cli.terminal import USAGE, Stop, examples, in_colour
from loopkit.document.problems import did_you_mean
from loopkit.drive.stored_runs import ReadState, StoredRuns
from loopkit.journal.errors import RunUnreadable
from loopkit.journal.records import RunRow
from loopkit.text import columns, one_line
from loopkit.text.run_ids import resume_line
from loopkit.views.amounts import age, cost
from loopkit.views.console import event_line, lines
from loopkit.views.run_data import rows_of
from loopkit.views.run_text import diff_lines
from loopkit.views.run_view import RunView, RunViews
from loopkit.views.steps import KeptVersion, Steps

COMMANDS = {
    "diff": ("loopkit.cli.runs", "Compare two versions of ARTIFACT in RUN."),
    "logs": ("loopkit.cli.runs", "Print the events of RUN."),
    "ls": ("loopkit.cli.runs", "List runs, newest first."),
    "record": ("loopkit.cli.record", "Record RUN in FILE as a test case that replays it offline."),
    "rm": ("loopkit.cli.show", "Remove runs from the journal."),
    "show": ("loopkit.cli.show", "Show the status of RUN, the reason, and what to do next."),
}


@click.group(
    cls=LazyGroup,
    lazy=COMMANDS,
    epilog=examples("loopkit runs ls", "loopkit runs show plan-1f09ab"),
)
def runs_command() -> None:
    """List, show, compare, record and remove runs."""


@click.command(
    epilog=examples("loopkit runs diff plan-1f09ab plan", "loopkit runs diff plan-1f09ab --from 1")
)
@run_argument()
@click.argument("artifact", required=False)
@click.option("--from", "first", type=int, metavar="N", help="The version to begin with.")
@click.option("--to", "last", type=int, metavar="N", help="The version to compare it with.")
def diff_command(run: str, artifact: str | None, first: int | None, last: int | None) -> int:
    """Compare two versions of ARTIFACT in RUN.

    What was found in only one of them is named as well. By default the last version is compared
    with the one before it, of the artifact that was judged last.
    """

    async def read(stored: StoredRuns) -> list[str]:
        view = await RunViews(stored, RunView).view(run)
        report, found = view.state.last_report, view.steps.versions
        judged = report.artifact if report else next(reversed(found), "")
        return list(_compare(found, artifact or judged, first, last))

    for line in with_runs(read):
        terminal.echo(line)
    return terminal.OK


def _compare(
    found: dict[str, list[KeptVersion]], name: str, first: int | None, last: int | None
) -> Iterator[str]:
    if name not in found:
        known = did_you_mean(name, found) or "the run has written none"
        raise Stop(USAGE, f"error: there is no artifact `{name}`; {known}")
    versions = found[name]
    after = _version(versions, last if last is not None else len(versions))
    before = first if first is not None else after.number - 1
    if before == 0 and first is None:
        raise Stop(USAGE, f"error: there is no version before {name} {after.number}")
    yield from diff_lines(_version(versions, before), after)


def _version(versions: list[KeptVersion], number: int) -> KeptVersion:
    if not 1 <= number <= len(versions):
        name = versions[0].artifact.name
        raise Stop(USAGE, f"error: {name} has no version {number}; there are 1 to {len(versions)}")
    return versions[number - 1]


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
def logs_command(run: str, follow: bool, jsonl: bool, behind: int) -> int:
    """Print the events of RUN."""

    async def print_events(stored: StoredRuns) -> None:
        after = 0
        steps = Steps(is_kept=False)
        read = ReadState(run, is_counted=False)
        while True:
            # Checked before reading, so that all that a process wrote before its end is read.
            is_driven = await has_driver(stored, run)
            new = await stored.events(run, after)
            for one in new:
                after = one.seq
                if one.seq > behind:
                    told = [line.text for line in lines(steps, one)]
                    for line in [event_line(run, one)] if jsonl else told:
                        terminal.echo(line)
                steps.take(one)
            # Of what was printed: what is stored since is printed before this ends.
            state = read.after(new)
            if not follow or state.status not in ("new", "running"):
                return
            if not (is_driven or new):
                terminal.say(
                    f"the process that drove {run} is gone; resume with: {resume_line(run)}"
                )
                return
            await asyncio.sleep(FOLLOW_SECONDS)

    with_runs(print_events)
    return terminal.OK


CAUSE_WIDTH = 60
Cells = tuple[str, ...]
HEADINGS = ("run", "status", "state", "age", "cost")


@click.command(epilog=examples("loopkit runs ls --machine plan", "loopkit runs ls plan-1f09ab"))
@run_argument(required=False)
@click.option("--machine", help="List only runs of this machine.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="The maximum number of runs.",
)
def ls_command(run: str | None, machine: str | None, limit: int) -> int:
    """List runs, newest first; with RUN, the runs that it has begun, in the order of their list.

    The process of an `interrupted` run is gone; `loopkit resume` continues the run.
    """
    faults: list[RunUnreadable] = []

    async def read(stored: StoredRuns) -> list[Cells]:
        views = RunViews(stored, RunView)
        if run is not None:
            return await _children(views, run, limit, faults)
        listed = await stored.journal.runs(machine, limit)
        return [HEADINGS, *[await _row(views, row, faults) for row in listed]]

    rows = with_runs(read)
    if not rows[1:]:
        of_machine = f"no runs of `{machine}`" if machine else "no runs yet"
        terminal.say(f"`{run}` has begun no other runs" if run else of_machine)
        return terminal.OK
    for line in columns(rows, "<" * len(rows[0])):
        terminal.echo(in_colour(line, sys.stdout))
    terminal.say_some([f"error: {fault}" for fault in faults])
    return terminal.ERROR if faults else terminal.OK


async def _row(views: RunViews[RunView], row: RunRow, faults: list[RunUnreadable]) -> Cells:
    look = await views.look(row)
    summary = look.summary
    standing = one_line(look.standing, CAUSE_WIDTH)
    if look.fault is not None:
        faults.append(look.fault)
        return row.run, summary.status, standing, "", ""
    ago = age(time.time() - row.updated_at)
    return row.run, summary.status, standing, ago, cost(summary.usage)


async def _children(
    views: RunViews[RunView], run: str, limit: int, faults: list[RunUnreadable]
) -> list[Cells]:
    table: list[Cells] = [("item", *HEADINGS)]
    listed = [row for _, rows in rows_of(await views.stored.state_of(run)) for row in rows]
    for child in listed[:limit]:
        found = await views.stored.journal.runs(run=child.run) if child.run else []
        # One of which nothing is stored waits for its turn, or was never begun.
        cells: Cells = (child.run, child.outcome or "new", "", "", "")
        if found:
            cells = await _row(views, found[0], faults)
        table.append((child.place, *cells))
    return table
