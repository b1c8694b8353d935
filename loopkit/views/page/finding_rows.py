"""Findings with their history: in which rounds each was new, open, back or resolved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from loopkit.engine.findings import Finding, Report

MOST_ROUNDS = 12
"""How many rounds have a column: the last ones."""
Cell = Literal["", "new", "open", "back", "resolved", "not looked for", "withdrawn"]
OF_STATUS: dict[str, Cell] = {
    "new": "new",
    "recurring": "open",
    "regressed": "back",
    "withdrawn": "withdrawn",
    "resolved": "resolved",
}


@dataclass(slots=True)
class FindingRow:
    """A finding of a validate state, in its last wording."""

    finding: Finding
    cells: list[Cell]
    """Its status in each round, oldest first."""

    @property
    def now(self) -> Cell:
        """Its last status that is not empty."""
        return next((cell for cell in reversed(self.cells) if cell), "")


@dataclass(slots=True)
class FindingTable:
    """The findings of a validate state in all versions of one artifact."""

    state: str
    artifact: str
    rounds: list[Report] = field(default_factory=list)
    rows: dict[str, FindingRow] = field(default_factory=dict)
    """By id, in the order of discovery."""

    @property
    def skipped(self) -> int:
        """How many rounds have no column."""
        return max(len(self.rounds) - MOST_ROUNDS, 0)

    def take(self, report: Report) -> None:
        """Add the next round."""
        for finding in report.findings:
            self._note(finding, OF_STATUS.get(finding.status, "open"))
        for finding in report.resolved:
            self._note(finding, "resolved")
        for finding in report.unseen:
            self._note(finding, "not looked for")
        self.rounds.append(report)
        for row in self.rows.values():
            row.cells += [""] * (len(self.rounds) - len(row.cells))

    def _note(self, finding: Finding, cell: Cell) -> None:
        row = self.rows.get(finding.id)
        if row is None:
            row = self.rows[finding.id] = FindingRow(finding, [""] * len(self.rounds))
        if cell in ("new", "open", "back"):
            row.finding = finding
        del row.cells[len(self.rounds) :]
        row.cells.append(cell)


def finding_tables(reports: Iterable[Report]) -> list[FindingTable]:
    """A table for each validate state and artifact with findings, in order of appearance."""
    tables: dict[tuple[str, str], FindingTable] = {}
    for report in reports:
        key = report.state, report.artifact
        tables.setdefault(key, FindingTable(*key)).take(report)
    return [table for table in tables.values() if table.rows]
