"""Driving a batch: so many lines at a time, each as a run of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from loopkit.app import App, Script
from loopkit.cli.batch.lines import Batch, Line, RefusedLine, digest_of_input
from loopkit.cli.batch.results import Results
from loopkit.drive.account import Account
from loopkit.drive.active import ActiveRun
from loopkit.drive.notify import notify
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunBusy, RunUnreadable
from loopkit.language.load import Loaded

MOST_TOLD = 20
"""The maximum number of lines named in one report."""


@dataclass
class Tally:
    """The results of the lines so far."""

    lines: int = 0
    refused: int = 0
    ended: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """By outcome, and whether that is a success."""
    before: int = 0
    """The number of lines that had ended before the batch was run."""
    elsewhere: int = 0
    """The number of those that had another definition of the machine."""
    stopped: Counter[str] = field(default_factory=Counter)
    """Runs that did not end, by `waiting` or the reason of their suspension."""
    _news: list[str] = field(default_factory=list)
    _told: int = 0

    def refuse(self, number: int, reason: str) -> None:
        """Count a line that is not run."""
        self.refused += 1
        self.report(number, reason)

    def report(self, number: int, told: str) -> None:
        """Say something about a line."""
        self._told += 1
        if len(self._news) < MOST_TOLD:
            self._news.append(f"line {number}: {told}")

    def news(self) -> list[str]:
        """The messages about lines since the last call; of very many the first ones."""
        news, more = self._news, self._told - len(self._news)
        self._news, self._told = [], 0
        return [*news, f"and {more:,} more"] if more else news

    def end(self, outcome: str | None, success: bool | None) -> None:
        """Count a run that ended; one without an outcome was cancelled."""
        self.ended[outcome or "cancelled", bool(success)] += 1


class BatchDriver:
    """Runs the unfinished lines of a batch. It can be stopped like a run."""

    def __init__(
        self,
        app: App,
        loaded: Loaded,
        batch: Batch,
        results: Results,
        account: Account,
        script: Script | None = None,
    ) -> None:
        self.tally = Tally()
        self.account = account
        self.stopping = False
        self._app = app
        self._loaded = loaded
        self._batch = batch
        self._results = results
        self._script = script
        self._driven: dict[str, ActiveRun] = {}

    @property
    def running(self) -> int:
        """The number of lines that are running."""
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
        for result in self._results.known.values():
            # Includes lines that were removed since: their money is spent.
            self.account.book(result.usage)
        for line in self._batch.lines():
            self.tally.lines += 1
            if isinstance(line, RefusedLine):
                self.tally.refuse(line.number, line.reason)
            elif (known := self._results.known.get(line.run)) is not None:
                if known.digest != line.digest:
                    self.tally.refuse(line.number, _change_message(line))
                    continue
                self.tally.before += 1
                self.tally.elsewhere += known.definition != self._loaded.digest
                self.tally.end(known.outcome, known.success)
            elif await self._app.journal.has(line.run):
                await self._look_at(line)

    async def _look_at(self, line: Line) -> None:
        """Count what a run of this batch has spent whose result is not written."""
        try:
            state = await self._app.state_of(line.run)
        except RunUnreadable as error:
            self.tally.refuse(line.number, str(error))
            return
        self.account.book(await self._app.commitment_of(state))
        if digest_of_input(state.input) != line.digest:
            self.tally.refuse(line.number, _change_message(line))

    async def drive(self, parallel: int) -> None:
        """Run every line that has not ended, so many at a time; raises what stopped the batch."""
        lines = self._batch.lines()
        workers = (self._work(lines) for _ in range(parallel))
        ended = await asyncio.gather(*workers, return_exceptions=True)
        if failure := next(filter(None, ended), None):
            raise failure

    async def _work(self, lines: Iterator[Line | RefusedLine]) -> None:
        for line in lines:
            if self.stopping or self.account.reached:
                return
            if isinstance(line, Line) and line.run not in self._results.known:
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
        try:
            if self.stopping:
                active.stop()
            with self.account.driving(active):
                state = await self._app.drive(active)
        finally:
            del self._driven[line.run]
        if fault := await notify(active):
            self.tally.report(line.number, fault)
        self._note(line, state)

    async def _active(self, line: Line) -> ActiveRun | None:
        """The run of a line, to be driven; none where there is nothing to drive."""
        if not await self._app.journal.has(line.run):
            return await self._app.start(self._loaded, line.input, self._script, run=line.run)
        try:
            state = await self._app.state_of(line.run)
        except RunUnreadable:
            return None
        if digest_of_input(state.input) != line.digest:
            return None
        if state.is_over:
            self._note(line, state)
            return None
        return await self._app.resume(line.run)

    def _note(self, line: Line, state: RunState) -> None:
        if state.is_over:
            self._results.add(line, state)
            ended = state.finished
            self.tally.end(ended.outcome if ended else None, ended.success if ended else False)
        elif state.suspended is not None:
            self.tally.stopped[state.suspended.reason] += 1
            if state.suspended.reason != "interrupted" and not self.account.reached:
                self.tally.report(line.number, state.suspended.message)
        else:
            self.tally.stopped[state.status] += 1


def _change_message(line: Line) -> str:
    what = "its inputs have" if line.key == str(line.number) else f"the inputs of `{line.key}` have"
    return (
        f"{what} changed since its run {line.run} began; restore them, or run the batch "
        "with another `-o`"
    )
