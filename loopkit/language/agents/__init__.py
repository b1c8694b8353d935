"""Agents: the authors and judges that a machine declares, each known by the key of its kind."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.command import CommandAgent
from loopkit.language.agents.model import ModelAgent
from loopkit.language.agents.outside import OutsideAgent
from loopkit.language.kinds import one_of

AGENT_NOUNS: tuple[type[AgentBase], ...] = (ModelAgent, CommandAgent, OutsideAgent)
"""Every kind of agent: the one table of them. What has none of their keys is taken for a model."""
AGENT_KINDS = {noun.kind: noun for noun in AGENT_NOUNS}


def noun_with(keys: Container[str]) -> type[AgentBase]:
    """The kind of agent that has these keys."""
    return next((noun for kind, noun in AGENT_KINDS.items() if kind in keys), ModelAgent)


if TYPE_CHECKING:
    Agent = ModelAgent | CommandAgent | OutsideAgent
else:
    Agent = one_of(AGENT_NOUNS, ModelAgent.kind)
