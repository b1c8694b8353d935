"""Facts that each kind of state can leave for its transitions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from loopkit.language import EachState
from loopkit.language.facts import CODES, COUNTING, COUNTS, OF_REVISING, OF_VERDICT, ORIGIN, VERDICT
from loopkit.language.guard import Guard, check
from loopkit.language.guard.kleene import Held
from loopkit.language.guard.tree import at_place_of, conditions, constants, names_in, rebuild
from loopkit.machine.edges import Edge
from loopkit.machine.guard_names import own_names
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.domains import Values, domains, input_ranges
from loopkit.proof.outcomes.item_rows import rows_of_items
from loopkit.proof.outcomes.panel import Panel
from loopkit.proof.outcomes.row_regions import Dimension, Row
from loopkit.proof.outcomes.table import FOUND_BY, ROOM, Exit, Table
from loopkit.proof.outcomes.unjudged import whole_guards

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
    alone = tuple(part for part in also if names_in(part) <= {*values, *OF_VERDICT})
    beside = {n for part in also if part not in alone for n in names_in(part) if n in values}
    whole = table.by_value | beside
    return table.replace(also=alone, by_value=whole, first=(*table.first, *sorted(beside)))


def _table(
    analysis: Analysis,
    name: str,
    guards: Mapping[str, Guard | None],
    own: Iterable[Dimension],
    others: Sequence[Dimension],
) -> Table:
    state = analysis.machine.states[name]
    judges = state.judges is not None

    def guard_of(edge: Edge) -> Guard | None:
        guard = guards.get(edge.id)
        return _as_own(guard, name) if guard is not None else None

    exits: list[Exit] = []
    for edge in analysis.graph.on(name, "done"):
        routing = [each for each in exits if state.waits and each.edge.origin is not None]
        behind = () if edge.back else tuple(routing)
        exits.append(Exit(edge, guard_of(edge), needs_fail=judges and edge.back, behind=behind))
    table = Table(
        exits=tuple(exits),
        own=tuple(own),
        others=tuple(others),
        is_human=state.waits,
    )
    if state.child is not None:
        # The figures of children depend on their outcome.
        return table.replace(first=("outcome", "total"))
    if not judges:
        return table
    report = frozenset(fact for dimension in table.own for row in dimension for fact in row)
    return table.replace(
        is_possible=Panel(analysis, name).is_possible,
        by_value=report - {CODES},
        first=(VERDICT, ORIGIN) if analysis.told_what_was_found else (VERDICT,),
    )


def _as_own(guard: Guard, state: str, *, is_elsewhere: bool = False) -> Guard:
    """A guard with the facts of a state named as its own guards name them.

    With `is_elsewhere`, plain names are facts of another state, which have no meaning here.
    """

    def stand_in(node: ast.Name) -> ast.expr:
        name = node.id
        if is_of(name, state):
            name = name.removeprefix("reports.").removeprefix(f"{state}.")
        elif is_elsewhere and not name.startswith("input."):
            name = f"{name} elsewhere"
        return at_place_of(node, ast.Name(name, ast.Load()))

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
    state = analysis.machine.states[name]
    if state.judges is not None:
        yield from _of_report(analysis, name, values, _origins_named(analysis, name, guards))
    elif isinstance(state, EachState):
        yield rows_of_items(analysis, state, guards, items)
    else:
        # Facts with few values are listed whether or not a guard names them.
        listed = {fact: known.values for fact, known in state.facts.items() if known.values}
        yield from _free({**listed, **values})


def _of_report(
    analysis: Analysis, name: str, values: Mapping[str, Values], origins: Collection[str] | None
) -> Iterator[Dimension]:
    """The facts of a report; its panel decides which of them are possible together."""
    panel = Panel(analysis, name)
    others = {n: known for n, known in values.items() if n not in (*OF_VERDICT, VERDICT)}
    codes = others.pop(CODES, ())
    # The codes may need this many findings, and the rules may give no more.
    few = range(len(codes) + len(analysis.rules_at[name]) + 1)
    for count in others.keys() & COUNTS:
        others[count] = tuple(dict.fromkeys((*few, *others[count])))
    if analysis.graph.origins:
        others[ORIGIN] = (*panel.origins(origins), None)
    yield from _free({VERDICT: panel.verdicts(), **others})
    for code in codes:
        yield ({CODES: Held({str(code)}, ())}, {CODES: Held((), {str(code)})})


def _origins_named(analysis: Analysis, name: str, guards: Iterable[Guard]) -> set[str] | None:
    """The origins that the edges of a state or some guards tell from others; None if all may be."""
    named = {edge.origin for edge in analysis.graph.on(name, "done") if edge.origin is not None}
    asking = (guard for guard in guards if ORIGIN in guard.names)
    for condition in (part for guard in asking for part in conditions(guard.tree)):
        if ORIGIN in (names := names_in(condition)):
            if len(names) > 1:
                return None
            named.update(map(str, constants(condition)))
    return named


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
    """For each counter of the revise edges, whether it has room."""
    back = [edge for edge in edges if edge.back]
    reads_count = any(guard.names & COUNTING.keys() for guard in guards)
    for counter in dict.fromkeys(counter for edge in back for counter in edge.counters):
        cap = analysis.graph.caps.get(counter)
        counts: Dimension = ()
        if reads_count and len(back) == 1 and counter == back[0].counters[0]:
            counts = tuple(_counts(analysis, counter))
        if cap == 0:
            yield ({ROOM + counter: False, "revisions": 0, "max_revisions": 0},)
        elif 0 < len(counts) <= MOST_COUNTS:
            yield counts
        else:
            yield ({ROOM + counter: True}, {ROOM + counter: False})


def _counts(analysis: Analysis, counter: str) -> Iterator[Row]:
    """How often a counter has been spent, for each of the caps that it may have."""
    cap = analysis.graph.caps.get(counter)
    caps: Sequence[int] = (cap,) if isinstance(cap, int) else ()
    if isinstance(cap, str):
        caps = input_ranges(analysis.scope.input).get(cap, ())
    for most in caps:
        bound = {cap: most} if isinstance(cap, str) else {}
        for spent in range(most + 1):
            counted = {"revisions": spent, "max_revisions": most}
            yield {ROOM + counter: spent < most, **counted, **bound}
