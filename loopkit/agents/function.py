"""Function agents: functions of the program that uses loopkit as a library."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from loopkit.agents.port import AgentError, Reply, Request
from loopkit.engine.events import Usage
from loopkit.language import Agent

Messages: TypeAlias = list[dict[str, str]]
"""The conversation that ends with the prompt: each with `role` and `content`."""
Said: TypeAlias = str | Mapping[str, Any] | list[Any]
"""A text, or data for an agent with a `schema`."""
AgentFunction: TypeAlias = Callable[[str, Messages], Said | Awaitable[Said]]


class FunctionAgentPort:
    """A plain or async function as an agent. What it spends is not known, but for its calls."""

    def __init__(self, name: str, definition: Agent, function: AgentFunction) -> None:
        self._name = name
        self._price = definition.call_usd
        self._most = Usage(agent_calls=1, cost_usd=self._price or 0.0)
        self._function = function
        self._call: Callable[[str, Messages], Awaitable[object]] = self._call_in_thread
        if inspect.iscoroutinefunction(function):
            self._call = function

    async def ready(self) -> None:
        return None

    def quote(self, _: Request) -> Usage:
        return self._most

    async def ask(self, request: Request) -> Reply:
        """What the function returns; whatever it raises becomes an AgentError."""
        messages = [{"role": said.role, "content": said.content} for said in request.messages]
        try:
            said = await self._call(request.prompt, messages)
        except Exception as error:
            # Somebody else's server is not there: the next try may find it.
            is_transient = isinstance(error, ConnectionError | TimeoutError)
            message = f"agent `{self._name}` raised {type(error).__name__}: {error}"
            raise AgentError("transient" if is_transient else "fatal", message) from error
        if said is None:
            what = f"agent `{self._name}` returned None"
            raise AgentError("fatal", f"{what}, neither text nor data: is a `return` missing?")
        text = said if isinstance(said, str) else self._as_json(said)
        return Reply(text, cost_usd=self._price, has_no_tools=True)

    async def _call_in_thread(self, prompt: str, messages: Messages) -> object:
        # It may wait for a server, and other runs go on meanwhile.
        said = await asyncio.to_thread(self._called, prompt, messages)
        return await said if inspect.isawaitable(said) else said

    def _called(self, prompt: str, messages: Messages) -> object:
        try:
            return self._function(prompt, messages)
        except StopIteration as ended:
            # A future refuses this one, and would never be done. Coroutines raise the same instead.
            raise RuntimeError("the function raised StopIteration") from ended

    def _as_json(self, said: object) -> str:
        try:
            return json.dumps(said, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"agent `{self._name}` returned {type(said).__name__}"
            raise AgentError("fatal", f"{what}, neither text nor data: {error}") from error
