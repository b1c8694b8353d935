"""Panels: the rules of a validate state, and the reports that they can give together."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from math import inf
from typing import Literal

from loopkit.language import Rule
from loopkit.language.facts import (
    CODES,
    COUNTS,
    ERRORS,
    OF_PROGRESS,
    ORIGIN,
    SCORE,
    UNANSWERED,
    VERDICT,
    WARNINGS,
)
from loopkit.language.guard.kleene import UNKNOWN, Held, truth
from loopkit.machine.codes import fault_codes
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.row_regions import Row
from loopkit.proof.outcomes.severity import levels_at, may_block, may_warn
from loopkit.proof.outcomes.unjudged import may_be_faulty, may_be_infeasible, rows_named
from loopkit.values import Value

Cause = Literal["", "faulty", "blocked", "judged"]
"""Why a report fails: there was no artifact, a fixed rule blocks, a judge rejects."""
AUTHOR = "author "
"""The author of the judged artifact, if it decides the origin of a finding."""


class Source(Value, frozen=True):
    """The findings that one rule can make."""

    codes: frozenset[str] | None
    """None if it may give any code."""
    most: float
    blocks: bool
    warns: bool
    own_code: str = ""
    """The code of all its findings, if there is one."""
    origins: frozenset[str] = frozenset()
    """The possible earliest origins of its findings, if the machine has origins."""
    latest: int = -1
    """The place of the latest of them in the order of the origins."""


_Reach = tuple[frozenset[str], int]
"""The possible earliest origins of findings, and the place of the latest."""


class Panel:
    """The rules of one validate state, and the reports that they can give in a context."""

    def __init__(self, analysis: Analysis, name: str) -> None:
        self._state = analysis.judges[name]
        self._levels = levels_at(analysis.machine, self._state)
        self._named = rows_named(analysis, name)
        self._may_be_infeasible = may_be_infeasible(analysis, name)
        self._faults = fault_codes(analysis.graph, name) if may_be_faulty(analysis, name) else None
        self._origins = analysis.graph.origins
        self._authors = analysis.graph.artifacts.get(self._state.validate_, ())
        self._rules = rules = analysis.rules_at[name]
        self._sources: dict[tuple[str, ...], list[tuple[Rule, Source]]] = {}
        """The rules with their findings, by the possible authors of the judged artifact."""
        self._guards = {
            rule.guard: analysis.guards.whole(rule.guard)
            for rule in rules
            if rule.guard is not None
        }

    def applies(self, rule: Rule, row: Row) -> bool | None:
        """Whether a rule's guard surely holds or surely does not; None if it may do either."""
        if rule.guard is None:
            return True
        guard = self._guards[rule.guard]
        return truth(guard.tree, row) if guard else None

    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that can reach the transitions in any context."""
        every = ("pass", "fail", "warn", "not_applicable", "incomplete", "infeasible")
        return tuple(v for v in every if self.is_possible({VERDICT: v}))

    def origins(self, named: Collection[str] | None = None) -> tuple[str, ...]:
        """The possible earliest origins of a report that fails.

        With `named`, one stands for all others with which the same reports are possible.
        """
        found: dict[object, str] = {}
        for origin in self._origins.in_order(self._every_origin):
            is_one = named is None or origin in named
            found.setdefault(origin if is_one else self._findings_of(origin), origin)
        return tuple(o for o in found.values() if self.is_possible({VERDICT: "fail", ORIGIN: o}))

    def _findings_of(self, origin: str) -> Hashable:
        """The same for origins with which the same reports are possible."""
        place = self._origins.place_of(origin)
        return tuple(
            (origin in defaults, *((origin in some, latest > place) for some, latest in found))
            for defaults, found in self._found_by_authors
        )

    @cached_property
    def _found_by_authors(self) -> Sequence[tuple[Collection[str], Collection[_Reach]]]:
        """For each set of possible authors, the default origins and those of the rules."""
        return [
            (
                {self._origins.default_of(author) for author in authors},
                list(dict.fromkeys((s.origins, s.latest) for _, s in self._sources_by(authors))),
            )
            for authors in self._sets_of_authors
        ]

    def is_possible(self, row: Row) -> bool:
        """Whether some report has these facts; missing facts may have any value."""
        if ORIGIN in row and VERDICT in row and (row[ORIGIN] is None) == (row[VERDICT] == "fail"):
            return False
        match row.get(VERDICT):
            case None:
                return True
            case "fail":
                return any(True for _ in self.causes(row))
            case verdict:
                # Only reports that fail have progress.
                has_progress = any(row.get(fact) for fact in OF_PROGRESS)
                return not has_progress and self._is_let_through(str(verdict), row)

    def causes(self, row: Row) -> Iterator[Cause]:
        """The ways in which a report can fail with these facts."""
        rules = self._blocking(row)
        if self._faults is not None and _is_of_fault(row, self._faults) and self._falls_back(row):
            yield "faulty"
        fixed = [(rule, source) for rule, source in rules if rule.asks is None]
        blocked = [(rule, source) for rule, source in rules if rule.is_always_asked]
        if any(s.blocks and not _is_silent(s, row) for _, s in fixed) and _may_be(blocked, row):
            yield "blocked"
        judges = [(rule, source) for rule, source in rules if rule.asks is not None]
        mild = [(rule, source.replace(blocks=False)) for rule, source in fixed]
        if _may_be([*mild, *judges], row):
            yield "judged"

    def may_leave_judges_out(self, row: Row) -> bool:
        """Whether an incomplete report can have these facts with only `always` judges asked."""
        return _may_be([(r, source) for r, source in self._mild(row) if r.is_always_asked], row)

    def _mild(self, row: Row) -> list[tuple[Rule, Source]]:
        return [(rule, source.replace(blocks=False)) for rule, source in self._applying(row)]

    def _is_let_through(self, verdict: str, row: Row) -> bool:
        if verdict in UNANSWERED and verdict not in self._named:
            return False
        rules = self._mild(row)
        match verdict:
            case "pass":
                return bool(rules) and _finds_nothing(row) and self._has_score(rules, row)
            case "not_applicable":
                surely = any(self.applies(rule, row) for rule in self._rules)
                return not surely and _finds_nothing(row) and _is_none(row)
            case "infeasible":
                return self._may_be_infeasible and _finds_nothing(row) and _is_none(row)
            case "incomplete":
                return bool(rules) and _may_be(rules, row)
            case _:
                # A judge that rejects in its own words gives no score.
                return _may_be(rules, row)

    def _has_score(self, rules: Iterable[tuple[Rule, Source]], row: Row) -> bool:
        """Whether a report without findings can have the score of the row.

        Every judge was asked and has answered, unless fewer are enough.
        """
        if row.get(SCORE, UNKNOWN) is None:
            scoring = [rule for rule, _ in rules if rule.score_range is not None]
            is_short = self._state.quorum is not None
            return is_short or not any(self.applies(rule, row) for rule in scoring)
        return _is_none(row) or _may_score(rules)

    def _falls_back(self, row: Row) -> bool:
        """Whether the earliest origin is the default of a finding without an origin."""
        origin = row.get(ORIGIN)
        authors = self._possible_authors(row)
        return origin is None or origin in {self._origins.default_of(author) for author in authors}

    def _possible_authors(self, row: Row) -> tuple[str, ...]:
        """The possible authors of the judged artifact."""
        author = row.get(AUTHOR)
        return (author,) if isinstance(author, str) else self._authors

    def _blocking(self, row: Row) -> Sequence[tuple[Rule, Source]]:
        """The rules that apply; those whose findings may all have earlier origins can't block.

        Empty if no blocking finding can have the earliest origin of the row.
        """
        rules, origin = self._applying(row), row.get(ORIGIN)
        if not isinstance(origin, str):
            return rules
        if not any(source.blocks and origin in source.origins for _, source in rules):
            return ()
        place = self._origins.place_of(origin)
        return [
            (rule, source)
            if source.latest > place or origin in source.origins
            else (rule, source.replace(blocks=False))
            for rule, source in rules
        ]

    @cached_property
    def _every_origin(self) -> frozenset[str]:
        return frozenset(o for author in self._authors for o in self._origins.of_author(author))

    @property
    def _sets_of_authors(self) -> Iterator[tuple[str, ...]]:
        """All of the authors, and each of several."""
        yield self._authors
        if len(self._authors) > 1:
            yield from ((author,) for author in self._authors)

    def _applying(self, row: Row) -> list[tuple[Rule, Source]]:
        rules = self._sources_by(self._possible_authors(row))
        return [(rule, source) for rule, source in rules if self.applies(rule, row) is not False]

    def _sources_by(self, authors: tuple[str, ...]) -> Sequence[tuple[Rule, Source]]:
        if authors not in self._sources:
            self._sources[authors] = [(rule, self._source(rule, authors)) for rule in self._rules]
        return self._sources[authors]

    def _source(self, rule: Rule, authors: Iterable[str]) -> Source:
        known = authors if self._origins else ()
        origins = frozenset(
            chain.from_iterable(self._origins.earliest_of(rule, who) for who in known)
        )
        return Source(
            codes=rule.codes,
            most=rule.most_findings,
            blocks=may_block(rule, self._levels),
            warns=may_warn(rule, self._state, self._levels),
            own_code=rule.own_code,
            origins=origins,
            latest=max(map(self._origins.place_of, origins), default=-1),
        )


def _may_be(rules: Sequence[tuple[Rule, Source]], row: Row) -> bool:
    """Whether some findings of these rules, at least one of them, make the facts of a row.

    `fail` has one that blocks, `warn` and `incomplete` have none, `warn` has another one. A rule
    with one finding at most gives it one code, so that codes do not compete for findings of the
    same rule.
    """
    if row.get(SCORE) is not None and not _may_score(rules):
        return False
    sources = [source for _, source in rules if not _is_silent(source, row)]
    errors = _range(row, ERRORS, least=1 if row[VERDICT] == "fail" else 0)
    if row[VERDICT] != "fail":
        errors = (errors[0], min(errors[1], 0))
    warnings = _range(row, WARNINGS, least=1 if row[VERDICT] == "warn" else 0)
    told = row.get(CODES)
    codes = told if isinstance(told, frozenset) else frozenset()
    blocking = _given([s for s in sources if s.blocks], codes)
    warning = _given([s for s in sources if s.warns], codes)
    only = len(blocking - warning), len(warning - blocking)
    most = [sum(s.most for s in sources if s.blocks), sum(s.most for s in sources if s.warns)]
    low = max(errors[0], only[0]), max(warnings[0], only[1])
    high = min(errors[1], most[0]), min(warnings[1], most[1])
    together = sum(source.most for source in sources if source.blocks or source.warns)
    return (
        codes <= blocking | warning
        and low[0] <= high[0]
        and low[1] <= high[1]
        and sum(low) <= together
        and len(codes) <= min(sum(high), together)
    )


def _given(sources: Iterable[Source], codes: frozenset[str]) -> frozenset[str]:
    """Those of some codes that findings of these sources may have."""
    found: set[str] = set()
    for source in sources:
        if source.codes is None:
            return codes
        found |= source.codes & codes
    return frozenset(found)


def _range(row: Row, count: str, *, least: int) -> tuple[float, float]:
    known = row.get(count)
    if not isinstance(known, int | float):
        return least, inf
    return max(known, least), known


def _is_silent(source: Source, row: Row) -> bool:
    codes = row.get(CODES)
    return isinstance(codes, Held) and codes.tells(source.own_code) is False


def _may_score(rules: Iterable[tuple[Rule, Source]]) -> bool:
    return any(rule.score_range is not None for rule, _ in rules)


def _is_none(row: Row) -> bool:
    return row.get(SCORE) is None


def _finds_nothing(row: Row) -> bool:
    return not any(row.get(fact) for fact in (*COUNTS, CODES))


def _is_of_fault(row: Row, codes: frozenset[str]) -> bool:
    """Whether the facts are those of the single finding for a missing artifact."""
    counts = (row.get(ERRORS, 1), row.get(WARNINGS, 0))
    told = row.get(CODES)
    held = told if isinstance(told, Held) else Held((), ())
    is_one = len(held) <= 1 and held <= codes and not codes <= held.absent
    return counts == (1, 0) and is_one and _is_none(row)
