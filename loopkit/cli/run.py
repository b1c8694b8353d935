"""`loopkit run`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.app import App, Script, refuse_misnamed
from loopkit.cli import exits
from loopkit.cli.driving import drive, output_option
from loopkit.cli.inputs import input_options, read_inputs
from loopkit.cli.machine import checked
from loopkit.runner.active import ActiveRun
from loopkit.scenario import load_scenario


@click.command()
@click.argument("machine", type=click.Path(path_type=Path))
@input_options
@click.option("--script", type=click.Path(path_type=Path), help="A scenario that plays the agents.")
@click.option("--max-cost", type=float, metavar="USD", help="Spend no more than this.")
@output_option
def command(
    machine: Path,
    input_file: str | None,
    sets: tuple[str, ...],
    set_json: tuple[str, ...],
    script: Path | None,
    max_cost: float | None,
    output: str,
) -> int:
    """Run MACHINE until it ends, waits for a person, or is suspended."""
    with exits.told():
        loaded = checked(machine)
        played = Script(*load_scenario(script)) if script else None
        if played is not None:
            refuse_misnamed(loaded.machine, played.scenario)
        inputs = read_inputs(loaded.machine, input_file, sets, set_json)

    async def start(app: App) -> ActiveRun:
        limits = {} if max_cost is None else {"cost_usd": max_cost}
        return await app.start(loaded, inputs, played, limits)

    return drive(output, start)
