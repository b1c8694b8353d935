"""`loopkit runs ls`."""

from __future__ import annotations

import sys
import time

import click

from loopkit.cli import exit_codes
from loopkit.cli.examples import examples
from loopkit.cli.stored_runs import run_argument, with_runs
from loopkit.cli.wrapping import in_colour
from loopkit.drive.stored_runs import StoredRuns
from loopkit.journal.errors import RunDamaged, RunUnreadable
from loopkit.journal.records import RunRow
from loopkit.text import columns, one_line
from loopkit.views.amounts import age, cost
from loopkit.views.children_table import Row, rows_of
from loopkit.views.summary import standing_of, status_of

CAUSE_WIDTH = 60
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
def command(run: str | None, machine: str | None, limit: int) -> int:
    """List runs, newest first; with RUN, the runs that it has begun, in the order of their list.

    The process of an `interrupted` run is gone; `loopkit resume` continues the run.
    """
    faults: list[RunUnreadable] = []

    async def read(stored: StoredRuns) -> list[tuple[str, ...]]:
        if run is not None:
            return await _children(stored, run, limit, faults)
        listed = await stored.journal.runs(machine, limit)
        return [HEADINGS, *[await _row(stored, row, faults) for row in listed]]

    rows = with_runs(read)
    if not rows[1:]:
        of_machine = f"no runs of `{machine}`" if machine else "no runs yet"
        exit_codes.say(f"`{run}` has begun no other runs" if run else of_machine)
        return exit_codes.OK
    for line in columns(rows, "<" * len(rows[0])):
        click.echo(in_colour(line, sys.stdout))
    for fault in faults:
        exit_codes.say(f"error: {fault}")
    return exit_codes.ERROR if faults else exit_codes.OK


async def _row(stored: StoredRuns, row: RunRow, faults: list[RunUnreadable]) -> tuple[str, ...]:
    """A run's line in the table; its unreadable parts go to `faults`."""
    ago = age(time.time() - row.updated_at)
    try:
        if row.damage is not None:
            raise row.damage
        state = await stored.state_of(row.run)
    except RunUnreadable as fault:
        faults.append(fault)
        status = "damaged" if isinstance(fault, RunDamaged) else "unreadable"
        return row.run, status, one_line(fault.cause, CAUSE_WIDTH), "", ""
    status = status_of(state, is_driven=row.is_driven)
    return row.run, status, standing_of(state), ago, cost(await stored.usage_of(state))


async def _children(
    stored: StoredRuns, run: str, limit: int, faults: list[RunUnreadable]
) -> list[tuple[str, ...]]:
    """The table of the runs that a run has begun."""
    table: list[tuple[str, ...]] = [("item", *HEADINGS)]
    listed = [row for _, rows in rows_of(await stored.state_of(run)) for row in rows]
    for child in listed[: max(limit, 0)]:
        found = await stored.journal.runs(run=child.run) if child.run else []
        cells = await _row(stored, found[0], faults) if found else _without_run(child)
        table.append((child.place, *cells))
    return table


def _without_run(child: Row) -> tuple[str, ...]:
    """A child of which nothing is stored: it waits for its turn, or was never begun."""
    return child.run, child.outcome or "new", "", "", ""
