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
Returned: TypeAlias = str | Mapping[str, Any] | list[Any]
"""A text, or data for an agent with a `schema`."""
AgentFunction: TypeAlias = Callable[[str, Messages], Returned | Awaitable[Returned]]


class FunctionAgentPort:
    """A plain or async function as an agent. Its calls are counted; what it spends is unknown."""

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
        """Return what the function returns; whatever it raises becomes an AgentError."""
        messages = [{"role": turn.role, "content": turn.content} for turn in request.messages]
        try:
            returned = await self._call(request.prompt, messages)
        except Exception as error:
            # The function did not reach a server; the next try may.
            is_transient = isinstance(error, ConnectionError | TimeoutError)
            message = f"agent `{self._name}` raised {type(error).__name__}: {error}"
            raise AgentError("transient" if is_transient else "fatal", message) from error
        if returned is None:
            what = f"agent `{self._name}` returned None"
            raise AgentError("fatal", f"{what}, neither text nor data: is a `return` missing?")
        text = returned if isinstance(returned, str) else self._as_json(returned)
        return Reply(text, cost_usd=self._price, has_no_tools=True)

    async def _call_in_thread(self, prompt: str, messages: Messages) -> object:
        # It may wait for a server, and other runs must go on meanwhile.
        returned = await asyncio.to_thread(self._call_function, prompt, messages)
        return await returned if inspect.isawaitable(returned) else returned

    def _call_function(self, prompt: str, messages: Messages) -> object:
        try:
            return self._function(prompt, messages)
        except StopIteration as error:
            # A future refuses StopIteration and would never end. Coroutines raise RuntimeError too.
            raise RuntimeError("the function raised StopIteration") from error

    def _as_json(self, returned: object) -> str:
        try:
            return json.dumps(returned, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError) as error:
            what = f"agent `{self._name}` returned {type(returned).__name__}"
            raise AgentError("fatal", f"{what}, neither text nor data: {error}") from error
