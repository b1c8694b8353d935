"""A model agent asked round by round, as the driver asks it, and providers' answers with calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from loopkit.agents.model import client
from loopkit.agents.model.agent import ModelAgentPort
from loopkit.agents.port import Message, Reply, Request, Tool
from loopkit.engine.payloads import ToolCall
from loopkit.language.agents.model import ModelAgent
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer, json_answer

DRAFT = {
    "type": "object",
    "properties": {"draft": {"type": "string"}},
    "required": ["draft"],
    "additionalProperties": False,
}
OPEN_DRAFT = {name: word for name, word in DRAFT.items() if name != "additionalProperties"}
"""As providers get it that do not know every word."""
TOOL = Tool("validate_plan", "Says whether a draft is valid.", DRAFT)
FUNCTION = {"name": TOOL.name, "description": TOOL.description, "parameters": DRAFT}
TASK = (Message("system", "You plan."), Message("user", "Plan it."))
BAD, GOOD = '{"draft": "a bad one"}', '{"draft": "a good one"}'
COUNTED = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


class Talk:
    """Requests to one agent, whose answers the server has in its queue."""

    def __init__(self, server: HostileServer, model: str = HostileServer.model, **agent: Any):
        key = {} if model.startswith("bedrock/") else {"api_key_env": KEY_VARIABLE}
        known = {"model": model, "base_url": server.base_url, "price": 1, **key}
        self.agent = ModelAgent.model_validate({**known, **agent})
        self.server = server

    def request(self, messages: Sequence[Message] = TASK, **fields: Any) -> Request:
        model = self.agent.model[0]
        told = {"tools": [TOOL], "model": model, **fields}
        return Request("planner", "plan", "author", messages[-1].content, messages, **told)

    def ask(self, messages: Sequence[Message] = TASK, **fields: Any) -> Reply:
        """One round; a list of tools is the agent's, if another one is given."""

        async def asked() -> Reply:
            port = ModelAgentPort(self.agent)
            await port.ready()
            try:
                return await port.ask(self.request(messages, **fields))
            finally:
                await client.close()

        return asyncio.run(asked())

    @property
    def sent(self) -> Any:
        """The last request as it arrived."""
        return self.server.requests()[-1].body


def answered(reply: Reply, *given: str, before: Sequence[Message] = TASK) -> list[Message]:
    """The conversation after the calls of a reply were made, as a journal brings it back."""
    kept = json.loads(json.dumps(reply.kept))
    calls = msgspec.json.decode(msgspec.json.encode(reply.tool_calls), type=list[ToolCall])
    results = [
        Message("tool", text, tool_call_id=call.id) for call, text in zip(calls, given, strict=True)
    ]
    return [*before, Message("assistant", reply.text, tool_calls=calls, kept=kept), *results]


def openai_calls(*arguments: str, **message: Any) -> Any:
    """An answer of OpenAI's chat that calls the tool, once with each of these arguments."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": TOOL.name, "arguments": text}}
        for n, text in enumerate(arguments, 1)
    ]
    return openai_message(finish="tool_calls", tool_calls=calls, **message)


def openai_message(finish: str = "stop", **message: Any) -> Any:
    said = {"role": "assistant", "content": None, **message}
    choice = {"index": 0, "message": said, "finish_reason": finish}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    return json_answer({**reply, "choices": [choice], "usage": COUNTED})


def anthropic_answer(*content: Any, stop: str = "tool_use") -> Any:
    usage = {"input_tokens": 20, "output_tokens": 10}
    told = {"id": "1", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop}
    return json_answer({**told, "content": list(content), "usage": usage})
