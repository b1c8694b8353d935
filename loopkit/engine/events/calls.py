"""Events of calls: intended, held, replied, failed, in doubt."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import OF_AGENTS, Event, Policy, Role
from loopkit.engine.events.payloads import LeftFolder, PromptSize, Ran, TokenUse, ToolCall
from loopkit.engine.usage import Usage
from loopkit.language.agents.calls import ErrorClass


class Intended(Event, frozen=True, kw_only=True):
    """A call is about to be made."""

    type: ClassVar[str] = "intended"
    key: str
    """What names this one call in the run; its reply or failure has the same."""
    task: str
    """What all tries and re-asks of this piece of work have in common."""
    state: str
    visit: int
    """How often the state had been entered."""
    role: Role
    """Whether an author, a judge, a command or a tool is asked; `outside` is an author that
    somebody outside plays, which is no call and costs nothing."""
    agent: str
    """The agent's name, or the state's for a command; of a tool `AGENT.TOOL`."""
    place: str
    """Where the agent is asked: the state's name, or the validator's for a judge."""
    opinion: str = ""
    """Which of a judge's opinions this is: `sample 2 of 3`, `second opinion`; empty where it is
    asked for one."""
    prompt: str
    """The message that is sent last; what a tool is called with."""
    goes_on: bool = False
    """It has no message of its own: what its tools gave is sent, and the author goes on."""
    model: str = ""
    """The model that is asked; empty for a program."""
    fallback: int = 0
    """Which of the agent's fallbacks is asked; 0 is the agent itself."""
    deadline_s: float | None
    """Seconds after which it is given up; none where somebody outside has all the time."""
    cap: int | None = None
    """The longest answer in tokens that is asked for because of a limit; none where the agent's
    own options say it, or nothing limits it."""
    offered: dict[str, str] = {}
    """By `SERVER.TOOL`, the digests of tools of MCP servers that the run was not offered before."""
    reserved: Usage
    """What the call may cost at most; charged until it is settled."""
    size: PromptSize = PromptSize()
    """How much is sent."""

    @property
    def asks_agent(self) -> bool:
        """Whether an agent is called, and no command or tool."""
        return self.role in OF_AGENTS

    @property
    def is_of_agent(self) -> bool:
        """Whether an agent answers, one that is called or one outside."""
        return self.asks_agent or self.role == "outside"

    @property
    def asked_at(self) -> str:
        """The place, and which of several opinions is asked for there."""
        return f"{self.place}, {self.opinion}" if self.opinion else self.place


class Held(Event, frozen=True, kw_only=True):
    """A call waits, or a fallback is asked, because its provider has failed again and again."""

    type: ClassVar[str] = "held"
    task: str
    state: str
    provider: str
    until: float
    """Unix time at which it is asked again."""
    reason: str
    instead: str = ""
    """The fallback that is asked meanwhile; empty where the call waits."""


class Replied(Event, frozen=True, kw_only=True):
    """The answer to an intended call."""

    type: ClassVar[str] = "replied"
    key: str
    text: str
    said: tuple[str, ...] = ()
    """All messages of a judge's transcript, in order, where they are more than `text`."""
    cut_off: bool = False
    """The answer ends at the limit of its length."""
    played: bool = False
    """A scenario gave it, which can't know the ids of findings before the run."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that it calls, in order; what they give is the reply to a call named after each."""
    kept: dict[str, Any] = {}
    """What its provider wants back as it is while the author goes on."""
    has_no_tools: bool = False
    """Whoever answered can't call tools, and was not offered any."""
    found_clean: str | None = None
    """Of a tool that validates: the digest of a draft in which nothing blocks, else empty."""
    commands: tuple[Ran, ...] = ()
    """Of a tool: what the programs did that it started."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    """The session id that an external agent named."""
    model: str = ""
    """The model that answered, as its provider names it."""
    artifact_text: str | None = None
    """The content of the file that the attempt wrote, where the output is a file."""
    artifact_fault: str = ""
    """Why there is no such content, or no such folder."""
    folder: LeftFolder | None = None
    """What the attempt left in the folder that is the output, if it changed anything there."""
    workspace: str = ""
    """Digest of the files that an author left where it worked, if it is a program; empty where
    there are too many."""
    usage: Usage
    """What the call cost."""
    by: str = ""
    """Who delivered it, where somebody outside plays the agent."""
    counted: TokenUse | None = None
    """Its tokens by kind; none where nobody counted them."""


class Failed(Event, frozen=True, kw_only=True):
    """An intended call ended without an answer."""

    type: ClassVar[str] = "failed"
    key: str
    error_class: ErrorClass
    """Whether another try, another answer or a person can help."""
    message: str
    retry_at: float | None = None
    """Unix time before which the call is not tried again."""
    unreadable: bool = False
    """An answer came, and was paid, but it could not be read: it is asked for once more alone."""
    resume_at: float | None = None
    """Unix time from which the provider wants to be asked again, where it names one."""
    unavailable: bool = False
    """The model can't be had for now, so that a fallback is asked at once."""
    usage: Usage
    """What the call is charged at nevertheless."""


class InDoubt(Event, frozen=True, kw_only=True):
    """A call whose process died: it may have been made. It stays charged at its reservation."""

    type: ClassVar[str] = "in_doubt"
    key: str
    policy: Policy


class Settled(Event, frozen=True, kw_only=True):
    """A person decided what becomes of a call in doubt."""

    type: ClassVar[str] = "settled"
    key: str
    choice: Literal["retry", "fail"]
