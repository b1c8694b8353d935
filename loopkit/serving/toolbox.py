"""Toolboxes: what a server offers as tools, and answers when they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class ServedTool:
    """A tool as a client sees it."""

    name: str
    description: str
    arguments: Mapping[str, Any]
    """JSON Schema of what it is called with."""
    result: Mapping[str, Any]
    """JSON Schema of what it answers."""
    changes_nothing: bool = False
    """Whether it starts no program and asks nobody."""


class CallRefused(Exception):
    """A call that can't be answered; the message tells the model why, and what to do."""


class Toolbox(Protocol):
    """The tools of a server."""

    @property
    def instructions(self) -> str:
        """What the tools are for."""

    @property
    def offered(self) -> Sequence[ServedTool]: ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a tool answers; raises CallRefused. The arguments were checked by nobody."""
