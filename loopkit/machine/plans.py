"""Plans: for each state, all that its work and the step after it look up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from loopkit.language import AgentState, Emission, FinalState, HumanState, State
from loopkit.language.facts import CAME_FROM, rows_named
from loopkit.machine.asked import AgentAsked, RulesAsked, agent_asked, rules_asked
from loopkit.machine.edges import Edge, EdgeEvent
from loopkit.machine.graph import Graph
from loopkit.values import Value

Predicate: TypeAlias = Callable[[Mapping[str, object]], bool]


class Ways(Value, frozen=True):
    """The edges that one event can take out of a state, in their order."""

    edges: tuple[tuple[Edge, Predicate | None, bool], ...] = ()
    """Each with its compiled guard, and whether it leads forward."""
    names: frozenset[str] = frozenset()
    """The names that the guards read."""
    always: tuple[bool, ...] = ()
    """One bit for each edge if all of them are always enabled; else empty."""


class StatePlan(Value, frozen=True):
    """One state as the engine and the driver need it."""

    state: State
    calls: bool
    """Whether its work begins with the event `intended` of a call."""
    emission: Emission | None
    """The event that is stored when its work begins."""
    may_keep: bool
    """Whether it may keep its artifact when a forward edge enters it again."""
    agents: Mapping[str, AgentAsked]
    """Each of the agents that it may ask, by name."""
    judged: str | None
    """The artifact that it judges."""
    rules: RulesAsked | None
    """The rules by which it judges."""
    is_scored: bool
    """Whether one of its judges gives a score."""
    rows: frozenset[str]
    """Which of `incomplete` and `infeasible` its transitions name."""
    revises: tuple[Edge, ...]
    """Its revise edges."""
    elsewhere: frozenset[str]
    """The first parts of dotted names in its guards: other states, `reports`, `input`."""
    asks_before: bool
    """Whether its guards read from which state a run came to it."""
    restores: bool
    """Whether the best versions of artifacts become the current ones after it."""
    reads_feedback: bool
    """Whether it receives feedback about the artifact that it writes."""
    final: FinalState | None
    """The state itself, if the run ends in it."""
    human: HumanState | None
    """The state itself, if it asks a person."""
    asks: str | None
    """The agent that writes its artifact; the first one, if the state chooses among several."""
    chooses: bool
    """Whether it chooses its agent by a word."""
    is_routed: bool
    """Whether it has a revise edge for one origin."""
    ways: Mapping[EdgeEvent, Ways]

    def on(self, event: EdgeEvent) -> Ways:
        return self.ways.get(event, NO_WAYS)


NO_WAYS = Ways()
"""The ways of an event without an edge."""


def plan_of(
    graph: Graph,
    name: str,
    predicates: Mapping[str, Predicate],
    guard_names: Mapping[str, frozenset[str]],
) -> StatePlan:
    """The plan of a state; `predicates` and `guard_names` are by the ids of edges."""
    edges = graph.outgoing[name]
    judging = graph.judges.get(name)

    def names(some: tuple[Edge, ...]) -> Iterator[str]:
        return (read for edge in some for read in guard_names.get(edge.id, ()))

    ways: dict[EdgeEvent, Ways] = {}
    for event in dict.fromkeys(edge.event for edge in edges):
        led = graph.on(name, event)
        guarded = tuple((edge, predicates.get(edge.id), edge.forward) for edge in led)
        are_free = all(is_always and guard is None for _, guard, is_always in guarded)
        always = (True,) * len(guarded) if are_free else ()
        ways[event] = Ways(guarded, frozenset(names(led)), always)
    state, machine = graph.states[name], graph.machine
    agents: dict[str, AgentAsked] = {}
    if isinstance(state, AgentState):
        agents = {asked: agent_asked(machine, name, state, asked) for asked in state.asks}
    return StatePlan(
        state=state,
        calls=bool(state.call),
        emission=state.emits,
        may_keep=name in graph.keeping,
        agents=agents,
        judged=None if judging is None else judging.validate_,
        rules=None if judging is None else rules_asked(machine, judging),
        is_scored=name in graph.scoring,
        rows=rows_named(frozenset(names(graph.on(name, "done")))),
        revises=graph.revise_edges[name],
        elsewhere=frozenset(read.partition(".")[0] for read in names(edges) if "." in read),
        asks_before=CAME_FROM in names(edges),
        restores=state.waits and state.picks_best,
        reads_feedback=state.reads_feedback,
        final=state if isinstance(state, FinalState) else None,
        human=state if isinstance(state, HumanState) else None,
        asks=next(iter(state.asks), None),
        chooses=state.choice is not None,
        is_routed=any(edge.origin for edge in graph.revise_edges[name]),
        ways=ways,
    )
