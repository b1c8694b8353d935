"""`loopkit run --batch`: a machine for every line of a file, a JSON object with a run's inputs.

What is wrong with the lines, with files that they would write over and with secrets that they would
store is said before anything is spent.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import click

from loopkit.agents.players import refuse_unplayable
from loopkit.app import App, Script
from loopkit.cli import terminal
from loopkit.cli.driving import Interruption
from loopkit.cli.inputs import PATH, Given, inputs_from_options, journal_place
from loopkit.cli.terminal import ERROR, Stop, columns_of, gather, misuse, say, say_some
from loopkit.cli.watching import ERASE, REST, Watcher, is_watched
from loopkit.document.problems import did_you_mean
from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import Account, Budget, option_to_raise
from loopkit.drive.notify import notify, outcome_of
from loopkit.engine.records import Record, Usage, read_record
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunBusy, RunUnreadable
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import InvalidInput
from loopkit.language.json_schema import location_of
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.language.template.rendering import parse
from loopkit.machine.graph import writers
from loopkit.machine.inputs import complete_input
from loopkit.outside.redaction import ordinary_values, secret_finder
from loopkit.text import WIDTH, plural
from loopkit.text.json_text import NoJson, parse_json, texts_in
from loopkit.text.run_ids import BATCH_CHARS
from loopkit.values import Value
from loopkit.views.amounts import duration, money, usage_text

LIVE_S = 0.5
PLAIN_S = 10.0
PARALLEL = 4
OWN_FOLDER = (
    "give each line a folder of its own with "
    "`workspace: {path: 'work/{{ input.NAME }}', create: true}`"
)


class BatchOptions(Value, frozen=True):
    batch: Path | None
    """The file with the inputs of each line."""
    key: str
    results: Path | None
    parallel: int | None = None

    def refuse_alone(self) -> None:
        """Raise Stop where options of a batch are given without one."""
        given = {"--parallel": self.parallel, "--key": self.key, "-o": self.results}
        stray = next((option for option, value in given.items() if value), None)
        if self.batch is None and stray:
            other = ", or redirect stdout, where the result goes" if stray == "-o" else ""
            raise misuse(f"`{stray}` is only for batches: add `--batch FILE`{other}")

    def of(self, machine: Machine, given: Given) -> Batch | None:
        if self.batch is None:
            return None
        shared = inputs_from_options(parse_record(machine.input), given)
        return Batch(machine, self.batch, self.results, shared, self.key)


batch_options = gather(
    "batches",
    BatchOptions,
    click.option(
        "--batch", type=PATH, metavar="FILE",
        help="Run MACHINE for each line of this file, a JSON object with inputs.",
    ),
    click.option(
        "--parallel", type=click.IntRange(1, 1000), metavar="N",
        help=f"With --batch: how many lines to run at the same time. Default: {PARALLEL}.",
    ),
    click.option(
        "--key", default="", metavar="PATH",
        help="With --batch: the input that identifies a line. Default: its number.",
    ),
    click.option(
        "-o", "results", type=PATH, metavar="FILE",
        help="With --batch: the file for results, one JSON object per line. Default: stdout.",
    ),
)  # fmt: skip


def refuse_with_batch(record_file: Path | None, output: str) -> None:
    if record_file is not None:
        raise misuse("`--record` records one run: run the line without `--batch`")
    if output == "jsonl":
        raise misuse("a batch prints results, not events: leave out `--output jsonl`")


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
            self._draw("")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(LIVE_S if self._is_live else PLAIN_S)
            told = status(self._driver, time.monotonic() - self._started)
            if self._is_live:
                self._draw(told[: (columns_of(sys.stderr) or WIDTH) - 1])
            else:
                say(told)

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
    notifier: Sequence[str],
) -> int:
    """Run the unfinished lines of a batch; the exit code."""
    if not batch.inputs.is_file():
        irregular = "is not a regular file, but has to be read twice"
        what = irregular if batch.inputs.exists() else "is not there"
        raise misuse(f"`{batch.inputs}` {what}; write the lines into a file")
    limits = {} if max_cost is None else {"cost_usd": max_cost}
    refuse_unplayable(loaded.machine, script.scenario if script else None, {}, limits)
    warn_of_secrets(loaded.machine, batch.shared)
    if parallel > 1:
        _refuse_shared_files(loaded.machine)
    budget = Budget("the batch", limits)

    async def drive(results: Results, interruption: Interruption) -> int:
        async with App.open(journal_place(), notify=notifier) as app:
            if (shared := app.journal.limits) is not None:
                budget.account = Account(shared, batch.name)
            driver = BatchDriver(app, loaded, batch, results, budget, script)
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
    if driver.tally.foreign and driver.tally.foreign == driver.tally.lines:
        raise misuse(_not_json_lines(driver.batch.inputs, driver.tally.news[0]))
    say_some(driver.tally.news)
    try:
        with watcher.running():
            await driver.drive(parallel)
    finally:
        say_some(driver.tally.news)
        for line in () if output == "quiet" else last_lines(driver):
            say(line)


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        told = "error: stdout was closed; run the same command again to continue"
        raise Stop(ERROR, told) from error
    except OSError as error:
        raise misuse(f"{error.filename}: {error.strerror}") from error


_CONVERT = (
    'import csv, json, sys; table = open(sys.argv[1], encoding="utf-8-sig", newline=""); '
    "[print(json.dumps(row)) for row in csv.DictReader(table)]"
)


def _not_json_lines(file: Path, first: str) -> str:
    convert = shlex.join(["python3", "-c", _CONVERT, str(file)])
    return (
        f"`{file}` is not JSON Lines, one object with the inputs of a run in each line\n"
        f"{first}\nif it is CSV, convert it:\n  {convert} > {shlex.quote(f'{file}.jsonl')}"
    )


def _refuse_shared_files(machine: Machine) -> None:
    """Raise Stop where lines that run at the same time write one file; warn where they may."""
    shared = list(shared_files(machine))
    remedy = f"{OWN_FOLDER}, or add `--parallel 1`"
    for state, file in shared:
        if file:
            told = f"lines that run at the same time would all write `{file}` (`{state}`)"
            raise misuse(f"{told}: {remedy}")
    if shared:
        names = ", ".join(f"`{state}`" for state, _ in shared)
        told = f"warning: lines that run at the same time share one folder in {names}"
        say(f"{told}: if programs write files there, {remedy}")


def _code(driver: BatchDriver) -> int:
    """The exit code: the limit of the batch, then who waits, then what can be resumed."""
    tally: Tally = driver.tally
    if driver.budget.reached:
        return terminal.LIMIT
    if tally.stopped[WAITING]:
        return terminal.WAITING
    if tally.stopped["limit"]:
        return terminal.LIMIT
    if tally.stopped.total():
        return terminal.ERROR
    failed = any(not success for _, success in tally.ended) or tally.refused
    return terminal.FAILURE if failed else terminal.OK


@dataclass
class Tally:
    """The results of the lines so far."""

    lines: int = 0
    refused: int = 0
    foreign: int = 0
    """The number of lines that are not JSON at all."""
    ended: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By outcome, and whether that is a success."""
    before: int = 0
    """The number of lines that had ended before the batch was run."""
    driven: int = 0
    """The number of lines that were run now."""
    elsewhere: int = 0
    """The number of those that had another definition of the machine."""
    stopped: Counter[str] = field(default_factory=Counter)
    """Runs that did not end, by `waiting` or the reason of their suspension."""
    news: list[str] = field(default_factory=list)
    """What is still to be said about lines."""

    def refuse(self, number: int, reason: str) -> None:
        self.refused += 1
        self.report(number, reason)

    def report(self, number: int, told: str) -> None:
        self.news.append(f"line {number}: {told}")

    def end(self, outcome: str | None, success: bool | None) -> None:
        """Count a run that ended; one without an outcome was cancelled."""
        self.ended[outcome or "cancelled", bool(success)] += 1


@dataclass
class BatchDriver:
    """Runs the unfinished lines of a batch."""

    app: App
    loaded: Loaded
    batch: Batch
    results: Results
    budget: Budget
    script: Script | None = None
    tally: Tally = field(default_factory=Tally)
    stopping: bool = False
    _driven: dict[str, ActiveRun] = field(default_factory=dict)

    @property
    def running(self) -> int:
        return len(self._driven)

    def stop(self) -> None:
        """Start no further line, and stop the running ones as a single run is stopped."""
        self.stopping = True
        for active in self._driven.values():
            active.stop()

    async def survey(self) -> None:
        """Check all lines before anything is spent: their faults, and what was spent before.

        Raises OSError and JournalError.
        """
        for result in self.results.known.values():
            # Includes lines that were removed since: their money is spent.
            self.budget.book(result.usage)
        for line in self.batch.lines():
            self.tally.lines += 1
            if isinstance(line, RefusedLine):
                self.tally.refuse(line.number, str(line))
                self.tally.foreign += isinstance(line, ForeignLine)
            elif (known := self.results.known.get(line.run)) is not None:
                if known.digest != line.digest:
                    self.tally.refuse(line.number, _change_message(line))
                    continue
                self.tally.before += 1
                self.tally.elsewhere += known.definition != self.loaded.digest
                self.tally.end(known.outcome, known.success)
            elif await self.app.journal.has(line.run):
                await self._look_at(line)
        if (account := self.budget.account) is not None:
            limit, spent = self.budget.limits.get("cost_usd"), self.budget.used.cost_usd
            await account.of.open_account(account.name, limit, spent or 0.0)

    async def _look_at(self, line: Line) -> None:
        """Count what a run of this batch has spent whose result is not written."""
        try:
            state = await self.app.state_of(line.run)
        except RunUnreadable as error:
            self.tally.refuse(line.number, str(error))
            return
        self.budget.book(await self.app.commitment_of(state))
        if digest_of_input(state.input) != line.digest:
            self.tally.refuse(line.number, _change_message(line))

    async def drive(self, parallel: int) -> None:
        """Run every line that has not ended, so many at a time; raises what stopped the batch."""
        lines = self.batch.lines()
        workers = (self._work(lines) for _ in range(parallel))
        ended = await asyncio.gather(*workers, return_exceptions=True)
        if failure := next(filter(None, ended), None):
            raise failure

    async def _work(self, lines: Iterator[Line | RefusedLine]) -> None:
        for line in lines:
            if self.stopping or self.budget.reached:
                return
            if isinstance(line, Line) and line.run not in self.results.known:
                try:
                    await self._run(line)
                except Exception:
                    # Running lines are finished first: their calls may be paid for already.
                    self.stop()
                    raise

    async def _run(self, line: Line) -> None:
        try:
            active = await self._active(line)
        except RunBusy as busy:
            self.tally.refuse(line.number, str(busy))
            return
        if active is None:
            return
        self._driven[line.run] = active
        self.tally.driven += 1
        try:
            if self.stopping:
                active.stop()
            with self.budget.driving(active):
                state = await self.app.drive(active)
        finally:
            del self._driven[line.run]
        if fault := await notify(active):
            self.tally.report(line.number, fault)
        self._note(line, state)

    async def _active(self, line: Line) -> ActiveRun | None:
        """The run of a line, to be driven; none where there is nothing to drive."""
        if not await self.app.journal.has(line.run):
            return await self.app.start(self.loaded, line.input, self.script, run=line.run)
        try:
            state = await self.app.state_of(line.run)
        except RunUnreadable:
            return None
        if digest_of_input(state.input) != line.digest:
            return None
        if state.is_over:
            self._note(line, state)
            return None
        return await self.app.resume(line.run)

    def _note(self, line: Line, state: RunState) -> None:
        if state.is_over:
            self.results.add(line, state)
            ended = state.finished
            self.tally.end(ended.outcome if ended else None, ended.success if ended else False)
        elif state.suspended is not None:
            self.tally.stopped[state.suspended.reason] += 1
            if state.suspended.reason != "interrupted" and not self.budget.reached:
                told = (state.suspended.message, *state.suspended.remedy.splitlines())
                self.tally.report(line.number, "; ".join(told))
        else:
            self.tally.stopped[state.status] += 1


def _change_message(line: Line) -> str:
    return (
        f"its inputs have changed since its run {line.run} began; restore them, or run the batch "
        "with another `-o`"
    )


MINUTE_S = 60
WAITING = "waiting"


def status(driver: BatchDriver, elapsed_s: float) -> str:
    tally, done = driver.tally, _done(driver.tally)
    parts = _lines(tally)
    if driver.running:
        parts.append(f"{driver.running} running")
    if (used := driver.budget.used).cost_usd:
        parts += money(used)
    here = done - tally.before - tally.refused
    if here > 0 and elapsed_s >= 1:
        rate = here / elapsed_s
        parts.append(f"{rate:,.0f}/s" if rate >= 2 else f"{rate * MINUTE_S:,.0f}/min")
        if left := tally.lines - done:
            parts.append(f"{duration(left / rate)} left")
    return " · ".join(parts)


def last_lines(driver: BatchDriver) -> Iterator[str]:
    tally = driver.tally
    yield " · ".join((*_lines(tally), usage_text(driver.budget.used)))
    if not tally.driven and tally.lines and _done(tally) == tally.lines:
        why = ["had ended before"] * bool(tally.before) + ["is refused"] * bool(tally.refused)
        yield f"nothing was run: every line {', or '.join(why)}"
    if tally.elsewhere:
        lines = plural(tally.elsewhere, "line", ",")
        yield (
            f"{lines} ended before with another version of the machine; "
            "to run them again, name another file with `-o`"
        )
    if tally.stopped[WAITING]:
        yield "see which runs wait: loopkit runs ls"
    if tally.lines > _done(tally):
        yield f"to continue, {_go_on(driver)}"
    elif driver.budget.reached:
        yield "the limit of the batch is reached"


def _go_on(driver: BatchDriver) -> str:
    """What has to be done for the other lines: at a limit, the same command ends there again."""
    again = "run the same command again"
    if (reached := driver.budget.reached) is not None:
        option, amount = option_to_raise(reached)
        return f"raise `{option}`: {again} with `{option} {amount}`"
    if driver.tally.stopped["limit"]:
        return f"raise the limit of each line that reached one of its own, then {again}"
    return again


def _lines(tally: Tally) -> list[str]:
    told = [f"{_done(tally):,} of {plural(tally.lines, 'line', ',')}"]
    told += [f"{count:,} {outcome}" for (outcome, _), count in sorted(tally.ended.items())]
    told += [f"{tally.refused:,} refused"] if tally.refused else []
    if waiting := tally.stopped[WAITING]:
        told.append(f"{waiting:,} waiting for a person")
    if suspended := tally.stopped.total() - waiting:
        reasons = ", ".join(sorted(reason for reason in tally.stopped if reason != WAITING))
        told.append(f"{suspended:,} suspended ({reasons})")
    return told


def _done(tally: Tally) -> int:
    return tally.ended.total() + tally.refused


READABLE = re.compile(r"[A-Za-z0-9_]{1,40}")
DIGEST_CHARS = 16


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    """The first one is 1; empty lines count."""
    key: str
    """The value of `--key` in it, or else its number."""
    run: str
    input: dict[str, Any]
    """The complete input, defaults included."""
    digest: str


class RefusedLine(Exception):
    number = 0


class ForeignLine(RefusedLine):
    """A line that is not JSON; if all lines are so, the file is another kind of file."""


@dataclass(frozen=True)
class Batch:
    """The identity of a batch: the same files with the same key are the same batch at any time."""

    machine: Machine
    inputs: Path
    results: Path | None
    """None for standard output."""
    shared: Mapping[str, Any]
    """The inputs of all lines; those in a line take precedence."""
    key: str = ""
    """The dotted path of the input by which lines are known, instead of by their numbers."""

    def __post_init__(self) -> None:
        if self.key and (fault := key_fault(self.machine, self.key)):
            raise misuse(f"`--key {self.key}`: {fault}")

    @property
    def name(self) -> str:
        places = (str(self.inputs.resolve()), str(self.results and self.results.resolve()))
        # Escaped, because the name of a file need not be UTF-8.
        digest = digest_of(ascii((*places, self.key)))
        return f"{self.machine.label}-{digest[:BATCH_CHARS]}"

    def lines(self) -> Iterator[Line | RefusedLine]:
        """The lines, in order; empty ones are left out. Raises OSError."""
        # Not kept, however many there are: what they begin is known to the journal.
        name, seen = self.name, dict[str, int]()
        with self.inputs.open("rb") as stream:
            for number, raw in enumerate(stream, 1):
                if not raw.strip():
                    continue
                try:
                    yield self._line(name, number, raw, seen)
                except RefusedLine as refused:
                    refused.number = number
                    yield refused

    def _line(self, name: str, number: int, raw: bytes, seen: dict[str, int]) -> Line:
        given = _read(raw, is_first=number == 1)
        try:
            complete = complete_input(self.machine, {**self.shared, **given})
        except InvalidInput as error:
            raise RefusedLine("; ".join(fault.message for fault in error.faults)) from error
        key = _value_at(complete, self.key) if self.key else str(number)
        place = key if READABLE.fullmatch(key) else digest_of(key)[:DIGEST_CHARS]
        run = f"{name}-{place}"
        if (first := seen.setdefault(run, number)) != number:
            raise RefusedLine(f"line {first} has the same {self.key}, `{key}`")
        return Line(number, key, run, complete, digest_of_input(complete))


def key_fault(machine: Machine, key: str) -> str:
    """Why no line can be known by an input, as far as its type says; "" if lines can."""
    datatype: DataType = parse_record(machine.input)
    for step in key.split("."):
        inner = datatype.field(step)
        if inner is None:
            if (datatype.fields, datatype.scalar, datatype.items) == (None, None, None):
                return ""
            hint = did_you_mean(step, datatype.fields or {})
            return f"there is no input `{key}`" + (f"; {hint}" if hint else "")
        datatype = inner
    is_nested = datatype.items is not None or datatype.fields is not None
    if is_nested or datatype.scalar in ("num", "bool"):
        return f"the input `{key}` is not a text or a whole number, so it cannot identify lines"
    return ""


def digest_of_input(complete: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(complete, sort_keys=True))[:DIGEST_CHARS]


def _read(raw: bytes, *, is_first: bool) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        raise RefusedLine(f"it is not UTF-8 text (byte {error.start + 1})") from error
    data = parse_json(text)
    if isinstance(data, NoJson):
        raise ForeignLine(f"it is not JSON: {data.reason}")
    if not isinstance(data, dict):
        raise RefusedLine("it is not a JSON object; write the inputs of the run as one")
    return data


def _value_at(complete: Mapping[str, Any], path: str) -> str:
    value: object = complete
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise RefusedLine(
            f"its `{path}` is not a text or a whole number, so it cannot identify the line"
        )
    return str(value)


def warn_of_secrets(machine: Machine, inputs: Mapping[str, Any]) -> None:
    """Say which inputs look like secrets, and which secrets of the environment can't be hidden."""
    secret_in = secret_finder(os.environ, machine.key_names)
    for path, text in texts_in(inputs, ("input",)):
        if held := secret_in(text):
            say(
                f"warning: `{location_of(path)}` looks like a secret: it has {held}. It is stored, "
                "and sent to agents, as it is; let a command or an agent read it from its `env` "
                "instead"
            )
    if ordinary := ordinary_values(os.environ, machine.key_names):
        say(
            f"warning: {', '.join(ordinary)}: a value of only letters, or of fewer than 8 "
            "characters, could be part of any text, so it stays in what is stored and shown"
        )


LET_GO_S = 2.0
"""Seconds that are waited for the file. Of a process that was killed, a program that it was about
to start has it open for a moment longer."""


class Result(Record, frozen=True, kw_only=True):
    run: str
    digest: str
    """Digest of the line's input."""
    definition: str
    """Digest of the definition with which the run ended."""
    outcome: str | None
    """The final state; none where the run was cancelled."""
    success: bool | None
    usage: Usage


class Results:
    def __init__(self, stream: BinaryIO, known: Mapping[str, Result]) -> None:
        self.known = known
        """The results that were there when the batch began, by run."""
        self._stream = stream

    def add(self, line: Line, state: RunState) -> None:
        result = {
            "line": line.number,
            "key": line.key,
            "digest": line.digest,
            "definition": state.definition,
            **outcome_of(state),
        }
        try:
            self._stream.write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            lost = f"error: the result of line {line.number} can't be written: {error.strerror}"
            told = f"{lost}; it is in the journal: run the same command again"
            raise Stop(ERROR, told) from error


@contextmanager
def open_results(path: Path | None, batch: str) -> Iterator[Results]:
    """The results of the batch of this name, in a file or on standard output.

    Raises Stop and OSError.
    """
    if path is None:
        if sys.stdout is None:
            raise misuse("standard output is closed; name a file with `-o FILE`")
        yield Results(sys.stdout.buffer, {})
        return
    if path.exists() and not path.is_file():
        raise misuse(f"`{path}` is not a regular file; leave out `-o` for standard output")
    # Opened to append, so that nothing that is there is ever written over.
    with path.open("a+b") as stream:
        _lock(path, stream)
        yield Results(stream, _read_results(path, stream, batch))


def _lock(path: Path, stream: BinaryIO) -> None:
    until = time.monotonic() + LET_GO_S
    while True:
        try:
            return fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                busy = f"another process is writing `{path}`; wait until it ends"
                raise misuse(busy) from error
            time.sleep(LET_GO_S / 100)


def _read_results(path: Path, stream: BinaryIO, batch: str) -> dict[str, Result]:
    """The results in a file. A last line that was cut off while it was written is removed."""
    known: dict[str, Result] = {}
    stream.seek(0)
    for number, raw in enumerate(stream, 1):
        if not raw.endswith(b"\n"):
            # Its run has ended, so that it is written again from the journal.
            os.ftruncate(stream.fileno(), stream.tell() - len(raw))
            break
        try:
            result = read_record(Result, raw)
        except (ValueError, RecursionError) as error:
            raise _unfit(path, number, "is not the result of a batch") from error
        if not result.run.startswith(f"{batch}-"):
            raise _unfit(path, number, "is the result of another batch")
        known[result.run] = result
    return known


def _unfit(path: Path, number: int, what: str) -> Stop:
    return misuse(f"{path}:{number} {what}; name another file with `-o`")


def shared_files(machine: Machine) -> Iterator[tuple[str, str]]:
    """The states whose runs at the same time overwrite each other's files, or may do.

    Each with the file that it writes in the shared folder; empty where only its program knows.
    """
    for name in writers(machine):
        state = machine.states[name]
        if state.child is not None:
            yield name, ""
            continue
        # Each line may have a folder or a tree of its own.
        places = machine.workspaces_at(name)
        if all(one and (one.isolate != "none" or _is_of_line(one.path)) for one in places):
            continue
        output = state.output_at(name)
        file = output.file if output is not None and output.file else ""
        if not file or not _is_of_line(file):
            yield name, file


def _is_of_line(path: str) -> bool:
    """Whether a path can be another one for each line."""
    return "input" in parse(path).names
