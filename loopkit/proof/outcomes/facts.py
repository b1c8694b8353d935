"""Facts that each kind of state can leave for its transitions, and errors that can end its work.

Those of a validate state come from the panel of its rules and the reports that these can give
together, and from artifacts that reach it without being judged; those of `each` from how many items
can succeed and fail together.
"""

from __future__ import annotations

import ast
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import cached_property
from itertools import chain, islice, product
from math import ceil, floor, inf
from typing import Literal

from loopkit.language import facts
from loopkit.language.facts import (
    CODES,
    COUNTING,
    COUNTS,
    ERRORS,
    OF_PROGRESS,
    OF_REVISING,
    OF_VERDICT,
    ORIGIN,
    SCORE,
    SEVERITY,
    UNANSWERED,
    VERDICT,
    WARNINGS,
)
from loopkit.language.guard.evaluate import UNKNOWN, Held, truth
from loopkit.language.guard.grammar import (
    Guard,
    at_place_of,
    conditions,
    constants,
    names_in,
    rebuild,
)
from loopkit.language.guard.type_check import check
from loopkit.language.machine import NO_FINDING
from loopkit.language.section import ErrorClass
from loopkit.language.states.each import BLOCKED, CANCELLED, EachState
from loopkit.language.validators import Rule
from loopkit.machine.edges import Edge
from loopkit.machine.graph import BREAKS_SCHEMA, NOT_VALIDATED, fault_codes
from loopkit.machine.item_list import item_counts
from loopkit.machine.scope import own_names
from loopkit.proof.outcomes.analysis import Analysis, levels_at, may_block, may_warn
from loopkit.proof.outcomes.table import (
    FOUND_BY,
    ROOM,
    Dimension,
    Exit,
    Row,
    Table,
    Values,
    alike,
    domains,
    input_ranges,
)
from loopkit.values import Value

MOST_COUNTS = 10_000


def table_of(analysis: Analysis, name: str) -> Table | None:
    """The rows of a state; None if one of its guards cannot be used."""
    edges = analysis.graph.on(name, "done")
    guards = whole_guards(analysis, edges)
    types = analysis.guard_types[name]
    known = (g for g in guards.values() if g is not None and all(n in types for n in g.names))
    usable = [guard for guard in known if not check(guard, types)]
    if len(usable) < len(guards):
        return None
    values = domains(usable, types, analysis.scope.input)
    counted = tuple(_counters(analysis, edges, usable))
    varied = {*OF_REVISING}.union(*(row for dimension in counted for row in dimension))
    facts = own_names(analysis.graph, name).keys()
    own = {fact: values[fact] for fact in values if fact in facts}
    # The names of its own facts in other states would vary independently of the facts.
    elsewhere = (fact for fact in values if not is_of(fact, name))
    free = {fact: values[fact] for fact in elsewhere if fact not in {*facts, *varied}}
    of_work = _own(analysis, name, own, [_as_own(guard, name) for guard in usable])
    given = _origins_before(analysis, name)
    return _table(analysis, name, guards, of_work, (*counted, *_free(free), *given))


def own_table(
    analysis: Analysis,
    name: str,
    *,
    elsewhere: Collection[Guard],
    here: Collection[Guard] = (),
    items: int | None = None,
) -> Table:
    """The rows that a state's work alone decides, fine enough for other guards than its own.

    `elsewhere` are the guards of other states that name its facts, `here` conditions on its own.
    All are whole. A guard that cannot be used may hold or not. `items` is the number of items in a
    list, if it is known.
    """
    edges = analysis.graph.on(name, "done")
    guards = whole_guards(analysis, edges)
    own_guards = [guard for guard in guards.values() if guard is not None]
    plain = [_as_own(guard, name) for guard in (*own_guards, *here)]
    renamed = [*plain, *(_as_own(guard, name, is_elsewhere=True) for guard in elsewhere)]
    values = domains(renamed, own_names(analysis.graph, name), analysis.scope.input)
    of_work = _own(analysis, name, values, renamed, items)
    table = _table(analysis, name, guards, of_work, tuple(_origins_before(analysis, name)))
    if here:
        # A condition may also be one of the words that a fact has.
        return table.replace(by_value=frozenset(values), first=(*table.first, *values))
    also = [part for guard in renamed[len(plain) :] for part in conditions(guard.tree)]
    known = {*values, *OF_VERDICT}
    alone = tuple(part for part in also if names_in(part) <= known)
    others = (names_in(part) for part in also if not names_in(part) <= known)
    beside = values.keys() & set(chain.from_iterable(others))
    whole = table.by_value | beside
    return table.replace(also=alone, by_value=whole, first=(*table.first, *sorted(beside)))


def _table(
    analysis: Analysis,
    name: str,
    guards: Mapping[str, Guard | None],
    own: Iterable[Dimension],
    others: Sequence[Dimension],
) -> Table:
    state = analysis.states[name]
    judges = state.judges is not None
    exits: list[Exit] = []
    for edge in analysis.graph.on(name, "done"):
        guard = guards.get(edge.id)
        own_guard = None if guard is None else _as_own(guard, name)
        is_behind = state.waits and not edge.back
        behind = (each for each in exits if is_behind and each.edge.origin is not None)
        exits.append(Exit.of_edge(edge, own_guard, behind, needs_fail=judges and edge.back))
    of_rules = (rule.guard for rule in analysis.rules_at.get(name, ()))
    texts = (*(edge.guard for edge in analysis.graph.on(name, "done")), *of_rules)
    reads_cap = "cap_reached" in analysis.guards.names_in(texts)
    table = Table(
        tuple(exits), tuple(own), tuple(others), is_human=state.waits, reads_cap=reads_cap
    )
    if state.child is not None:
        # The figures of children depend on their outcome.
        return table.replace(first=("outcome", "total"))
    if not judges:
        return table
    report = frozenset(fact for dimension in table.own for row in dimension for fact in row)
    return table.replace(
        is_report=True,
        is_possible=Panel(analysis, name).is_possible,
        by_value=report - {CODES},
        first=(VERDICT, ORIGIN) if analysis.told_what_was_found else (VERDICT,),
    )


def _as_own(guard: Guard, state: str, *, is_elsewhere: bool = False) -> Guard:
    """A guard with the facts of a state named as its own guards name them.

    With `is_elsewhere`, plain names are facts of another state, which have no meaning here.
    """

    def rename(name: str) -> str:
        if is_of(name, state):
            return name.removeprefix("reports.").removeprefix(f"{state}.")
        is_other = is_elsewhere and not name.startswith("input.")
        return f"{name} elsewhere" if is_other else name

    return renamed(guard, rename)


def renamed(guard: Guard, rename: Callable[[str], str]) -> Guard:
    def stand_in(node: ast.Name) -> ast.expr:
        return at_place_of(node, ast.Name(rename(node.id), ast.Load()))

    tree = rebuild(guard.tree, stand_in)
    return Guard(guard.text, tree, names_in(tree))


def is_of(fact: str, state: str) -> bool:
    """Whether a fact belongs to a state, by the name that it has elsewhere."""
    return fact.startswith((f"{state}.", f"reports.{state}."))


def _own(
    analysis: Analysis,
    name: str,
    values: Mapping[str, Values],
    guards: Iterable[Guard],
    items: int | None = None,
) -> Iterator[Dimension]:
    state = analysis.states[name]
    if state.judges is not None:
        yield from _of_report(analysis, name, values, alike(ORIGIN, guards))
    elif isinstance(state, EachState):
        yield rows_of_items(analysis, state, guards, items)
    else:
        # Facts with few values are listed whether or not a guard names them.
        listed = {fact: known.values for fact, known in state.facts.items() if known.values}
        yield from _free({**listed, **values})


def _of_report(
    analysis: Analysis,
    name: str,
    values: Mapping[str, Values],
    stand_in: Callable[[object], object],
) -> Iterator[Dimension]:
    """The facts of a report; its panel decides which of them are possible together.

    `stand_in` maps all origins that no guard distinguishes to one of them.
    """
    panel = Panel(analysis, name)
    others = {n: known for n, known in values.items() if n not in (*OF_VERDICT, VERDICT)}
    codes = others.pop(CODES, ())
    # The codes may need this many findings, and the rules may give no more.
    most = max(analysis.machine.report_severity.values(), default=0)
    few = range(max(len(codes) + len(analysis.rules_at[name]), most) + 1)
    for count in others.keys() & COUNTS:
        others[count] = tuple(dict.fromkeys((*few, *others[count])))
    if analysis.graph.origins:
        own = {edge.origin for edge in analysis.graph.on(name, "done")}
        others[ORIGIN] = (*panel.origins(lambda one: (one in own and one, stand_in(one))), None)
    yield from _free({VERDICT: panel.verdicts(), **others})
    for code in codes:
        yield ({CODES: Held({str(code)}, ())}, {CODES: Held((), {str(code)})})


def _origins_before(analysis: Analysis, name: str) -> Iterator[Dimension]:
    """The earliest origin of the last findings, for a person's state with edges to origins."""
    if name in analysis.told_what_was_found:
        # Whatever the review says, a person can choose the origin of each finding.
        found: list[Row] = [
            {ORIGIN: origin, FOUND_BY: judge}
            for judge in analysis.judges
            for origin in analysis.graph.origins.of_state(judge)
        ]
        yield (*found, {ORIGIN: None, FOUND_BY: None})


def _free(values: Mapping[str, Values]) -> Iterator[Dimension]:
    """Facts that vary independently of each other."""
    for name, known in values.items():
        yield tuple({name: value} for value in known)


def _counters(
    analysis: Analysis, edges: Sequence[Edge], guards: Sequence[Guard]
) -> Iterator[Dimension]:
    back = [edge for edge in edges if edge.back]
    counters = list(dict.fromkeys(counter for edge in back for counter in edge.counters))
    if len(back) == 1 and any(guard.names & COUNTING.keys() for guard in guards):
        counts = tuple(islice(_counts(analysis, back[0].counting), MOST_COUNTS + 1))
        if 0 < len(counts) <= MOST_COUNTS:
            yield counts
            counters = [counter for counter in counters if counter not in back[0].counting]
    for counter in counters:
        is_open = analysis.graph.caps.get(counter) != 0
        yield tuple({ROOM + counter: has_room} for has_room in (True, False)[not is_open :])


def _counts(analysis: Analysis, counters: Sequence[str]) -> Iterator[Row]:
    """How often counters have been spent, for each of the caps that they may have."""
    known = [analysis.graph.caps.get(counter, "") for counter in counters]
    inputs = dict.fromkeys(cap for cap in known if isinstance(cap, str))
    ranges = input_ranges(analysis.scope.input)
    for values in product(*(ranges.get(name, ()) for name in inputs)):
        bounds = dict(zip(inputs, values, strict=True))
        caps = [bounds[cap] if isinstance(cap, str) else cap for cap in known]
        for spent in product(*(range(cap + 1) for cap in caps)):
            left = [cap - count for cap, count in zip(caps, spent, strict=True)]
            rooms = {ROOM + c: n > 0 for c, n in zip(counters, left, strict=True)}
            yield {**rooms, "revisions": spent[0], "max_revisions": spent[0] + min(left), **bounds}


def whole_guards(analysis: Analysis, edges: Sequence[Edge]) -> dict[str, Guard | None]:
    """The guard of each edge that has one; None for a guard that cannot be used."""
    return {e.id: analysis.guards.whole(e.guard) for e in edges if e.guard is not None}


def rows_named(analysis: Analysis, name: str) -> frozenset[str]:
    """Which of `incomplete` and `infeasible` come to the transitions of a validate state."""
    edges = analysis.graph.on(name, "done")
    return facts.rows_named(analysis.guards.names_in(edge.guard for edge in edges))


def may_be_infeasible(analysis: Analysis, name: str) -> bool:
    authors = analysis.graph.artifacts.get(analysis.judges[name].validate_, ())
    agents = (agent for author in authors for agent in analysis.machine.agents_at(author))
    return any(agent.infeasible is not None for agent in agents)


Cause = Literal["", "faulty", "blocked", "judged"]
"""Why a report fails: there was no artifact, a fixed rule blocks, a judge rejects."""
AUTHOR = "author "
"""The author of the judged artifact, if it decides the origin of a finding."""


class Source(Value, frozen=True, dict=True):
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

    @cached_property
    def mild(self) -> Source:
        """The same findings, where none of them blocks."""
        return self.replace(blocks=False)


class Panel:
    """The rules of one validate state, and the reports that they can give in a context."""

    def __init__(self, analysis: Analysis, name: str) -> None:
        self._state = analysis.judges[name]
        self._machine = analysis.machine
        self._levels = levels_at(analysis.machine, self._state)
        self._named = rows_named(analysis, name)
        self._may_be_infeasible = may_be_infeasible(analysis, name)
        self._faults = fault_codes(analysis.graph, name)
        """Where there are none, no empty or unusable answer is judged."""
        self._origins = analysis.graph.origins
        # A first value that no state writes anew has no author.
        self._authors = analysis.graph.artifacts.get(self._state.validate_) or ("",)
        self._rules = analysis.rules_at[name]
        self._sources: dict[tuple[str, ...], list[tuple[Rule, Source]]] = {}
        """The rules with their findings, by the possible authors of the judged artifact."""
        self._whole_guard = analysis.guards.whole

    def applies(self, rule: Rule, row: Row) -> bool | None:
        """Whether a rule's guard surely holds or surely does not; None if it may do either."""
        if rule.guard is None:
            return True
        guard = self._whole_guard(rule.guard)
        return truth(guard.tree, row) if guard else None

    def verdicts(self) -> tuple[str, ...]:
        """The verdicts that can reach the transitions in any context."""
        every = ("pass", "fail", "warn", "not_applicable", "incomplete", "infeasible")
        return tuple(v for v in every if self.is_possible({VERDICT: v}))

    def origins(self, told: Callable[[str], Hashable]) -> tuple[str, ...]:
        """The possible earliest origins of a report that fails.

        One stands for all of which the same is `told` and with which the same reports are possible.
        """
        every = frozenset(o for author in self._authors for o in self._origins.of_author(author))
        found: dict[Hashable, str] = {}
        for origin in self._origins.in_order(every):
            found.setdefault((told(origin), self._findings_of(origin)), origin)
        return tuple(o for o in found.values() if self.is_possible({VERDICT: "fail", ORIGIN: o}))

    def _findings_of(self, origin: str) -> Hashable:
        """The same for origins with which the same reports are possible."""
        place = self._origins.place_of(origin)
        every = [found for who in self._authors for _, found in self._sources_by((who,))]
        defaults = tuple(origin == self._origins.default_of(who) for who in self._authors)
        return defaults, tuple((origin in s.origins, s.latest > place) for s in every)

    def is_possible(self, row: Row) -> bool:
        """Whether some report has these facts; missing facts may have any value."""
        if not self._has_severity(row):
            return False
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

    def _has_severity(self, row: Row) -> bool:
        """Whether some report with the other facts of a row is as severe as the row says."""
        word = row.get(SEVERITY)
        verdict = row.get(VERDICT)
        machine = self._machine
        if word is None or (verdict is None and not machine.report_severity):
            return True
        if machine.report_severity and ERRORS in row:
            return machine.severity_of((), int(str(row[ERRORS]))) == word
        if machine.report_severity:
            numbers = range(max(machine.report_severity.values()) + 1)
            return any(self.is_possible({**row, ERRORS: number}) for number in numbers)
        if word == NO_FINDING or verdict in ("pass", "not_applicable", "infeasible"):
            return word == NO_FINDING and verdict not in ("warn", "fail")
        if self._levels.blocks(str(word)):
            # A finding that came too late to block keeps its severity.
            return verdict == "fail" or self._state.settle_after is not None
        return verdict != "fail"

    def causes(self, row: Row) -> Iterator[Cause]:
        """The ways in which a report can fail with these facts."""
        rules = self._blocking(row)
        is_fault = self._faults and _is_of_fault(row, self._faults) and self._falls_back(row)
        if is_fault or self._is_of_draft(row):
            yield "faulty"
        fixed = [(rule, source) for rule, source in rules if rule.asks is None]
        blocked = [(rule, source) for rule, source in rules if rule.is_always_asked]
        if any(s.blocks and not _is_silent(s, row) for _, s in fixed) and _may_be(blocked, row):
            yield "blocked"
        judges = [(rule, source) for rule, source in rules if rule.asks is not None]
        mild = [(rule, source.mild) for rule, source in fixed]
        if _may_be([*mild, *judges], row):
            yield "judged"

    def _is_of_draft(self, row: Row) -> bool:
        """Whether the facts may be those of what the required tool found in the last draft."""
        told = row.get(CODES)
        is_told = not isinstance(told, Held) or NOT_VALIDATED not in told.absent
        blocks = row.get(ERRORS, 1) != 0
        return NOT_VALIDATED in self._faults and blocks and is_told and _is_none(row)

    def may_leave_judges_out(self, row: Row) -> bool:
        """Whether an incomplete report can have these facts with only `always` judges asked."""
        return _may_be([(r, source) for r, source in self._mild(row) if r.is_always_asked], row)

    def _mild(self, row: Row) -> list[tuple[Rule, Source]]:
        return [(rule, source.mild) for rule, source in self._applying(row)]

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
            else (rule, source.mild)
            for rule, source in rules
        ]

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
            own_code=rule.code if rule.asks is None else "",
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
    """Whether the facts are those of an unusable artifact: one finding, or its schema's."""
    told = row.get(CODES)
    held = told if isinstance(told, Held) else Held((), ())
    left = (codes & held or codes) - held.absent
    is_one = len(held) <= 1 and held <= codes and bool(left)
    errors = row.get(ERRORS, 1)
    is_counted = errors == 1 or (BREAKS_SCHEMA in left and errors != 0)
    return is_counted and row.get(WARNINGS, 0) == 0 and is_one and _is_none(row)


MOST_LINES = 64
"""The most numbers with which the facts may be compared; with more, the facts stay open."""
NEAR = range(-2, 3)
ENDS = (floor, ceil)


def rows_of_items(
    analysis: Analysis, state: EachState, guards: Iterable[Guard], known: int | None = None
) -> Dimension:
    """The rows of an `each` state that represent all others; `known` is the number of its items.

    `guards` name its facts as its own guards do.
    Conditions divide the pairs of numbers, of the items that succeeded and of those that failed,
    along lines: either number or their sum is a certain one, or both are the same. A part between
    such lines has a corner where two of them cross, or next to it. These are the rows.
    """
    ending, guards = Endings(state), tuple(guards)
    numbers = _numbers_compared(analysis, state, guards)
    if numbers is None:
        return ({"deadlocked": False}, {"deadlocked": True})[: 1 + ending.is_blocked]
    counts = item_counts(analysis.graph, state) if known is None else (known, known)
    pairs = {pair for pair in _pairs(*counts, numbers) if ending.may_be(*pair)}
    return tuple(
        {"succeeded": good, "failed": bad, "total": good + bad, "deadlocked": is_blocked}
        for good, bad in sorted(pairs, key=lambda pair: (sum(pair), pair[1]))
        for is_blocked in ((False, True) if ending.may_block(good, bad) else (False,))
    )


class Endings:
    def __init__(self, state: EachState) -> None:
        finals = state.child.finals
        outcomes = {*state.outcomes}
        awaited = {*state.awaited}
        self.successes = frozenset(name for name, final in finals.items() if final.succeeds)
        self.failures = frozenset(finals) - self.successes
        self.is_cancelled = CANCELLED in outcomes
        self.is_blocked = BLOCKED in outcomes and not outcomes - {BLOCKED} <= awaited
        self._blocking = self.successes - awaited if self.is_blocked else frozenset()
        stopping = self.successes & {*state.stop_on} if self.is_cancelled else frozenset()
        self.needs_failure = not self._blocking and not stopping
        """Where items have failed, one of them came to a failure of the machine itself."""

    def may_be(self, succeeded: int, failed: int) -> bool:
        """Whether so many items can succeed while so many fail."""
        if succeeded and not self.successes:
            return False
        if not failed or self.failures:
            return True
        # What cancelled or blocked them is an item that succeeded.
        return bool(succeeded) and not self.needs_failure

    def may_block(self, succeeded: int, failed: int) -> bool:
        """Whether one of the items that failed can have been blocked by another one."""
        is_by_success = bool(self._blocking) and succeeded > 0
        return self.is_blocked and failed >= (1 if is_by_success else 2)


def _pairs(least: int, most: int | None, numbers: Collection[int]) -> Iterator[tuple[int, int]]:
    """The pairs at the crossings of the lines that divide them, and the neighbours of these."""
    lines = {0, least, least if most is None else most, *numbers}
    near = {number + step for number in lines for step in (-1, 0, 1)}
    for first, second in product(near, near):
        for good, bad in _corners(first, second):
            is_few = most is None or good + bad <= most
            if min(good, bad) >= 0 and least <= good + bad and is_few:
                yield good, bad


def _corners(first: int, second: int) -> Iterator[tuple[int, int]]:
    yield first, second
    yield first, second - first
    yield second - first, first
    if first == second:
        # The line on which both numbers are equal.
        for step in NEAR:
            yield from ((first, first + step), (first + step, first))
            yield first // 2 + step, first - first // 2 - step


def _numbers_compared(
    analysis: Analysis, state: EachState, guards: Iterable[Guard]
) -> set[int] | None:
    """The numbers with which the facts are compared; None if they are unknown or too many."""
    ranges = input_ranges(analysis.scope.input)
    found: set[int] = set()
    for condition in (part for guard in guards for part in conditions(guard.tree)):
        names = names_in(condition)
        others = names - state.facts.keys()
        if others != names:
            if not others <= ranges.keys():
                return None
            found.update(*(ranges[name] for name in others))
            literals = (n for n in constants(condition) if isinstance(n, int | float))
            found |= {end(number) for number in literals for end in ENDS}
    return found if len(found) <= MOST_LINES else None


def faults_of(analysis: Analysis, name: str) -> tuple[ErrorClass, ...]:
    """The classes of error with which a state's work can end after the retries."""
    state = analysis.states[name]
    if state.judges is not None:
        return tuple(_of_judging(analysis, name))
    loses_content = _may_lose_content(analysis, name)
    return tuple(fault for fault in state.faults if fault != "content" or loses_content)


def _may_lose_content(analysis: Analysis, name: str) -> bool:
    """Whether a content fault ends the work: elsewhere it goes on to the state that judges it."""
    graph = analysis.graph
    state = graph.states[name]
    if not state.may_leave_none or graph.on(name, "content"):
        return True
    return not state.asks and not graph.judging_follows(name)


def _of_judging(analysis: Analysis, name: str) -> Iterator[ErrorClass]:
    """An incomplete report ends by the worst class among its missing answers."""
    named = rows_named(analysis, name)
    rules = analysis.rules_at[name]
    is_ended = "incomplete" not in named
    has_judge = any(rule.asks is not None for rule in rules)
    if is_ended and any(rule.may_be_lost for rule in rules):
        yield "transient"
    if (is_ended and has_judge) or is_given_up(analysis, name):
        yield "content"
    # A template that cannot be filled in, or a workspace that is not there, leaves no report.
    yield "fatal"


def is_given_up(analysis: Analysis, name: str) -> bool:
    """Whether an author's `infeasible` becomes a content fault of the judging state."""
    is_named = "infeasible" in rows_named(analysis, name)
    return not is_named and may_be_infeasible(analysis, name)
