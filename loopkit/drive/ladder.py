"""Model ladders: the rung of an agent's models that the next call uses."""

from __future__ import annotations

from loopkit.drive.active import ActiveRun
from loopkit.language import Agent, ModelAgent


def model_for(active: ActiveRun, agent: Agent, author: str) -> str:
    """The rung for work on what a state authors; empty for a program. The last rung stays."""
    if not isinstance(agent, ModelAgent):
        return ""
    if len(agent.model) == 1:
        return agent.model[0]
    climbed = _stalls(active, author) if agent.climb == "stall" else _revisions(active, author)
    return agent.model[min(climbed, len(agent.model) - 1)]


def provider_of(agent: Agent, model: str) -> str:
    """Whose failures count together: the address where one is given, else the model's provider."""
    if not isinstance(agent, ModelAgent):
        return ""
    return agent.base_url or model.partition("/")[0]


def _revisions(active: ActiveRun, author: str) -> int:
    edges = (active.program.graph.by_id[edge] for edge in active.state.route)
    return sum(edge.back and edge.target == author for edge in edges)


def _stalls(active: ActiveRun, author: str) -> int:
    rounds = active.state.rounds
    return sum(r.report.stalled and r.judged.author == author for r in rounds)
