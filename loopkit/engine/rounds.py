"""Rounds: the complete reports of validate states, with what each was about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from loopkit.engine.events import Artifact
from loopkit.engine.findings import Report

Attempt = tuple[str, int]
"""Whose, and its number."""


@dataclass(slots=True)
class Round:
    """One complete report and the artifacts as they were then.

    What later rounds compare themselves with is made once.
    """

    report: Report
    judged: Artifact
    snapshot: Mapping[str, Artifact]
    attempt: Attempt = field(init=False, compare=False)
    """Which attempt was judged."""
    ids: frozenset[str] = field(init=False, compare=False)
    """Of everything that was found."""
    blocking_ids: frozenset[str] = field(init=False, compare=False)
    blocked_by: object = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.attempt = (self.judged.author, self.judged.attempt)
        self.ids = frozenset([finding.id for finding in self.report.findings])
        self.blocking_ids, self.blocked_by = what_blocks(self.report)


def what_blocks(report: Report) -> tuple[frozenset[str], object]:
    """The ids of what blocks, and what is equal where the same does.

    Where one id stands for whatever fails, that is equal to nothing else.
    """
    ids: list[str] = []
    is_identified = True
    for finding in report.findings:
        if finding.blocking:
            ids.append(finding.id)
            is_identified = is_identified and finding.identified
    blocking = frozenset(ids)
    return blocking, blocking if is_identified else object()


class _Index:
    """The rounds of one state by what they are asked for; the last one of an attempt counts."""

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.all: list[Round] = []
        """In order, those that count no more included."""
        self.by_attempt: dict[Attempt, Round] = {}
        self.by_work: dict[str, dict[Attempt, Round]] = {}
        self.found: dict[str, int] = {}
        """In how many rounds each finding was."""
        self.blocked: dict[object, int] = {}
        for entry in rounds:
            self.add(entry)

    def add(self, entry: Round) -> None:
        self.all.append(entry)
        if (before := self.by_attempt.pop(entry.attempt, None)) is not None:
            del self.by_work[before.report.work][before.attempt]
            self._count(before, -1)
        self.by_attempt[entry.attempt] = entry
        self.by_work.setdefault(entry.report.work, {})[entry.attempt] = entry
        self._count(entry, 1)

    def _count(self, entry: Round, by: int) -> None:
        for finding in entry.ids:
            self.found[finding] = self.found.get(finding, 0) + by
        self.blocked[entry.blocked_by] = self.blocked.get(entry.blocked_by, 0) + by


class Rounds:
    """The rounds of one validate state: one for each attempt that it judged completely.

    Never changed: `plus` makes a longer one, and `before` looks at all but one attempt's. Neither
    costs more where there are many.
    """

    __slots__ = ("_index", "_length")

    def __init__(self, index: _Index | None = None) -> None:
        """All rounds that are in an index now; longer ones add to it."""
        self._index = _Index() if index is None else index
        self._length = len(self._index.all)

    def plus(self, entry: Round) -> Rounds:
        """These rounds and one more; judging an attempt again replaces its round."""
        index = self._current()
        index.add(entry)
        return Rounds(index)

    def before(self, attempt: Attempt | None) -> Earlier:
        """The rounds of all other attempts."""
        return Earlier(self._current(), attempt)

    def __iter__(self) -> Iterator[Round]:
        """Oldest first."""
        return iter(self._current().by_attempt.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rounds) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(self._length)

    def best(self) -> Round | None:
        """The round with the best work.

        Fewest blocking findings of deterministic validators, then fewest blocking, then fewest
        others, then the best score, then the earliest. What is no artifact, so that no rule was
        run on it, comes after everything that is one.
        """
        return min(self, key=_rank, default=None)

    def _current(self) -> _Index:
        # A longer one that was given up, as where a template failed behind it, has added to it.
        if len(self._index.all) != self._length:
            self._index = _Index(self._index.all[: self._length])
        return self._index


def _rank(entry: Round) -> tuple[bool, int, int, int, float]:
    report = entry.report
    deterministic = sum(f.blocking and f.rule != "judge" for f in report.findings)
    score = float("-inf") if report.score is None else report.score
    counts = (deterministic, len(report.blocking), len(report.warnings))
    return (bool(entry.judged.fault), *counts, -score)


class Earlier:
    """The rounds of a state without those of one attempt, oldest first."""

    __slots__ = ("_attempt", "_index", "_own")

    def __init__(self, index: _Index, attempt: Attempt | None) -> None:
        self._index = index
        self._attempt = attempt
        self._own = None if attempt is None else index.by_attempt.get(attempt)

    def __len__(self) -> int:
        return len(self._index.by_attempt) - (self._own is not None)

    def __iter__(self) -> Iterator[Round]:
        return self._others(self._index.by_attempt.values())

    def __reversed__(self) -> Iterator[Round]:
        return self._others(reversed(self._index.by_attempt.values()))

    def first(self, count: int) -> Iterator[Round]:
        return islice(self, count)

    @property
    def last(self) -> Round | None:
        for entry in reversed(self._index.by_attempt.values()):
            if entry is not self._own:
                return entry
        return None

    def has_found(self, finding_id: str) -> bool:
        """Whether a finding was in any of them."""
        own = self._own is not None and finding_id in self._own.ids
        return self._index.found.get(finding_id, 0) > own

    def has_blocked(self, what: object) -> bool:
        """Whether the same findings blocked in any of them."""
        own = self._own is not None and self._own.blocked_by == what
        return self._index.blocked.get(what, 0) > own

    def of_work(self, digest: str) -> Iterator[Round]:
        """Those in which the same work was judged."""
        return self._others(self._index.by_work.get(digest, {}).values())

    def _others(self, rounds: Iterable[Round]) -> Iterator[Round]:
        return (entry for entry in rounds if entry is not self._own)
