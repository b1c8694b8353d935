"""Toolboxes: the tools that a server offers, and their answers."""

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
    """JSON Schema of its arguments."""
    result: Mapping[str, Any]
    """JSON Schema of its answer."""
    changes_nothing: bool = False
    """Whether it is read-only: it starts no program and makes no call."""


class CallRefused(Exception):
    """A call that is refused; the message tells the model why, and what to do."""


@dataclass(frozen=True)
class UserAsked:
    """A form that the user of a client has to fill in before a call is answered.

    The same call is then made again, with the reply.
    """

    message: str
    schema: Mapping[str, Any]
    """JSON Schema of a form of single values."""
    matter: str
    """The subject of the reply, which only the toolbox that asked can create."""


@dataclass(frozen=True)
class UserReply:
    """The reply of the user of a client to a form."""

    matter: str
    """The `matter` of the form."""
    action: Literal["accept", "decline", "cancel"] = "cancel"
    content: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """The progress of a call."""

    done: float
    """It rises with each report."""
    total: float | None
    """The maximum of `done`, if it is known."""
    message: str


@dataclass(frozen=True)
class Caller:
    """The caller of a tool, and how to reach it during the call."""

    user: str = "the user of a client"
    """The name of the person who uses the client."""
    may_be_asked: bool = False
    """Whether the client shows forms to that person."""
    tell: Callable[[Progress], None] | None = None
    """Takes the progress of the call without waiting; None if the client did not ask for it."""
    reply: UserReply | None = None
    """The reply of the user, if the call was made before and led to a form."""
    program: str = "a client"
    """The client's own name, for the record."""


NOBODY = Caller()
"""A caller that gets only the answer."""


class Toolbox(Protocol):
    """The tools of a server."""

    @property
    def instructions(self) -> str:
        """The purpose of the tools, for the client's model."""

    @property
    def offered(self) -> Sequence[ServedTool]: ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any] | UserAsked:
        """The answer of a tool; raises CallRefused. The arguments have not been checked."""
