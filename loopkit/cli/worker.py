"""`loopkit worker`, `submit` and `advance`: runs that any process of many may drive."""

from __future__ import annotations

import asyncio
import logging
import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from loopkit.agents.players import AgentChanges
from loopkit.app import App, Script
from loopkit.cli.batch import Batch, BatchOptions, Line, RefusedLine, warn_of_secrets
from loopkit.cli.driving import Driving, Interruption, drive, driving_options
from loopkit.cli.inputs import PATH, Given, input_options, journal_place, read_inputs
from loopkit.cli.machine import in_own_folder, load_changed, max_cost_option, model_options
from loopkit.cli.run import Scripted, load_fitting, script_options
from loopkit.cli.stored_runs import machine_or_run, run_argument, with_app
from loopkit.cli.terminal import (
    DUE_AGAIN,
    ERROR,
    FAILURE,
    OK,
    Stop,
    echo,
    examples,
    gather,
    misuse,
    say,
)
from loopkit.cli.watching import Watcher
from loopkit.drive.active import ActiveRun
from loopkit.drive.repair import refuse_child, refuse_over
from loopkit.journal.errors import RunBusy
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded
from loopkit.observability.logs import LOGGER, JsonLines
from loopkit.text import plural
from loopkit.text.moments import seconds_in

if TYPE_CHECKING:
    from loopkit.serving.host import Worker

PARALLEL = 4
AT_ONCE = 50
"""Runs of a batch that are stored at the same time."""


def _seconds(_: click.Context, __: click.Parameter, written: str) -> float:
    if not (seconds := seconds_in(written)):
        raise click.BadParameter(f"`{written}` is not a time such as `90s` or `10m`")
    return seconds


def _labels(_: click.Context, __: click.Parameter, written: tuple[str, ...]) -> tuple[str, ...]:
    labels = [label.strip() for text in written for label in text.split(",")]
    if not all(labels):
        raise click.BadParameter("a label is empty")
    return tuple(labels)


def _address(_: click.Context, __: click.Parameter, written: str | None) -> tuple[str, int] | None:
    if written is None:
        return None
    host, _colon, port = written.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"`{written}` is no address such as `127.0.0.1:9100`")
    return host.strip("[]") or "127.0.0.1", int(port)


slice_option = click.option(
    "--slice", "slice_s", default="10m", show_default=True, callback=_seconds, metavar="TIME",
    help="After this time a run stops behind its step and is due again.",
)  # fmt: skip


@click.command(
    epilog=examples("loopkit worker --parallel 8 --labels gpu", "loopkit worker --check")
)
@click.option(
    "--parallel", type=click.IntRange(1, 1000), default=PARALLEL, show_default=True, metavar="N",
    help="How many runs to drive at the same time.",
)  # fmt: skip
@click.option(
    "--labels", multiple=True, callback=_labels, metavar="LABEL,…",
    help="What runs may need of this worker, besides its host.",
)  # fmt: skip
@slice_option
@click.option(
    "--drain", "drain_s", default="25s", show_default=True, callback=_seconds, metavar="TIME",
    help="How long steps in hand may go on after SIGTERM.",
)  # fmt: skip
@click.option(
    "--listen", callback=_address, metavar="HOST:PORT",
    help="Answer /metrics and /healthz there, to everybody who reaches it; PORT alone is local.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Only say what it would take, and what is in its way.")
def worker_command(
    parallel: int,
    labels: tuple[str, ...],
    slice_s: float,
    drain_s: float,
    listen: tuple[str, int] | None,
    check: bool,
) -> int:
    """Drive submitted runs that are due, until SIGTERM.

    What happens is logged to stderr, a line of JSON for each record.
    """
    from loopkit.serving.host import Worker
    from loopkit.serving.metrics import Metrics, serve_metrics

    def made(app: App) -> Worker:
        return Worker(app, parallel=parallel, labels=labels, slice_s=slice_s, drain_s=drain_s)

    if check:
        return with_app(lambda app: _check(made(app)), makes_journal=True)

    async def work(interruption: Interruption) -> None:
        metrics = Metrics(open_journal(journal_place()))
        listeners = (metrics.hear,)
        app = App.open(journal_place(), metrics.journal, listeners_of=lambda _: listeners)
        worker = made(app)
        if listen is not None:
            try:
                await serve_metrics(*listen, metrics)
            except OSError as error:
                await app.close()
                told = f"error: cannot listen at {listen[0]}:{listen[1]}: {error.strerror or error}"
                raise Stop(ERROR, f"{told}; choose another with `--listen`") from error
        interruption.watch(worker, "", watcher=_Silent())
        await worker.work()

    _log_lines()
    with Interruption() as interruption:
        asyncio.run(work(interruption))
    return OK


class _Silent(Watcher):
    erased = ""

    def say_in_signal(self, text: str) -> None:
        """The log says it."""


def _log_lines() -> None:
    """Log to stderr what happens in runs, and warnings of whatever else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger().addHandler(handler)
    if LOGGER.getEffectiveLevel() > logging.INFO:
        LOGGER.setLevel(logging.INFO)


async def _check(worker: Worker) -> int:
    refusals = await worker.refusals()
    refused = {run: refusal for run, refusal in refusals.items() if refusal}
    echo(f"it takes runs that need no more than: {', '.join(worker.labels)}")
    echo(f"{plural(len(refusals), 'run')} due for it now, {len(refused)} that it cannot play")
    for run, refusal in refused.items():
        echo(f"{run}: {refusal}")
    return FAILURE if refused else OK


@click.command(
    epilog=examples(
        "loopkit submit plan.yaml --set issue=@issue.md",
        "loopkit submit plan.yaml --batch issues.jsonl --needs gpu",
        "loopkit submit plan-1f09ab",
    )
)
@click.argument("target", metavar="MACHINE|RUN")
@input_options
@script_options("agents, commands and people")
@model_options
@max_cost_option("The cost limit of this run, or of all runs of a batch.")
@gather(
    "batches",
    BatchOptions,
    click.option(
        "--batch", type=PATH, metavar="FILE",
        help="Submit a run for each line, as `run --batch` does.",
    ),
    click.option("--key", default="", metavar="PATH", help="With --batch: as with `run`."),
    click.option(
        "-o", "results", type=PATH, metavar="FILE",
        help="With --batch: the file that `run --batch` will write.",
    ),
)  # fmt: skip
@click.option(
    "--needs", multiple=True, callback=_labels, metavar="LABEL,…",
    help="Labels that a worker has to have.",
)  # fmt: skip
def submit_command(
    target: str,
    given: Given,
    scripted: Scripted,
    changes: AgentChanges | None,
    max_cost: float | None,
    batches: BatchOptions,
    needs: tuple[str, ...],
) -> int:
    """Leave a new run of MACHINE, or RUN, to workers; the ids are printed.

    Nothing is driven here. A worker takes the run within a second, and again whenever it was
    answered, when its time has come, or when the worker that drove it is gone.
    """
    machine = machine_or_run(target)
    if isinstance(machine, str):
        run = machine
        options = (given != Given(), scripted != Scripted(), changes, batches.batch)
        if any(options) or max_cost is not None:
            raise misuse("a run that exists has its inputs: only add `--needs`")
        return with_app(lambda app: _hand_over(app, run, needs))
    batches.refuse_alone()
    loaded = in_own_folder(load_changed(machine, changes, max_cost), machine)
    played = load_fitting(scripted, loaded.machine, machine)
    if (lines := batches.of(loaded.machine, given)) is not None:
        warn_of_secrets(loaded.machine, lines.shared)
        return with_app(
            lambda app: _submit_lines(app, loaded, lines, played, needs, max_cost),
            makes_journal=True,
        )
    inputs = read_inputs(loaded.machine, given)
    warn_of_secrets(loaded.machine, inputs)
    limits = {} if max_cost is None else {"cost_usd": max_cost}

    async def submit(app: App) -> int:
        active = await app.start(loaded, inputs, played, limits, needs=needs)
        echo(await app.submit(active))
        return OK

    return with_app(submit, makes_journal=True)


async def _hand_over(app: App, run: str, needs: tuple[str, ...]) -> int:
    refuse_child(run, "submit")
    refuse_over(await app.state_of(run))
    await app.journal.submit(run, needs)
    echo(run)
    return OK


async def _submit_lines(
    app: App,
    loaded: Loaded,
    batch: Batch,
    script: Script | None,
    needs: tuple[str, ...],
    max_cost: float | None,
) -> int:
    """Submit the lines that have no run yet; 1 if some are no inputs."""
    refused = 0
    if max_cost is not None:
        if app.journal.limits is None:
            raise misuse(
                "only a database holds workers to one `--max-cost`: name it by "
                "`--journal`, or write `limits:` into the machine"
            )  # fmt: skip
        await app.journal.limits.open_account(batch.name, max_cost, 0.0)

    async def submit(line: Line) -> str:
        if not await app.journal.has(line.run):
            active = await app.start(loaded, line.input, script, run=line.run, needs=needs)
            await app.submit(active)
        return line.run

    lines = batch.lines()
    while part := list(islice(lines, AT_ONCE)):
        for wrong in (line for line in part if isinstance(line, RefusedLine)):
            say(f"line {wrong.number}: {wrong}")
            refused += 1
        good = [line for line in part if isinstance(line, Line)]
        for run in await asyncio.gather(*map(submit, good)):
            echo(run)
    return FAILURE if refused else OK


@click.command(epilog=examples("loopkit advance plan-1f09ab --slice 5m"))
@run_argument()
@slice_option
@driving_options
def advance_command(run: str, slice_s: float, driving: Driving) -> int:
    """Drive RUN for a slice of time, for an engine that calls this again and again.

    It ends as `resume` does, or with 75: another process drives the run, or its slice is over.
    Nobody is asked at the terminal.
    """

    async def start(app: App) -> ActiveRun:
        try:
            return await app.resume(run)
        except RunBusy as busy:
            raise Stop(DUE_AGAIN, str(busy)) from busy

    return drive(start, driving, slice_s)
