"""The callees of a piece of work: the rung of an agent's models, then its fallbacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from loopkit.drive.active import ActiveRun
from loopkit.engine.rounds import Round
from loopkit.language import Agent, ModelAgent
from loopkit.machine.callees import Callee, callees_of


def callees(active: ActiveRun, agent: Agent, author: str) -> tuple[Callee, ...]:
    """The callees for work on what a state authors, in order; of a ladder, the current rung."""
    return callees_of(agent, lambda asked: _rung(active, asked, author))


def _rung(active: ActiveRun, agent: ModelAgent, author: str) -> str:
    """The current model of a ladder; nothing is counted beyond the last."""
    if len(agent.model) == 1:
        return agent.model[0]
    if agent.climb == "revision":
        return agent.model_after(active.state.revised.get(author, 0))
    most = agent.rung * (len(agent.model) - 1)
    return agent.model_after(sum(1 for _ in islice(_stalls(active, author), most)))


def _stalls(active: ActiveRun, author: str) -> Iterator[Round]:
    """The rounds in which the author made no progress."""
    rounds = reversed(active.state.rounds)
    return (r for r in rounds if r.report.stalled and r.judged.author == author)
