"""The port to agents: requests, replies, errors, and command results that a scenario prepares."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from loopkit.engine.events import Role
from loopkit.engine.findings import Finding
from loopkit.engine.payloads import HumanAnswer, LeftFolder, Ran, SessionUse, TokenUse, ToolCall
from loopkit.engine.records import Usage
from loopkit.language.agents import OutsideAgent
from loopkit.language.section import ErrorClass
from loopkit.programs.port import Action
from loopkit.values import NOTHING, Mutable, Value

if TYPE_CHECKING:
    from loopkit.engine.macrostep import Engine
    from loopkit.engine.state import RunState
    from loopkit.outside.processes import CommandResult

CUT_OFF = "the answer was cut off at"
"""How the message for an answer that ended at a cap of ours begins."""


class AnswerCaps(NamedTuple):
    """The caps for the tokens of an answer, thoughts included, where loopkit sets them."""

    usual: int
    least: int
    """Where a limit leaves no room for more."""
    most: int | None
    """The longest answer of the model; None where unknown."""

    def within(self, longest: int) -> AnswerCaps:
        least = min(self.least, longest)
        return AnswerCaps(min(self.usual, longest), least, min(self.most or longest, longest))


class Tool(Value, frozen=True):
    name: str
    description: str
    schema: Mapping[str, Any]
    """JSON Schema of its arguments, which are a mapping."""


class Message(Value, frozen=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: Sequence[ToolCall] = ()
    kept: Mapping[str, Any] = NOTHING
    """Of an assistant: what its provider wants back unchanged, such as signed thoughts."""
    tool_call_id: str = ""


class Request(Mutable):
    """Everything that a call needs. It is numbered anew for each; a quote may fill in the caps."""

    agent: str
    place: str
    """The state, or the validator of a judge."""
    role: Role
    prompt: str
    messages: Sequence[Message] = ()
    """System, then turns, the prompt last."""
    names: Mapping[str, object] = NOTHING
    """The names that the templates of a command can use."""
    input: Mapping[str, Any] = NOTHING
    """The run's input, for a program that reads it as a file."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, if that has to be data."""
    tools: Sequence[Tool] = ()
    may_call_tools: bool = True
    """False where only an answer is wanted; the tools are sent all the same."""
    model: str = ""
    """The rung of the ladder that is asked."""
    fallback: int = 0
    """Which of the agent's fallbacks is asked; 0 is the agent itself."""
    folder: Path | None = None
    """The working folder of a command."""
    session: str | None = None
    """The id that an external agent named before."""
    session_use: SessionUse | None = None
    """What its program had counted for the whole session."""
    report: Callable[[Action, str | None], Awaitable[None]] | None = None
    """Stores what a program does while it works, and the session in which it does it."""
    whole_prompt: Callable[[], str] | None = None
    """Fills in the prompt of a fresh session, if another goes on with this call."""
    begins_anew: bool = False
    """Whether a fresh session follows at once if the one that goes on is lost."""
    is_left: bool = False
    """Whether the artifact is what the call leaves in its folder, so that it need not say more."""
    is_described: bool = False
    """Whether the prompt says in words already what the schema demands."""
    in_words: bool = False
    """Whether the schema is asked for in words, because it was so before."""
    is_sent_again: bool = False
    """Whether a later call may begin with the same messages, which a cache makes cheaper."""
    timeout_s: float = 600.0
    deadline_s: float = inf
    """When the caller gives the call up: after the timeout, or what a limit leaves."""
    is_limited: bool = False
    """Whether money or tokens are limited, so a maximum has to be known."""
    caps: AnswerCaps | None = None
    """Filled in by `quote`, if the answer can be capped."""
    cap: int | None = None
    """In tokens, where a limit makes it necessary and the agent's own options have none."""
    key: str = ""
    task_index: int = 0
    """How many pieces of work the agent had before this one, in this run."""
    place_index: int = 0
    """How many of these were at this place."""
    call_index: int = 0
    """How many calls for this piece of work were settled before."""
    lost_index: int = 0
    """How many of these calls were in doubt, because the process died."""


def asking_for(schema: str) -> str:
    """What asks for an answer of a shape in the words of a prompt."""
    told = "Answer with one JSON value that fits this JSON Schema, and with nothing else"
    return f"{told}:\n{schema}"


class Reply(Value, frozen=True):
    """What a call gave; the event `replied` says what each field means that it has as well."""

    text: str
    said: tuple[str, ...] = ()
    thoughts: str = ""
    raw: str = ""
    loops: bool = False
    cut_off: bool = False
    in_words: str = ""
    prompt_cut: str = ""
    played: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    kept: Mapping[str, Any] = NOTHING
    has_no_tools: bool = False
    found_clean: str | None = None
    findings: tuple[Finding, ...] = ()
    commands: tuple[Ran, ...] = ()
    """Of a tool: what the programs that it started did, in storable form."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    session_use: SessionUse | None = None
    stream: str = ""
    warning: str = ""
    model: str = ""
    tokens: int = 0
    """In and out together."""
    counted: TokenUse | None = None
    held: bool = False
    """The tokens were not counted: tokens and cost are what was reserved."""
    workspace: str = ""
    """Of a played reply: what stands for the files that it left, if they are not read."""
    folder: LeftFolder | None = None
    """The same for its output folder."""
    cost_usd: float | None = 0.0
    """None is unknown."""


@dataclass(eq=False, repr=False)
class AgentError(Exception):
    """A call without a reply; `error_class` says whose fault it is."""

    error_class: ErrorClass
    message: str
    _: KW_ONLY
    retry_after_s: float | None = None
    cost_usd: float | None = 0.0
    tokens: int = 0
    charged: bool = False
    """The call may have been billed all the same: it counts at its reservation."""
    timed_out: bool = False
    """It took too long, and may have done its work all the same."""
    doubt: str = ""
    """Why else it may have done some of its work all the same."""
    stream: str = ""
    unreadable: bool = False
    """An answer came but can't be read: it is requested once more, and only once."""
    capped: bool = False
    """The answer ended at the cap of the request: its author can't correct that."""
    session_lost: bool = False
    """A kept session can't go on: it is too long for the model, or its program failed with it.
    After a transient failure that is so once no try is left."""
    refuses_schema: bool = False
    """The provider does not take the request's schema, which can be asked for in words."""
    in_words: str = ""
    """As with a reply."""
    unavailable: bool = False
    """The model is unavailable for now: a fallback is asked at once, if there is one."""
    sent: bool = True
    """False if surely no request was sent and no program started: that is no call."""

    def __post_init__(self) -> None:
        super().__init__(self.message)


class Crashed(Exception):
    """The scenario plays that this process dies in the middle of a call."""


class AgentPort(Protocol):
    async def ready(self) -> None:
        """Wait for what a call needs but does not include, before the call is recorded."""
        return None

    def quote(self, request: Request) -> Usage:
        """The most that the call can cost, reserved before it is made."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply; raises AgentError. The caller cancels at the deadline."""
        ...


class PlayedCommands(Protocol):
    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        """The n-th result of the command at a place, after so many tries that brought none; None
        where the command is really run."""
        ...

    def plays(self, place: str) -> bool:
        """Whether no command at this place is really run."""


class Person(Protocol):
    """A person who can answer a question now."""

    async def answer(self, engine: Engine, run: RunState) -> HumanAnswer | None:
        """The answer to the run's question, or None: then the run waits without a process."""
        ...


class NotRunnable(Exception):
    """A machine or a run that can't be started like this; the message says what to do."""


class OutsideAgentPort(AgentPort):
    def __init__(self, definition: OutsideAgent) -> None:
        self.definition = definition

    def quote(self, _: Request) -> Usage:
        return Usage()

    async def ask(self, request: Request) -> Reply:
        """Raise AgentError, because there is nothing to call."""
        message = f"agent `{request.agent}` is played from outside and can't be called"
        raise AgentError("fatal", message)
