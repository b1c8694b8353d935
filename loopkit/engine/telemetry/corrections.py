"""Corrections: what the works behind a revise edge cost, divided among the defects that they mend.

Each work counts in equal parts for every defect that is being corrected while it is done. The
parts are sums that only grow; a defect remembers where they stood when its correction began, so
that a work costs the same however many defects there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from loopkit.engine.findings import Finding
from loopkit.values import Value


class Sums(Value, frozen=True):
    """The shares of a defect that had been in correction from the start."""

    usd: float = 0.0
    seconds: float = 0.0
    unknown: int = 0
    """Works whose cost is not known."""


@dataclass(slots=True)
class Beginning:
    """Where everything stood when the correction of some defects began."""

    sums: Sums
    works: dict[str, int]


@dataclass(slots=True)
class Known:
    """A defect, as far as a run knows it."""

    finding: Finding
    artifact: str
    injected: tuple[str, ...]
    detected: str
    missed: tuple[str, ...]
    reports: int = 0
    blocking: bool = False
    end: Literal["", "resolved", "withdrawn"] = ""
    """How it ended; empty while it is open."""
    waits: bool = False
    """Whether it was sent back, and the state that it was sent to has not worked yet."""
    beginning: Beginning | None = None
    """Set while it is being corrected."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    sums: Sums = field(default_factory=Sums)


class Corrections:
    """The defects of a run that were sent back, and what has been spent on them."""

    def __init__(self) -> None:
        self.works: dict[str, int] = {}
        """How often each state wrote."""
        self._sums = Sums()
        self._count = 0
        """How many defects are being corrected."""
        self._sent: dict[str, list[Known]] = {}
        """By the validate state that has to judge them again."""
        self._waiting: dict[str, list[Known]] = {}
        """By the state whose next work begins their correction."""

    def send_back(self, state: str, found: Iterable[Known], addressees: Iterable[str]) -> None:
        """Record that a revise edge leads back because of a validate state's findings.

        If the edge leads to states that injected some of them, the correction of each defect begins
        with the next work of the states that injected it, else at once.
        """
        fresh = [known for known in found if not known.waits and known.beginning is None]
        self._sent.setdefault(state, []).extend(fresh)
        if not {origin for known in fresh for origin in known.injected} & set(addressees):
            self._begin(fresh)
            return
        for known in fresh:
            known.waits = True
            for origin in known.injected:
                self._waiting.setdefault(origin, []).append(known)

    def work(self, state: str, usd: float | None, seconds: float) -> None:
        """Record that a state has written its artifact."""
        self._begin([known for known in self._waiting.pop(state, ()) if known.waits])
        self.works[state] = self.works.get(state, 0) + 1
        self.spend(usd, seconds)

    def spend(self, usd: float | None, seconds: float) -> None:
        """Divide what something cost among the defects that are being corrected."""
        if self._count:
            self._sums = Sums(
                self._sums.usd + (usd or 0.0) / self._count,
                self._sums.seconds + seconds / self._count,
                self._sums.unknown + (usd is None),
            )

    def judge(self, state: str) -> None:
        """End the corrections of a validate state's findings, because it reports again."""
        for known in self._sent.pop(state, ()):
            known.waits = False
            if known.beginning is not None:
                known.attempts, known.sums = self.so_far(known)
                known.beginning = None
                self._count -= 1

    def so_far(self, known: Known) -> tuple[Mapping[str, int], Sums]:
        """The works and the shares of a defect, those of a correction in hand included."""
        began, had = known.beginning, known.sums
        if began is None:
            return known.attempts, had
        now, then = self._sums, began.sums
        sums = Sums(
            had.usd + now.usd - then.usd,
            had.seconds + now.seconds - then.seconds,
            had.unknown + now.unknown - then.unknown,
        )
        attempts = dict(known.attempts)
        for state, count in self.works.items():
            if more := count - began.works.get(state, 0):
                attempts[state] = attempts.get(state, 0) + more
        return attempts, sums

    def _begin(self, found: list[Known]) -> None:
        beginning = Beginning(self._sums, dict(self.works))
        for known in found:
            known.waits, known.beginning = False, beginning
        self._count += len(found)
