"""Severities: the levels of findings, and the level from which findings block."""

from __future__ import annotations

from functools import cached_property

from loopkit.values import Value

ERROR, WARNING = "error", "warning"


class Severities(Value, frozen=True, dict=True):
    """The levels of a machine, worst first."""

    levels: tuple[str, ...] = (ERROR, WARNING)
    blocking: str = ERROR
    """The mildest level at which something has to be corrected."""
    block: str | None = None
    """The mildest level that blocks where findings are counted, if that is another one."""

    @property
    def worst(self) -> str:
        return self.levels[0]

    @cached_property
    def ungraded(self) -> str:
        """The level of findings that nobody graded and that must be corrected: it always blocks."""
        return min(self.blocking, self.block or self.blocking, key=self.rank)

    def rank(self, level: str) -> int:
        """0 for the worst level; what is no level counts as the worst."""
        return self.levels.index(level) if level in self.levels else 0

    def is_severe(self, level: str) -> bool:
        """Whether a reviewer who names a finding of this level rejects what is judged."""
        return self.rank(level) <= self.rank(self.blocking)

    def blocks(self, level: str) -> bool:
        """Whether findings of this level block where they are counted."""
        return level not in self._advising

    @cached_property
    def _advising(self) -> tuple[str, ...]:
        """The levels that do not block: all that are milder than the mildest blocking one."""
        mildest = self.rank(self.block or self.blocking)
        return self.levels[mildest + 1 :]

    def with_cap(self, level: str, cap: str | None) -> str:
        """The level, or the cap where the level is worse."""
        return cap if cap is not None and self.rank(level) < self.rank(cap) else level

    def rejects(self, level: str, cap: str | None) -> bool:
        """Whether a finding of this level still rejects when its level is capped."""
        return self.is_severe(self.with_cap(level, cap))

    @property
    def severe(self) -> tuple[str, ...]:
        """The levels with which a reviewer rejects."""
        return tuple(level for level in self.levels if self.is_severe(level))

    @property
    def mild(self) -> tuple[str, ...]:
        """The levels with which a reviewer only advises."""
        return tuple(level for level in self.levels if not self.is_severe(level))

    @property
    def advisory(self) -> str:
        """The worst level that only advises; where none does, the mildest of all."""
        return (*self.mild, self.levels[-1])[0]

    def blocking_from(self, level: str | None) -> Severities:
        """The levels, of which this one and worse block; none leaves that to the machine."""
        return self.replace(block=level)
