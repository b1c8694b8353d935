"""The texts about a batch: one line while it runs, and a few when it stops."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.cli.batch.driving import BatchDriver, Tally
from loopkit.text import plural
from loopkit.views.amounts import duration, money, usage_text

MINUTE_S = 60
WAITING = "waiting"
"""The status of runs that wait for a person, beside the reasons for a suspension."""


def status(driver: BatchDriver, elapsed_s: float) -> str:
    """The progress of a running batch: lines, outcomes, cost, rate."""
    tally, done = driver.tally, _done(driver.tally)
    parts = _lines(tally)
    if driver.running:
        parts.append(f"{driver.running} running")
    if (used := driver.account.used).cost_usd:
        parts += money(used)
    here = done - tally.before - tally.refused
    if here > 0 and elapsed_s >= 1:
        rate = here / elapsed_s
        parts.append(_rate(rate))
        if left := tally.lines - done:
            parts.append(f"{duration(left / rate)} left")
    return " · ".join(parts)


def last_lines(driver: BatchDriver) -> Iterator[str]:
    """The result of a batch, and how to resume it."""
    tally = driver.tally
    yield from tally.news()
    yield " · ".join((*_lines(tally), usage_text(driver.account.used)))
    if tally.elsewhere:
        lines = plural(tally.elsewhere, "line", ",")
        yield (
            f"{lines} ended before with another version of the machine; "
            "to run them again, name another file with `-o`"
        )
    if tally.stopped[WAITING]:
        yield "see which runs wait: loopkit runs ls"
    if tally.lines > _done(tally):
        yield "to continue, run the same command again"
    if driver.account.reached:
        yield "the limit of the batch is reached: raise `--max-cost`"


def _lines(tally: Tally) -> list[str]:
    """The number of lines, and their results."""
    count = f"{_done(tally):,} of {plural(tally.lines, 'line', ',')}"
    return [count, *_outcomes(tally), *_count_stopped(tally)]


def _done(tally: Tally) -> int:
    return tally.ended.total() + tally.refused


def _outcomes(tally: Tally) -> list[str]:
    told = [f"{count:,} {outcome}" for (outcome, _), count in sorted(tally.ended.items())]
    return told + ([f"{tally.refused:,} refused"] if tally.refused else [])


def _count_stopped(tally: Tally) -> list[str]:
    counts: list[str] = []
    if waiting := tally.stopped[WAITING]:
        counts.append(f"{waiting:,} waiting for a person")
    if suspended := tally.stopped.total() - waiting:
        reasons = ", ".join(sorted(reason for reason in tally.stopped if reason != WAITING))
        counts.append(f"{suspended:,} suspended ({reasons})")
    return counts


def _rate(a_second: float) -> str:
    return f"{a_second:,.0f}/s" if a_second >= 2 else f"{a_second * MINUTE_S:,.0f}/min"
