"""Events of calls: intended, held, replied, failed, in doubt."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from loopkit.engine.events.event import OF_AGENTS, Event, Policy, Role
from loopkit.engine.events.payloads import LeftFolder, PromptSize, Ran, TokenUse, ToolCall
from loopkit.engine.usage import Usage
from loopkit.language.agents.calls import ErrorClass
from loopkit.values import NOTHING


class Intended(Event, frozen=True, kw_only=True):
    """A call is about to be made."""

    type: ClassVar[str] = "intended"
    area: ClassVar[str] = "calls"
    key: str
    """The key of the call in the run. Its reply or failure has the same key."""
    task: str
    """The piece of work, which is the same for all of its tries and re-asks."""
    state: str
    visit: int
    """How many times the state had been entered."""
    role: Role
    """The role of the callee: author, judge, command or tool. `outside` is an author that is played
    from outside, which costs nothing and counts as no call."""
    agent: str
    """The name of the agent, of the state for a command, or `AGENT.TOOL` for a tool."""
    place: str
    """The place of the call: the name of the state, or of the validator for a judge."""
    opinion: str = ""
    """The opinion that a judge is asked for: `sample 2 of 3`, `second opinion`. Empty if it is
    asked for only one."""
    prompt: str
    """The last message that is sent; for a tool, its arguments."""
    goes_on: bool = False
    """Whether the call has no message of its own: it sends the results of tools, and the author
    continues."""
    model: str = ""
    """The model that is asked; empty for a program."""
    fallback: int = 0
    """The number of the fallback that is asked; 0 is the agent itself."""
    deadline_s: float | None
    """The time limit in seconds; null for work from outside without one."""
    cap: int | None = None
    """The maximum answer length in tokens, sent because of a limit; null if the agent's own options
    set one, or nothing limits it."""
    offered: dict[str, str] = NOTHING
    """The digests of MCP tools that are offered for the first time in this run, by
    `SERVER.TOOL`."""
    reserved: Usage
    """The maximum usage of the call, charged until the call is settled."""
    size: PromptSize = PromptSize()
    """The size of what is sent."""

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
    """A call waits, or a fallback is asked, because the provider has failed repeatedly."""

    type: ClassVar[str] = "held"
    area: ClassVar[str] = "calls"
    task: str
    state: str
    provider: str
    until: float
    """The Unix time at which the provider is asked again."""
    reason: str
    instead: str = ""
    """The fallback that is asked meanwhile; empty if the call waits."""


class Replied(Event, frozen=True, kw_only=True):
    """The answer to an intended call."""

    type: ClassVar[str] = "replied"
    area: ClassVar[str] = "calls"
    key: str
    text: str
    said: tuple[str, ...] = ()
    """All messages of a judge's transcript, in order, if there are more than `text`."""
    cut_off: bool = False
    """Whether the answer was cut off at its maximum length."""
    played: bool = False
    """Whether a scenario gave the answer. It cannot know the ids of findings in advance."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The tool calls of the answer, in order. Each result is the reply to a call named after it."""
    kept: dict[str, Any] = NOTHING
    """Data that the provider needs back unchanged while the author continues."""
    has_no_tools: bool = False
    """Whether the agent cannot call tools and was not offered any."""
    found_clean: str | None = None
    """For a tool that validates: the digest of the draft if nothing in it blocks, otherwise
    empty."""
    commands: tuple[Ran, ...] = ()
    """For a tool: the results of the programs that it ran."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    """The session id that an external agent reported."""
    model: str = ""
    """The model that answered, by the provider's name for it."""
    artifact_text: str | None = None
    """The content of the file that the attempt wrote, if the output is a file."""
    artifact_fault: str = ""
    """Why there is no such content or folder."""
    folder: LeftFolder | None = None
    """The output folder as the attempt left it, if it changed anything there."""
    workspace: str = ""
    """The digest of the files that an author left in its workspace, if it is a program. Empty if
    there are too many."""
    usage: Usage
    """The usage of the call."""
    by: str = ""
    """The name of the person or program that delivered the artifact from outside."""
    counted: TokenUse | None = None
    """The tokens by kind; null if nobody counted them."""


class Failed(Event, frozen=True, kw_only=True):
    """A call ended without an answer."""

    type: ClassVar[str] = "failed"
    area: ClassVar[str] = "calls"
    key: str
    error_class: ErrorClass
    """The class of the error: whether another try, another answer or a person can help."""
    message: str
    retry_at: float | None = None
    """The Unix time before which the call is not tried again."""
    unreadable: bool = False
    """Whether an answer was paid for but could not be read. Such a call is repeated only once."""
    resume_at: float | None = None
    """The Unix time from which the provider says that it can be asked again; null if it does not
    say."""
    unavailable: bool = False
    """Whether the model is unavailable for now, so that a fallback is asked at once."""
    usage: Usage
    """The usage that the call is charged nevertheless."""


class InDoubt(Event, frozen=True, kw_only=True):
    """A call whose process died. It may have been made, and stays charged at its reservation."""

    type: ClassVar[str] = "in_doubt"
    area: ClassVar[str] = "calls"
    key: str
    policy: Policy


class Settled(Event, frozen=True, kw_only=True):
    """A person decided what to do with a call in doubt."""

    type: ClassVar[str] = "settled"
    area: ClassVar[str] = "calls"
    key: str
    choice: Literal["retry", "fail"]
