"""Outside agents: they can't be called; the run waits until their artifact is delivered."""

from __future__ import annotations

from loopkit.agents.port import AgentError, Reply, Request
from loopkit.engine.events import Usage
from loopkit.language import OutsideAgent


class OutsideAgentPort:
    """An agent that is played from outside."""

    def __init__(self, definition: OutsideAgent) -> None:
        self.definition = definition

    async def ready(self) -> None:
        return None

    def quote(self, _: Request) -> Usage:
        return Usage()

    async def ask(self, request: Request) -> Reply:
        """Raise AgentError, because there is nothing to call."""
        message = f"agent `{request.agent}` is played from outside and can't be called"
        raise AgentError("fatal", message)
