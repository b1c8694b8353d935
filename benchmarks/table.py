"""The results as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence

from loop import STEPS
from measure import Measured

Results = Mapping[tuple[str, str], Sequence[Measured]]


def machine() -> str:
    """What was measured on, in one line."""
    load = os.getloadavg()[2]
    return (
        f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores, "
        f"load over the last 15 minutes {load:.1f}."
    )


def steps_table(results: Results, versions: Mapping[str, str]) -> str:
    """µs a step of each peer: minimum and median over the rounds."""
    peers = sorted(versions, key=lambda peer: _least(results[peer, "durable"]))
    rows = [
        f"| {peer} {versions[peer]} | {_wall(results[peer, 'memory'])} "
        f"| {_wall(results[peer, 'durable'])} | {_cpu(results[peer, 'durable'])} "
        f"| {results[peer, 'durable'][-1].commits} |"
        for peer in peers
    ]
    head = (
        "| µs a step: minimum, median | in memory | durable | CPU, durable | commits a loop |",
        "|---|---|---|---|---|",
    )
    kept = _wall(results["loopkit", "kept"])
    note = f"\nloopkit that keeps finished runs in memory: {kept} µs a step."
    return "\n".join((*head, *rows, note))


def ratio_table(results: Results) -> str:
    """A step of loopkit in steps of others, each in the same round: minimum, median, maximum."""
    head = (
        "| a step of loopkit in steps of another | minimum | median | maximum |",
        "|---|---|---|---|",
    )
    rows = []
    for peer, mode in (("burr", "memory"), ("burr", "durable"), ("raw", "durable")):
        pairs = zip(results["loopkit", mode], results[peer, mode], strict=True)
        ratios = [own.median_us / other.median_us for own, other in pairs]
        shown = (min(ratios), statistics.median(ratios), max(ratios))
        of = "in memory" if mode == "memory" else mode
        rows.append(f"| {peer}, {of} | " + " | ".join(f"{ratio:.2f}" for ratio in shown) + " |")
    commits = results["loopkit", "durable"][-1].commits / STEPS
    note = f"\nloopkit makes {commits:.2f} commits a step; `raw` makes one."
    return "\n".join((*head, *rows, note))


def cpu_table(times: Mapping[str, Sequence[float]], aims: Mapping[str, int]) -> str:
    """CPU time of commands, in milliseconds."""
    head = ("| CPU ms | minimum | median | aim |", "|---|---|---|---|")
    rows = [
        f"| `{name}` | {min(spent):.0f} | {statistics.median(spent):.0f} "
        f"| {f'≤ {aims[name]}' if name in aims else ''} |"
        for name, spent in times.items()
    ]
    return "\n".join((*head, *rows))


def _least(measured: Sequence[Measured]) -> float:
    return min(one.median_us for one in measured)


def _wall(measured: Sequence[Measured]) -> str:
    return _span([one.median_us for one in measured])


def _cpu(measured: Sequence[Measured]) -> str:
    return _span([one.cpu_us for one in measured])


def _span(values: Sequence[float]) -> str:
    return f"{_short(min(values))}, {_short(statistics.median(values))}"


def _short(microseconds: float) -> str:
    return f"{microseconds:.1f}" if microseconds < 10 else f"{microseconds:.0f}"
