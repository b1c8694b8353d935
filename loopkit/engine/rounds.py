"""Logs, which only grow, and rounds: the complete reports of validate states.

If a run goes back to an earlier version, the rounds since then are given up: they still count for
stalls, but not for what is open, nor for what had been found before.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, TypeVar, overload

from loopkit.engine.findings import OF_JUDGE, OF_SCORE, SAYS_NOTHING, Finding, Report
from loopkit.engine.payloads import Artifact
from loopkit.values import Mutable, Value, field

T = TypeVar("T")
Attempt = tuple[tuple[str, int], ...]
"""An author and its attempt number, and those of all states whose artifacts it used."""


def attempt_at(author: str, attempt: int, made_from: Mapping[str, int]) -> Attempt:
    return ((author, attempt), *sorted(made_from.items()))


@dataclasses.dataclass(slots=True)
class Round:
    """One complete report and the artifacts as they were then.

    The values that later rounds are compared with are computed once.
    """

    report: Report
    judged: Artifact
    snapshot: Mapping[str, Artifact]
    reports: Mapping[str, Report]
    """The current report of every validate state then, this one included."""
    number: int
    """How many rounds the run had before, of all validate states."""
    attempt: Attempt = dataclasses.field(init=False, compare=False)
    ids: frozenset[str] = dataclasses.field(init=False, compare=False)
    blocking_ids: frozenset[str] = dataclasses.field(init=False, compare=False)
    blocked_by: object = dataclasses.field(init=False, compare=False)

    def __post_init__(self) -> None:
        report, judged = self.report, self.judged
        self.attempt = attempt_at(judged.author, judged.attempt, report.made_from)
        # Of a finding that several validators have, each has its own id.
        told = (report.findings, *(answer.findings for answer in report.answers))
        self.ids = frozenset(one.id for findings in told for one in findings)
        self.blocking_ids, self.blocked_by = what_blocks(report)


def what_blocks(report: Report) -> tuple[frozenset[str], object]:
    """The ids of blocking findings, and a value that is equal if the same findings block.

    If one id stands for every failure, that value is equal to nothing else. A judge's own words
    are the same only if each of them is; silence is no sign that nothing changed.
    """
    ids: list[str] = []
    is_identified = True
    for finding in report.findings:
        if finding.blocking and not finding.is_repetition:
            ids.append(finding.id)
            speaks = finding.rule == OF_JUDGE and finding.message != SAYS_NOTHING
            is_identified = is_identified and (finding.identified or speaks)
    blocking = frozenset(ids)
    return blocking, blocking if is_identified else object()


class _Index:
    """Indexes of the rounds of one state; the last one of an attempt counts."""

    def __init__(self, rounds: Iterable[Round] = ()) -> None:
        self.all: list[Round] = []
        """In order, including those that no longer count."""
        self.by_attempt: dict[Attempt, Round] = {}
        self.by_work: dict[str, dict[Attempt, Round]] = {}
        """Of work that is known."""
        self.found = Counter[str]()
        """The number of rounds with each finding."""
        self.blocked = Counter[object]()
        for entry in rounds:
            self.add(entry)

    def add(self, entry: Round) -> None:
        self.all.append(entry)
        if (before := self.by_attempt.pop(entry.attempt, None)) is not None:
            if before.report.work:
                del self.by_work[before.report.work][before.attempt]
            self._count(before, -1)
        self.by_attempt[entry.attempt] = entry
        if entry.report.work:
            self.by_work.setdefault(entry.report.work, {})[entry.attempt] = entry
        self._count(entry, 1)

    def _count(self, entry: Round, by: int) -> None:
        for finding in entry.ids:
            self.found[finding] += by
        self.blocked[entry.blocked_by] += by


class Rounds(Mutable, eq=False):
    """The rounds of one validate state: one for each attempt that it judged completely.

    Never changed: `plus` makes a longer one, and `before` leaves out one attempt. Neither costs
    more with many rounds.
    """

    index: _Index = field(default_factory=_Index)
    """Shared: longer ones add to it."""
    length: int = 0
    """How many rounds of the index belong to this value."""
    kept: Rounds | None = None
    """The rounds that were not given up, if some were."""

    def plus(self, entry: Round) -> Rounds:
        """These rounds and one more; judging an attempt again replaces its round."""
        index = self._current()
        index.add(entry)
        return Rounds(index, self.length + 1, None if self.kept is None else self.kept.plus(entry))

    def before(self, attempt: Attempt | None) -> Earlier:
        """The rounds of all other attempts."""
        index = self._current()
        own = None if attempt is None else index.by_attempt.get(attempt)
        newest = reversed(index.by_attempt.values())
        last = next((entry for entry in newest if entry is not own), None)
        return Earlier(index, own, last, None if self.kept is None else self.kept.before(attempt))

    def back_to(self, line: Iterable[Round]) -> Rounds:
        """These rounds with all but `line` given up."""
        kept = _Index(line)
        return Rounds(self._current(), self.length, Rounds(kept, len(kept.all)))

    @property
    def line(self) -> Rounds:
        """The rounds that led to the current version."""
        return self if self.kept is None else self.kept

    @property
    def open(self) -> tuple[Finding, ...]:
        return self.line.before(None).open

    @property
    def attempts(self) -> Iterable[Attempt]:
        return self._current().by_attempt.keys()

    def of_attempt(self, attempt: Attempt) -> Round:
        return self._current().by_attempt[attempt]

    def __iter__(self) -> Iterator[Round]:
        """Oldest first."""
        return iter(self._current().by_attempt.values())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rounds):
            return False
        return list(self) == list(other) and list(self.line) == list(other.line)

    def __hash__(self) -> int:
        return hash(self.length)

    @property
    def since_valid(self) -> list[Round]:
        """The rounds after the last valid one, newest first."""
        newest = reversed(self._current().by_attempt.values())
        return list(takewhile(lambda entry: not entry.report.valid, newest))

    def _current(self) -> _Index:
        # A longer one that was discarded, because a template failed after it, has added to it.
        if len(self.index.all) != self.length:
            self.index = _Index(self.index.all[: self.length])
        return self.index


def best_of(rounds: Iterable[Round]) -> Round | None:
    """The round with the best work.

    Fewest blocking findings of deterministic validators, then fewest blocking, fewest others, the
    best score, the earliest. A faulty artifact, on which no rule was run, comes last.
    """
    return min(rounds, key=_rank, default=None)


def _rank(entry: Round) -> tuple[bool, int, int, int, float, int]:
    report = entry.report
    deterministic = sum(f.blocking and f.rule not in (OF_JUDGE, OF_SCORE) for f in report.findings)
    score = float("-inf") if report.score is None else report.score
    counts = (deterministic, len(report.blocking), len(report.warnings))
    return (bool(entry.judged.fault), *counts, -score, entry.number)


class Earlier(Value, frozen=True, eq=False):
    """The rounds of a state without those of one attempt, oldest first."""

    index: _Index
    own: Round | None
    """The round of that attempt."""
    last: Round | None
    kept: Earlier | None
    """The rounds that were not given up, if some were."""

    @property
    def line(self) -> Earlier:
        return self if self.kept is None else self.kept

    def __len__(self) -> int:
        return len(self.index.by_attempt) - (self.own is not None)

    def __iter__(self) -> Iterator[Round]:
        return self._others(self.index.by_attempt.values())

    def __reversed__(self) -> Iterator[Round]:
        return self._others(reversed(self.index.by_attempt.values()))

    @property
    def open(self) -> tuple[Finding, ...]:
        """The findings of the last round, and the earlier ones that it did not look for."""
        last = self.last
        return (*last.report.findings, *last.report.unseen) if last else ()

    def has_found(self, finding_id: str) -> bool:
        own = self.own is not None and finding_id in self.own.ids
        return self.index.found[finding_id] > own

    def has_blocked(self, what: object) -> bool:
        own = self.own is not None and self.own.blocked_by == what
        return self.index.blocked[what] > own

    def of_work(self, digest: str) -> Iterator[Round]:
        return self._others(self.index.by_work.get(digest, {}).values())

    def _others(self, rounds: Iterable[Round]) -> Iterator[Round]:
        return (entry for entry in rounds if entry is not self.own)


class Log(Sequence[T]):
    """Values in the order in which they came, which never changes: `plus` makes a longer one.

    Both share one list, so that adding costs the same however long it is. Only a second log with
    the same beginning copies it.
    """

    __slots__ = ("_length", "_shared")

    def __init__(self, shared: list[T] | None = None) -> None:
        """All values that are in a list now; longer logs add to it."""
        self._shared: list[T] = [] if shared is None else shared
        self._length = len(self._shared)

    def plus(self, value: T) -> Log[T]:
        shared, length = self._shared, self._length
        # All runs begin with the same empty log, which has to stay empty.
        if not length or len(shared) != length:
            shared = shared[:length]
        shared.append(value)
        return Log(shared)

    @property
    def last(self) -> T:
        """The newest value; there has to be one."""
        return self._shared[self._length - 1]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        at = range(self._length)[place]
        return self._shared[at] if isinstance(at, int) else [self._shared[each] for each in at]

    def __iter__(self) -> Iterator[T]:
        return islice(self._shared, self._length)

    def __reversed__(self) -> Iterator[T]:
        newest_first = reversed(self._shared)
        return islice(newest_first, len(self._shared) - self._length, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


EMPTY: Log[Any] = Log()
