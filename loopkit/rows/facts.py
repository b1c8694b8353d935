"""Which facts each kind of state can leave for its transitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product

from loopkit.definition import (
    AgentState,
    CommandState,
    HumanState,
    Rule,
    State,
    ValidateState,
)
from loopkit.graph import Edge, output_of
from loopkit.guard import Guard, check
from loopkit.guard.tree import at_place_of, names_in, rebuilt
from loopkit.rows.anatomy import Anatomy
from loopkit.rows.domains import Values, bounded_inputs, domains
from loopkit.rows.severity import levels_at, may_block, may_warn
from loopkit.rows.table import ROOM, Dimension, Exit, Row, Table
from loopkit.scope import own_names

OF_COUNTING = frozenset({"revisions", "max_revisions"})
OF_COUNTERS = OF_COUNTING | {"cap_reached"}
COUNTS = ("error_count", "warning_count")
MOST_COUNTS = 1_000


Applies = Callable[[Rule], bool | None]
"""Whether a rule's guard surely holds, surely does not, or (None) may do either."""


def table_of(anatomy: Anatomy, name: str) -> Table | None:
    """The rows of a state; none where one of its guards cannot be used."""
    edges = anatomy.graph.on(name, "done")
    guards = _whole_guards(anatomy, edges)
    types = anatomy.guard_types[name]
    usable = [g for g in guards.values() if g is not None and not check(g, types)]
    if len(usable) < len(guards):
        return None
    values = domains(usable, types, anatomy.scope.input)
    counted = tuple(_counters(anatomy, edges, usable))
    varied = OF_COUNTERS.union(*(row for dimension in counted for row in dimension))
    facts = own_names(anatomy.graph, name).keys()
    own = {fact: values[fact] for fact in values if fact in facts}
    # What a state's own facts are called elsewhere would vary without regard to them.
    known = {*facts, *varied, *(fact for fact in values if _is_of(fact, name))}
    free = {fact: values[fact] for fact in values if fact not in known}
    return _table(anatomy, name, guards, _own(anatomy, name, own), (*counted, *_free(free)))


def own_table(
    anatomy: Anatomy, name: str, *, elsewhere: Collection[Guard], here: Collection[Guard] = ()
) -> Table:
    """The rows that a state's work alone decides, fine enough for other guards than its own.

    `elsewhere` are the guards of other states that name its facts, `here` conditions on its own.
    All are whole. A guard that cannot be used counts as one that may hold or not.
    """
    edges = anatomy.graph.on(name, "done")
    guards = _whole_guards(anatomy, edges)
    own_guards = [guard for guard in guards.values() if guard is not None]
    plain = [_as_own(guard, name) for guard in (*own_guards, *here)]
    renamed = [*plain, *(_as_own(guard, name, is_elsewhere=True) for guard in elsewhere)]
    own = domains(renamed, own_names(anatomy.graph, name), anatomy.scope.input)
    return _table(anatomy, name, guards, _own(anatomy, name, own), ())


def _table(
    anatomy: Anatomy,
    name: str,
    guards: Mapping[str, Guard | None],
    own: Iterator[Dimension],
    others: Sequence[Dimension],
) -> Table:
    state = anatomy.machine.states[name]
    judges = isinstance(state, ValidateState)
    return Table(
        exits=tuple(
            Exit(e, guards.get(e.id), needs_fail=judges and e.back)
            for e in anatomy.graph.on(name, "done")
        ),
        own=tuple(own),
        others=tuple(others),
        is_human=isinstance(state, HumanState),
    ).fitted()


def _whole_guards(anatomy: Anatomy, edges: Sequence[Edge]) -> dict[str, Guard | None]:
    """The guard of each edge that has one; none for those that cannot be used."""
    return {e.id: anatomy.guards.whole(e.guard) for e in edges if e.guard is not None}


def _as_own(guard: Guard, state: str, *, is_elsewhere: bool = False) -> Guard:
    """A guard with the facts of a state named as its own guards name them.

    What plain names mean elsewhere are facts of another state, which get no meaning here.
    """

    def stand_in(node: ast.Name) -> ast.expr:
        name = node.id
        if _is_of(name, state):
            name = name.removeprefix("reports.").removeprefix(f"{state}.")
        elif is_elsewhere and "." not in name:
            name = f"{name} elsewhere"
        return at_place_of(node, ast.Name(name, ast.Load()))

    tree = rebuilt(guard.tree, stand_in)
    return Guard(guard.text, tree, names_in(tree))


def rows_named(anatomy: Anatomy, name: str) -> frozenset[str]:
    """Which of `incomplete` and `infeasible` come to the transitions of a validate state."""
    guards = _whole_guards(anatomy, anatomy.graph.on(name, "done")).values()
    named = frozenset[str]().union(*(guard.names for guard in guards if guard is not None))
    rows = frozenset({"incomplete", "infeasible"})
    return rows if "verdict" in named else rows & named


def _is_of(fact: str, state: str) -> bool:
    return fact.startswith((f"{state}.", f"reports.{state}."))


def _own(anatomy: Anatomy, name: str, values: Mapping[str, Values]) -> Iterator[Dimension]:
    match anatomy.machine.states[name]:
        case ValidateState():
            yield tuple(_reports(anatomy, name, values))
        case HumanState(choices=choices):
            yield from _free({"choice": choices, **values})
        case _:
            yield from _free(values)


def _free(values: Mapping[str, Values]) -> Iterator[Dimension]:
    """Facts that vary without regard to the others."""
    for name, known in values.items():
        yield tuple({name: value} for value in known)


def _counters(
    anatomy: Anatomy, edges: Sequence[Edge], guards: Sequence[Guard]
) -> Iterator[Dimension]:
    """For each counter of the revise edges: there is room, or there is none."""
    back = [edge for edge in edges if edge.back]
    reads_count = any(guard.names & OF_COUNTING for guard in guards)
    for counter in dict.fromkeys(counter for edge in back for counter in edge.counters):
        cap = anatomy.graph.caps.get(counter)
        counts: Dimension = ()
        if reads_count and len(back) == 1 and counter == back[0].counters[0]:
            counts = tuple(_counts(anatomy, counter))
        if cap == 0:
            yield ({ROOM + counter: False, "revisions": 0, "max_revisions": 0},)
        elif 0 < len(counts) <= MOST_COUNTS:
            yield counts
        else:
            yield ({ROOM + counter: True}, {ROOM + counter: False})


def _counts(anatomy: Anatomy, counter: str) -> Iterator[Row]:
    """How often a counter has been spent, for each of the caps that it may have."""
    cap = anatomy.graph.caps.get(counter)
    caps: Sequence[int] = (cap,) if isinstance(cap, int) else ()
    if isinstance(cap, str):
        caps = bounded_inputs(anatomy.scope.input).get(cap, ())
    for most in caps:
        bound = {cap: most} if isinstance(cap, str) else {}
        for spent in range(most + 1):
            counted = {"revisions": spent, "max_revisions": most}
            yield {ROOM + counter: spent < most, **counted, **bound}


def _reports(anatomy: Anatomy, name: str, values: Mapping[str, Values]) -> Iterator[Row]:
    """The facts of every report that can come to the transitions."""
    for verdict in verdicts(anatomy, name, lambda rule: None if rule.guard else True):
        counted = _counted(verdict, values)
        for numbers in product(*counted.values()):
            row = {"verdict": verdict, **dict(zip(counted, numbers, strict=True))}
            # Codes are those of findings.
            if verdict == "fail" or not row.get("codes") or row.get("warning_count") != 0:
                yield row


def _counted(verdict: str, values: Mapping[str, Values]) -> dict[str, Values]:
    """The values of the other facts of a report that go with its verdict."""
    some = {name: tuple(n for n in values.get(name, ()) if n != 0) or (1,) for name in COUNTS}
    fails = verdict == "fail"
    warnings: Values = some["warning_count"] if verdict == "warn" else (0, *some["warning_count"])
    is_clean = verdict in ("pass", "not_applicable")
    possible: dict[str, Values] = {
        "error_count": some["error_count"] if fails else (0,),
        "warning_count": (0,) if is_clean else warnings,
        "codes": (frozenset(),) if is_clean else values.get("codes", ()),
        "stalled": (True, False) if fails else (False,),
        "regressed": (True, False) if fails else (False,),
        "score": values.get("score", ()),
    }
    return {name: possible[name] for name in possible if name in values}


def verdicts(anatomy: Anatomy, name: str, applies: Applies) -> Iterator[str]:
    """The verdicts that come to the transitions of a validate state."""
    rules = anatomy.rules_at[name]
    possible = [rule for rule in rules if applies(rule) is not False]
    if possible:
        yield "pass"
    state = anatomy.judges[name]
    levels = levels_at(anatomy.machine, state)
    if any(may_block(rule, levels) for rule in possible) or may_be_faulty(anatomy, name):
        yield "fail"
    if any(may_warn(rule, state, levels) for rule in possible):
        yield "warn"
    if not any(applies(rule) for rule in rules):
        yield "not_applicable"
    named = rows_named(anatomy, name)
    if "incomplete" in named:
        yield "incomplete"
    if "infeasible" in named and may_be_infeasible(anatomy, name):
        yield "infeasible"


def _authors(anatomy: Anatomy, name: str) -> dict[str, State]:
    """The states that write what a validate state judges."""
    authors = anatomy.graph.artifacts.get(anatomy.judges[name].validate_, ())
    return {author: anatomy.machine.states[author] for author in authors}


def may_be_faulty(anatomy: Anatomy, name: str) -> bool:
    """Whether what is judged can be an empty or unusable answer, which fails whatever the rules."""
    for author, state in _authors(anatomy, name).items():
        if isinstance(state, AgentState) and not anatomy.graph.on(author, "content"):
            return True
        if isinstance(state, CommandState) and output_of(state, author).file is not None:
            return True
    return False


def may_be_infeasible(anatomy: Anatomy, name: str) -> bool:
    """Whether an author of what is judged can declare that it can't be done."""
    states = _authors(anatomy, name).values()
    names = {state.agent for state in states if isinstance(state, AgentState)}
    agents = (anatomy.machine.agents.get(agent) for agent in names)
    return any(agent is not None and agent.infeasible is not None for agent in agents)
