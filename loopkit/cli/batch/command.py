"""`loopkit run --batch`: a machine for every line of a file."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from loopkit.agents.refusals import refuse_unplayable
from loopkit.app import App, Script
from loopkit.cli import exit_codes
from loopkit.cli.batch.driving import BatchDriver, Tally
from loopkit.cli.batch.lines import Batch, key_fault
from loopkit.cli.batch.results import NotWritten, Results, UnfitResults, open_results
from loopkit.cli.batch.shared_files import shared_files
from loopkit.cli.batch.summary import WAITING, last_lines, status
from loopkit.cli.exit_codes import USAGE, Stop
from loopkit.cli.interruption import Interruption
from loopkit.cli.secrets import warn_of_secrets
from loopkit.cli.watching import ERASE, REST, Watcher, is_watched
from loopkit.cli.wrapping import columns_of, fit_to_terminal
from loopkit.drive.account import Account
from loopkit.journal.files import state_folder
from loopkit.language import Machine
from loopkit.language.load import Loaded
from loopkit.text import WIDTH

LIVE_S = 0.5
PLAIN_S = 10.0
PARALLEL = 4
OWN_FOLDER = "give each line a folder of its own with `workspace: {path: 'work/{{ input.NAME }}'}`"


def batch_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--batch`, `--parallel`, `--key` and `-o`."""
    for option in (
        click.option(
            "-o", "results", type=click.Path(path_type=Path), metavar="FILE",
            help="With --batch: the file for results, one JSON object per line. Default: stdout.",
        ),
        click.option(
            "--key", default="", metavar="PATH",
            help="With --batch: the input that identifies a line. Default: its number.",
        ),
        click.option(
            "--parallel", type=click.IntRange(1, 1000), metavar="N",
            help=f"With --batch: how many lines to run at the same time. Default: {PARALLEL}.",
        ),
        click.option(
            "--batch", type=click.Path(path_type=Path), metavar="FILE",
            help="Run MACHINE for each line of this file, a JSON object with inputs.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def refuse_without_batch(parallel: int | None, key: str, results: Path | None) -> None:
    """Raise Stop if an option is given that only a batch has."""
    given = {"--parallel": parallel, "--key": key, "-o": results}
    if stray := next((option for option, value in given.items() if value), None):
        remedy = "add `--batch FILE`"
        if stray == "-o":
            remedy += ", or redirect stdout, where the result goes"
        raise Stop(USAGE, f"error: `{stray}` is only for batches: {remedy}")


def refuse_with_batch(record_file: Path | None, output: str) -> None:
    """Raise Stop if an option is given that a batch does not have."""
    if record_file is not None:
        raise Stop(USAGE, "error: `--record` records one run: run the line without `--batch`")
    if output == "jsonl":
        raise Stop(USAGE, "error: a batch prints results, not events: leave out `--output jsonl`")


class BatchProgress(Watcher):
    """One line with the progress of the batch: redrawn at a terminal, else printed now and then."""

    def __init__(self, driver: BatchDriver, *, is_live: bool) -> None:
        self._driver = driver
        self._is_live = is_live
        self._started = time.monotonic()
        self.erased = ERASE if is_live else ""

    @contextmanager
    def running(self) -> Iterator[None]:
        ticking = asyncio.get_running_loop().create_task(self._tick())
        try:
            yield
        finally:
            ticking.cancel()
            with suppress(OSError):
                self._draw("")

    async def _tick(self) -> None:
        with suppress(OSError):
            while True:
                await asyncio.sleep(LIVE_S if self._is_live else PLAIN_S)
                told = status(self._driver, time.monotonic() - self._started)
                if self._is_live:
                    self._draw(told[: (columns_of(sys.stderr) or WIDTH) - 1])
                else:
                    exit_codes.say(told)

    def _draw(self, line: str) -> None:
        if self._is_live:
            sys.stderr.write(f"\r{line}{REST}\r" if line else ERASE)
            sys.stderr.flush()


def run_batch(
    loaded: Loaded,
    batch: Batch,
    parallel: int,
    max_cost: float | None,
    script: Script | None,
    output: str,
    notifier: tuple[str, ...],
) -> int:
    """Run the unfinished lines of a batch; the exit code."""
    if not batch.inputs.is_file():
        what = (
            "is not a regular file, but has to be read twice"
            if batch.inputs.exists()
            else "is not there"
        )
        raise Stop(USAGE, f"error: `{batch.inputs}` {what}; write the lines into a file")
    if batch.key and (fault := key_fault(loaded.machine, batch.key)):
        raise Stop(USAGE, f"error: `--key {batch.key}`: {fault}")
    limits = {} if max_cost is None else {"cost_usd": max_cost}
    refuse_unplayable(loaded.machine, script.scenario if script else None, {}, limits)
    warn_of_secrets(loaded.machine, batch.shared)
    if parallel > 1:
        _refuse_shared_files(loaded.machine)
    account = Account(limits, "the batch")

    async def drive(results: Results, interruption: Interruption) -> int:
        async with App.open(state_folder(), notify=notifier) as app:
            driver = BatchDriver(app, loaded, batch, results, account, script)
            await _drive(driver, parallel, output, interruption)
        return interruption.code if interruption.signal else _code(driver)

    with (
        _errors_reported(),
        open_results(batch.results, batch.name) as results,
        Interruption() as interruption,
    ):
        return asyncio.run(drive(results, interruption))


async def _drive(
    driver: BatchDriver, parallel: int, output: str, interruption: Interruption
) -> None:
    watcher = Watcher()
    if output != "quiet":
        watcher = BatchProgress(driver, is_live=output == "auto" and is_watched())
    interruption.watch(driver, "to continue, run the same command again", watcher=watcher)
    await driver.survey()
    _say(driver.tally.news())
    try:
        with watcher.running():
            await driver.drive(parallel)
    finally:
        _say(driver.tally.news() if output == "quiet" else last_lines(driver))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        exit_codes.say(fit_to_terminal(line, sys.stderr))


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        with exit_codes.report_errors():
            yield
    except UnfitResults as error:
        raise Stop(USAGE, f"error: {error}") from error
    except NotWritten as error:
        raise Stop(exit_codes.ERROR, f"error: {error}") from error
    except BrokenPipeError as error:
        told = "error: stdout was closed; run the same command again to continue"
        raise Stop(exit_codes.ERROR, told) from error
    except OSError as error:
        raise Stop(USAGE, f"error: {error.filename}: {error.strerror}") from error


def _refuse_shared_files(machine: Machine) -> None:
    """Raise Stop where lines that run at the same time write one file; warn where they may."""
    shared = list(shared_files(machine))
    for state, file in shared:
        if file:
            told = f"error: lines that run at the same time would all write `{file}` (`{state}`)"
            raise Stop(USAGE, f"{told}: {OWN_FOLDER}, or add `--parallel 1`")
    if shared:
        names = ", ".join(f"`{state}`" for state, _ in shared)
        told = f"warning: lines that run at the same time share one folder in {names}"
        told += f": if programs write files there, {OWN_FOLDER}, or add `--parallel 1`"
        exit_codes.say(fit_to_terminal(told, sys.stderr))


def _code(driver: BatchDriver) -> int:
    """The exit code: the limit of the batch, then who waits, then what can be resumed."""
    tally: Tally = driver.tally
    if driver.account.reached:
        return exit_codes.LIMIT
    if tally.stopped[WAITING]:
        return exit_codes.WAITING
    if tally.stopped["limit"]:
        return exit_codes.LIMIT
    if tally.stopped.total():
        return exit_codes.ERROR
    failed = any(not success for _, success in tally.ended) or tally.refused
    return exit_codes.FAILURE if failed else exit_codes.OK
