"""The agent `outside`: somebody else writes the artifact, and the run waits for it."""

from __future__ import annotations

from typing import Literal

from loopkit.language.agents.agent import AgentBase
from loopkit.language.noun import Duration


class OutsideAgent(AgentBase):
    """An agent that somebody else plays: a coding program, a service, a person with an editor."""

    outside: Literal[True]
    """`true`: the run waits, without a process, until the artifact is delivered."""
    timeout: Duration | None = None
    """How long a delivery is waited for; after that it is a transient error. Without it the run
    waits for as long as it takes."""

    kind = "outside"
    example = {"outside": True}
    is_called = False

    @property
    def works_on_files(self) -> bool:
        return self.workspace is not None

    @property
    def called(self) -> tuple[str, ...]:
        return ()

    @property
    def most_tries(self) -> int:
        return 1

    @property
    def call_usd(self) -> float:
        return 0.0
