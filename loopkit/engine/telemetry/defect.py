"""What the events of a run say of its defects: where each was made, found and corrected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loopkit.engine.findings import Finding, Report
from loopkit.engine.records import Record

DefectStatus = Literal["open", "recurring", "resolved", "withdrawn"]


class Defect(Record, frozen=True, kw_only=True):
    """One defect of a run: a finding by its id, however often it was found and worded."""

    id: str
    artifact: str
    """What it is in; the same id in another artifact is another defect."""
    code: str
    """Its type: the finding's code; without one the rule's key and position."""
    key: str
    """What its reviewer calls it."""
    severity: str
    """As it was given last."""
    blocking: bool
    """Whether it ever blocked. Only such defects count in the figures."""
    message: str
    """The words of the last report that has it."""
    found_by: tuple[str, ...]
    """The validators that named it last."""
    injected: tuple[str, ...]
    """The states that made it, as the last report that has it says."""
    defaulted: bool
    """Whether nobody named these: it falls to the author of what was judged."""
    detected: str
    """The validate state that found it first."""
    missed: tuple[str, ...]
    """The validate states that had judged since it was made and did not find it."""
    reports: int
    """How many complete reports have it."""
    attempts: dict[str, int]
    """How often each state worked while it was being corrected."""
    cost_usd: float | None
    """Its share of what these works cost; none where that is not known."""
    seconds: float
    """Its share of the time of these works."""
    status: DefectStatus
    """`resolved` where the last report that looked for it does not have it, `withdrawn` where the
    run went back to a version without it; otherwise `recurring` where several reports have it."""


class Phase(Record, frozen=True, kw_only=True):
    """What one state of a run has written, injected, found and missed."""

    state: str
    works: int = 0
    """How often it wrote its artifact."""
    corrections: int = 0
    """How many of these works came behind a revise edge: directly, or because it worked again."""
    characters: int = 0
    """The length of what it wrote last."""
    injected: int = 0
    """Defects that are attributed to it."""
    found: int = 0
    """Defects that it was the first to find."""
    missed: int = 0
    """Defects that it could have found, and that were found later elsewhere."""


@dataclass(slots=True)
class Tally:
    """The counts of a phase while they grow."""

    works: int = 0
    corrections: int = 0
    characters: int = 0
    injected: int = 0
    found: int = 0
    missed: int = 0

    def add(self, phase: Phase) -> None:
        """Count what the same state did in another run."""
        self.works += phase.works
        self.corrections += phase.corrections
        self.characters += phase.characters
        self.injected += phase.injected
        self.found += phase.found
        self.missed += phase.missed

    def phase(self, state: str) -> Phase:
        return Phase(
            state=state,
            works=self.works,
            corrections=self.corrections,
            characters=self.characters,
            injected=self.injected,
            found=self.found,
            missed=self.missed,
        )


class Override(Record, frozen=True, kw_only=True):
    """A person's decision to go on although findings block."""

    state: str
    """The gate: the state that asked."""
    choice: str
    by: str
    """`person`, `script`, or `timeout`."""
    comment: str
    """The justification."""
    at: float
    """Unix time."""
    target: str
    """Where the run went."""
    open: dict[str, int]
    """How many findings of each severity were open and blocked."""


def origins_of(report: Report, finding: Finding) -> tuple[str, ...]:
    """The states to which a finding is attributed: without origins who wrote what was judged."""
    return finding.origins or (report.author,)
