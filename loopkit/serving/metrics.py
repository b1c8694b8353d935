"""Figures of a process and of its journal, as Prometheus reads them.

What was done is counted as it happens, or read behind the place that was read last. How many runs
there are of each kind is asked of the journal, and seldom where that takes long.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from loopkit.drive.stored_runs import Stored, read_stored
from loopkit.engine import events
from loopkit.journal.errors import JournalError, RunUnreadable
from loopkit.journal.journal import Journal
from loopkit.journal.records import Place, Standing

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
FIGURES = {
    "journal_up": "Whether the journal answers.",
    "steps_total": "Works of states.",
    "calls_total": "Calls of agents, programs and tools that were begun.",
    "failed_calls_total": "Calls that have failed.",
    "calls_in_doubt_total": "Calls of which nobody knows what they did.",
    "cost_usd_total": "What calls cost, as far as that is known.",
    "unpriced_calls_total": "Calls whose cost is not known.",
    "runs": "Runs that no other run has begun.",
    "due_runs": "Runs that wait for a worker.",
    "due_oldest_seconds": "How long the first of them has waited.",
}
COUNTERS = tuple(name for name in FIGURES if name.endswith("_total"))
_COUNTED = ("worked", "intended", "replied", "failed", "in_doubt")
_STATES = (*events.ENDS, events.Waiting.type, events.Suspended.type)
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
    counts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    _after: Place | None = None
    _era: object = None
    _standings: list[Standing] = field(default_factory=list)
    _again_s: float = 0.0
    _looking: asyncio.Task[str] | None = None

    def hear(self, stored: Stored) -> None:
        event, counts = stored.event, self.counts
        counts["steps_total"] += isinstance(event, events.Worked)
        counts["failed_calls_total"] += isinstance(event, events.Failed)
        counts["calls_in_doubt_total"] += isinstance(event, events.InDoubt)
        counts["calls_total"] += isinstance(event, events.Intended) and event.role != "outside"
        if isinstance(event, events.Replied | events.Failed):
            counts["unpriced_calls_total"] += event.usage.cost_usd is None
            counts["cost_usd_total"] += event.usage.cost_usd or 0.0

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
        runs = {} if fault else _values_of_runs(self._standings, time.time())
        values = {"journal_up": not fault, **self.counts, **runs}
        lines = list[str]()
        for name, does in FIGURES.items():
            kind = "counter" if name in COUNTERS else "gauge"
            if told := [one for one in values if one.partition("{")[0] == name]:
                lines += [f"# HELP loopkit_{name} {does}", f"# TYPE loopkit_{name} {kind}"]
                lines += [f"loopkit_{one} {float(values[one]):.12g}" for one in told]
        return "\n".join([*lines, ""])


def _values_of_runs(standings: list[Standing], now: float) -> dict[str, float]:
    states = Counter[str](dict.fromkeys(("running", "due", "interrupted", *_STATES), 0))
    for one in standings:
        idle = "due" if one.is_due else "interrupted"
        moving = "running" if one.is_driven else idle
        states[one.last if one.last in _STATES else moving] += one.runs
    due = [one for one in standings if one.is_due]
    return {
        **{f'runs{{state="{state}"}}': number for state, number in states.items()},
        "due_runs": sum(one.runs for one in due),
        "due_oldest_seconds": max((now - (one.since or now) for one in due), default=0.0),
    }


async def serve_metrics(host: str, port: int, metrics: Metrics) -> asyncio.Server:
    """Answer `/metrics` and `/healthz` to everybody who reaches that address; raises OSError."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wrong = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with suppress(*wrong):
            async with asyncio.timeout(2 * _LONGEST_S):
                head = await reader.readuntil(b"\r\n\r\n")
                target = head.split(b" ", 2)[1:2]
                writer.write(await _answer(metrics, b"".join(target)))
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
