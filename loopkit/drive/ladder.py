"""Who is asked in a piece of work: the rung of an agent's models, and its fallbacks after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from loopkit.drive.active import ActiveRun
from loopkit.engine.rounds import Round
from loopkit.language import Agent, ModelAgent
from loopkit.machine.callees import Callee, callees_of


def callees(active: ActiveRun, agent: Agent, author: str) -> tuple[Callee, ...]:
    """Who is asked for work on what a state authors, in turn; of a ladder the rung."""
    return callees_of(agent, lambda asked: _rung(active, asked, author))


def _rung(active: ActiveRun, agent: ModelAgent, author: str) -> str:
    """The model that has its turn; nothing is counted beyond the last."""
    if len(agent.model) == 1:
        return agent.model[0]
    if agent.climb == "revision":
        return agent.model_after(active.state.revised.get(author, 0))
    most = agent.rung * (len(agent.model) - 1)
    return agent.model_after(sum(1 for _ in islice(_stalls(active, author), most)))


def _stalls(active: ActiveRun, author: str) -> Iterator[Round]:
    """The rounds in which it made no progress."""
    rounds = reversed(active.state.rounds)
    return (r for r in rounds if r.report.stalled and r.judged.author == author)
