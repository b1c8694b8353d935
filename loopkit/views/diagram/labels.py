"""The texts of a diagram: what a state does, when an edge is taken and how often."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from loopkit.language import (
    AgentState,
    CommandState,
    EachState,
    HumanState,
    Limits,
    Machine,
    RenderState,
    Rule,
    ValidateState,
    rules_of,
)
from loopkit.machine.edges import ERROR_EVENTS, TOTAL, Edge
from loopkit.machine.graph import Graph, artifact_of
from loopkit.machine.program import AMOUNTS
from loopkit.text import one_line

MAX_CHARS = 200
"""The characters that are shown of a text from the machine file."""
TIE = "\u00a0"
"""A no-break space."""
WORD_WIDTH = 48
"""The columns after which even a word is broken."""


def state_texts(machine: Machine, name: str) -> Iterator[str]:
    """The kind of a state, and its agents, validators, tools or choices."""
    state = machine.states[name]
    artifact = artifact_of(machine, name)
    written = f" →{TIE}{artifact}" if artifact not in (None, name) else ""
    yield _clip(state.about) + written
    if outside := [name for name in state.asks if not machine.agents[name].is_called]:
        yield _clip("from outside" + (f": {', '.join(outside)}" if len(state.asks) > 1 else ""))
    if state.needed is not None:
        yield _clip("needs " + ", ".join(state.needed))
    match state:
        case ValidateState():
            named = (item if isinstance(item, str) else _rule(item) for item in state.by)
            yield _clip("by " + ", ".join(named))
            yield from _judges(machine, state)
        case AgentState() if tools := _tools(machine, name):
            yield _clip("may call " + ", ".join(tools))
        case RenderState(fallback=True) | CommandState(fallback=True):
            yield "fallback"
        case EachState() if state.parallel > 1:
            yield f"up to {state.parallel} at once"
        case HumanState():
            yield _clip(", ".join(state.choices))
            if state.timeout is not None and state.otherwise is not None:
                yield _clip(f"after {_duration(state.timeout)}: {state.otherwise}")


def _tools(machine: Machine, name: str) -> list[str]:
    """The tools that the agents of a state may call."""
    agents = machine.agents_at(name)
    return list(dict.fromkeys(tool for agent in agents for tool in agent.callable_tools))


def _judges(machine: Machine, state: ValidateState) -> Iterator[str]:
    """The agents that the named validators ask; an inline rule names its agent itself."""
    for name in state.by:
        if isinstance(name, str) and name in machine.validators:
            rules = rules_of(machine.validators[name])
            asked = dict.fromkeys(rule.about for rule in rules if rule.asks is not None)
            if asked:
                yield f"{name} asks {', '.join(asked)}"


def _rule(rule: Rule) -> str:
    """An inline rule by its kind and its main value."""
    marks = ", ".join([*filter(None, [rule.severity]), *rule.origin])
    return one_line(f"{rule.kind} {rule.about}", 60) + (f" ({marks})" if marks else "")


def edge_texts(graph: Graph, edge: Edge) -> tuple[str, ...]:
    """The number of a transition, its condition, and the limits of a revise edge."""
    number = _number(graph, edge)
    asked = [edge.guard or "", f"origin {edge.origin}" if edge.origin else ""]
    condition = ", ".join(filter(None, asked)) or ("otherwise" if number > 1 else "")
    text = f"{number} · {condition}" if condition else str(number)
    return (_clip(text), *_revising(graph, edge))


def _number(graph: Graph, edge: Edge) -> int:
    """The number of a transition in its state, from 1; edges to several origins share one."""
    return list(dict.fromkeys(e.path for e in graph.on(edge.source, "done"))).index(edge.path) + 1


def error_texts(graph: Graph, edges: Sequence[Edge]) -> tuple[str, ...]:
    """The classes of errors that edges with one target catch, and the limits of a revise edge."""
    events = [edge.event for edge in edges]
    caught = "any" if len(events) == len(ERROR_EVENTS) else " or ".join(events)
    return (f"on {caught} error", *_revising(graph, edges[0]))


def _revising(graph: Graph, edge: Edge) -> Iterator[str]:
    if edge.back:
        revise = "revise from best" if edge.from_best else "revise"
        yield ", ".join([revise, *(_budget(graph, edge, counter) for counter in edge.counters)])
    if edge.resets:
        yield "resets " + ", ".join(_counter(graph, counter) for counter in edge.resets)


def _budget(graph: Graph, edge: Edge, counter: str) -> str:
    cap = graph.caps.get(counter, 0)
    if counter == edge.id:
        return f"max{TIE}{cap}"
    if counter == TOTAL:
        return f"total{TIE}{cap}"
    return f"{_counter(graph, counter).replace(' ', TIE)}: {cap}{TIE}shared"


def _counter(graph: Graph, counter: str) -> str:
    """The name of a counter: that of its budget, or of the edge that it counts."""
    edge = graph.by_id.get(counter)
    if edge is None:
        return counter.replace(":", " ")
    if edge.event != "done":
        return f"{edge.source} on {edge.event} error"
    origin = f" to {edge.origin}" if edge.origin else ""
    return f"{edge.source} {_number(graph, edge)}{origin}"


def limit_texts(limits: Limits) -> Iterator[str]:
    """The limits of a machine, and where they are checked."""
    yield "in any agent, run or validate state"
    for name in AMOUNTS:
        if (value := getattr(limits, name)) is not None:
            yield f"{name} {_duration(value) if name == 'time' else f'{value:.12g}'}"


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of a paragraph, of at most `width` columns except for longer words."""
    for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False):
        line = line.replace(TIE, " ")
        for start in range(0, len(line), WORD_WIDTH):
            yield line[start : start + WORD_WIDTH]


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("m", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:.12g}{unit}"
    return f"{seconds:.12g}s"


def _clip(text: str) -> str:
    return one_line(text, MAX_CHARS)
