"""Agents: the authors and judges that a machine declares, each known by the key of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Discriminator, Tag

from loopkit.language.agents.agent import AgentBase
from loopkit.language.agents.command import CommandAgent
from loopkit.language.agents.model import ModelAgent

AGENT_NOUNS: tuple[type[AgentBase], ...] = (ModelAgent, CommandAgent)
"""Every kind of agent: the one table of them. Without any of their keys it is the first."""
AGENT_KINDS = {noun.kind: noun for noun in AGENT_NOUNS}


def _tag(value: object) -> str:
    keys = value if isinstance(value, dict) else {getattr(value, "kind", ""): ()}
    return next((f"<{kind}>" for kind in AGENT_KINDS if kind in keys), f"<{AGENT_NOUNS[0].kind}>")


if TYPE_CHECKING:
    Agent = ModelAgent | CommandAgent
else:
    Agent = Annotated[
        Union[tuple(Annotated[noun, Tag(f"<{noun.kind}>")] for noun in AGENT_NOUNS)],  # noqa: UP007
        Discriminator(_tag),
    ]
