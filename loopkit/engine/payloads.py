"""Values inside events: artifacts, feedback, answers, command results."""

from __future__ import annotations

from typing import Any, Literal

from loopkit.engine.findings import Finding
from loopkit.engine.records import Record, VersionId
from loopkit.values import NOTHING


class TokenUse(Record, frozen=True, kw_only=True):
    """The tokens of one call, as counted by its provider."""

    input: int
    """The input tokens, including those read from and written to the cache."""
    output: int
    cached: int = 0
    """The input tokens that were read from the provider's cache."""
    written: int = 0
    """The input tokens that were written to the provider's cache."""


class SessionUse(Record, frozen=True, kw_only=True):
    """What a program has counted for a whole session; null is not told."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None


class PromptSize(Record, frozen=True, kw_only=True):
    """The size of one call in characters. A program is sent only its prompt."""

    system: int = 0
    """The size of the system prompt."""
    turns: int = 0
    """The size of the conversation so far: prompts, replies and results of tools."""
    prompt: int = 0
    """The size of the last message."""
    schemas: int = 0
    """The size of the JSON Schemas of the answer and of tools, and of the tools' descriptions."""

    @property
    def total(self) -> int:
        return self.system + self.turns + self.prompt + self.schemas


class ToolCall(Record, frozen=True, kw_only=True):
    """A tool call, as the model wrote it."""

    id: str
    """The provider's id of the call, which its result has to name."""
    name: str
    arguments: str
    """The arguments, as JSON unless the model made a mistake."""
    as_text: bool = False
    """Whether the model wrote it as its answer, and loopkit made it."""


class LeftFolder(Record, frozen=True, kw_only=True):
    """A folder as an attempt left it."""

    tree: str
    """The digest of the paths, modes and contents of its files, under which they are stored."""
    place: str = ""
    """The path of the folder; empty if a scenario plays it."""
    files: tuple[str, ...] = ()
    """The paths that differ from the contents before the first attempt."""
    change: str = ""
    """The diff against the contents before the first attempt. This is the artifact."""
    last_change: str = ""
    """The diff against the contents before this attempt."""


class Version(VersionId, frozen=True, kw_only=True):
    """A version of an artifact, without its content."""

    fallback: bool = False
    """Whether it is a fallback."""
    fallback_reason: str = ""
    """For a fallback, why the run came to it: how the last loop ended (`exhausted`, `stalled`,
    `infeasible`, `incomplete`, `rejected`), the class of an error, `limit`, the choice of a person,
    or else the edge that led there."""


class Artifact(Version, frozen=True, kw_only=True):
    """One version of an artifact."""

    name: str
    text: str
    data: Any = None
    is_data: bool = False
    mended: tuple[str, ...] = ()
    """The slips in its JSON that were mended before it was read."""
    fields: dict[str, Any] = NOTHING
    fault: str = ""
    """Why the artifact is unusable: missing, empty, cut off, not JSON, or in breach of its schema.
    Empty if it is usable."""
    fault_code: str = ""
    fault_findings: tuple[Finding, ...] = ()
    """If the last draft did not pass the required tool: what that found."""
    notes: tuple[Finding, ...] = ()
    """What is to be told about how it was made, such as what its program was not allowed to do.
    None of it blocks."""
    infeasible: bool = False
    infeasible_because: str = ""
    """What its author says of why it can't be done, if it says more than that."""
    missing: tuple[str, ...] = ()
    """The fields that an infeasible answer left missing or invalid; they are empty."""
    edited: bool = False
    """Whether a person has changed it since the author wrote it."""
    workspace: str = ""
    """The digest of the files that the author left in its workspace, if it is a program."""
    tree: str = ""
    """For a folder: the digest of its files, under which they are stored."""
    place: str = ""
    """For a file or a folder: its path; empty if a scenario plays it."""
    rereads: int = 0
    """How many times it was read again since its author left it, because it had changed there."""

    @property
    def by(self) -> str:
        """Where it comes from, for a person: `attempt 2 by draft`."""
        return f"attempt {self.attempt} by {self.author}" if self.author else "from the start"

    @property
    def size(self) -> int:
        """The characters of its text without the white space around it, as rules count them."""
        return len(self.text.strip())

    @property
    def made(self) -> Version:
        return Version(**{name: getattr(self, name) for name in Version.__struct_fields__})


class Deferral(Record, frozen=True, kw_only=True):
    """Findings that wait until the state that must fix them works again."""

    to: str
    by: str
    """The state that judged."""
    findings: tuple[str, ...]
    """The ids of the findings that block, and of its warnings. Those that are no longer open by
    then are left out."""
    edge: str | None = None
    """The edge whose feedback delivers them. Default: the default feedback."""
    revision: int
    """The revision number of the edge that was taken."""
    max_revisions: int
    answer: dict[str, Any] = NOTHING
    """The answer of the person who sent the work back, for the feedback of that edge."""


class Feedback(Record, frozen=True, kw_only=True):
    """The feedback that a decision gives to a state that has to work again."""

    to: str
    text: str
    revision: int
    max_revisions: int
    hides_previous: bool = False
    """Whether the version that it is about is not sent with it. It then stands before the prompt,
    else after it."""
    tells: Deferral | None = None
    """With `origins` or `from: best`: the findings in the feedback, which is rewritten if some of
    them go to other states or are given up."""


class Best(Record, frozen=True, kw_only=True):
    """An earlier version that the work continues from, because no later one is better."""

    state: str
    """The validate state that judged it."""
    author: str
    attempt: int
    """The attempt of its author."""
    made_from: dict[str, int] = NOTHING
    """For each state whose artifact it was made from: how many times that state had worked."""
    artifacts: tuple[str, ...] = ()
    """The artifacts that are restored to that version."""
    withdrawn: tuple[Finding, ...] = ()
    """The open findings that were found only in versions that are given up."""

    @property
    def version(self) -> str:
        """Which one it is, for a person."""
        return f"attempt {self.attempt} of {self.author}" if self.author else "the first value"


class HumanAnswer(Record, frozen=True, kw_only=True):
    """A person's answer to a question."""

    choice: str
    comment: str = ""
    form: dict[str, Any] = NOTHING
    edit: str | None = None
    """The edited text of the artifact that `edit:` names."""
    origins: dict[str, tuple[str, ...]] = NOTHING
    """For findings of the last report, as the answer names them: the states that must fix them."""
    limits: dict[str, Any] = NOTHING
    """The limits of the run that the answer raises."""
    by: str = "person"
    """The name of the person, or `person` if it is not given; `script` or `timeout` if nobody
    answered."""


class Considered(Record, frozen=True, kw_only=True):
    """The report that a person's answer is about: the last one, as the person reclassified it."""

    state: str
    """The state that judged."""
    artifact: str
    attempt: int
    verdict: str
    findings: dict[str, int]
    """The number of findings of each severity."""
    blocking: int
    """The number of findings that block."""
    origins: dict[str, tuple[str, ...]] = NOTHING
    """For each reclassified finding, by id: the states that must fix it."""
    origin: str | None = None
    """The earliest origin of the blocking findings, if the machine has `origins`."""


class Ran(Record, frozen=True, kw_only=True):
    """One run of a program, by a command validator or a tool."""

    validator: str
    """The name of the validator, or `AGENT.TOOL` for a tool."""
    exit_code: int = 0
    stdout: str = ""
    """The end of its standard output."""
    stderr: str = ""
    fault: Literal["", "timeout", "not_found"] = ""
    """Why there is no exit code; empty if there is one."""
    message: str = ""
    """The message about the fault."""
    files: dict[str, str] = NOTHING
    """The report file that it wrote, unless it is very long."""


class Choice(Record, frozen=True, kw_only=True):
    """One choice of a question."""

    name: str
    closed: str = ""
    """Why it cannot be chosen now; empty if it can."""
    takes_comment: bool = False
    """Whether its feedback uses a comment."""
    needs_comment: bool = False
    """Whether it requires a comment."""


class Delivery(Record, frozen=True, kw_only=True):
    """What somebody outside delivers."""

    text: str | None = None
    """The artifact, data as JSON; none where it is what lies in the workspace."""
    by: str = "person"
    """The name of who delivers, else `person`."""


class Wanted(Record, frozen=True, kw_only=True):
    """An artifact to deliver from outside."""

    agent: str
    """The agent that is played from outside."""
    call: str
    """The key of the `intended` event that asks for the artifact."""
    artifact: str
    attempt: int
    """The number of the state's current work, from 1."""
    form: Literal["text", "data", "file", "folder"]
    """The form of the artifact: a text, JSON data, or a file or folder in the workspace."""
    takes_text: bool = True
    """Whether a text can be delivered. It cannot if only the file or folder counts."""
    json_schema: dict[str, Any] | None = None
    """For data: the JSON Schema that it must match."""
    workspace: str = ""
    """The folder to work in, if there is one."""
    path: str = ""
    """For a file or folder: its path in the workspace."""
    before: str = ""
    """For a file: a fingerprint of the file when the artifact was requested."""

    @property
    def is_left(self) -> bool:
        return self.form in ("file", "folder")


class Change(Record, frozen=True, kw_only=True):
    """One difference between two definitions."""

    place: str
    """The dotted path of the value."""
    before: str = ""
    """The old value, shortened to one line; empty if it was added."""
    after: str = ""
    """The new value, shortened to one line; empty if it was removed."""
