"""Statistics as tables: of machines, of the states of each, and of single defects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loopkit.engine.telemetry import Defect
from loopkit.text import columns, one_line, plural
from loopkit.views.amounts import cost_of, duration
from loopkit.views.stats.statistics import MachineStats, PhaseStats, RunStats

NONE = "–"
"""A share of nothing."""
MESSAGE_WIDTH = 60
OF_PHASES = (
    *("  state", "works", "corrections", "rate"),
    *("injected", "per 1,000 characters", "found", "missed", "yield"),
)
OF_DEFECTS = (
    *("run", "defect", "type", "severity", "injected in", "detected in"),
    *("attempts", "cost", "time", "status", "message"),
)


def machine_text(stats: MachineStats) -> Iterator[str]:
    """The figures of the runs of a machine, and a table of its states."""
    yield f"{stats.machine}: {plural(stats.runs, 'run', ',')}, {stats.finished:,} finished"
    yield from columns(list(_figures(stats)), "<<<")
    if stats.phases:
        yield ""
        yield from columns([OF_PHASES, *map(_phase, stats.phases)], "<" + ">" * 8)


def _figures(stats: MachineStats) -> Iterator[tuple[str, str, str]]:
    yield "  succeeded", percent(stats.succeeded, stats.finished), of(stats.succeeded, "run", stats)
    yield "  clean", percent(stats.clean.runs, stats.finished), of(stats.clean.runs, "run", stats)
    rate = f"{stats.corrections:,} of {plural(stats.works, 'work', ',')}"
    yield "  correction rate", percent(stats.corrections, stats.works), rate
    caught = f"{stats.caught:,} of {plural(stats.blocking, 'defect', ',')}"
    yield "  process yield", percent(stats.caught, stats.blocking), caught
    density = NONE if stats.density is None else f"{stats.density:.2f}"
    yield "  defect density", density, "defects per 1,000 characters"
    resolved = f"{stats.resolved:,} of {plural(stats.blocking, 'defect', ',')}"
    yield "  resolved", percent(stats.resolved, stats.blocking), resolved
    yield "  overrides", f"{stats.overrides:,}", ""
    for name, group in (("clean", stats.clean), ("corrected", stats.corrected)):
        known = group.runs - group.unpriced
        left_out = f", {group.unpriced:,} of unknown cost left out" if group.unpriced else ""
        mean = cost_of(group.cost_usd) or "$0" if known else NONE
        yield f"  cost, {name} run", mean, f"mean of {plural(known, 'run', ',')}{left_out}"
        lasted = NONE if group.seconds is None else duration(group.seconds)
        yield f"  time, {name} run", lasted, f"mean of {plural(group.runs, 'run', ',')}"


def of(part: int, word: str, stats: MachineStats) -> str:
    """`3 of 4 finished runs`."""
    return f"{part:,} of {plural(stats.finished, f'finished {word}', ',')}"


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else NONE


def _phase(phase: PhaseStats) -> tuple[str, ...]:
    return (
        f"  {phase.state}",
        f"{phase.works:,}",
        f"{phase.corrections:,}",
        percent(phase.corrections, phase.works),
        f"{phase.injected:,}",
        NONE if phase.density is None else f"{phase.density:.2f}",
        f"{phase.found:,}",
        f"{phase.missed:,}",
        percent(phase.found, phase.found + phase.missed),
    )


def defect_table(runs: Iterable[RunStats]) -> Iterator[str]:
    """A table of all defects of some runs; empty if there are none."""
    rows = [_defect(run.run, defect) for run in runs for defect in run.defects]
    if rows:
        yield from columns([OF_DEFECTS, *rows], "<" * len(OF_DEFECTS))


def _defect(run: str, defect: Defect) -> Sequence[str]:
    return (
        run,
        defect.id,
        one_line(defect.code, MESSAGE_WIDTH),
        defect.severity if defect.blocking else f"{defect.severity} (not blocking)",
        " ".join(defect.injected),
        defect.detected,
        attempts(defect) or NONE,
        cost_of(defect.cost_usd) or "$0",
        duration(defect.seconds),
        defect.status,
        one_line(defect.message, MESSAGE_WIDTH),
    )


def attempts(defect: Defect) -> str:
    """`planning=1 design=1`."""
    return " ".join(f"{state}={count}" for state, count in defect.attempts.items())
