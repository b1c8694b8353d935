"""Which facts each kind of state can leave for its transitions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from loopkit.checks.domains import Values, bounded_inputs, domains
from loopkit.checks.rows import ROOM, Dimension, Exit, Row, Table
from loopkit.checks.subject import Subject
from loopkit.definition import (
    AgentState,
    CommandState,
    HumanState,
    JudgeRule,
    State,
    ValidateState,
)
from loopkit.graph import Edge, output_of
from loopkit.guard import Guard, check
from loopkit.scope import own_names

OF_COUNTING = frozenset({"revisions", "max_revisions"})
OF_COUNTERS = OF_COUNTING | {"cap_reached"}
COUNTS = ("error_count", "warning_count")
MOST_COUNTS = 1_000


def table_of(subject: Subject, name: str) -> Table | None:
    """The rows of a state; none where one of its guards cannot be used."""
    edges = subject.graph.on(name, "done")
    guards = {e.id: subject.guards.whole(e.guard) for e in edges if e.guard is not None}
    types = subject.guard_types[name]
    usable = [g for g in guards.values() if g is not None and not check(g, types)]
    if len(usable) < len(guards):
        return None
    values = domains(usable, types, subject.scope.input)
    counted = tuple(_counters(subject, edges, usable))
    varied = OF_COUNTERS.union(*(row for dimension in counted for row in dimension))
    facts = own_names(subject.graph, name).keys()
    own = {fact: values[fact] for fact in values if fact in facts}
    # What a state's own facts are called elsewhere would vary without regard to them.
    known = {*facts, *varied, *(fact for fact in values if _is_of(fact, name))}
    free = {fact: values[fact] for fact in values if fact not in known}
    state = subject.machine.states[name]
    judges = isinstance(state, ValidateState)
    return Table(
        exits=tuple(Exit(e, guards.get(e.id), needs_fail=judges and e.back) for e in edges),
        own=tuple(_own(subject, name, own)),
        others=(*counted, *_free(free)),
        is_human=isinstance(state, HumanState),
    ).fitted()


def _is_of(fact: str, state: str) -> bool:
    return fact.startswith((f"{state}.", f"reports.{state}."))


def _own(subject: Subject, name: str, values: Mapping[str, Values]) -> Iterator[Dimension]:
    match subject.machine.states[name]:
        case ValidateState():
            yield tuple(_reports(subject, name, values))
        case HumanState(choices=choices):
            yield from _free({"choice": choices, **values})
        case _:
            yield from _free(values)


def _free(values: Mapping[str, Values]) -> Iterator[Dimension]:
    """Facts that vary without regard to the others."""
    for name, known in values.items():
        yield tuple({name: value} for value in known)


def _counters(
    subject: Subject, edges: Sequence[Edge], guards: Sequence[Guard]
) -> Iterator[Dimension]:
    """For each counter of the revise edges: there is room, or there is none."""
    back = [edge for edge in edges if edge.back]
    reads_count = any(guard.names & OF_COUNTING for guard in guards)
    for counter in dict.fromkeys(counter for edge in back for counter in edge.counters):
        cap = subject.graph.caps.get(counter)
        counts: Dimension = ()
        if reads_count and len(back) == 1 and counter == back[0].counters[0]:
            counts = tuple(_counts(subject, counter))
        if cap == 0:
            yield ({ROOM + counter: False, "revisions": 0, "max_revisions": 0},)
        elif 0 < len(counts) <= MOST_COUNTS:
            yield counts
        else:
            yield ({ROOM + counter: True}, {ROOM + counter: False})


def _counts(subject: Subject, counter: str) -> Iterator[Row]:
    """How often a counter has been spent, for each of the caps that it may have."""
    cap = subject.graph.caps.get(counter)
    caps: Sequence[int] = (cap,) if isinstance(cap, int) else ()
    if isinstance(cap, str):
        caps = bounded_inputs(subject.scope.input).get(cap, ())
    for most in caps:
        bound = {cap: most} if isinstance(cap, str) else {}
        for spent in range(most + 1):
            counted = {"revisions": spent, "max_revisions": most}
            yield {ROOM + counter: spent < most, **counted, **bound}


def _reports(subject: Subject, name: str, values: Mapping[str, Values]) -> Iterator[Row]:
    """The facts of every report that can come to the transitions."""
    for verdict in _verdicts(subject, name, values.keys()):
        counted = _counted(verdict, values)
        for numbers in product(*counted.values()):
            yield {"verdict": verdict, **dict(zip(counted, numbers, strict=True))}


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
    }
    return {name: possible[name] for name in possible if name in values}


def _verdicts(subject: Subject, name: str, named: Collection[str]) -> Iterator[str]:
    """The verdicts that come to the transitions of a validate state."""
    rules = [placed.rule for placed in subject.rules if name in placed.judged_at]
    yield "pass"
    judged = any(isinstance(rule, JudgeRule) or rule.severity == "error" for rule in rules)
    if judged or _may_be_faulty(subject, name):
        yield "fail"
    if any(isinstance(rule, JudgeRule) or rule.severity == "warning" for rule in rules):
        yield "warn"
    if all(rule.guard is not None for rule in rules):
        yield "not_applicable"
    if {"incomplete", "verdict"} & {*named}:
        yield "incomplete"
    if {"infeasible", "verdict"} & {*named} and _may_be_infeasible(subject, name):
        yield "infeasible"


def _authors(subject: Subject, name: str) -> dict[str, State]:
    """The states that write what a validate state judges."""
    authors = subject.graph.artifacts.get(subject.judges[name].validate_, ())
    return {author: subject.machine.states[author] for author in authors}


def _may_be_faulty(subject: Subject, name: str) -> bool:
    """Whether what is judged can be an empty or unusable answer, which fails whatever the rules."""
    for author, state in _authors(subject, name).items():
        if isinstance(state, AgentState) and not subject.graph.on(author, "content"):
            return True
        if isinstance(state, CommandState) and output_of(state, author).file is not None:
            return True
    return False


def _may_be_infeasible(subject: Subject, name: str) -> bool:
    """Whether an author of what is judged can declare that it can't be done."""
    states = _authors(subject, name).values()
    names = {state.agent for state in states if isinstance(state, AgentState)}
    agents = (subject.machine.agents.get(agent) for agent in names)
    return any(agent is not None and agent.infeasible is not None for agent in agents)
