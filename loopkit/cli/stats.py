"""`loopkit stats`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence

import click

from loopkit.cli import terminal
from loopkit.cli.stored_runs import run_argument, with_runs
from loopkit.cli.terminal import echo_wrapped, examples
from loopkit.drive.stored_runs import StoredRuns, read_stored
from loopkit.journal.errors import RunDamaged, RunUnreadable
from loopkit.text import plural
from loopkit.views.stats import (
    MachineStats,
    RunStats,
    children_of,
    defect_table,
    machine_text,
    stats_of,
    stats_of_machines,
)

PAGE = 50
Read = RunStats | RunUnreadable


@click.command(
    epilog=examples("loopkit stats --machine plan", "loopkit stats plan-1f09ab --format json")
)
@run_argument(nargs=-1)
@click.option("--machine", help="Count only runs of this machine.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="How to print the figures.",
)
@click.option("--defects", is_flag=True, help="Print a row for each defect.")
@click.option("--played", is_flag=True, help="Count runs that a scenario played, too.")
def stats_command(
    run: tuple[str, ...], machine: str | None, form: str, defects: bool, played: bool
) -> int:
    """Show the defects of runs, and what it took to correct them.

    With RUN, of these runs and those that they have begun; otherwise of all that no scenario has
    played.
    """
    runs, faults, left_out = list[RunStats](), list[RunUnreadable](), 0

    async def read(stored: StoredRuns) -> None:
        nonlocal left_out
        async for found in _figures_of(stored, run, machine) if run else _all(stored, machine):
            if isinstance(found, RunUnreadable):
                faults.append(found)
            elif found.played and not (played or run):
                left_out += 1
            else:
                runs.append(found)

    with_runs(read)
    machines = stats_of_machines(runs)
    if form == "json":
        _print_json(runs, machines)
    else:
        _print_tables(machines, runs if defects or run else ())
    if left_out:
        are = "is" if left_out == 1 else "are"
        said = f"{plural(left_out, 'run', ',')} that a scenario played {are} left out"
        terminal.say(f"{said}; count them with `--played`")
    terminal.say_some([f"error: {fault}" for fault in faults])
    return terminal.ERROR if faults else terminal.OK


async def _all(stored: StoredRuns, machine: str | None) -> AsyncIterator[Read]:
    before: int | None = None
    while found := await stored.journal.histories(machine, before=before, limit=PAGE):
        for history in found:
            row = history.row
            try:
                if not len(history.records) == row.seq > 0:
                    told = f"it has {len(history.records)} of {row.seq} records"
                    raise RunDamaged(row.run, told)
                events = [read_stored(row.run, record) for record in history.records]
                read: Read = stats_of(row, events)
            except RunUnreadable as fault:
                read = fault
            yield read
        before = found[-1].place


async def _figures_of(
    stored: StoredRuns, runs: tuple[str, ...], machine: str | None
) -> AsyncIterator[Read]:
    waiting, seen = list(reversed(runs)), set[str]()
    while waiting:
        run = waiting.pop()
        if run in seen:
            continue
        seen.add(run)
        for row in await stored.journal.runs(run=run):
            found: Read
            try:
                history = await stored.events(run)
                waiting += reversed(children_of(history))
                found = stats_of(row, history)
            except RunUnreadable as fault:
                found = fault
            if machine in (None, row.machine):
                yield found


def _print_tables(machines: Sequence[MachineStats], with_defects: Sequence[RunStats]) -> None:
    """A table for each machine; behind them one of the defects of some runs."""
    if not machines:
        terminal.say("no runs")
    for number, machine in enumerate(machines):
        echo_wrapped(["", *machine_text(machine)] if number else machine_text(machine))
    if table := list(defect_table(with_defects)):
        echo_wrapped(["", *table])


def _print_json(runs: Sequence[RunStats], machines: Sequence[MachineStats]) -> None:
    """One JSON object, a run a line."""
    lines = ",\n".join(json.dumps(run.plain(), ensure_ascii=False) for run in runs)
    figures = json.dumps([machine.plain() for machine in machines], ensure_ascii=False)
    print(f'{{"runs": [\n{lines}\n], "machines": {figures}}}')
