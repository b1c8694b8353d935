"""`loopkit resume`."""

from __future__ import annotations

from pathlib import Path

import click

from loopkit.app import App
from loopkit.cli import exit_codes
from loopkit.cli.driving import drive, driving_options
from loopkit.cli.examples import examples
from loopkit.cli.limits import parse_limits
from loopkit.cli.machine import load_checked
from loopkit.cli.mending import amounts, by_agent, model_options, options_by_agent, usd
from loopkit.cli.stored_runs import run_argument
from loopkit.drive.active import ActiveRun
from loopkit.drive.machine_files import note_of_change
from loopkit.drive.repair import Mend
from loopkit.text.command_lines import resume_line


@click.command(
    epilog=examples(
        "loopkit resume plan-1f09ab", "loopkit resume plan-1f09ab --max-cost 5 --machine plan.yaml"
    )
)
@run_argument()
@click.option(
    "--machine",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Continue with the current contents of this machine file.",
)
@model_options
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="AGENT.KEY=VALUE",
    help="Set one of an agent's `params`; null removes it.",
)
@click.option(
    "--max-cost",
    type=float,
    callback=usd,
    metavar="USD",
    help="The new cost limit of the whole run.",
)
@click.option(
    "--set", "sets", multiple=True, metavar="limits.K=V", help="Set a limit of the whole run."
)
@driving_options
def command(
    run: str,
    machine: Path | None,
    models: tuple[str, ...],
    prices: tuple[str, ...],
    params: tuple[str, ...],
    max_cost: float | None,
    sets: tuple[str, ...],
    output: str,
    notify: tuple[str, ...],
) -> int:
    """Continue RUN from exactly the state in which it stopped.

    Completed calls are not made again. An id can be shortened.
    """
    limits = parse_limits(sets) | ({} if max_cost is None else {"cost_usd": max_cost})
    with exit_codes.report_errors():
        mend = Mend(
            None if machine is None else load_checked(machine),
            by_agent("--model", models),
            amounts(prices),
            options_by_agent(params),
        )

    async def start(app: App) -> ActiveRun:
        if machine is None and (changed := await app.machine_file_if_changed(run)) is not None:
            exit_codes.say(
                f"note: {note_of_change(changed)}; to continue with the file: "
                f"{resume_line(run, '--machine', str(changed))}"
            )
        return await app.resume(run, limits, mend)

    return drive(output, start, notify)
