"""Statistics: the figures of one run, from its events, and sums over the runs of each machine.

docs/reference/telemetry.md defines each.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopkit.drive.stored_runs import Stored, state_after
from loopkit.engine.events import ChildStarted
from loopkit.engine.records import Record
from loopkit.engine.telemetry import (
    COUNTS,
    Defect,
    Figures,
    Override,
    Phase,
    usd_without_held,
)
from loopkit.journal.records import RunRow
from loopkit.text import columns, one_line, plural
from loopkit.views.amounts import cost_of, duration
from loopkit.views.run_data import status_of


class PhaseStats(Phase, frozen=True, kw_only=True):
    """One state: what it wrote, injected, found and missed, with the resulting shares."""

    correction_rate: float | None = None
    """Corrections / works."""
    density: float | None = None
    """Injected defects / 1,000 characters of its last versions."""
    phase_yield: float | None = None
    """Found / (found + missed)."""


class Shares(Record, frozen=True, kw_only=True):
    """What was corrected. A share is null if its denominator is zero."""

    works: int
    """How many times states wrote their artifacts."""
    corrections: int
    """The number of these works that were corrections."""
    correction_rate: float | None
    """Corrections / works."""
    blocking: int
    """The number of defects that blocked."""
    resolved: int
    """The number of these defects that are resolved."""
    density: float | None
    """Blocking defects / 1,000 characters of the last versions."""
    caught: int
    """The number of blocking defects that no validate state missed."""
    process_yield: float | None
    """Caught / blocking defects."""
    phases: tuple[PhaseStats, ...]


class RunStats(Shares, frozen=True, kw_only=True):
    """One run."""

    run: str
    machine: str
    status: str
    outcome: str | None
    """The final state; null if the run has not finished."""
    success: bool | None
    played: bool
    """Whether a scenario played the agents."""
    started: float
    """The Unix time at which the run started."""
    calls: int
    tokens: int
    cost_usd: float | None
    """The cost in USD, including children but not amounts that are only held; null if unknown."""
    seconds: float
    """The seconds of work, not counting waiting."""
    defects: tuple[Defect, ...]
    overrides: tuple[Override, ...]


class Group(Record, frozen=True, kw_only=True):
    """Finished runs: either those with corrections or those without."""

    runs: int = 0
    cost_usd: float | None = None
    """The mean cost of a run in USD, over the runs whose cost is known."""
    seconds: float | None = None
    """The mean seconds of work of a run."""
    unpriced: int = 0
    """The number of runs whose cost is unknown."""


class MachineStats(Shares, frozen=True, kw_only=True):
    """All counted runs of one machine together. Shares are computed from sums over the runs."""

    machine: str
    runs: int
    finished: int
    succeeded: int
    clean: Group
    """Finished runs without a correction."""
    corrected: Group
    """Finished runs with corrections."""
    clean_share: float | None
    """Clean runs / finished runs."""
    overrides: int


SUMMED = ("works", "corrections", "blocking", "resolved", "caught")
CHARACTERS = 1000


def stats_of_machines(runs: Iterable[RunStats]) -> list[MachineStats]:
    """By name."""
    by_machine: dict[str, list[RunStats]] = {}
    for run in runs:
        by_machine.setdefault(run.machine, []).append(run)
    return [stats_of_machine(machine, by_machine[machine]) for machine in sorted(by_machine)]


def stats_of_machine(machine: str, runs: Sequence[RunStats]) -> MachineStats:
    finished = [run for run in runs if run.outcome is not None]
    clean = _group([run for run in finished if not run.corrections])
    tallies = defaultdict[str, Counter[str]](Counter)
    for phase in (phase for run in runs for phase in run.phases):
        tallies[phase.state].update({name: getattr(phase, name) for name in COUNTS})
    phases = tuple(phase_stats(Phase(state=state, **of)) for state, of in tallies.items())
    summed = {name: sum(getattr(run, name) for run in runs) for name in SUMMED}
    return MachineStats(
        machine=machine,
        runs=len(runs),
        finished=len(finished),
        succeeded=sum(run.success is True for run in finished),
        clean=clean,
        corrected=_group([run for run in finished if run.corrections]),
        clean_share=share(clean.runs, len(finished)),
        **summed,
        **_shares(summed, phases),
        overrides=sum(len(run.overrides) for run in runs),
        phases=phases,
    )


def _group(runs: Sequence[RunStats]) -> Group:
    priced = [run.cost_usd for run in runs if run.cost_usd is not None]
    return Group(
        runs=len(runs),
        cost_usd=share(sum(priced), len(priced)),
        seconds=share(sum(run.seconds for run in runs), len(runs)),
        unpriced=len(runs) - len(priced),
    )


def _shares(summed: Mapping[str, int], phases: Sequence[PhaseStats]) -> dict[str, Any]:
    return {
        "correction_rate": share(summed["corrections"], summed["works"]),
        "density": density(summed["blocking"], sum(phase.characters for phase in phases)),
        "process_yield": share(summed["caught"], summed["blocking"]),
    }


def stats_of(row: RunRow, history: Sequence[Stored]) -> RunStats:
    """The statistics of a stored run; raises RunUnreadable."""
    state = state_after(row.run, history, is_counted=False)
    figures = Figures()
    for stored in history:
        figures.take(stored.event, stored.at)
    phases = tuple(map(phase_stats, figures.phases))
    defects = tuple(figures.defects)
    blocking = [defect for defect in defects if defect.blocking]
    summed = {
        "works": figures.works,
        "corrections": figures.again,
        "blocking": len(blocking),
        "resolved": sum(defect.status == "resolved" for defect in blocking),
        "caught": sum(not defect.missed for defect in blocking),
    }
    return RunStats(
        run=row.run,
        machine=state.machine,
        status=status_of(state, is_driven=row.is_driven),
        outcome=state.finished.outcome if state.finished else None,
        success=state.finished.success if state.finished else None,
        played=state.script is not None,
        started=history[0].at,
        calls=state.usage.agent_calls,
        tokens=state.usage.tokens - state.usage.held_tokens,
        cost_usd=usd_without_held(state.usage),
        seconds=state.usage.time_s,
        **summed,
        **_shares(summed, phases),
        phases=phases,
        defects=defects,
        overrides=tuple(figures.overrides),
    )


def phase_stats(phase: Phase) -> PhaseStats:
    return PhaseStats(
        **phase.plain(),
        correction_rate=share(phase.corrections, phase.works),
        density=density(phase.injected, phase.characters),
        phase_yield=share(phase.found, phase.found + phase.missed),
    )


def share(part: float, whole: int) -> float | None:
    """The share of a part, or a mean; None if the whole is 0."""
    return part / whole if whole else None


def density(defects: int, characters: int) -> float | None:
    """Defects per thousand characters; None without characters."""
    return defects * CHARACTERS / characters if characters else None


def children_of(history: Iterable[Stored]) -> list[str]:
    return [each.event.child for each in history if isinstance(each.event, ChildStarted)]


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
    yield f"{stats.machine}: {plural(stats.runs, 'run', ',')}, {stats.finished:,} finished"
    yield from columns(list(figures_of(stats)), "<<<")
    if stats.phases:
        yield ""
        yield from columns([OF_PHASES, *map(phase_cells, stats.phases)], "<" + ">" * 8)


def figures_of(stats: MachineStats) -> Iterator[tuple[str, str, str]]:
    def part(name: str, count: int, whole: int, noun: str) -> tuple[str, str, str]:
        return f"  {name}", percent(count, whole), f"{count:,} of {plural(whole, noun, ',')}"

    yield part("succeeded", stats.succeeded, stats.finished, "finished run")
    yield part("clean", stats.clean.runs, stats.finished, "finished run")
    yield part("correction rate", stats.corrections, stats.works, "work")
    yield part("process yield", stats.caught, stats.blocking, "defect")
    density = NONE if stats.density is None else f"{stats.density:.2f}"
    yield "  defect density", density, "defects per 1,000 characters"
    yield part("resolved", stats.resolved, stats.blocking, "defect")
    yield "  overrides", f"{stats.overrides:,}", ""
    for name, group in (("clean", stats.clean), ("corrected", stats.corrected)):
        known = group.runs - group.unpriced
        left_out = f", {group.unpriced:,} of unknown cost left out" if group.unpriced else ""
        mean = cost_of(group.cost_usd) or "$0" if known else NONE
        yield f"  cost, {name} run", mean, f"mean of {plural(known, 'run', ',')}{left_out}"
        lasted = NONE if group.seconds is None else duration(group.seconds)
        yield f"  time, {name} run", lasted, f"mean of {plural(group.runs, 'run', ',')}"


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else NONE


def phase_cells(phase: PhaseStats) -> tuple[str, ...]:
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
