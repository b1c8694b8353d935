"""A model agent: quotes a call, makes it once, and returns its reply or raises its error.

Each of its fallbacks is called like an agent of its own.
"""

from __future__ import annotations

import os

from loopkit.agents.model import client
from loopkit.agents.model.answer_caps import answer_caps
from loopkit.agents.model.chat_answer import chat_answer
from loopkit.agents.model.errors import as_agent_error
from loopkit.agents.model.pricing import cost, input_bound, quote
from loopkit.agents.model.received import Received, tokens_in
from loopkit.agents.model.reply import read_reply
from loopkit.agents.model.request import arguments, native_schema
from loopkit.agents.model.schema import without_added_nulls
from loopkit.agents.model.tool_support import offered_tools
from loopkit.agents.port import AgentError, Reply, Request
from loopkit.engine.events import Usage
from loopkit.language import ModelAgent


class ModelAgentPort:
    """One agent of the machine behind LiteLLM."""

    def __init__(self, definition: ModelAgent) -> None:
        self._in_turn = definition.in_turn

    async def ready(self) -> None:
        """Wait until LiteLLM is imported."""
        await client.ready()

    def quote(self, request: Request) -> Usage:
        """The most that the call can cost, with the usual cap where a limit needs one.

        Raises AgentError where there is no key to call with.
        """
        agent = self._in_turn[request.fallback]
        name = agent.api_key_env
        if name is not None and not os.environ.get(name):
            raise AgentError("fatal", f"the environment variable `{name}` is not set")
        if request.is_limited:
            request.caps = answer_caps(agent, request.model, input_bound(request))
        if request.caps is not None and request.cap is None:
            request.cap = request.caps.usual
        return quote(agent, request)

    async def ask(self, request: Request) -> Reply:
        """Make one request, without retries; raises AgentError, which says whose fault it is."""
        agent = self._in_turn[request.fallback]
        offers = bool(offered_tools(agent, request))
        received = Received()
        try:
            response = await client.complete(arguments(agent, request), received)
        except Exception as error:
            has_schema = native_schema(agent, request) is not None
            failure = as_agent_error(
                error, received, agent.api_key_env, has_schema=has_schema, has_tools=offers
            )
            # The answer was paid for: if only LiteLLM can't read it, it is read here.
            answer = chat_answer(received.record, has_tools=offers) if failure.unreadable else None
            if answer is None:
                raise _add_cost(agent, request, failure, received) from error
            response = await client.read(answer, request.model)
        reply = read_reply(agent, request, response)
        if (schema := native_schema(agent, request)) is not None:
            return reply.replace(text=without_added_nulls(reply.text, schema))
        return reply


def _add_cost(
    agent: ModelAgent, request: Request, error: AgentError, received: Received
) -> AgentError:
    """Add the cost of the call to its error, if the unusable answer has a token count."""
    if (used := tokens_in(received.record)) is not None:
        error.charged, error.tokens = False, used.total
        error.cost_usd = cost(agent, request.model, used, None)
    return error
