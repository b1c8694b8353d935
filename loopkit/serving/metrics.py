"""Figures of a process and of its journal, as Prometheus reads them.

What was done is counted as it happens, or read behind the place that was read last. How many runs
there are of each kind is asked of the journal, and seldom where that takes long.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from loopkit.drive.stored_runs import Stored, read_stored
from loopkit.engine.events import (
    ENDS,
    Failed,
    InDoubt,
    Intended,
    Replied,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place, Standing

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
COUNTERS = {
    "steps": "Works of states.",
    "calls": "Calls of agents, programs and tools that were begun.",
    "failed_calls": "Calls that have failed.",
    "calls_in_doubt": "Calls of which nobody knows what they did.",
    "cost_usd": "What calls cost, as far as that is known.",
    "unpriced_calls": "Calls whose cost is not known.",
}
_COUNTED = (Worked.type, Intended.type, Replied.type, Failed.type, InDoubt.type)
_STATES = (*ENDS, Waiting.type, Suspended.type)
"""Of runs by the type of their last record; others go on, are due, or were interrupted."""
_LONGEST_S = 5.0
"""How long the journal may take to answer."""
_LEAST_S = 2.0
_PAUSE = 100.0
"""How many times as long as the last look at all runs took, none follows."""
_PARTS_AT_ONCE = 100


@dataclass
class Metrics:
    journal: Journal
    follows: bool = False
    """Whether it counts what all processes do, and not what it hears."""
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _after: Place | None = None
    _era: object = None
    _standings: list[Standing] | None = None
    _again_s: float = 0.0
    _looking: asyncio.Task[str] | None = None

    def hear(self, stored: Stored) -> None:
        event = stored.event
        if isinstance(event, Worked):
            self.counts["steps"] += 1
        elif isinstance(event, Intended):
            self.counts["calls"] += event.role != "outside"
        elif isinstance(event, InDoubt):
            self.counts["calls_in_doubt"] += 1
        elif isinstance(event, Replied | Failed):
            self.counts["failed_calls"] += isinstance(event, Failed)
            self.counts["unpriced_calls"] += event.usage.cost_usd is None
            self.counts["cost_usd"] += event.usage.cost_usd or 0.0

    async def fault(self) -> str:
        """Why the journal cannot be used now; empty if it can."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        # One request is under way, however many ask; it may go on for minutes.
        if not (await asyncio.wait([self._looking], timeout=_LONGEST_S))[0]:
            return f"the journal has not answered for {_LONGEST_S:g} s"
        return self._looking.result()

    async def _look(self) -> str:
        try:
            newest = await self.journal.newest()
            if self.follows:
                await self._follow(newest)
            if (began := time.monotonic()) >= self._again_s:
                self._standings = await self.journal.standings()
                now = time.monotonic()
                self._again_s = now + max(_LEAST_S, _PAUSE * (now - began))
        except JournalError as error:
            return str(error)
        return ""

    async def _follow(self, newest: Place) -> None:
        """Count what was written since the last time, or from now on."""
        if self._after is None or self._era != self.journal.era:
            self._after, self._era = newest, self.journal.era
        for _ in range(_PARTS_AT_ONCE):
            if not (placed := await self.journal.records_after(self._after)):
                break
            self._after = placed[-1].place
            for _, run, record in placed:
                if record.type in _COUNTED:
                    with suppress(RunUnreadable):
                        self.hear(read_stored(run, record))

    async def text(self) -> str:
        """All figures, in the text format of Prometheus."""
        fault = await self.fault()
        lines = _lines("journal_up", "gauge", "Whether the journal answers.", not fault)
        for name, does in COUNTERS.items():
            lines += _lines(f"{name}_total", "counter", does, self.counts[name])
        if not fault and self._standings is not None:
            lines += _lines_of_runs(self._standings, time.time())
        return "\n".join([*lines, ""])


def _lines_of_runs(standings: list[Standing], now: float) -> list[str]:
    runs = Counter[str](dict.fromkeys(("running", "due", "interrupted", *_STATES), 0))
    for one in standings:
        idle = "due" if one.is_due else "interrupted"
        moving = "running" if one.is_driven else idle
        runs[one.last if one.last in _STATES else moving] += one.runs
    due = [one for one in standings if one.is_due]
    oldest = max((now - (one.since or now) for one in due), default=0.0)
    told = {f'{{state="{state}"}}': number for state, number in runs.items()}
    return [
        *_lines("runs", "gauge", "Runs that no other run has begun.", told),
        *_lines("due_runs", "gauge", "Runs that wait for a worker.", sum(one.runs for one in due)),
        *_lines("due_oldest_seconds", "gauge", "How long the first of them has waited.", oldest),
    ]


def _lines(name: str, kind: str, does: str, value: float | Mapping[str, float]) -> list[str]:
    values = value if isinstance(value, Mapping) else {"": value}
    samples = (f"loopkit_{name}{label} {float(number):.12g}" for label, number in values.items())
    return [f"# HELP loopkit_{name} {does}", f"# TYPE loopkit_{name} {kind}", *samples]


async def serve_metrics(host: str, port: int, metrics: Metrics) -> asyncio.Server:
    """Answer `/metrics` and `/healthz` to everybody who reaches that address; raises OSError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wrong = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with suppress(*wrong):
            async with asyncio.timeout(2 * _LONGEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(metrics, head.split(b" ", 2)[1]))
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port)


async def _answer(metrics: Metrics, target: bytes) -> bytes:
    status, text = HTTPStatus.NOT_FOUND, "there are /metrics and /healthz"
    if target == b"/metrics":
        status, text = HTTPStatus.OK, await metrics.text()
    elif target == b"/healthz":
        fault = await metrics.fault()
        status, text = (HTTPStatus.SERVICE_UNAVAILABLE, fault) if fault else (HTTPStatus.OK, "ok")
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {MEDIA}\r\n"
        f"content-length: {len(text.encode())}\r\nconnection: close\r\n\r\n"
    )
    return f"{head}{text}".encode()
