"""`loopkit runs ls|show|logs|record`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.record import command as record
from loopkit.cli.stored_runs import with_app
from loopkit.cli.watching import event_line
from loopkit.drive.archive import read_record
from loopkit.engine.state import RunState
from loopkit.journal import RunDamaged, RunRow, RunUnreadable
from loopkit.text import columns, indented, one_line, or_empty
from loopkit.views.amounts import spent
from loopkit.views.console import lines
from loopkit.views.progress import Progress
from loopkit.views.review import review

STATUS_TYPES = ("started", "entered", "waiting", "suspended", "resumed", "finished", "cancelled")
FOLLOW_SECONDS = 0.5
CAUSE_WIDTH = 60


@click.group()
def command() -> None:
    """List runs, show one, print its events, record one."""


command.add_command(record)


@command.command()
@click.option("--machine", help="Only runs of this machine.")
@click.option("--limit", default=50, show_default=True, help="How many at most, the newest first.")
def ls(machine: str | None, limit: int) -> int:
    """List runs, the newest first."""

    async def rows(app: App) -> list[RunRow]:
        return await app.journal.runs(STATUS_TYPES, machine, limit)

    found = with_app(rows)
    if not found:
        exit_codes.say(f"no runs of `{machine}`" if machine else "no runs yet")
        return exit_codes.OK
    faults: list[RunUnreadable] = []
    table = [("run", "status", "where", "updated"), *(_row(row, faults) for row in found)]
    for line in columns(table, "<<<<"):
        click.echo(line)
    for fault in faults:
        exit_codes.say(f"error: {fault}")
    return exit_codes.ERROR if faults else exit_codes.OK


@command.command()
@click.argument("run")
def show(run: str) -> int:
    """Show where RUN stands: its route, its last report, and what to do next."""

    async def read(app: App) -> tuple[RunState, str, list[str]]:
        state = await app.state_of(run)
        engine = app.engine(await app.machine_of(state), state.definition)
        asked = review(engine, state) if state.status == "waiting" else ""
        return state, asked, await app.hints_for(state)

    state, asked, hints = with_app(read)
    for line in _shown(state, hints):
        click.echo(line)
    if asked:
        click.echo(f"\n{asked}")
    return exit_codes.OK


@command.command()
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Go on as events come, until the run stops.")
@click.option("--jsonl", is_flag=True, help="Every event as one line of JSON.")
def logs(run: str, follow: bool, jsonl: bool) -> int:
    """Print the events of RUN."""

    async def print_events(app: App) -> None:
        after, state, progress = 0, RunState(), Progress()
        while True:
            for stored in await app.events(run, after):
                after = stored.seq
                told = [line.text for line in lines(progress, stored)]
                for line in [event_line(stored)] if jsonl else told:
                    click.echo(line)
                progress = progress.after(stored)
            state = await app.state_of(run)
            if not follow or state.status not in ("new", "running"):
                return
            await asyncio.sleep(FOLLOW_SECONDS)

    with_app(print_events)
    return exit_codes.OK


def _row(row: RunRow, faults: list[RunUnreadable]) -> tuple[str, str, str, str]:
    """A run's line in the table; what cannot be read of it goes to `faults`."""
    try:
        status, where = _status(row)
    except RunUnreadable as fault:
        faults.append(fault)
        status = "damaged" if isinstance(fault, RunDamaged) else "unreadable"
        return row.run, status, one_line(fault.cause, CAUSE_WIDTH), ""
    return row.run, status, where, _clock_time(row.updated_at)


def _clock_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def _status(row: RunRow) -> tuple[str, str]:
    if row.damage is not None:
        raise row.damage
    if row.last is None:
        raise RunDamaged(row.run, "nothing says how it started")
    event = read_record(row.run, row.last).event
    words = {"started": "new", "entered": "running", "resumed": "running"}
    where = getattr(event, "outcome", "") or getattr(event, "state", "")
    return words.get(event.type, event.type), where


def _shown(state: RunState, hints: Sequence[str]) -> Iterator[str]:
    where = state.finished.outcome if state.finished else state.state
    yield f"{state.run}: {state.status} at {where}" if where else f"{state.run}: {state.status}"
    yield f"spent: {spent(state.usage)}, {state.usage.time_s:.1f} s of work"
    for name, answer in state.answers.items():
        filled = ", ".join(f"{field} {value}" for field, value in answer.form.items())
        edited = "edited" if answer.edit is not None else ""
        told = "; ".join(part for part in (one_line(answer.comment), filled, edited) if part)
        yield f"answer {name}: {answer.choice} (by {answer.by})" + (f": {told}" if told else "")
    for name, value in state.input.items():
        yield f"input {name}: {one_line(or_empty(str(value)), 80)}"
    if state.status != "waiting":
        # The open question shows the route itself.
        yield "route: " + " → ".join(_route(state))
    if state.suspended is not None:
        yield f"suspended ({state.suspended.reason}): {one_line(state.suspended.message, 300)}"
        yield from hints
    if state.finished is not None:
        for name, value in state.finished.result.items():
            label = " (fallback)" if state.finished.picked[name]["fallback"] else ""
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            yield f"result {name}{label}:\n{indented(or_empty(shown), '  ')}"


def _route(state: RunState) -> Iterator[str]:
    """The states in the order in which they were entered."""
    for edge in state.route:
        yield edge.partition("[")[0].partition(".")[0]
    yield state.state
