"""The events of a run: frozen, versioned records, which everything else is folded from.

A macrostep is one atomic append: `worked`, `decided`, `entered` (and then `waiting` or `finished`).
Calls are `intended` before they are sent and `replied` or `failed` after.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Literal

from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import (
    Artifact,
    Best,
    Change,
    Choice,
    Considered,
    Deferral,
    Feedback,
    HumanAnswer,
    LeftFolder,
    PromptSize,
    Ran,
    SessionUse,
    TokenUse,
    ToolCall,
    Version,
    Wanted,
)
from loopkit.engine.records import Failure, Record, RefusedCall, Usage, read_record
from loopkit.language.section import ErrorClass
from loopkit.text import one_line
from loopkit.values import NOTHING

MESSAGE_WIDTH = 200

Role = Literal["author", "judge", "run", "tool", "outside"]

EVENT_VERSION = 2


class Event(Record, frozen=True, kw_only=True):
    """What every record of a run has in common."""

    type: ClassVar[str]
    """The kind of event, which determines its other keys: `in_doubt` for `InDoubt`."""
    area: ClassVar[str]
    """What it is about, by which the log of runs names its logger."""
    version: int = EVENT_VERSION
    """The version of the format. Keys can be added without a new version."""

    def __init_subclass__(cls) -> None:
        cls.type = re.sub(r"\B(?=[A-Z])", "_", cls.__name__).lower()


class AtVisit(Event, frozen=True, kw_only=True):
    """What happens while a state is active."""

    state: str
    visit: int
    """How many times the state has been entered, including this time."""


class Intended(AtVisit, frozen=True, kw_only=True):
    """A call is about to be made."""

    key: str
    """The key of the call in the run. Its reply or failure has the same key, and so has the call if
    it is made again because it is in doubt."""
    task: str
    """The piece of work, which is the same for all of its tries and re-asks."""
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
    instead_of: str = ""
    """The word for which there is no agent, so that this one is asked: the one under `else`. At the
    first call alone."""
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
        return self.role in OF_AGENTS

    @property
    def is_of_agent(self) -> bool:
        """Whether an agent answers, one that is called or one outside."""
        return self.asks_agent or self.role == "outside"

    @property
    def asked_at(self) -> str:
        """The place, and which of several opinions is asked for there."""
        return f"{self.place}, {self.opinion}" if self.opinion else self.place


class Acted(Event, frozen=True, kw_only=True):
    """A coding program has done something, while its call is still open."""

    key: str
    kind: Literal["tool", "edit"]
    """Whether it has called a tool or edited a file."""
    name: str
    """The program's own name of the tool."""
    about: str = ""
    """The path, the command or the query."""
    session: str | None = None
    """The session in which the call can be continued if it fails."""


class Held(Event, frozen=True, kw_only=True):
    """A call waits, or a fallback is asked, because the provider has failed repeatedly."""

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

    key: str
    text: str
    said: tuple[str, ...] = ()
    """All messages of a judge's transcript, in order, if there are more than `text`."""
    thoughts: str = ""
    """What the model thought, which is no part of `text`."""
    raw: str = ""
    """The whole answer, if thoughts or repetitions were taken out of it."""
    loops: bool = False
    """Whether the answer says the same again and again, up to its end. `text` has it once."""
    cut_off: bool = False
    """Whether the answer was cut off at its maximum length."""
    in_words: str = ""
    """Why the agent's schema is asked for in words from this call on, although the model takes
    schemas; empty if nothing has changed."""
    prompt_cut: str = ""
    """That the server has read only a part of the prompt, and what to do; empty if it read all."""
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
    findings: tuple[Finding, ...] = ()
    """For a tool that validates: what it found in the draft. For a program: what it was not allowed
    to do, and what it changed in protected files."""
    commands: tuple[Ran, ...] = ()
    """For a tool: the results of the programs that it ran."""
    exit_code: int | None = None
    stderr: str = ""
    session: str | None = None
    """The session id that an external agent reported."""
    session_use: SessionUse | None = None
    """What the program has counted for the whole session; null if it counts each call alone."""
    stream: str = ""
    """All that a coding program printed, as it printed it."""
    warning: str = ""
    """What a person should know of the program, such as that its version was not tried."""
    model: str = ""
    """The model that answered, by the provider's name for it."""
    artifact_text: str | None = None
    """The content of the file that the attempt wrote, if the output is a file."""
    artifact_place: str = ""
    """The path of this file."""
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
    in_words: str = ""
    """Why the agent's schema is asked for in words from this call on, as with `replied`."""
    unavailable: bool = False
    """Whether the model is unavailable for now, so that a fallback is asked at once."""
    begins_anew: str = ""
    """The prompt with which a fresh session begins, because the kept one is lost or too long for
    the model; empty if none begins."""
    stream: str = ""
    """All that a coding program printed, as it printed it."""
    usage: Usage
    """The usage that the call is charged nevertheless."""


Policy = Literal["retry", "ask", "fail"]


class InDoubt(Event, frozen=True, kw_only=True):
    """A call whose process died, or a program that was ended before it was done. It may have done
    its work, and stays charged at its reservation unless it says itself what it used."""

    key: str
    policy: Policy
    reason: str = ""
    """Why it was ended, or what it had done before it failed; empty if its process died."""
    time_s: float = 0.0
    """The seconds until it was ended."""
    used: Usage | None = None
    """What it said that it used, if it failed with a record of that."""

    @property
    def why(self) -> str:
        return self.reason or "its process died"

    def charge(self, reserved: Usage) -> Usage:
        return (self.used or reserved.as_held).replace(time_s=self.time_s)


class Settled(Event, frozen=True, kw_only=True):
    """A person decided what to do with a call in doubt."""

    key: str
    choice: Literal["retry", "fail"]


class Captured(Event, frozen=True, kw_only=True):
    """A folder or file that is an artifact, as it was before an attempt."""

    task: str
    """The work that begins at this point."""
    state: str
    artifact: str
    place: str
    """The path of the folder or file."""
    relative: str = ""
    """For a folder: its path as the state names it."""
    tree: str = ""
    """For a folder: the digest under which its files are stored."""
    times: str
    """A fingerprint that changes with every write; empty if there was no file."""
    ignored: tuple[str, ...] = ()
    """For a folder: the patterns of what does not count."""
    linked: dict[str, int] = NOTHING
    """For a folder: the files that have another name elsewhere, with their inode."""


class Protected(Event, frozen=True, kw_only=True):
    """The protected files of a workspace, as they were before an attempt."""

    task: str
    """The work that begins at this point."""
    place: str
    """The path of the workspace."""
    patterns: tuple[str, ...]
    tree: str
    """The digest under which the files are stored."""


class Undone(Event, frozen=True, kw_only=True):
    """Protected files are as they were before an attempt, whatever it did to them."""

    task: str
    files: tuple[str, ...] = ()
    """The paths of those that it changed, from the workspace on."""
    tree: str = ""
    """If it changed any: the digest under which they are stored as it left them."""


class Reread(Event, frozen=True, kw_only=True):
    """The file or folder of an artifact has changed, and what it has now is the artifact."""

    artifact: Artifact


class Isolated(Event, frozen=True, kw_only=True):
    """A workspace gets a tree of its own, in which the run works."""

    source: str
    """The path of the workspace."""
    kind: Literal["copy", "worktree"]
    place: str
    """The path of the folder in which the run works instead."""
    base: str
    """The digest of the initial files, under which they are stored."""


class Merging(Event, frozen=True, kw_only=True):
    """The work in an isolated tree is about to be merged into its workspace."""

    source: str
    before: str
    """The digest of the workspace's files before the merge."""
    after: str
    """The digest of the workspace's files after the merge."""


class Merged(Event, frozen=True, kw_only=True):
    """The work in an isolated tree has been merged into its workspace."""

    source: str
    files: tuple[str, ...] = ()
    """The paths that have changed in the workspace."""
    ignored: tuple[str, ...] = ()
    """The artifacts that were not merged, because git ignores them, by path."""


class Restored(Event, frozen=True, kw_only=True):
    """Folders have been restored to the round that was picked as the best."""

    artifacts: tuple[str, ...]


class Adding(AtVisit, frozen=True, kw_only=True):
    """A state is about to append a text to a file. It does this once."""

    file: str
    after: int
    """The size of the file in bytes before the text is appended."""


class Setting(AtVisit, frozen=True, kw_only=True):
    """A state is about to set values in a file. A resumed run sets the same ones."""

    file: str
    where: dict[str, Any] = NOTHING
    """The values by which the item is known."""
    values: dict[str, Any]
    """The new values, by key."""


class Beginning(Event, frozen=True, kw_only=True):
    """What a run begins with, a child among them."""

    definition: str
    """The digest of the resolved definition."""
    input: dict[str, Any]
    """The complete input, including defaults."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """The kind of tree of its own in which the run works, whatever its machine says."""
    feedback: Feedback | None = None
    """The feedback for the first author of a child, if its state was entered again, or its item
    runs again."""


class Started(Beginning, frozen=True, kw_only=True):
    """A run begins."""

    run: str
    machine: str
    script: str | None = None
    """The digest of the scenario that plays the agents."""
    folder: str
    """The project folder, which contains all workspaces."""
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts that the run begins with; they have no author."""
    limits: dict[str, Any] = NOTHING
    """The limits from the command line, which replace those of the machine."""


class Claimed(Event, frozen=True, kw_only=True):
    """A process took over the run. Everything that it writes has the new epoch."""

    pid: int = 0
    host: str = ""


class Effort(Event, frozen=True, kw_only=True):
    """What is known of a state's work besides its result, whether it is complete or not."""

    time_s: float = 0.0
    """The seconds of work outside of calls."""
    remedy: str = ""
    """A remedy for the error, for a person to apply."""
    resume_at: float | None = None
    """The Unix time from which it makes sense to continue."""
    commands: tuple[Ran, ...] = ()
    """The results of command validators, in order."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""


class Suspended(Effort, frozen=True, kw_only=True):
    """The run has stopped in its current state; `resume` continues it."""

    state: str
    reason: Literal["limit", "transient", "content", "fatal", "interrupted", "waiting"]
    """Why the run stopped: a limit, a class of error, an interruption, or a child that waits for a
    person."""
    message: str

    @property
    def is_pause(self) -> bool:
        """Whether nothing went wrong: somebody stopped the run, or its children are asked."""
        return self.reason in ("interrupted", "waiting")


class Resumed(Event, frozen=True, kw_only=True):
    """The run was asked to continue."""

    limits: dict[str, Any] = NOTHING
    """The limits that were raised, by name."""


class Repaired(Event, frozen=True, kw_only=True):
    """The run continues with another definition, to which its progress was fitted."""

    definition: str
    """The digest of the resolved definition that applies from here on."""
    changes: tuple[Change, ...] = ()
    """The differences from the previous definition."""
    edges: dict[str, str] = NOTHING
    """The new ids of edges that the run knows by other ids; empty for an edge that no longer
    exists."""
    counters: dict[str, int] = NOTHING
    """The revisions used so far, by the counters of the new definition."""
    tasks: dict[str, str] = NOTHING
    """The new names of unfinished work; empty if nobody is asked for it any more."""
    input: dict[str, Any] = NOTHING
    """New inputs, with their default values."""
    limits: tuple[str, ...] = ()
    """The limits that were set for the run and now follow the definition again."""


class Refused(Event, frozen=True, kw_only=True):
    """A message in the inbox that could not be acted on."""

    message_id: str
    reason: str


class Finished(Event, frozen=True, kw_only=True):
    """The run has reached a final state."""

    outcome: str
    """The name of the final state."""
    success: bool
    """Whether the final state is a success."""
    result: dict[str, Any] = NOTHING
    """The artifacts of the result, by name."""
    picked: dict[str, Version] = NOTHING
    """For each artifact of the result: its version, and how the run came to it."""
    absent: tuple[str, ...] = ()
    """Artifacts of the result that this path never wrote."""
    left: tuple[str, ...] = ()
    """The isolated trees of a failed run, which are left unmerged."""
    conflicts: tuple[str, ...] = ()
    """Files that could not be merged, because they had also changed in the workspace."""
    although: str = ""
    """Of a success: what had failed, and no guard and no person knew of, in words."""


class Cancelled(Event, frozen=True, kw_only=True):
    """The run was cancelled."""

    reason: str = ""


Outcome = Literal["done", "transient", "content", "fatal", "limit"]


class Worked(Effort, frozen=True, kw_only=True):
    """A state has completed its work."""

    state: str
    visit: int
    outcome: Outcome
    """`done`, the class of the error, or `limit`."""
    facts: dict[str, Any] = NOTHING
    """The facts of the work that guards can read."""
    artifact: Artifact | None = None
    report: Report | None = None
    answer: HumanAnswer | None = None
    considered: Considered | None = None
    """For an answer: the report that it is about, if anything was judged before."""
    restored: dict[str, Artifact] = NOTHING
    """The artifacts that become current again because a person was shown the best version."""
    error: str = ""
    """The error message; empty if the outcome is `done`."""
    made_from: str = ""
    """A digest of everything that the work depended on, if the state can keep its artifact."""

    @classmethod
    def with_failure(cls, state: str, visit: int, failure: Failure) -> Worked:
        return cls(
            state=state,
            visit=visit,
            outcome=failure.error_class,
            error=failure.message,
            remedy=failure.remedy,
            resume_at=failure.resume_at,
            refused=failure.refused,
        )


class Kept(AtVisit, frozen=True, kw_only=True):
    """A state was entered again and keeps its artifact, because nothing of its work has changed."""

    # Its transitions are decided as after its last work.


class Baselined(Event, frozen=True, kw_only=True):
    """The findings of a rule with `baseline` before the run's first work."""

    state: str
    """The state that uses the validator."""
    validator: str
    rule: str
    """The key of the rule and its position in the validator."""
    findings: tuple[str, ...] = ()
    """The ids of the findings."""
    commands: tuple[Ran, ...] = ()
    """The results of the program, one for each try."""
    time_s: float = 0.0


class Decided(Event, frozen=True, kw_only=True):
    """The edge that was taken, the reason, and the revisions that it uses."""

    edge: str
    """The id of the edge: `check[2]`, `draft.on_error.fatal`, `draft.limit`."""
    source: str
    target: str
    facts: dict[str, Any] = NOTHING
    """The facts that the guards could read."""
    left_because: str | None = None
    """Why the loop ended without acceptance, such as `exhausted`, `infeasible` or `fatal`. Empty if
    the artifact was accepted; null if the edge does not say."""
    bits: tuple[bool, ...] = ()
    """For each candidate edge: whether it was enabled."""
    spends: tuple[str, ...] = ()
    """The counters that are charged one revision each."""
    resets: tuple[str, ...] = ()
    """The counters that are reset to zero."""
    feedback: tuple[Feedback, ...] = ()
    """The feedback for the states that the edge leads to."""
    deferrals: tuple[Deferral, ...] = ()
    """Findings for later states, which receive them when they work again."""
    best: Best | None = None
    """The version that the edge goes back to, if it is an earlier one."""

    @property
    def revision(self) -> Feedback | None:
        """What a revise edge tells, with its number; none where the same work is judged again."""
        return self.feedback[0] if self.spends and self.feedback else None


class Alerted(Event, frozen=True, kw_only=True):
    """A figure of the run has passed the threshold that the machine sets."""

    figure: str
    """The name of the figure: `correction_rate`."""
    value: float
    threshold: float
    works: int
    """The number of works so far."""
    corrections: int
    """The number of these works that were corrections."""


class Emitted(Event, frozen=True, kw_only=True):
    """An event that the machine's author requested with `emit:`."""

    name: str
    state: str
    """The state that begins, or that the edge leads out of."""
    attempt: int
    """How many times authors have begun to work on the artifact, from 1. A fallback is not an
    attempt."""
    artifact: str = ""
    """The artifact that the event is about: the one that the state writes or judges, or else the
    last one judged."""
    artifact_version: int = 0
    """The number of its version in the run, from 1, including fallbacks and a version that is still
    being written; 0 if there is none."""
    phase: str = ""
    """The phase that this event names, or else the phase before it."""
    source: str = ""
    """The maker of the version: the state, or the name that the machine gives."""
    fallback: str = ""
    """The reason for the fallback, if the version is one."""
    findings: tuple[Finding, ...] = ()
    """All findings about the version, or those that the work begins with, including warnings."""
    reason: str = ""
    """Why there is no verdict or no version: an error, or that the author declared that it cannot
    be done."""
    stalled: bool = False
    """Whether the report on the version found no progress."""


class Entered(AtVisit, frozen=True, kw_only=True):
    """A state becomes active."""

    attempt: int
    """How many times the state has worked, including this time."""
    by: str | None = None
    """The edge that led here; null at the start."""


class Waiting(Event, frozen=True, kw_only=True):
    """The run waits for a person's answer, or for an artifact from outside."""

    state: str
    question: str
    """The id of the question, which an answer or a delivery has to name."""
    text: str
    """The text of the question as the person sees it; for an artifact, the prompt."""
    choices: tuple[Choice, ...]
    """The choices of the question; empty if an artifact is wanted."""
    expires_at: float | None = None
    """The Unix time after which `otherwise` counts, or a delivery comes too late."""
    otherwise: str | None = None
    """The choice that counts after that time."""
    form: dict[str, Any] = NOTHING
    """The fields to fill in, in the notation of types."""
    edit: str | None = None
    """The artifact that the answer may replace with an edited version."""
    call: str | None = None
    """The key of the call in doubt, if the question is about one."""
    wanted: Wanted | None = None
    """The artifact to deliver, if the run waits for one."""


class ChildStarted(Beginning, frozen=True, kw_only=True):
    """A child run is about to begin. Its own records belong to its own run."""

    state: str
    visit: int
    key: str
    """The key of its item; empty if the state has only one child."""
    child: str
    """The id of the child run."""
    again: bool = False
    """Whether its item runs once more, because what the first run left could not be merged."""
    index: int = 0
    """The position of its item in the list, from 0."""
    of: int = 1
    """The number of items in the list."""


class ChildEnded(AtVisit, frozen=True, kw_only=True):
    """A child run has ended."""

    key: str
    result: dict[str, Any]
    """The child's part of the state's artifact."""
    usage: Usage
    """The usage of the child, including its own children."""
    time_s: float = 0.0
    """The seconds in which any child was working, since the last record of this run that counts
    them."""


_BY_AREA: dict[str, tuple[type[Event], ...]] = {
    "calls": (Held, Intended, Acted, Replied, Failed, InDoubt, Settled),
    "children": (ChildStarted, ChildEnded),
    "files": (
        *(Captured, Protected, Undone, Adding, Setting),
        *(Isolated, Merging, Merged, Restored, Reread),
    ),
    "runs": (Started, Claimed, Suspended, Repaired, Resumed, Refused, Finished, Cancelled),
    "steps": (Baselined, Worked, Kept, Decided, Alerted, Emitted, Entered, Waiting),
}
EVENTS = {noun.type: noun for nouns in _BY_AREA.values() for noun in nouns}
for _area, _nouns in _BY_AREA.items():
    for _noun_of_area in _nouns:
        _noun_of_area.area = _area


class UnknownEvent(Exception):
    """A record that this version of loopkit cannot read."""


class EventOfOtherVersion(UnknownEvent):
    def __init__(self, version: int) -> None:
        super().__init__(f"has version {version}, this loopkit reads version {EVENT_VERSION}")


def read_event(event_type: str, data: str) -> Event:
    """The event behind a stored record, without keys that only later loopkits know.

    Raises UnknownEvent.
    """
    if event_type not in EVENTS:
        _refuse_others(_version_in(data))
        raise UnknownEvent(one_line(f"there is no type `{event_type}`", MESSAGE_WIDTH))
    try:
        event = read_record(EVENTS[event_type], data)
    except (ValueError, RecursionError) as error:
        # What another version has need not fit; its number says more than how it does not.
        _refuse_others(_version_in(data))
        raise UnknownEvent(one_line(str(error), MESSAGE_WIDTH)) from error
    _refuse_others(event.version)
    return event


def _refuse_others(version: int) -> None:
    if version > 0 and version != EVENT_VERSION:
        raise EventOfOtherVersion(version)


def _version_in(data: str) -> int:
    """The version that a text names; 0 where it names none."""
    try:
        version = json.loads(data)["version"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) else 0


OF_AGENTS: tuple[Role, ...] = ("author", "judge")
"""The roles in which loopkit calls an agent, and no command or tool."""
OF_AUTHORS: tuple[Role, ...] = ("author", "outside")
"""The roles in which an agent writes: one that is called, or somebody outside."""

ENDS = (Finished.type, Cancelled.type)
"""The types of the events behind which nothing comes."""
