"""The agent `outside`: somebody else writes the artifact, and the run waits for it."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

from loopkit.language.agents.agent import AgentBase
from loopkit.language.noun import Duration, fault


def _yes(value: object) -> object:
    if value is not True:
        raise fault(
            "wrong-kind",
            "an agent that is played from outside has `outside: true`",
            help="write that, or give the agent a `model` or a `command` instead",
        )
    return value


class OutsideAgent(AgentBase):
    """An agent that is played from outside: by a coding program, a service, or a person with an
    editor."""

    outside: Annotated[Literal[True], BeforeValidator(_yes)]
    """`true`: the run waits, without a process, until the artifact is delivered."""
    timeout: Duration | None = None
    """The time limit for the delivery; after it there is a transient error. Default: no limit."""

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
    def call_usd(self) -> float:
        return 0.0
