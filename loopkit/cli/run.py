"""`loopkit run`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.agents.refusals import refuse_misnamed
from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.batch.command import (
    PARALLEL,
    batch_options,
    refuse_with_batch,
    refuse_without_batch,
    run_batch,
)
from loopkit.cli.batch.lines import Batch
from loopkit.cli.driving import drive, driving_options
from loopkit.cli.examples import examples
from loopkit.cli.inputs import input_options, inputs_from_options, read_inputs
from loopkit.cli.machine import load_changed
from loopkit.cli.mending import model_options, usd
from loopkit.cli.record import record_options, recorder
from loopkit.cli.scripts import load_script, script_options
from loopkit.cli.secrets import warn_of_secrets
from loopkit.drive.active import ActiveRun
from loopkit.language.datatypes import parse_record


@click.command(
    epilog=examples(
        "loopkit run plan.yaml --set issue=@issue.md --max-cost 2",
        "loopkit run plan.yaml --batch issues.jsonl --parallel 20 -o plans.jsonl",
    )
)
@click.argument("machine", type=click.Path(path_type=Path))
@input_options
@script_options("agents, commands and people")
@model_options
@click.option(
    "--max-cost",
    type=float,
    callback=usd,
    metavar="USD",
    help="The cost limit of this run, or of all runs of a batch.",
)
@batch_options
@record_options
@driving_options
def command(
    machine: Path,
    input_file: str | None,
    sets: tuple[str, ...],
    set_json: tuple[str, ...],
    script: Path | None,
    case: str | None,
    models: tuple[str, ...],
    prices: tuple[str, ...],
    max_cost: float | None,
    batch: Path | None,
    parallel: int | None,
    key: str,
    results: Path | None,
    record_file: Path | None,
    as_case: str | None,
    output: str,
    notify: tuple[str, ...],
) -> int:
    """Run MACHINE until it ends, waits for a person, or is suspended.

    The result is printed to stdout, progress and questions to stderr. With --batch, MACHINE is run
    for each line of a file; the same command again goes on with what is left of it.
    """
    if batch is None:
        refuse_without_batch(parallel, key, results)
    with exit_codes.report_errors():
        loaded = load_changed(machine, models, prices, max_cost)
        played = load_script(script, case)
        if played is not None:
            refuse_misnamed(loaded.machine, played.scenario)
        if batch is not None:
            shared = inputs_from_options(
                parse_record(loaded.machine.input), input_file, sets, set_json
            )
            lines = Batch(loaded.machine, batch, results, shared, key)
            refuse_with_batch(record_file, output)
            return run_batch(loaded, lines, parallel or PARALLEL, max_cost, played, output, notify)
        inputs = read_inputs(loaded.machine, input_file, sets, set_json)
        recording = recorder(record_file, machine, as_case)
        warn_of_secrets(loaded.machine, inputs)

    async def start(app: App) -> ActiveRun:
        limits = {} if max_cost is None else {"cost_usd": max_cost}
        active = await app.start(loaded, inputs, played, limits)
        recording.run = active.state.run
        return active

    code = drive(output, start, notify)
    recording.write()
    return code
