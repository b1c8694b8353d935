"""`--record FILE` and `loopkit runs record`: a run as a case that replays it offline."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli import terminal
from loopkit.cli.inputs import PATH
from loopkit.cli.stored_runs import run_argument, with_app, with_runs
from loopkit.cli.terminal import FAILURE, OK, Stop, examples, misuse, with_options
from loopkit.drive.stored_runs import StoredRuns
from loopkit.machine.program import Program
from loopkit.testing.playing import FamilyRun, family_of
from loopkit.testing.recording import NotRecordable, record, target

record_options = with_options(
    click.option(
        "--record", "record_file", type=PATH, metavar="FILE",
        help="Write a scenario that replays the run offline.",
    ),
    click.option("--as", "as_case", metavar="NAME", help="The name of the recorded case."),
)  # fmt: skip


@dataclass
class Recorder:
    file: Path | None
    machine: Path
    as_case: str | None
    run: str = ""

    def write(self) -> None:
        """Record the run as far as it has come, and say so."""
        if self.file is None or not self.run:
            return
        try:
            record_run(self.run, self.file, self.machine, self.as_case)
        except Stop as stop:
            # The run itself is not affected.
            terminal.say(f"not recorded: {str(stop).removeprefix('error: ')}")


def recorder(file: Path | None, machine: Path, as_case: str | None) -> Recorder:
    """The recorder of `--record`; raises NotRecordable if the file can't take the case."""
    if file is None and as_case is not None:
        raise misuse(f"`--as {as_case}` names a recording: add `--record FILE`")
    if file is not None:
        target(file, machine, as_case)
    return Recorder(file, machine, as_case)


@click.command(
    name="record",
    epilog=examples("loopkit runs record plan-1f09ab plan.scenario.yaml --as approved"),
)
@run_argument()
@click.argument("file", type=PATH)
@click.option("--as", "as_case", metavar="NAME", help="The name of the case.")
@click.option("--machine", type=PATH, help="The machine file, if it has moved.")
def record_command(run: str, file: Path, as_case: str | None, machine: Path | None) -> int:
    """Record RUN in FILE as a test case that replays it offline."""
    path = machine or _machine_of(run)
    return record_run(run, file, path, as_case)


def record_run(run: str, file: Path, machine: Path, as_case: str | None) -> int:
    """Write the case of a run, and say whether it passes; the exit code. Raises Stop."""

    async def load(app: App) -> tuple[Program, FamilyRun]:
        family = await family_of(app, run)
        definition = await app.machine_of(family.state)
        return app.engine(definition, family.state.definition).program, family

    with terminal.report_errors():
        made = record(target(file, machine, as_case), *with_app(load, readonly=True))
    came = f"it does not pass: {made.failure}" if made.failure else "it passes"
    terminal.say(f"recorded as case `{made.case}` of {made.path}; {came}")
    return FAILURE if made.failure else OK


def _machine_of(run: str) -> Path:

    async def load(stored: StoredRuns) -> tuple[Path, Path | None]:
        state = await stored.state_of(run)
        return await stored.machine_name_of(state), await stored.machine_file_of(state)

    named, path = with_runs(load)
    if path is not None:
        return path
    raise NotRecordable(f"the machine file `{named}` is gone; name it: `--machine PATH`")
