"""A plot of runs over time: the share of clean runs, the process yield, and the cost, as points.

Time is divided into spans of equal length, so thousands of runs need no more space than ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import floor, log10
from typing import NamedTuple

from loopkit.views.amounts import DAY_S
from loopkit.views.stats import MachineStats, RunStats, share, stats_of_machine

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, GAP, BOTTOM = 64, 16, 48, 56, 36
SPANS = 40
TICKS = 5


class Span(NamedTuple):
    """The runs that began in one span of time."""

    at: float
    """Its middle."""
    runs: MachineStats
    mean_usd: float | None
    """Of the finished runs whose cost is known."""


Lines = Mapping[str, Callable[[Span], float | None]]
SHARES: Lines = {
    "clean runs": lambda span: span.runs.clean_share,
    "process yield": lambda span: span.runs.process_yield,
}
COSTS: Lines = {"cost of a finished run, mean": lambda span: span.mean_usd}


class Panel(NamedTuple):
    top: float
    ticks: Sequence[tuple[float, str]]
    """Each with its y."""
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """The points of each, by its name."""


class Plot(NamedTuple):
    panels: Sequence[Panel]
    dates: Sequence[tuple[float, str]]
    """Each with its x."""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT


def plot(runs: Sequence[RunStats]) -> Plot:
    spans = spans_of(runs)
    height = (HEIGHT - TOP - GAP - BOTTOM) / 2
    dearest = _round_up(max((span.mean_usd or 0.0 for span in spans), default=0.0))
    shares = _panel(spans, SHARES, (TOP, height), 1.0, "{:.0%}")
    costs = _panel(spans, COSTS, (TOP + height + GAP, height), dearest, "${:.4g}")
    named = {round(tick * (len(spans) - 1) / (TICKS - 1)) for tick in range(TICKS) if spans}
    is_long = len(spans) > 1 and spans[-1].at - spans[0].at > DAY_S
    form = "%Y-%m-%d" if is_long else "%Y-%m-%d %H:%M"
    shown = ((spans[place], spans[place].at) for place in sorted(named))
    dates = [(_x(span, spans), f"{datetime.fromtimestamp(at, UTC):{form}}") for span, at in shown]
    return Plot((shares, costs), dates)


def _panel(
    spans: Sequence[Span], lines: Lines, place: tuple[float, float], most: float, form: str
) -> Panel:
    """The panel at a top and of a height, whose values are between 0 and `most`."""
    top, height = place
    points = {
        name: [
            (_x(span, spans), top + height * (1 - found / most))
            for span in spans
            if (found := value(span)) is not None
        ]
        for name, value in lines.items()
    }
    ticks = [(top + height * (1 - part), form.format(part * most)) for part in (0.0, 0.5, 1.0)]
    return Panel(top, ticks, points)


def _x(span: Span, spans: Sequence[Span]) -> float:
    """Where a span is; a single one is in the middle."""
    length = spans[-1].at - spans[0].at
    return LEFT + (WIDTH - LEFT - RIGHT) * ((span.at - spans[0].at) / length if length else 0.5)


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
