"""The conversation of an agent with its tools, as the events of the run tell of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopkit.agents.function import FunctionAgentPort
from loopkit.drive.active import ActiveRun
from loopkit.drive.calls import CallSeries
from loopkit.engine.events import Artifact, Replied
from loopkit.engine.tasks import Exchange, tool_task
from loopkit.language import ModelAgent
from loopkit.machine.asked import AgentAsked
from loopkit.values import Value


class Answered(Value, frozen=True):
    """The end of a conversation with tools."""

    reply: Replied
    fault_code: str = ""
    fault: str = ""
    """Why the reply is no answer that counts."""


class Conversation(Value, frozen=True):
    """An agent that may call tools, at one piece of work."""

    active: ActiveRun
    state: str
    agent: str
    asked: AgentAsked
    work: CallSeries
    artifact_of: Callable[[Replied], Artifact]
    """The artifact that a reply brings."""

    @property
    def definition(self) -> ModelAgent:
        agent = self.asked.agent
        assert isinstance(agent, ModelAgent)
        return agent

    @property
    def rounds(self) -> Sequence[Exchange]:
        """What has been said in this piece of work."""
        task = self.active.state.tasks.get(self.work.task)
        return task.exchanges[task.renewed :] if task else ()

    @property
    def has_called(self) -> bool:
        """Whether tools were called in it; that is answered even where none are left."""
        return any(one.reply.tool_calls for one in self.rounds)

    @property
    def goes_on(self) -> bool:
        """Whether what tools give may be sent after the next reply."""
        return self.asked.is_model and (bool(self.asked.tools) or self.has_called)

    def calls_left(self, rounds: Sequence[Exchange]) -> int:
        """How many tools may still be called after these rounds."""
        made = sum(len(one.reply.tool_calls) for one in rounds)
        return max(0, self.definition.max_tool_calls - made)

    def tool_reply(self, number: int) -> Replied | None:
        """What the call of a tool gave; none where it was not made, or not yet."""
        task = self.active.state.tasks.get(tool_task(self.work.task, number))
        return task.exchanges[-1].reply if task and task.exchanges else None

    @property
    def asks_servers(self) -> bool:
        """Whether tools of servers are real: nothing that plays is told of them, or calls them."""
        port = self.active.agents[self.agent]
        is_played = self.active.scenario is not None or isinstance(port, FunctionAgentPort)
        return not is_played and self.definition.tool_use != "runner"
