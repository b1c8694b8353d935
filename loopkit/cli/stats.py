"""`loopkit stats`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import click

from loopkit.cli import terminal
from loopkit.cli.inputs import FILE, write
from loopkit.cli.stored_runs import run_argument, with_runs
from loopkit.cli.terminal import echo_wrapped, examples
from loopkit.drive.stored_runs import StoredRuns, read_stored
from loopkit.journal.errors import RunUnreadable
from loopkit.text import plural
from loopkit.views import stats
from loopkit.views.plot import plot
from loopkit.views.stats import (
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
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print the figures.",
)
@click.option("--defects", is_flag=True, help="Print a row for each defect.")
@click.option(
    "--plot", "drawing", type=FILE, metavar="FILE.svg", help="Also draw yield and cost over time."
)
def stats_command(
    run: tuple[str, ...], machine: str | None, form: str, defects: bool, drawing: Path | None
) -> int:
    """Show the defects of runs, and what it took to correct them.

    With RUN, of these runs and those that they have begun; otherwise of all.
    """
    if drawing is not None and drawing.suffix.lower() != ".svg":
        raise click.UsageError(f"`--plot {drawing}`: the name has to end in .svg")
    printer = PRINTERS[form](of_defects=defects or (bool(run) and form == "table"))
    runs = list[RunStats]()
    faults = list[RunUnreadable]()

    async def read(stored: StoredRuns) -> None:
        async for found in _figures_of(stored, run, machine) if run else _all(stored, machine):
            if isinstance(found, RunUnreadable):
                faults.append(found)
                continue
            runs.append(found)
            printer.add(found)

    with_runs(read)
    printer.end(runs)
    if drawing is not None:
        names = {one.machine for one in runs}
        title = names.pop() if len(names) == 1 else plural(len(names), "machine")
        write(drawing, plot(runs, title).encode())
    terminal.say_errors(faults)
    return terminal.ERROR if faults else terminal.OK


async def _all(stored: StoredRuns, machine: str | None) -> AsyncIterator[Read]:
    before: int | None = None
    while found := await stored.journal.histories(machine, before=before, limit=PAGE):
        for history in found:
            row = history.row
            try:
                if row.damage is not None:
                    raise row.damage
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


class Tables:
    """A table for each machine; behind them one of the defects, where it is asked for."""

    def __init__(self, *, of_defects: bool) -> None:
        self._of_defects = of_defects

    def add(self, run: RunStats) -> None:
        """Print nothing before the end: a column is as wide as its widest cell."""

    def end(self, runs: Sequence[RunStats]) -> None:
        machines = stats_of_machines(runs)
        if not machines:
            terminal.say("no runs")
        for number, machine in enumerate(machines):
            echo_wrapped(["", *machine_text(machine)] if number else machine_text(machine))
        if table := list(defect_table(runs if self._of_defects else ())):
            echo_wrapped(["", *table])


class Json:
    """One JSON object, a run a line."""

    def __init__(self, *, of_defects: bool) -> None:
        self._separator = '{"runs": ['

    def add(self, run: RunStats) -> None:
        print(self._separator, json.dumps(run.plain(), ensure_ascii=False), sep="\n", end="")
        self._separator = ","

    def end(self, runs: Sequence[RunStats]) -> None:
        machines = [machine.plain() for machine in stats_of_machines(runs)]
        begun = '{"runs": [' if not machines else "\n"
        rest = f'], "machines": {json.dumps(machines, ensure_ascii=False)}}}'
        print(begun, rest, sep="", flush=True)


class Csv:
    def __init__(self, *, of_defects: bool) -> None:
        self._of_defects = of_defects
        print(stats.header(of_defects=of_defects), end="")

    def add(self, run: RunStats) -> None:
        print(*stats.rows(run, of_defects=self._of_defects), sep="", end="")

    def end(self, runs: Sequence[RunStats]) -> None:
        print(end="", flush=True)


PRINTERS: dict[str, type[Tables | Json | Csv]] = {"table": Tables, "json": Json, "csv": Csv}
