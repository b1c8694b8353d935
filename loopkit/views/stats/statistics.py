"""The figures of `loopkit stats`, of runs and of machines. docs/telemetry.md defines each."""

from __future__ import annotations

from loopkit.engine.records import Record
from loopkit.engine.telemetry import Defect, Override, Phase


class PhaseStats(Phase, frozen=True, kw_only=True):
    """One state: what it has written, injected, found and missed, with the shares of these."""

    correction_rate: float | None = None
    """Corrections / works."""
    density: float | None = None
    """Injected defects / 1,000 characters of its last versions."""
    phase_yield: float | None = None
    """Found / (found + missed)."""


class RunStats(Record, frozen=True, kw_only=True):
    """One run. A share of nothing is none."""

    run: str
    machine: str
    status: str
    outcome: str | None
    """The final state; none while it has not finished."""
    success: bool | None
    played: bool
    """Whether a scenario played the agents."""
    started: float
    """Unix time."""
    calls: int
    tokens: int
    cost_usd: float | None
    """What was spent, children included, without what is only held; none where it is not known."""
    seconds: float
    """Work, not waiting."""
    works: int
    """How often its states wrote their artifacts."""
    corrections: int
    """How many of these works came behind a revise edge."""
    correction_rate: float | None
    """Corrections / works."""
    blocking: int
    """Defects that blocked."""
    resolved: int
    """How many of these are resolved."""
    density: float | None
    """Blocking defects / 1,000 characters of the last versions."""
    caught: int
    """How many of them no validate state has missed."""
    process_yield: float | None
    """Caught / blocking defects."""
    phases: tuple[PhaseStats, ...]
    defects: tuple[Defect, ...]
    overrides: tuple[Override, ...]

    @property
    def is_clean(self) -> bool:
        return not self.corrections


class Group(Record, frozen=True, kw_only=True):
    """Finished runs: those that were corrected, or those that were not."""

    runs: int = 0
    cost_usd: float | None = None
    """Of a run, in the mean over those whose cost is known."""
    seconds: float | None = None
    """Of a run, in the mean."""
    unpriced: int = 0
    """Runs whose cost is not known."""


class MachineStats(Record, frozen=True, kw_only=True):
    """All counted runs of one machine together. Shares are shares of the sums."""

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
    works: int
    corrections: int
    correction_rate: float | None
    """Corrections / works."""
    blocking: int
    """Defects that blocked."""
    resolved: int
    """How many of these are resolved."""
    density: float | None
    """Blocking defects / 1,000 characters of the last versions."""
    caught: int
    """How many of them no validate state has missed."""
    process_yield: float | None
    """Caught / blocking defects."""
    overrides: int
    phases: tuple[PhaseStats, ...]
