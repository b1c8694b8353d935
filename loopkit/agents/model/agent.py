"""A model agent: quotes a call, makes it once, and returns its reply or raises its error."""

from __future__ import annotations

import os

from loopkit.agents.model import client
from loopkit.agents.model.errors import as_agent_error
from loopkit.agents.model.pricing import cost, quote
from loopkit.agents.model.received import Received, used_in
from loopkit.agents.model.reply import read_reply
from loopkit.agents.model.request import arguments, native_schema
from loopkit.agents.model.schema import without_added_nulls
from loopkit.agents.port import AgentError, Reply, Request
from loopkit.engine.events import Usage
from loopkit.language import ModelAgent


class ModelAgentPort:
    """One agent of the machine behind LiteLLM."""

    def __init__(self, definition: ModelAgent) -> None:
        self._definition = definition

    async def ready(self) -> None:
        """Wait until LiteLLM is imported."""
        await client.ready()

    def quote(self, request: Request) -> Usage:
        """The most that the call can cost; raises AgentError where there is no key to call with."""
        name = self._definition.api_key_env
        if name is not None and not os.environ.get(name):
            raise AgentError("fatal", f"the environment variable `{name}` is not set")
        return quote(self._definition, request)

    async def ask(self, request: Request) -> Reply:
        """One request, never tried again here; raises AgentError with whose fault it is."""
        received = Received()
        try:
            response = await client.complete(arguments(self._definition, request), received)
        except Exception as error:
            failure = as_agent_error(error, received, self._definition.api_key_env)
            raise self._booked(request, failure, received) from error
        most = quote(self._definition, request)
        reply = read_reply(self._definition, request, response, most)
        if (schema := native_schema(self._definition, request)) is not None:
            return reply.replace(text=without_added_nulls(reply.text, schema))
        return reply

    def _booked(self, request: Request, error: AgentError, received: Received) -> AgentError:
        """The error with what the call cost, where the provider counted in what nobody can use."""
        if (used := used_in(received.record)) is not None:
            error.charged, error.tokens = False, used.total
            error.cost_usd = cost(self._definition, request.model, used, None)
        return error
