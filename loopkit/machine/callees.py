"""Callees: who is asked for a piece of work, in turn, as plain records that each call reads."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from loopkit.language import Agent, ModelAgent, Retry
from loopkit.values import Value

ONCE = Retry(attempts=1)


class Callee(Value, frozen=True):
    """One who can be asked: an agent or a command itself, or a fallback of an agent."""

    retry: Retry
    timeout_s: float
    model: str = ""
    """Empty for a program."""
    system: str = ""
    provider: str = ""
    """Whose failures count together; empty for a program."""


def callees_of(agent: Agent, model_of: Callable[[ModelAgent], str]) -> tuple[Callee, ...]:
    """Who is asked, one after the other; of a ladder of models the one that `model_of` gives."""
    found: list[Callee] = []
    for asked in agent.in_turn:
        model = provider = ""
        if isinstance(asked, ModelAgent):
            model = model_of(asked)
            provider = asked.base_url or model.partition("/")[0]
            if any(before.provider == provider for before in found):
                # What failed there was another model: the failures of that don't hold it off.
                provider = f"{provider} ({model})"
        found.append(Callee(asked.retry, asked.timeout, model, asked.system_prompt, provider))
    # Where a scenario or a function plays somebody outside, that one is asked once.
    return tuple(found) or (Callee(ONCE, inf),)


def lasting_callees(agent: Agent) -> tuple[Callee, ...] | None:
    """The same of an agent for which it never changes; none where somebody climbs a ladder."""
    models = [asked.model for asked in agent.in_turn if isinstance(asked, ModelAgent)]
    if any(len(ladder) > 1 for ladder in models):
        return None
    return callees_of(agent, lambda asked: asked.model[0])
