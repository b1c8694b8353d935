"""The state `agent`: an agent writes an artifact."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated

from pydantic import Discriminator, Tag

from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.calls import ErrorClass
from loopkit.language.noun import Id, Text, Written
from loopkit.language.states.author import TemplateState
from loopkit.language.states.output import OutputName
from loopkit.language.states.state import AgentChoice, Example


def _tag(value: object) -> str:
    is_choice = isinstance(value, AgentChoice) or (
        isinstance(value, Mapping) and not {"from", "of"}.isdisjoint(value)
    )
    return "<from>" if is_choice else "<name>"


class AgentState(TemplateState):
    """Asks an agent. The answer is the artifact."""

    agent: Annotated[
        Annotated[Id, Tag("<name>")] | Annotated[AgentChoice, Tag("<from>")], Discriminator(_tag)
    ]
    """The agent to ask, or a choice between several. Its answer is the artifact."""
    prompt: Text
    """The prompt to send: a template."""
    output: OutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""

    kind = "agent"
    example = Example(
        {"agent": "writer", "prompt": "Make {{ plan }} better."},
        agents={"writer": {"command": ["sh", "-c", "echo Better tea."]}},
    )
    call = "author"
    has_own_work = True
    works_outside = True

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        return ("transient", "content", "fatal")

    @property
    def work_template(self) -> str:
        return self.prompt

    @property
    def about(self) -> str:
        by = f" by {self.choice.from_}" if self.choice is not None else ""
        return f"agent {' or '.join(self.asks)}{by}"

    @cached_property
    def asks(self) -> tuple[str, ...]:
        agent = self.agent
        return (agent,) if isinstance(agent, str) else tuple(dict.fromkeys(agent.of.values()))

    @cached_property
    def choice(self) -> AgentChoice | None:
        return None if isinstance(self.agent, str) else self.agent

    @property
    def templates(self) -> Written:
        yield ("prompt",), self.prompt
        yield from super().templates

    @property
    def may_leave_none(self) -> bool:
        return True
