"""The conversation of an agent with its tools, as the events of the run have it."""

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
    """Why the reply does not count as an answer."""


class Conversation(Value, frozen=True):
    """An agent that may call tools, at one piece of work."""

    active: ActiveRun
    state: str
    agent: str
    asked: AgentAsked
    work: CallSeries
    artifact_of: Callable[[Replied], Artifact]
    """Makes the artifact of a reply."""

    @property
    def definition(self) -> ModelAgent:
        agent = self.asked.agent
        assert isinstance(agent, ModelAgent)
        return agent

    @property
    def rounds(self) -> Sequence[Exchange]:
        """The exchanges of this piece of work that count."""
        task = self.active.state.tasks.get(self.work.task)
        return task.exchanges[task.renewed :] if task else ()

    @property
    def has_called(self) -> bool:
        """Whether tools were called in it; the calls are answered even if no tools are left."""
        return any(one.reply.tool_calls for one in self.rounds)

    @property
    def goes_on(self) -> bool:
        """Whether tool results may be sent after the next reply."""
        return self.asked.is_model and (bool(self.asked.tools) or self.has_called)

    def calls_left(self, rounds: Sequence[Exchange]) -> int:
        """How many tools may still be called after these rounds."""
        made = sum(len(one.reply.tool_calls) for one in rounds)
        return max(0, self.definition.max_tool_calls - made)

    def tool_reply(self, number: int) -> Replied | None:
        """The reply to the call of a tool; None if it was not made, or not yet."""
        task = self.active.state.tasks.get(tool_task(self.work.task, number))
        return task.exchanges[-1].reply if task and task.exchanges else None

    @property
    def asks_servers(self) -> bool:
        """Whether MCP servers are asked: played agents neither see their tools nor call them."""
        port = self.active.agents[self.agent]
        is_played = self.active.scenario is not None or isinstance(port, FunctionAgentPort)
        return not is_played and self.definition.tool_use != "runner"
