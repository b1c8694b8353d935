"""Moves out of one state in a configuration, and the change that each makes to it.

Rows with the same effect are one move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import product

from loopkit.language.facts import COMPLETE, COUNTING, OF_PROGRESS, VERDICT, of_verdict
from loopkit.language.guard.evaluate import UNKNOWN
from loopkit.language.guard.grammar import Guard, conditions
from loopkit.machine.edges import Edge, EdgeEvent
from loopkit.machine.graph import artifact_of
from loopkit.proof.bounds.agent_calls import NOBODY, Asked, Asking, Spread
from loopkit.proof.bounds.result import Taken
from loopkit.proof.bounds.variables import (
    FOUND,
    KEPT,
    LAST,
    LIMITED,
    PROGRESS,
    THEN,
    WORKED,
    Values,
    Variable,
    Variables,
    cut,
    facts_at,
    granted,
    number,
    owner_of,
    region_in,
)
from loopkit.proof.outcomes.facts import faults_of, own_table
from loopkit.proof.outcomes.table import FOUND_BY, ROOM, Row, Table, Telling, alike
from loopkit.values import Value

MOST_FLAGS = 6
"""The most untracked counters of a state for which every combination of room is tried."""
Kept = tuple[tuple[Variable, object], ...]


class Case(Value, frozen=True):
    """One row of facts, and the possible agent calls for it."""

    row: Row
    spread: Spread
    is_sure: bool = True
    """False if an open guard leaves undecided which edge the row takes."""
    verdict: object = None


class Move(Value, frozen=True, dict=True):
    """One way out of a state: an edge, with the facts that it leaves for later."""

    event: EdgeEvent
    edge: Edge | None
    """None if an uncaught error suspends the run."""
    kept: Kept = ()
    """The facts that guards of other states name."""
    is_judged: bool = False
    """Whether it brings a complete report."""
    is_spared: bool = False
    """Whether the state keeps its artifact and does not work."""
    cases: tuple[Case, ...] = ()

    @cached_property
    def least(self) -> Case:
        return min(self.cases, key=lambda case: len(case.spread.least))

    def taken(self, state: str, case: Case, asked: Asked) -> Taken:
        edge = self.edge.id if self.edge else None
        return Taken(state, self.event, edge, case.row, asked, self.is_spared)


class StateMoves(Value, frozen=True):
    """All moves of a state in one context, and whether it can be stuck there."""

    moves: tuple[Move, ...]
    stuck: Row | None = None
    """A row without an enabled transition; for a person, only if no answer is accepted."""
    is_surely_stuck: bool = False
    """False if a transition may be enabled, which cannot be decided."""
    closed: frozenset[str] = frozenset()
    """The back edges without room, among those for an event of the moves."""


class Moves:
    """The moves of every state, computed once for each context."""

    def __init__(
        self,
        variables: Variables,
        asking: Asking,
        conditions: Mapping[str, Sequence[Guard]] | None = None,
    ) -> None:
        """`conditions`, by state, have to be decided by its rows as its guards are."""
        self.variables = variables
        self.asking = asking
        self._graph = variables.graph
        self._conditions = conditions or {}
        self._told_by: dict[str, Telling] = {}
        self._tables: dict[str, Table] = {}
        self._stand_ins: dict[Variable, Callable[[object], object]] = {}
        self._known: dict[tuple[str, tuple[object, ...]], StateMoves] = {}
        named = {v for read in variables.read.values() for v in read if v.kind == "fact"}
        self._left: dict[str, list[Variable]] = {name: [] for name in self._graph.states}
        for variable in sorted(named):
            for name in self._graph.judges if variable == FOUND else (owner_of(variable.name),):
                self._left[name].append(variable)

    def of(self, name: str, values: Values) -> StateMoves:
        """The moves of a state in a configuration whose variables have these values."""
        context = dict(facts_at(self.variables, name, values))
        if name not in self._told_by:
            self._told_by[name] = self._tells(name, context.keys())
        told = self._told_by[name].of(context)
        known = self._known.get((name, told))
        if known is None:
            every = [self._within(name, {**context, **rooms}) for rooms in self._rooms(name)]
            known = self._known[name, told] = _merge_contexts(every)
        return known

    def _tells(self, name: str, facts: AbstractSet[str]) -> Telling:
        """What distinguishes the contexts of a state, which have these facts."""
        variables = self.variables
        own = (*variables.guards_at(name), *self._conditions.get(name, ()))
        every = (part for guard in own for part in conditions(guard.tree))
        numbers = {"attempt", *COUNTING, *variables.inputs.named}
        return Telling(every, facts, facts - numbers)

    def anything(self, name: str) -> tuple[Move, ...]:
        """All moves of a state in any configuration, and maybe more."""
        return () if self._graph.states[name].ends else self._within(name, {}).moves

    def _rooms(self, name: str) -> Iterator[Row]:
        """The combinations of room in the untracked counters of a state."""
        counters = {c for edge in self._graph.outgoing[name] for c in edge.counters}
        free = sorted(counters - self.variables.counted)
        if len(free) > MOST_FLAGS:
            yield {}
            return
        most = self.variables.inputs.most
        flags = [(True, False) if most(counter) else (False,) for counter in free]
        for chosen in product(*flags):
            yield {ROOM + counter: flag for counter, flag in zip(free, chosen, strict=True)}

    def _within(self, name: str, context: Row) -> StateMoves:
        """The moves of a state in a context; facts that it does not name may have any value."""
        table = self._table(name)
        grouped: dict[Move, list[Case]] = {}
        stuck: Row | None = None
        for own in self._rows(name, table, context):
            row = self._full_row(name, table, own, context)
            taken, is_left = table.exits_of(row)
            is_sure = is_left and len(taken) < 2
            is_judge = name in self._graph.judges
            asking = self.asking
            spreads = asking.judging(name, row) if is_judge else asking.author(name, row=row)
            verdict = table.verdict(own)
            cases = [Case(own, s, is_sure and s.is_sure, verdict) for s in spreads]
            if not cases:
                continue
            kept = self._facts_left(name, row)
            is_judged = verdict in COMPLETE
            for exit_ in taken:
                grouped.setdefault(Move("done", exit_.edge, kept, is_judged), []).extend(cases)
            if stuck is None and not is_left:
                stuck = own
        if table.is_human and not grouped and stuck is None:
            return StateMoves((), next(table.rows(context), {}), is_surely_stuck=True)
        for caught, broken in self._errors(name, context):
            grouped.setdefault(caught, []).extend(broken)
        for spared, case in self._cases_without_work(name, table, context):
            grouped.setdefault(spared, []).append(case)
        moves = tuple(move.replace(cases=tuple(cases)) for move, cases in grouped.items())
        closed = frozenset(self._edges_without_room(name, moves, context))
        if stuck is None:
            return StateMoves(moves, closed=closed)
        surely = table.is_stuck(self._full_row(name, table, stuck, context))
        return StateMoves(moves, stuck, surely, closed)

    def _cases_without_work(
        self, name: str, table: Table, context: Row
    ) -> Iterator[tuple[Move, Case]]:
        """The cases of a state that keeps its artifact and goes on as after its last work."""
        if name not in self.variables.graph.keeping or not context.get(KEPT, True):
            return
        attempts = {"attempt": context[WORKED]} if WORKED in context else {}
        for own in table.rows({**context, **attempts}):
            row = self._full_row(name, table, own, {**context, **attempts})
            if all(self._is_last(row, fact, context) for fact in self.variables.own_facts(name)):
                taken, is_left = table.exits_of(row)
                is_sure = is_left and len(taken) < 2
                for exit_ in taken:
                    yield Move("done", exit_.edge, is_spared=True), Case(own, NOBODY, is_sure)

    def _is_last(self, row: Row, fact: Variable, context: Row) -> bool:
        """Whether a row may have the fact that a state's last work left."""
        known = context.get(LAST + fact.name, UNKNOWN)
        told = self._stand_in(fact, row.get(fact.name, UNKNOWN))
        return known == told or UNKNOWN in (known, told)

    def _edges_without_room(self, name: str, moves: Iterable[Move], context: Row) -> Iterator[str]:
        events = {move.event for move in moves}
        for edge in self._graph.outgoing[name]:
            for counter in edge.counters if edge.event in events else ():
                if context.get(ROOM + counter) is False:
                    yield edge.id

    def _table(self, name: str) -> Table:
        if name not in self._tables:
            elsewhere = self.variables.elsewhere[name]
            conditions = self._conditions.get(name, ())
            self._tables[name] = own_table(
                self.variables.analysis,
                name,
                elsewhere=elsewhere,
                here=conditions,
                items=self.variables.items(name),
            )
        return self._tables[name]

    def _rows(self, name: str, table: Table, context: Row) -> Iterator[Row]:
        earlier = number(context.get(PROGRESS, 2))
        for row in table.rows(context):
            progress = OF_PROGRESS.items() if table.is_report else ()
            if not any(row.get(fact) and earlier < least for fact, least in progress):
                # The judge that has found something is not a result of the state's own work.
                yield {fact: value for fact, value in row.items() if fact != FOUND_BY}

    def _full_row(self, name: str, table: Table, own: Row, context: Row) -> Row:
        """A row with its context; its own facts also have the names that other states use."""
        row = table.with_derived_facts({**context, **own})
        facts = {**own, **of_verdict(table.verdict(own))}
        dotted = {f"{name}.{fact}": value for fact, value in facts.items()}
        return {**row, **dotted, f"reports.{name}.{VERDICT}": own.get(VERDICT, UNKNOWN)}

    def _facts_left(self, name: str, row: Row) -> Kept:
        found_by = name if row.get(VERDICT) == "fail" else None
        return tuple(
            (v, found_by if v == FOUND else self._stand_in(v, row.get(v.name, UNKNOWN)))
            for v in self._left[name]
        )

    def _stand_in(self, variable: Variable, value: object) -> object:
        """A value that no guard of another state distinguishes from this one."""
        if variable not in self._stand_ins:
            guards = self.variables.elsewhere[owner_of(variable.name)]
            self._stand_ins[variable] = alike(variable.name, guards)
        return value if value is UNKNOWN else self._stand_ins[variable](value)

    def _facts_left_after(self, name: str, event: EdgeEvent) -> Kept:
        """The known facts of a state after an error, such as an incomplete report."""
        if event == "limit":
            return ()
        lost = [v for v in self._left[name] if event == "content" or v.name.startswith("reports.")]
        known = "incomplete" if name in self._graph.judges and event == "transient" else None
        kept = ((v, UNKNOWN if known is None else self._stand_in(v, known)) for v in lost)
        # A report without a verdict is also the last one.
        return (*kept, *((v, None) for v in self._left[name] if v == FOUND))

    def _errors(self, name: str, context: Row) -> Iterator[tuple[Move, Iterable[Case]]]:
        for event in faults_of(self.variables.analysis, name):
            cases = self._cases_of_error(name, event, context)
            for edge in self._edges_of_error(name, event, context) if cases else ():
                yield Move(event, edge, self._facts_left_after(name, event)), cases
        if cases := [Case({}, s, s.is_sure) for s in self.asking.on_suspension(name)]:
            yield Move("fatal", None), cases
        state = self._graph.states[name]
        # Limits are tested before calls.
        calls = state.child or state.call or self.asking.reach(name)
        if not context.get(LIMITED) and calls:
            for edge in self._graph.on(name, "limit"):
                cases = self._cases_of_error(name, "limit", context)
                yield Move("limit", edge), cases

    def _cases_of_error(self, name: str, event: EdgeEvent, context: Row) -> list[Case]:
        spreads = self.asking.author(name, event)
        if name in self._graph.judges:
            spreads = self.asking.without_report(name, event, context)
        return [Case({}, s, s.is_sure) for s in spreads]

    def _edges_of_error(self, name: str, event: EdgeEvent, context: Row) -> Iterator[Edge | None]:
        """The edges that an error may take, and None if it may suspend the run."""
        for edge in self._graph.on(name, event):
            rooms = [context.get(ROOM + counter) for counter in edge.counters]
            if False in rooms:
                continue
            yield edge
            if None not in rooms:
                return
        yield None


def merge_moves(moves: Sequence[Move]) -> Move:
    """Merge moves over one edge to one configuration into one with all their cases."""
    if len(moves) == 1:
        return moves[0]
    return moves[0].replace(cases=tuple(case for move in moves for case in move.cases))


def _merge_contexts(every: Sequence[StateMoves]) -> StateMoves:
    if len(every) == 1:
        return every[0]
    alike: dict[Move, dict[Spread, Case]] = {}
    for move in (move for ways in every for move in ways.moves):
        # Rows with the same calls cost the same.
        known = alike.setdefault(move.replace(cases=()), {})
        known.update({case.spread: case for case in move.cases})
    moves = tuple(move.replace(cases=tuple(by.values())) for move, by in alike.items())
    some = (ways for ways in every if ways.stuck is not None)
    stuck = max(some, key=lambda ways: ways.is_surely_stuck, default=StateMoves(()))
    closed = frozenset[str]().union(*(ways.closed for ways in every))
    return StateMoves(moves, stuck.stuck, stuck.is_surely_stuck, closed)


def changes_of(
    variables: Variables, move: Move, edge: Edge, values: Values
) -> Iterator[dict[Variable, object]]:
    """The new values of everything that a move over an edge changes.

    There is one result, unless the best version becomes the current one, which may be any earlier
    one. `values` has at least the variables that the state reads and `variables_updated` names.
    """
    new = dict[Variable, object](move.kept)
    _count(variables, edge, values, new)
    _arrive(variables, edge, new)
    if move.event == "limit":
        new[THEN] = 1
    if move.event in ("done", "content") and not move.is_spared:
        _complete(variables, edge.source, values, new)
        _write(variables, edge.source, new, is_kept=move.event == "done")
    if edge.back:
        _require_work(variables, edge, new)
    if move.is_judged:
        judged = Variable("judged", edge.source)
        most = 2 * variables.versions_judged_before(edge.source)
        new[judged] = min(number(values.get(judged, 0)) | 1, most)
    state = variables.graph.states[edge.source]
    if state.edits is not None:
        written = Variable("version", state.edits)
        new[written] = values.get(written) or 1
    if edge.from_best and edge.origin is None:
        # The report of the version that counts again may have found something else.
        new[FOUND] = UNKNOWN
    yield new
    if edge.from_best or (state.picks_best and not edge.back):
        yield from _restore_best(variables, values, new)


def variables_updated(variables: Variables, name: str) -> Iterator[Variable]:
    """The variables whose new value after a move depends on their old one."""
    state = variables.graph.states[name]
    yield Variable("works", name)
    yield Variable("judged", name)
    for judging in variables.behind.get(name, ()):
        yield Variable("judged", judging)
    goes_back = any(edge.from_best for edge in variables.graph.outgoing[name])
    if state.edits is not None or state.picks_best or goes_back:
        for written in variables.graph.artifacts:
            yield Variable("version", written)


def _count(variables: Variables, edge: Edge, values: Values, new: dict[Variable, object]) -> None:
    for counter in edge.resets:
        if counter in variables.counted:
            new[Variable("counter", counter)] = 0
    for counter in edge.counters:
        if counter in variables.rooms:
            room = Variable("room", counter)
            few, most = granted(region_in(values, room, ()))
            new[room] = range(max(few, 1) - 1, most)
        elif counter in variables.counted:
            spent = Variable("counter", counter)
            cap = variables.inputs.caps[counter]
            before = number(new.get(spent, values[spent]))
            new[spent] = before + 1
            bound = Variable("input", str(cap))
            if isinstance(region := values.get(bound), tuple | range):
                # It was spent, so the input has granted it.
                new[bound] = cut(region, before)[-1]


def _arrive(variables: Variables, edge: Edge, new: dict[Variable, object]) -> None:
    """Note the state from which the run comes, if it is read."""
    for name, source in ((edge.source, None), (edge.target, edge.source)):
        if Variable("before", name) in variables.read[name]:
            new[Variable("before", name)] = source


def _complete(variables: Variables, name: str, values: Values, new: dict[Variable, object]) -> None:
    """Count completed work: one more attempt, and a version of the artifact."""
    works = Variable("works", name)
    attempt = number(values.get(works, 0)) + 1
    new[works] = min(attempt, variables.most.get(works, attempt))
    artifact = artifact_of(variables.graph.machine, name)
    if artifact is None:
        return
    new[Variable("author", artifact)] = name
    version = Variable("version", artifact)
    if version in variables.most:
        new[version] = min(attempt, variables.most[version])
    for judging in variables.behind.get(name, ()):
        judged = Variable("judged", judging)
        # If the current version was judged, it is an earlier one now.
        new[judged] = number(values.get(judged, 0)) + 1 & ~1


def _write(variables: Variables, name: str, new: dict[Variable, object], *, is_kept: bool) -> None:
    """Note that only the last author of an artifact may keep it."""
    artifact = artifact_of(variables.graph.machine, name)
    for author in variables.graph.artifacts.get(artifact or "", ()):
        if author in variables.graph.keeping:
            new[Variable("kept", author)] = int(author == name and is_kept)


def _require_work(variables: Variables, edge: Edge, new: dict[Variable, object]) -> None:
    """Note that whoever receives the feedback has to work."""
    graph = variables.graph
    told: Iterable[str] = (edge.target,)
    if not graph.states[edge.target].reads_feedback:
        told = graph.artifacts.get(graph.states[edge.source].judges or "", ())
    for name in variables.graph.keeping.intersection(told):
        new[Variable("kept", name)] = 0


def _restore_best(
    variables: Variables, values: Values, new: dict[Variable, object]
) -> Iterator[dict[Variable, object]]:
    current = {
        version: number(new.get(version, values[version]))
        for artifact in variables.graph.artifacts
        if (version := Variable("version", artifact)) in values
    }
    authors = {Variable("author", artifact): None for artifact in variables.graph.artifacts}
    for chosen in product(*(range(1, most + 1) for most in current.values())):
        if chosen != tuple(current.values()):
            yield {**new, **authors, **dict(zip(current, chosen, strict=True))}
