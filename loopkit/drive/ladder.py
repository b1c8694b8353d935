"""Model ladders: the rung of an agent's models that the next call uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from loopkit.drive.active import ActiveRun
from loopkit.engine.rounds import Round
from loopkit.language import Agent, ModelAgent
from loopkit.machine.graph import Edge


def model_for(active: ActiveRun, agent: Agent, author: str) -> str:
    """The rung for work on what a state authors; empty for a program. The last rung stays."""
    if not isinstance(agent, ModelAgent):
        return ""
    if len(agent.model) == 1:
        return agent.model[0]
    top = len(agent.model) - 1
    ways = _stalls(active, author) if agent.climb == "stall" else _revisions(active, author)
    return agent.model[sum(1 for _ in islice(ways, top))]


def provider_of(agent: Agent, model: str) -> str:
    """Whose failures count together: the address where one is given, else the model's provider."""
    if not isinstance(agent, ModelAgent):
        return ""
    return agent.base_url or model.partition("/")[0]


def _revisions(active: ActiveRun, author: str) -> Iterator[Edge]:
    """The revisions of an author's work so far."""
    edges = (active.program.graph.by_id[edge] for edge in reversed(active.state.route))
    return (edge for edge in edges if edge.back and edge.target == author)


def _stalls(active: ActiveRun, author: str) -> Iterator[Round]:
    """The rounds in which it made no progress."""
    rounds = reversed(active.state.rounds)
    return (r for r in rounds if r.report.stalled and r.judged.author == author)
