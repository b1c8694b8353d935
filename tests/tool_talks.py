"""A model that is played word for word, and what it was sent in each round."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.port import AgentError, Message, Reply, Request
from loopkit.app import App
from loopkit.drive.active import ActiveRun
from loopkit.drive.repair import AS_IT_IS, Mend
from loopkit.drive.stored_runs import Stored
from loopkit.engine.payloads import ToolCall
from loopkit.engine.records import Usage
from tests.support import Played, sound


def calls(*called: tuple[str, Any], text: str = "") -> Reply:
    """A reply that calls tools: each with data, or with a text as it is."""
    made = (
        ToolCall(id=f"call_{number}", name=name, arguments=_written(arguments))
        for number, (name, arguments) in enumerate(called)
    )
    return Reply(text, tool_calls=tuple(made))


def _written(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


@dataclass
class Model:
    """Says one reply after the other, or fails; the messages of each request are kept."""

    replies: Iterator[Reply | AgentError]
    sent: list[list[Message]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    """Which model of a ladder, or which fallback, was asked."""

    async def ready(self) -> None:
        return None

    def quote(self, _: Request) -> Usage:
        return Usage(agent_calls=1, tokens=10)

    async def ask(self, request: Request) -> Reply:
        self.sent.append([*request.messages])
        self.models.append(request.model)
        said = next(self.replies)
        if isinstance(said, AgentError):
            raise said
        return said.replace(tokens=10)


@dataclass
class Talks:
    """Runs in a folder with a journal, in which agents are models that are played."""

    folder: Path
    models: Mapping[str, Model]
    on_event: Callable[[ActiveRun, Stored], None] = lambda _active, _stored: None

    def start(self, machine: str, **inputs: Any) -> Played:
        path = self.folder / "machine.yaml"
        path.write_text(machine, encoding="utf-8")
        loaded = sound(path)
        return asyncio.run(self._drive(lambda app: app.start(loaded, inputs, None)))

    def resume(
        self, run: str, limits: Mapping[str, Any] | None = None, mended: str | None = None
    ) -> Played:
        mend = AS_IT_IS
        if mended is not None:
            path = self.folder / "machine.yaml"
            path.write_text(mended, encoding="utf-8")
            mend = Mend(sound(path))
        return asyncio.run(self._drive(lambda app: app.resume(run, limits, mend)))

    async def _drive(self, begin: Callable[[App], Any]) -> Played:
        actives: list[ActiveRun] = []

        def hear(stored: Stored) -> None:
            for active in actives:
                self.on_event(active, stored)

        async with App.open(self.folder / ".loopkit", listeners=[hear]) as app:
            app.folder = self.folder
            with pytest.MonkeyPatch.context() as patch:
                # Another player takes the place of the model.
                patch.setenv("OPENAI_API_KEY", "a-key-that-nobody-takes")
                active = await begin(app)
            active.agents = {**active.agents, **self.models}
            actives.append(active)
            await app.drive(active)
            return Played(active.state, await app.events(active.state.run), self.folder)


def refuse_orphans(messages: Sequence[Message]) -> None:
    """Every call has one result right behind it, in order, and there is no other result."""
    awaited: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert awaited, messages
            assert message.tool_call_id == awaited.pop(0)
        else:
            assert not awaited, messages
            awaited = [call.id for call in message.tool_calls]
    assert not awaited, messages
