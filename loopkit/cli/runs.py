"""`loopkit runs`, with its commands `diff`, `logs` and `ls`."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator

import click

from loopkit.cli import LazyGroup, terminal
from loopkit.cli.stored_runs import (
    complete_id,
    full_ids,
    has_driver,
    past_moment,
    run_argument,
    with_runs,
)
from loopkit.cli.terminal import columns_of, examples, in_colour, misuse
from loopkit.document.problems import did_you_mean
from loopkit.drive.stored_runs import ReadState, StoredRuns
from loopkit.journal.errors import RunUnreadable
from loopkit.outside.redaction import redactor
from loopkit.text import columns, one_line, printable, shorten
from loopkit.text.run_ids import resume_line
from loopkit.views.amounts import age, cost, day_and_hour
from loopkit.views.console import event_line, lines
from loopkit.views.run_data import rows_of
from loopkit.views.run_text import diff_lines, difference
from loopkit.views.run_view import STATUSES, Look, RunView, RunViews, Wanted
from loopkit.views.steps import KeptVersion, Steps

COMMANDS = {
    "call": ("loopkit.cli.show", "Print a call of RUN, with its prompt and its reply."),
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
    epilog=examples(
        "loopkit runs diff plan-1f09ab plan", "loopkit runs diff plan-1f09ab --with plan-77c0de"
    )
)
@run_argument()
@click.argument("artifact", required=False)
@click.option("--from", "first", type=int, metavar="N", help="The version to begin with.")
@click.option("--to", "last", type=int, metavar="N", help="The version to compare it with.")
@click.option(
    "--with", "other", callback=full_ids, metavar="RUN", shell_complete=complete_id,
    help="Another run, whose version is compared with that of RUN.",
)  # fmt: skip
def diff_command(
    run: str, artifact: str | None, first: int | None, last: int | None, other: str | None
) -> int:
    """Compare two versions of ARTIFACT in RUN, or one of it with one of another run.

    What was found in only one of them is named as well. By default the last version is compared
    with the one before it, or with the last one of the other run, of the artifact that was judged
    last. Of folders all files are compared.
    """

    async def read(stored: StoredRuns) -> list[str]:
        views = RunViews(stored, RunView)
        read = await views.read(run)
        report, found = read.state.last_report, read.steps.versions
        name = artifact or (report.artifact if report else next(reversed(found), ""))
        if other is None:
            after = _version(run, found, name, last)
            if after.number == 1 and first is None:
                raise misuse(f"there is no version before {name} 1")
            before = _version(run, found, name, after.number - 1 if first is None else first)
        else:
            before = _version(run, found, name, first)
            after = _version(other, (await views.read(other)).steps.versions, name, last)
        machine = await stored.machine_of(read.state)
        redact = redactor(os.environ, machine.key_names)
        changed = difference(stored.journal.contents, before.artifact, after.artifact)
        shown = None if changed is None else printable(redact(changed)).splitlines()
        return list(diff_lines(before, after, shown, (run, other) if other else ("", "")))

    for line in with_runs(read):
        terminal.echo(line)
    return terminal.OK


def _version(
    run: str, found: dict[str, list[KeptVersion]], name: str, number: int | None
) -> KeptVersion:
    """A version of an artifact, by default the last."""
    if name not in found:
        known = did_you_mean(name, found) or f"`{run}` has written none"
        raise misuse(f"there is no artifact `{name}`; {known}")
    versions = found[name]
    if number is None:
        return versions[-1]
    if not 1 <= number <= len(versions):
        raise misuse(f"{name} has no version {number}; there are 1 to {len(versions)}")
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
        steps, day = Steps(is_kept=False), ""
        read = ReadState(run, is_counted=False)
        while True:
            # Checked before reading, so that all that a process wrote before its end is read.
            is_driven = await has_driver(stored, run)
            new = await stored.events(run, after)
            for one in new:
                after = one.seq
                if one.seq > behind and jsonl:
                    terminal.echo(event_line(run, one))
                elif one.seq > behind:
                    for line in lines(steps, one):
                        day = _echo_at(one.at, line.text, day)
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


def _echo_at(at: float, text: str, day: str) -> str:
    """Print a line with its time, after its day if that is not `day`; the day."""
    then = time.localtime(at)
    if (now := time.strftime("%Y-%m-%d %Z", then)) != day:
        terminal.echo(now)
    terminal.echo(f"{time.strftime('%H:%M:%S', then)}  {text}")
    return now


CAUSE_WIDTH = 60
Cells = tuple[str, ...]
HEADINGS = ("run", "status", "state", "began", "age", "cost", "asks")
LEAST_ASKS = 20
"""Columns; a question is cut to what a terminal has left, but not to less."""


@click.command(epilog=examples("loopkit runs ls --machine plan", "loopkit runs ls plan-1f09ab"))
@run_argument(required=False)
@click.option("--machine", help="List only runs of this machine.")
@click.option(
    "--status",
    type=click.Choice(STATUSES),
    metavar="STATUS",
    help="List only runs of this status; `succeeded` and `failed` are some, too.",
)
@click.option("--outcome", metavar="STATE", help="List only runs that have ended in this state.")
@click.option(
    "--since",
    callback=past_moment,
    metavar="DATE|AGE",
    help="List only runs that began after a date, or at most so long ago.",
)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="The maximum number of runs.",
)
def ls_command(
    run: str | None,
    machine: str | None,
    status: str | None,
    outcome: str | None,
    since: float | None,
    limit: int,
) -> int:
    """List runs, newest first; with RUN, the runs that it has begun, in the order of their list.

    The process of an `interrupted` run is gone; `loopkit resume` continues the run.
    """
    if run is not None and (machine or status or outcome or since):
        raise click.UsageError("with RUN all that it has begun is listed: leave out what selects")
    faults: list[RunUnreadable] = []

    async def read(stored: StoredRuns) -> list[Cells]:
        views = RunViews(stored, RunView)
        if run is not None:
            return await _children(views, run, limit, faults)
        wanted = Wanted(machine, status, outcome, since=since)
        listed, before = await views.looks(wanted, None, limit)
        while before is not None and len(listed) < limit:
            more, before = await views.looks(wanted, before, limit - len(listed))
            listed += more
        return [HEADINGS, *[_cells(look, faults) for look in listed]]

    rows = with_runs(read)
    if not rows[1:]:
        none = f"no runs of `{machine}`" if machine else "no runs yet"
        none = "no such runs" if status or outcome or since else none
        terminal.say(f"`{run}` has begun no other runs" if run else none)
        return terminal.OK
    for line in _table(rows):
        terminal.echo(in_colour(line, sys.stdout))
    terminal.say_some([f"error: {fault}" for fault in faults])
    return terminal.ERROR if faults else terminal.OK


def _cells(look: Look, faults: list[RunUnreadable]) -> Cells:
    row, summary = look.row, look.summary
    standing = one_line(look.standing, CAUSE_WIDTH)
    if look.fault is not None:
        faults.append(look.fault)
        return row.run, summary.status, standing, "", "", "", ""
    asked = [f"{one.place}: " * bool(one.place) + one.question.text for one in look.asked]
    more = f" (and {len(asked) - 1:,} more)" if asked[1:] else ""
    question = f"{one_line(asked[0], CAUSE_WIDTH)}{more}" if asked else ""
    times = day_and_hour(row.created_at), age(time.time() - row.updated_at)
    return row.run, summary.status, standing, *times, cost(summary.usage), question


def _table(rows: list[Cells]) -> Iterator[str]:
    """The rows, without the last column if it is empty; what is asked is cut to fit a terminal."""
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    lines = list(columns(rows, "<" * len(rows[0])))
    width = columns_of(sys.stdout) if rows[0][-1] == HEADINGS[-1] else None
    least = lines[0].index(HEADINGS[-1]) + LEAST_ASKS if width is not None else 0
    yield from lines if width is None else (shorten(line, max(width, least)) for line in lines)


async def _children(
    views: RunViews[RunView], run: str, limit: int, faults: list[RunUnreadable]
) -> list[Cells]:
    table: list[Cells] = [("item", *HEADINGS)]
    listed = [row for _, rows in rows_of(await views.stored.state_of(run)) for row in rows]
    for child in listed[:limit]:
        found = await views.stored.journal.runs(run=child.run) if child.run else []
        # One of which nothing is stored waits for its turn, or was never begun.
        cells: Cells = (child.run, child.outcome or "new", *[""] * (len(HEADINGS) - 2))
        if found:
            cells = _cells(await views.look(found[0]), faults)
        table.append((child.place, *cells))
    return table
