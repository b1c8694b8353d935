"""A plot of runs over time, as SVG: the share of clean runs, the process yield, and the cost.

Time is divided into spans of equal length, so thousands of runs need no more space than ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import floor, log10
from typing import NamedTuple

from loopkit.text import plural
from loopkit.views.stats import MachineStats, RunStats, share, stats_of_machine

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, GAP, BOTTOM = 64, 16, 48, 56, 36
SPANS = 40
GREY, BLUE, GREEN, ORANGE = "#767676", "#3b82f6", "#16a34a", "#ea7317"
DAY_S = 86400
TICKS = 5


class Span(NamedTuple):
    """The runs that began in one span of time."""

    at: float
    """Its middle."""
    runs: MachineStats
    mean_usd: float | None
    """Of the finished runs whose cost is known."""


@dataclass(frozen=True, slots=True)
class Panel:
    top: float
    height: float
    most: float

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.most)


def plot(runs: Sequence[RunStats], title: str) -> str:
    spans = spans_of(runs)
    height = (HEIGHT - TOP - GAP - BOTTOM) / 2
    dearest = max((span.mean_usd or 0.0 for span in spans), default=0.0)
    shares = Panel(TOP, height, 1.0)
    costs = Panel(TOP + height + GAP, height, _round_up(dearest))
    x = _scale(spans)
    parts = [
        *_head(title, runs),
        *_grid(shares, "{:.0%}".format),
        *_legend(shares, (("clean runs", BLUE), ("process yield", GREEN))),
        *_line(spans, x, shares, lambda span: span.runs.clean_share, BLUE),
        *_line(spans, x, shares, lambda span: span.runs.process_yield, GREEN, "5 4"),
        *_grid(costs, "${:.4g}".format),
        *_legend(costs, (("cost of a finished run, mean", ORANGE),)),
        *_line(spans, x, costs, lambda span: span.mean_usd, ORANGE),
        *_times(spans, x),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


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


def _scale(spans: Sequence[Span]) -> Callable[[Span], float]:
    """A function from a span to its x coordinate; a single span is in the middle."""
    if len(spans) < 2:
        return lambda _: LEFT + (WIDTH - LEFT - RIGHT) / 2
    first, last = spans[0].at, spans[-1].at
    return lambda span: LEFT + (WIDTH - LEFT - RIGHT) * (span.at - first) / (last - first)


def _head(title: str, runs: Sequence[RunStats]) -> Iterator[str]:
    heading = escape(f"{title}: {plural(len(runs), 'run', ',')}")
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" font-family="sans-serif" font-size="12">'
    )
    yield f"<title>{heading}</title>"
    yield _text(LEFT, 18, heading, size=14)


def _grid(panel: Panel, as_text: Callable[[float], str]) -> Iterator[str]:
    for part in (0.0, 0.5, 1.0):
        y = panel.y(part * panel.most)
        yield (
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GREY}" '
            f'stroke-opacity="{1 if part == 0 else 0.35}"/>'
        )
        yield _text(LEFT - 8, y + 4, as_text(part * panel.most), anchor="end")


def _legend(panel: Panel, lines: Sequence[tuple[str, str]]) -> Iterator[str]:
    x = float(LEFT)
    for name, colour in lines:
        yield f'<circle cx="{x + 4:.1f}" cy="{panel.top - 14:.1f}" r="4" fill="{colour}"/>'
        yield _text(x + 14, panel.top - 10, name)
        x += 34 + 6.5 * len(name)


def _line(
    spans: Sequence[Span],
    x: Callable[[Span], float],
    panel: Panel,
    value: Callable[[Span], float | None],
    colour: str,
    dashes: str = "none",
) -> Iterator[str]:
    known = [(x(span), panel.y(found)) for span in spans if (found := value(span)) is not None]
    if len(known) > 1:
        way = " ".join(f"{at:.1f},{y:.1f}" for at, y in known)
        yield (
            f'<polyline points="{way}" fill="none" stroke="{colour}" '
            f'stroke-width="2" stroke-dasharray="{dashes}"/>'
        )
    for at, y in known:
        yield f'<circle cx="{at:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'


def _times(spans: Sequence[Span], x: Callable[[Span], float]) -> Iterator[str]:
    if not spans:
        yield _text(WIDTH / 2, HEIGHT / 2, "no runs", anchor="middle")
        return
    form = "%Y-%m-%d" if spans[-1].at - spans[0].at > DAY_S else "%Y-%m-%d %H:%M"
    named = {round(tick * (len(spans) - 1) / (TICKS - 1)) for tick in range(TICKS)}
    for span in (spans[place] for place in sorted(named)):
        at, last = x(span), WIDTH - RIGHT - 50
        anchor = "end" if at > last else "start" if at < LEFT + 50 else "middle"
        date = datetime.fromtimestamp(span.at, UTC).strftime(form)
        yield _text(at, HEIGHT - 12, date, anchor=anchor)


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{GREY}">{text}</text>'
    )


def _round_up(usd: float) -> float:
    """The next larger of 1, 2, 5, 10 and so on, at any scale; 1 for 0."""
    unit = 10.0 ** floor(log10(usd)) if usd > 0 else 1.0
    return next(unit * step for step in (1, 2, 5, 10) if unit * step >= usd)
