"""The result of a case: every failure with its place; none for a success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopkit.document.problems import Problem, render_one
from loopkit.text import printable


@dataclass(frozen=True, slots=True)
class Failure:
    """One thing in a run that is not as the case has it."""

    problem: Problem
    """The place in the file, and what happened instead."""
    shown: tuple[str, ...] = ()
    """Lines that show the difference."""

    def text(self, sources: Mapping[str, str]) -> str:
        """The failure for a terminal; `sources` are the texts of files, by name."""
        lines = (f"    {printable(line)}".rstrip() for line in self.shown)
        return "\n".join([render_one(self.problem, sources), *lines])


@dataclass(frozen=True)
class CaseResult:
    """The result of one case."""

    suite: str
    """The scenario file, as it was named."""
    case: str
    failures: tuple[Failure, ...]
    seconds: float
    """Real time that it took to play and to judge."""
    sources: Mapping[str, str]
    """The texts of the files that the failures name."""
    block: str = ""
    """`expect:` with what the run did, as YAML; empty where nothing else can be expected."""

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def text(self) -> str:
        """All failures, with a blank line between, and the block to paste if the run is right."""
        parts = [self.failures_text, *([self.block_text] if self.block else [])]
        return "\n\n".join(parts)

    @property
    def failures_text(self) -> str:
        """All failures, with a blank line between."""
        return "\n\n".join(failure.text(self.sources) for failure in self.failures)

    @property
    def block_text(self) -> str:
        """The block for a terminal, below a line that says what it is."""
        lines = map(printable, self.block.rstrip("\n").split("\n"))
        return "\n".join(["if the run is right, expect what it did:", "", *lines])

    @property
    def summary(self) -> str:
        """The first failure in a line: `plan.scenario.yaml:12: another path was taken`."""
        if not self.failures:
            return ""
        problem = self.failures[0].problem
        place = f"{problem.span.file}:{problem.span.line}: " if problem.span else ""
        return place + printable(problem.message)
