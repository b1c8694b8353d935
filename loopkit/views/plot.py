"""A plot of runs over time: the share of clean runs, the process yield, and the cost, as points.

Time is divided into spans of equal length, so thousands of runs need no more space than ten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import floor, log10
from typing import NamedTuple

from loopkit.views.stats import MachineStats, RunStats, share, stats_of_machine

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, GAP, BOTTOM = 64, 16, 48, 56, 36
SPANS = 40
DAY_S = 86400
TICKS = 5


class Span(NamedTuple):
    """The runs that began in one span of time."""

    at: float
    """Its middle."""
    runs: MachineStats
    mean_usd: float | None
    """Of the finished runs whose cost is known."""


class Line(NamedTuple):
    name: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    top: float
    ticks: Sequence[tuple[float, str]]
    lines: Sequence[Line]


class Plot(NamedTuple):
    """Everything in the coordinates of a picture of `WIDTH` by `HEIGHT`."""

    panels: Sequence[Panel]
    times: Sequence[tuple[float, str]]


def plot(runs: Sequence[RunStats]) -> Plot:
    spans = spans_of(runs)
    first, last = (spans[0].at, spans[-1].at) if spans else (0.0, 0.0)
    # A single span is in the middle.
    share_of = {span.at: (span.at - first) / (last - first) if last > first else 0.5
                for span in spans}  # fmt: skip
    x = {at: LEFT + (WIDTH - LEFT - RIGHT) * part for at, part in share_of.items()}
    height = (HEIGHT - TOP - GAP - BOTTOM) / 2
    dearest = _round_up(max((span.mean_usd or 0.0 for span in spans), default=0.0))

    def panel(
        top: float, most: float, form: str, values: dict[str, Callable[[Span], float | None]]
    ) -> Panel:
        lines = [
            Line(name, [
                (x[span.at], top + height * (1 - found / most))
                for span in spans
                if (found := value(span)) is not None
            ])
            for name, value in values.items()
        ]  # fmt: skip
        ticks = [(top + height * (1 - at), form.format(at * most)) for at in (0.0, 0.5, 1.0)]
        return Panel(top, ticks, lines)

    shares = {
        "clean runs": lambda span: span.runs.clean_share,
        "process yield": lambda span: span.runs.process_yield,
    }
    costs = {"cost of a finished run, mean": lambda span: span.mean_usd}
    named = {round(tick * (len(spans) - 1) / (TICKS - 1)) for tick in range(TICKS)}
    date = "%Y-%m-%d" if last - first > DAY_S else "%Y-%m-%d %H:%M"
    shown = [spans[place].at for place in sorted(named)] if spans else []
    return Plot(
        (panel(TOP, 1.0, "{:.0%}", shares), panel(TOP + height + GAP, dearest, "${:.4g}", costs)),
        [(x[at], datetime.fromtimestamp(at, UTC).strftime(date)) for at in shown],
    )


def spans_of(runs: Sequence[RunStats]) -> list[Span]:
    """The runs by the time at which they began, oldest first; spans without runs are left out."""
    if not runs:
        return []
    times = [run.started for run in runs]
    first, last = min(times), max(times)
    count = min(SPANS, len(runs))
    width = (last - first) / count or 1.0
    spans: list[list[RunStats]] = [[] for _ in range(count)]
    for run in runs:
        spans[min(int((run.started - first) / width), count - 1)].append(run)
    return [_span(first + width * (place + 0.5), of) for place, of in enumerate(spans) if of]


def _span(at: float, runs: Sequence[RunStats]) -> Span:
    paid = [run.cost_usd for run in runs if run.outcome is not None and run.cost_usd is not None]
    return Span(at, stats_of_machine("", runs), share(sum(paid), len(paid)))


def _round_up(usd: float) -> float:
    """The next larger of 1, 2, 5, 10 and so on, at any scale; 1 for 0."""
    unit = 10.0 ** floor(log10(usd)) if usd > 0 else 1.0
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= usd)
