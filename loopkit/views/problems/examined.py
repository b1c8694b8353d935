"""Examined files, with their problems."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.document.problems import Problem, Severity
from loopkit.values import Value, field


class Examined(Value, frozen=True):
    """The files that were read as machines, with all their problems."""

    files: tuple[str, ...]
    """The names that problems use; `<stdin>` for standard input."""
    problems: tuple[Problem, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    """The text of each file with a problem, if it can be read."""
    columns: int | None = None
    """The columns at which lines of a file are cut; None for programs, which get whole lines."""
    skipped: int = 0
    """How many YAML files in the folders are not machines."""

    def count(self, severity: Severity) -> int:
        return sum(problem.severity == severity for problem in self.problems)
