"""Callees: those whom a call asks in turn, as plain records."""

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
    """The provider with which its failures are counted; empty for a program."""


def callees_of(agent: Agent, model_of: Callable[[ModelAgent], str]) -> tuple[Callee, ...]:
    """The callees of an agent, in turn; `model_of` chooses the model from a ladder."""
    found: list[Callee] = []
    for asked in agent.in_turn:
        model = provider = ""
        if isinstance(asked, ModelAgent):
            model = model_of(asked)
            provider = asked.base_url or model.partition("/")[0]
            if any(before.provider == provider for before in found):
                # Another model failed there: its failures must not keep this one from being called.
                provider = f"{provider} ({model})"
        found.append(Callee(asked.retry, asked.timeout, model, asked.system_prompt, provider))
    # A scenario or a function that plays somebody outside is asked once.
    return tuple(found) or (Callee(ONCE, inf),)


def lasting_callees(agent: Agent) -> tuple[Callee, ...] | None:
    """The callees of an agent if they never change; None if a ladder has several models."""
    models = [asked.model for asked in agent.in_turn if isinstance(asked, ModelAgent)]
    if any(len(ladder) > 1 for ladder in models):
        return None
    return callees_of(agent, lambda asked: asked.model[0])
