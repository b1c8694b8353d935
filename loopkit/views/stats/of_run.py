"""The figures of one run, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopkit.drive.archive import state_after
from loopkit.drive.stored_event import Stored
from loopkit.engine.events import ChildStarted
from loopkit.engine.telemetry import Figures, Phase, usd_without_held
from loopkit.journal.records import RunRow
from loopkit.views.stats.statistics import PhaseStats, RunStats
from loopkit.views.summary import status_of

CHARACTERS = 1000
"""The unit of a density."""


def stats_of(row: RunRow, history: Sequence[Stored]) -> RunStats:
    """The statistics of a stored run; raises RunUnreadable."""
    state = state_after(row.run, history, is_counted=False)
    figures = Figures()
    for stored in history:
        figures.take(stored.event, stored.at)
    phases, defects = tuple(map(phase_stats, figures.phases)), tuple(figures.defects)
    blocking = [defect for defect in defects if defect.blocking]
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
        works=figures.works,
        corrections=figures.again,
        correction_rate=figures.correction_rate,
        blocking=len(blocking),
        resolved=sum(defect.status == "resolved" for defect in blocking),
        density=density(len(blocking), sum(phase.characters for phase in phases)),
        caught=(caught := sum(not defect.missed for defect in blocking)),
        process_yield=share(caught, len(blocking)),
        phases=phases,
        defects=defects,
        overrides=tuple(figures.overrides),
    )


def phase_stats(phase: Phase) -> PhaseStats:
    """A phase with its shares."""
    return PhaseStats(
        state=phase.state,
        works=phase.works,
        corrections=phase.corrections,
        characters=phase.characters,
        injected=phase.injected,
        found=phase.found,
        missed=phase.missed,
        correction_rate=share(phase.corrections, phase.works),
        density=density(phase.injected, phase.characters),
        phase_yield=share(phase.found, phase.found + phase.missed),
    )


def share(part: int, whole: int) -> float | None:
    """The share of a part; None if the whole is 0."""
    return part / whole if whole else None


def density(defects: int, characters: int) -> float | None:
    """Defects per thousand characters; None without characters."""
    return defects * CHARACTERS / characters if characters else None


def children_of(history: Iterable[Stored]) -> list[str]:
    """The ids of all runs that a run has begun, in order."""
    return [each.event.child for each in history if isinstance(each.event, ChildStarted)]
