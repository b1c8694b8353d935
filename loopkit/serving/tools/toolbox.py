"""Toolboxes: what a server offers as tools, and answers when they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


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


@dataclass(frozen=True)
class UserAsked:
    """What the user of a client has to say before a call is answered.

    The same call is made again then, with the reply.
    """

    message: str
    schema: Mapping[str, Any]
    """JSON Schema of a form of single values."""
    matter: str
    """What the reply is about; only the toolbox that asked can make one."""


@dataclass(frozen=True)
class UserReply:
    """What the user of a client did with a form."""

    matter: str
    """That of the question."""
    action: Literal["accept", "decline", "cancel"] = "cancel"
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """How far a call has come."""

    done: float
    """More each time."""
    total: float | None
    """What `done` comes to at most, where that is known."""
    message: str


@dataclass(frozen=True)
class Caller:
    """Who calls a tool, and how they are reached meanwhile."""

    user: str = "the user of a client"
    """What the person is called who uses the client."""
    may_be_asked: bool = False
    """Whether the client shows forms to that person."""
    tell: Callable[[Progress], None] | None = None
    """Takes the progress of the call, and never waits; none where the client did not ask for it."""
    reply: UserReply | None = None
    """Where the call was made before, and something was asked."""
    program: str = "a client"
    """What the client calls itself, for the record."""


NOBODY = Caller()
"""A caller that gets nothing but the answer."""


class Toolbox(Protocol):
    """The tools of a server."""

    @property
    def instructions(self) -> str:
        """What the tools are for."""

    @property
    def offered(self) -> Sequence[ServedTool]: ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any] | UserAsked:
        """What a tool answers; raises CallRefused. The arguments have not been checked."""
