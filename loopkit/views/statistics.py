"""The figures of `loopkit stats`, of runs and of machines. docs/telemetry.md defines each."""

from __future__ import annotations

from loopkit.engine.records import Record
from loopkit.engine.telemetry import Defect, Override, Phase


class PhaseStats(Phase, frozen=True, kw_only=True):
    """One state: what it wrote, injected, found and missed, with the resulting shares."""

    correction_rate: float | None = None
    """Corrections / works."""
    density: float | None = None
    """Injected defects / 1,000 characters of its last versions."""
    phase_yield: float | None = None
    """Found / (found + missed)."""


class RunStats(Record, frozen=True, kw_only=True):
    """One run. A share is null if its denominator is zero."""

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
    works: int
    """How many times its states wrote their artifacts."""
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


class MachineStats(Record, frozen=True, kw_only=True):
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
    works: int
    corrections: int
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
    overrides: int
    phases: tuple[PhaseStats, ...]
