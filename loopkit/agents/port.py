"""The port to agents: requests, replies, errors, and command results that a scenario prepares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from loopkit.engine.events import HumanAnswer, LeftFolder, Ran, Role, TokenUse, ToolCall, Usage
from loopkit.language.agents.calls import ErrorClass
from loopkit.values import Mutable, Value

if TYPE_CHECKING:
    from loopkit.engine.macrostep import Engine
    from loopkit.engine.state import RunState
    from loopkit.outside.processes import CommandResult

CUT_OFF = "the answer was cut off at"
"""How the message begins of an answer that ended at the cap which it got because of a limit."""


class AnswerCaps(NamedTuple):
    """How many tokens an answer may have, where loopkit is the one to say it."""

    usual: int
    least: int
    """Where a limit leaves no room for more: above what the model may think."""
    most: int | None
    """What the model can give; none where that is not known."""


class Tool(Value, frozen=True):
    """A function that a model may call."""

    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of its arguments, which are a mapping."""


class Message(Value, frozen=True):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: Sequence[ToolCall] = ()
    """Of an assistant: the tools that it called with this message."""
    kept: Mapping[str, Any] = {}
    """Of an assistant: what its provider wants back as it was, such as signed thoughts."""
    tool_call_id: str = ""
    """Of a tool: the call that it answers."""


class Request(Mutable):
    """Everything that a call needs, the conversation so far included.

    Whoever makes the calls numbers it anew for each of them; nobody else changes it.
    """

    agent: str
    place: str
    """Where it is asked: the state's name, or the validator's for a judge."""
    role: Role
    prompt: str
    messages: Sequence[Message] = ()
    """System, then turns, the prompt last."""
    names: Mapping[str, object] = {}
    """What the templates of a command see."""
    input: Mapping[str, Any] = {}
    """The run's input, for a program that reads it as a file."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the data that the answer has to be."""
    tools: Sequence[Tool] = ()
    """What the agent may call."""
    may_call_tools: bool = True
    """False where an answer is asked for, and nothing else; the tools are sent all the same."""
    model: str = ""
    """The rung of the ladder that is asked."""
    fallback: int = 0
    """Which of the agent's fallbacks is asked; 0 is the agent itself."""
    folder: Path | None = None
    """Where a command works."""
    session: str | None = None
    """The session id that an external agent named before."""
    is_sent_again: bool = False
    """Whether a later call may begin with the same messages, which a cache makes cheaper."""
    timeout_s: float = 600.0
    deadline_s: float = inf
    """The time after which the caller gives the call up: the timeout, or what a limit leaves."""
    is_limited: bool = False
    """Whether money or tokens are limited, so that a maximum has to be known."""
    caps: AnswerCaps | None = None
    """Filled in by whoever is quoted, where his answer can be made shorter."""
    cap: int | None = None
    """The longest answer in tokens that is asked for because of a limit; none where the agent's
    own options say it."""
    key: str = ""
    """The call's idempotency key."""
    task_index: int = 0
    """How many pieces of work the agent had before this one, in this run."""
    place_index: int = 0
    """How many of them at this place."""
    call_index: int = 0
    """How many calls for this piece of work were settled before."""
    lost_index: int = 0
    """How many of them never came back, because the process died: they were in doubt."""


class Reply(Value, frozen=True):
    """What came back."""

    text: str
    said: tuple[str, ...] = ()
    """All messages of a judge's transcript, where they are more than `text`."""
    cut_off: bool = False
    played: bool = False
    """A scenario says it, which was written before the run."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that it calls, in order; it goes on once it has what they gave."""
    kept: Mapping[str, Any] = {}
    """What its provider wants back as it is, where the conversation goes on."""
    has_no_tools: bool = False
    """Whoever answered can't call tools, and was not offered any."""
    found_clean: str | None = None
    """Of a tool that validates: the digest of the draft in which nothing blocks, else empty."""
    commands: tuple[Ran, ...] = ()
    """Of a tool: what the programs did that it started, as it may be stored."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    model: str = ""
    """The model that answered."""
    tokens: int = 0
    """In and out together."""
    counted: TokenUse | None = None
    """The same by kind; none where nobody counted."""
    held: bool = False
    """Nobody counted: tokens and cost are what was reserved."""
    workspace: str = ""
    """Of a played one: what stands for the files that it left; empty where they are looked at."""
    folder: LeftFolder | None = None
    """Of a played one: what it left in its output folder; none where that is looked at."""
    cost_usd: float | None = 0.0
    """None is unknown."""


class AgentError(Exception):
    """A call that brought no reply; `error_class` says whose fault it is."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        *,
        retry_after_s: float | None = None,
        cost_usd: float | None = 0.0,
        tokens: int = 0,
        charged: bool = False,
        unreadable: bool = False,
        unavailable: bool = False,
        capped: bool = False,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message
        self.retry_after_s = retry_after_s
        self.cost_usd = cost_usd
        self.tokens = tokens
        self.charged = charged
        """It may have been billed all the same: it stays charged at its reservation."""
        self.unreadable = unreadable
        """An answer came, and nobody can read it: it is asked for once more, and not again."""
        self.capped = capped
        """The answer ended at the cap of the request: its author can't help it."""
        self.unavailable = unavailable
        """The model can't be had at all for now: where there is a fallback, it is asked at once."""


class AgentPort(Protocol):
    """Whoever can be asked."""

    async def ready(self) -> None:
        """Wait for what a call needs and is not part of it, before the call is written down."""
        ...

    def quote(self, request: Request) -> Usage:
        """The most that the call can cost, reserved before it is made."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply; raises AgentError. The caller holds the clock and cancels on the deadline."""
        ...


class PlayedCommands(Protocol):
    """Command results that a scenario prepares."""

    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        """What the command at a place gives the n-th time; none where it is really run.

        `earlier` counts the tries before, of which nothing came that time.
        """
        ...


class Person(Protocol):
    """Whoever can answer a question now."""

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        """The answer to the run's open question, or none: then it waits without a process."""
        ...
