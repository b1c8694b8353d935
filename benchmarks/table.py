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
    return "\n".join((*head, *rows))


def ratio_table(results: Results) -> str:
    """Durable steps in raw commits of the same round: minimum, median and maximum."""
    raw = [measured.median_us for measured in results["raw", "durable"]]
    head = (
        "| a durable step in raw commits | minimum | median | maximum |",
        "|---|---|---|---|",
    )
    rows = []
    for peer in dict.fromkeys(peer for peer, _ in results if peer != "raw"):
        durable = results[peer, "durable"]
        ratios = [one.median_us / floor for one, floor in zip(durable, raw, strict=True)]
        shown = (min(ratios), statistics.median(ratios), max(ratios))
        rows.append(f"| {peer} | " + " | ".join(f"{ratio:.1f}" for ratio in shown) + " |")
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
