"""The state `agent`: an agent writes an artifact."""

from __future__ import annotations

from loopkit.language.agents.agent import Workspace
from loopkit.language.noun import Id, Text, Written
from loopkit.language.states.author import AuthorState
from loopkit.language.states.output import OutputName
from loopkit.language.states.state import Example


class AgentState(AuthorState):
    """Ask an agent; its answer is the artifact."""

    agent: Id
    """The agent that is asked; its answer is the artifact."""
    prompt: Text
    """What it is asked: a template."""
    output: OutputName | None = None
    """The artifact; without it one with the state's name."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""

    kind = "agent"
    example = Example(
        {"agent": "writer", "prompt": "Make {{ plan }} better."},
        agents={"writer": {"command": ["sh", "-c", "echo Better tea."]}},
    )
    call = "author"
    works_outside = True
    reads_feedback = True
    faults = ("transient", "content", "fatal")

    @property
    def about(self) -> str:
        return f"agent {self.agent}"

    @property
    def asks(self) -> str:
        return self.agent

    @property
    def templates(self) -> Written:
        yield ("prompt",), self.prompt
        yield from super().templates

    @property
    def may_leave_none(self) -> bool:
        return True
