"""The tools of an agent as they are described to a model, and by their servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopkit.agents.port import Tool as Offered
from loopkit.drive.tools import of_server
from loopkit.drive.tools.conversation import Conversation
from loopkit.language import McpTool
from loopkit.machine.asked import AgentAsked, ToolAsked
from loopkit.outside.mcp import OfferedTool

VALIDATES = "Say whether a draft of your answer is valid: {ok, diagnostics}."
IS_REQUIRED = " Your answer has to be the draft that it found valid last."


def describe_tools(asked: AgentAsked, served: Mapping[str, OfferedTool]) -> list[Offered]:
    """The tools of an agent, as they are described to a model; `served` are those of servers."""
    required = asked.agent.required_tool
    return [
        Offered(
            name,
            _description(tool, served.get(name), is_required=name == required),
            served[name].schema if name in served else tool.schema,
        )
        for name, tool in asked.tools.items()
    ]


def _description(tool: ToolAsked, served: OfferedTool | None, *, is_required: bool) -> str:
    text = tool.tool.description or (served.description if served else "")
    if not text and tool.rules is not None:
        text = VALIDATES
    return text + IS_REQUIRED if is_required else text


async def fetch_tools(talk: Conversation, names: Iterable[str]) -> Mapping[str, OfferedTool]:
    """Ask servers for the descriptions of tools of these names; raises CallFailed."""
    tools = ((name, talk.asked.tools[name].tool) for name in names if name in talk.asked.tools)
    wanted = {name: tool for name, tool in tools if isinstance(tool, McpTool)}
    if not wanted or not talk.asks_servers:
        return {}
    return await of_server.offers(talk.active, talk.asked, wanted, talk.definition.retry)
