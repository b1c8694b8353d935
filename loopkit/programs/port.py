"""What each coding program is asked for, and what is read in what it prints; without a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

Permissions = Literal["read", "edit", "all"]
Configuration = Literal["user", "none"]
Auth = Literal["login", "key"]
Why = Literal[
    "sign_in", "quota", "rate_limit", "server", "context", "refusal", "turns", "cut_off",
    "ended_early", "session_lost", "other",
]  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What an agent of a machine asks of its program; None is the program's own default."""

    model: str | None = None
    effort: str | None = None
    permissions: Permissions = "edit"
    tools: tuple[str, ...] = ()
    """What it may use besides what `permissions` allows, as the program writes it."""
    max_turns: int | None = None
    instructions: str = ""
    base_url: str | None = None
    config: Configuration = "user"
    auth: Auth = "login"
    args: tuple[str, ...] = ()

    def not_granted(self, *tools: str) -> list[str]:
        """Those of the tools that are not named, whole or for some arguments."""
        granted = {tool.partition("(")[0] for tool in self.tools}
        return [tool for tool in tools if tool not in granted]


@dataclass(frozen=True)
class Command:
    """How one call is started. The prompt goes to its stdin."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that it sets, besides those that are passed on."""


@dataclass(frozen=True)
class Action:
    """One thing that a program did: a tool that it called, or an edit of a file."""

    kind: Literal["tool", "edit"]
    name: str
    """The program's name of the tool."""
    about: str = ""
    """The path, the command or the query, in one line."""


@dataclass(frozen=True)
class Counted:
    """Tokens and USD; None is not told."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True)
class Failed:
    """Why a program gave no answer, by its own record."""

    why: Why
    message: str
    """The provider's own sentence."""
    status: int | None = None
    """The HTTP status, where it is told."""
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Reading:
    """What one call printed. Without `text` it `failed`."""

    text: str | None = None
    failed: Failed | None = None
    session: str | None = None
    version: str | None = None
    """The program's own version, where its stream says it."""
    turn: Counted = Counted()
    """Of this call alone."""
    total: Counted = Counted()
    """Of the whole session, where the program counts so; kept, and taken off the next total."""
    denied: tuple[str, ...] = ()
    """What it wanted to do and was not allowed to, one sentence each."""
    actions: tuple[Action, ...] = ()
    unknown: int = 0
    """How many records had a type that is not known, and were skipped."""


class Reader(Protocol):
    """Reads one call's output as it comes."""

    session: str | None
    """Its id, once the output has named it."""

    def feed(self, line: str) -> Sequence[Action]:
        """Take one line of stdout, and say what the program did in it."""
        ...

    def finish(self, stderr: str, exit_code: int, before: Counted, now: datetime) -> Reading:
        """All that was read; `before` is the `total` of the session's last call, and a wait that
        is named by a clock time counts from `now`."""
        ...


@dataclass(frozen=True)
class Program:
    """One line of the table of programs."""

    name: str
    executable: str
    package: str
    """The npm package that has it."""
    lacks: Mapping[str, str]
    """The names of options that it has no way to obey, with what to do instead."""
    key_variables: tuple[str, ...]
    """The variables whose keys it bills, the usual one first; none is passed with `auth: login`."""
    passed: tuple[str, ...]
    """Variables that lead to its own configuration, which it needs."""
    sign_in: str
    """The command with which a person signs in."""
    tested: tuple[str, str]
    """The lowest and the highest version that was tried."""
    command: Callable[[Options, str | None], Command]
    """Options and the id of a session that goes on; raises nothing."""
    reader: Callable[[], Reader]
    usage_flag: str = ""
    """The flag that names a file for its usage, if its stream does not have it; the JSON in the
    file is the reader's last line."""


Record = Mapping[str, Any]


def flags(*pairs: tuple[str, object]) -> list[str]:
    """The flags that have a value, each followed by it."""
    return [part for name, value in pairs if value for part in (name, str(value))]
