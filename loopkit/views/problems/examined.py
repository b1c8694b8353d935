"""Examined files, with their problems."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.document.problems import Problem, Severity
from loopkit.values import Value, field


class Examined(Value, frozen=True):
    """The files that were read as machines, with all their problems."""

    files: tuple[str, ...]
    """Names as problems have them; `<stdin>` for standard input."""
    problems: tuple[Problem, ...]
    texts: Mapping[str, str] = field(default_factory=dict)
    """The text of each file with a problem, as far as it can be read."""
    columns: int | None = None
    """How wide a line of a file may be shown to a reader; as wide as it is for programs."""
    skipped: int = 0
    """How many YAML files of the folders are no machines."""

    def count(self, severity: Severity) -> int:
        return sum(problem.severity == severity for problem in self.problems)
