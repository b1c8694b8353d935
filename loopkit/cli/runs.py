"""`loopkit runs ls|show|logs|record|rm`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.diff import diff
from loopkit.cli.examples import examples
from loopkit.cli.record import command as record
from loopkit.cli.stored_runs import has_driver, run_argument, with_app
from loopkit.cli.wrapping import echo_wrapped, in_colour
from loopkit.drive.archive import ReadState
from loopkit.drive.stored_runs import open_children
from loopkit.engine.events import Intended
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState
from loopkit.journal import JournalError, RunDamaged, RunRow, RunUnreadable
from loopkit.text import columns, one_line
from loopkit.text.command_lines import resume_line
from loopkit.text.run_ids import is_child, root_of
from loopkit.views.amounts import age, cost
from loopkit.views.children_table import Row, child_lines, rows_of, rows_to_show
from loopkit.views.console import lines
from loopkit.views.event_lines import event_line
from loopkit.views.hints import hints_for, waiting_hints
from loopkit.views.progress import Progress
from loopkit.views.prompt_sizes import prompt_lines
from loopkit.views.review import option_lines, review
from loopkit.views.summary import standing_of, status_of, summary

FOLLOW_SECONDS = 0.5
CAUSE_WIDTH = 60
HEADINGS = ("run", "status", "state", "age", "cost")


@click.group(epilog=examples("loopkit runs ls", "loopkit runs show plan-1f09ab"))
def command() -> None:
    """List, show, compare, record and remove runs."""


command.add_command(record)
command.add_command(diff)


@command.command(
    short_help="List runs, newest first.",
    epilog=examples("loopkit runs ls --machine plan", "loopkit runs ls plan-1f09ab"),
)
@run_argument(required=False)
@click.option("--machine", help="List only runs of this machine.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="The maximum number of runs.",
)
def ls(run: str | None, machine: str | None, limit: int) -> int:
    """List runs, newest first; with RUN, the runs that it has begun, in the order of their list.

    The process of an `interrupted` run is gone; `loopkit resume` continues the run.
    """
    faults: list[RunUnreadable] = []

    async def read(app: App) -> list[tuple[str, ...]]:
        if run is not None:
            return await _children(app, run, limit, faults)
        listed = await app.journal.runs(machine, limit)
        return [HEADINGS, *[await _row(app, row, faults) for row in listed]]

    rows = with_app(read)
    if not rows[1:]:
        of_machine = f"no runs of `{machine}`" if machine else "no runs yet"
        exit_codes.say(f"`{run}` has begun no other runs" if run else of_machine)
        return exit_codes.OK
    for line in columns(rows, "<" * len(rows[0])):
        click.echo(in_colour(line, sys.stdout))
    for fault in faults:
        exit_codes.say(f"error: {fault}")
    return exit_codes.ERROR if faults else exit_codes.OK


@command.command(epilog=examples("loopkit runs show plan-1f09ab"))
@run_argument()
def show(run: str) -> int:
    """Show the status of RUN, the reason, and what to do next."""

    async def read(app: App) -> list[str]:
        state, rows = await app.state_of(run), await app.journal.runs(run=run)
        engine = app.engine(await app.machine_of(state), state.definition)
        is_driven = any(row.is_driven for row in rows)
        hints = await hints_for(app, state)
        usage = await app.usage_of(state)
        items = engine.program.report_items
        told = summary(state, hints, usage, is_driven=is_driven, items=items)
        sent = prompt_lines(stored.event for stored in await app.events(run))
        return [
            *told,
            *sent,
            *_question_lines(engine, state),
            *await _family(app, state, is_driven),
        ]

    echo_wrapped(with_app(read))
    return exit_codes.OK


def _question_lines(engine: Engine, state: RunState) -> Iterator[str]:
    """The open question, or the request for an artifact, and the lines that answer it."""
    if state.question is not None and state.status == "waiting":
        yield f"\n{review(engine, state)}"
        has_origins = bool(engine.program.graph.origins) and state.question.wanted is None
        yield from option_lines(state.question, has_origins=has_origins)
        yield ""
        yield from waiting_hints(state.run, state.question)


@command.command(
    short_help="Remove runs from the journal.",
    epilog=examples("loopkit runs rm plan-1f09ab plan-77c0de"),
)
@run_argument(nargs=-1, required=True)
def rm(run: tuple[str, ...]) -> int:
    """Remove runs, with those that they have begun, and their events from the journal.

    Files that a run made are kept. Cancel a run that is still being driven first.
    """

    async def remove(app: App) -> None:
        one_each = {one: await _open_calls_note(app, one) for one in run}
        await app.remove(*one_each)
        for one, left_open in one_each.items():
            exit_codes.say(f"run {one} is removed{left_open}")

    with_app(remove)
    return exit_codes.OK


async def _open_calls_note(app: App, run: str) -> str:
    """A note on the run's open calls, whose results are lost once the run is removed."""
    calls = [call async for call in _open_calls(app, run)]
    asked = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.asks_agent))
    tools = ", ".join(dict.fromkeys(f"`{call.agent}`" for call in calls if call.role == "tool"))
    note = ""
    if asked:
        note += f"; it had asked {asked} without an answer, and that call may have been paid for"
    if tools:
        note += f"; it had called {tools}, and nobody knows what came of it"
    return note


async def _open_calls(app: App, run: str) -> AsyncIterator[Intended]:
    """The calls of a run and its children that have no answer."""
    try:
        state = await app.state_of(run)
    except JournalError:
        return
    for call in (*state.open_calls.values(), *state.doubts.values()):
        yield call
    for child in open_children(state):
        async for call in _open_calls(app, child.started.child):
            yield call


@command.command(epilog=examples("loopkit runs logs plan-1f09ab --follow"))
@run_argument()
@click.option(
    "-f", "--follow", is_flag=True, help="Print new events as they occur, until the run stops."
)
@click.option("--jsonl", is_flag=True, help="Print each event as a line of JSON.")
@click.option(
    "--after", "behind", default=0, metavar="SEQ", help="Print only events after this number."
)
def logs(run: str, follow: bool, jsonl: bool, behind: int) -> int:
    """Print the events of RUN."""

    async def print_events(app: App) -> None:
        after, progress, read = 0, Progress(), ReadState(run, is_counted=False)
        while True:
            # Checked before reading, so that all that a process wrote before its end is read.
            is_driven = await has_driver(app, run)
            new = await app.events(run, after)
            for stored in new:
                after = stored.seq
                if stored.seq > behind:
                    told = [line.text for line in lines(progress, stored)]
                    for line in [event_line(run, stored)] if jsonl else told:
                        click.echo(line)
                progress = progress.after(stored)
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

    with_app(print_events)
    return exit_codes.OK


async def _row(app: App, row: RunRow, faults: list[RunUnreadable]) -> tuple[str, ...]:
    """A run's line in the table; its unreadable parts go to `faults`."""
    ago = age(app.clock.now() - row.updated_at)
    try:
        if row.damage is not None:
            raise row.damage
        state = await app.state_of(row.run)
    except RunUnreadable as fault:
        faults.append(fault)
        status = "damaged" if isinstance(fault, RunDamaged) else "unreadable"
        return row.run, status, one_line(fault.cause, CAUSE_WIDTH), "", ""
    status = status_of(state, is_driven=row.is_driven)
    return row.run, status, standing_of(state), ago, cost(await app.usage_of(state))


async def _children(
    app: App, run: str, limit: int, faults: list[RunUnreadable]
) -> list[tuple[str, ...]]:
    """The table of the runs that a run has begun."""
    table: list[tuple[str, ...]] = [("item", *HEADINGS)]
    listed = [row for _, rows in rows_of(await app.state_of(run)) for row in rows]
    for child in listed[: max(limit, 0)]:
        found = await app.journal.runs(run=child.run) if child.run else []
        cells = await _row(app, found[0], faults) if found else _without_run(child)
        table.append((child.place, *cells))
    return table


def _without_run(child: Row) -> tuple[str, ...]:
    """A child of which nothing is stored: it waits for its turn, or was never begun."""
    return child.run, child.outcome or "new", "", "", ""


async def _family(app: App, state: RunState, is_driven: bool) -> list[str]:
    """The children of a run in lines, and to whom it belongs itself."""
    lines: list[str] = []
    for name, rows in rows_of(state):
        known = {
            row.run: await app.state_of(row.run)
            for row in rows_to_show(rows)
            if row.run and not row.outcome and await app.journal.has(row.run)
        }
        lines += child_lines(state, name, rows, known, is_driven)
    if is_child(state.run):
        lines.append(f"part of: loopkit runs show {root_of(state.run)}")
    return lines
