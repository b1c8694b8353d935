"""What the events of a run say of its defects: where each was made, found and corrected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loopkit.engine.findings import Finding, Report
from loopkit.engine.records import Record

DefectStatus = Literal["open", "recurring", "resolved", "withdrawn"]


class Defect(Record, frozen=True, kw_only=True):
    """One defect of a run: all findings of one artifact with the same id, however worded."""

    id: str
    artifact: str
    """The artifact that has the defect. The same id in another artifact is another defect."""
    code: str
    """Its type: the finding's code, or else the key and position of the rule."""
    key: str
    """The reviewer's name for it."""
    severity: str
    """The severity in the last report that has it."""
    blocking: bool
    """Whether it ever blocked. Only such defects count in the figures."""
    message: str
    """The message in the last report that has it."""
    found_by: tuple[str, ...]
    """The validators that reported it last."""
    injected: tuple[str, ...]
    """The states that injected it, according to the last report that has it."""
    defaulted: bool
    """Whether nobody named these states, so that it falls to the author of the judged artifact."""
    detected: str
    """The validate state that found it first."""
    missed: tuple[str, ...]
    """The validate states that had judged since it was injected and did not find it."""
    reports: int
    """The number of complete reports that have it."""
    attempts: dict[str, int]
    """How many times each state worked while it was being corrected."""
    cost_usd: float | None
    """Its share of the cost of these works, in USD; null if unknown."""
    seconds: float
    """Its share of the time of these works, in seconds."""
    status: DefectStatus
    """`resolved` if the last report that looked for it does not have it; `withdrawn` if the run
    went back to a version without it; otherwise `recurring` if several reports have it, and `open`
    if one has."""


class Phase(Record, frozen=True, kw_only=True):
    """What one state of a run has written, injected, found and missed."""

    state: str
    works: int = 0
    """How many times it wrote its artifact."""
    corrections: int = 0
    """The number of these works that followed a revise edge, or repeated an earlier work."""
    characters: int = 0
    """The length of its last version, in characters."""
    injected: int = 0
    """The number of defects attributed to it."""
    found: int = 0
    """The number of defects that it was the first to find."""
    missed: int = 0
    """The number of defects that it could have found, and that another state found later."""


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
    """A person's decision to continue although findings block."""

    state: str
    """The gate: the state that asked."""
    choice: str
    by: str
    """`person`, `script`, or `timeout`."""
    comment: str
    """The justification."""
    at: float
    """The Unix time of the decision."""
    target: str
    """The next state of the run."""
    open: dict[str, int]
    """The number of open blocking findings, by severity."""


def origins_of(report: Report, finding: Finding) -> tuple[str, ...]:
    """The states to which a finding is attributed: without origins who wrote what was judged."""
    return finding.origins or (report.author,)
