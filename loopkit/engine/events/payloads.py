"""Values inside events: artifacts, feedback, answers, command results."""

from __future__ import annotations

from typing import Any, Literal

from loopkit.engine.findings import Finding
from loopkit.engine.records import Record


class TokenUse(Record, frozen=True, kw_only=True):
    """The tokens of one call, as its provider counts them."""

    input: int
    """Those of the cache included, read and written."""
    output: int
    cached: int = 0
    """Of the input, what the provider had in its cache."""
    written: int = 0
    """Of the input, what it put into its cache."""


class PromptSize(Record, frozen=True, kw_only=True):
    """What one call sends, in characters. A program is sent its prompt alone."""

    system: int = 0
    """The system prompt."""
    turns: int = 0
    """The conversation so far: what was said and asked, and what tools gave."""
    prompt: int = 0
    """The message that is sent last."""
    schemas: int = 0
    """JSON Schemas of the answer and of tools, and the descriptions of these."""

    @property
    def total(self) -> int:
        return self.system + self.turns + self.prompt + self.schemas


class ToolCall(Record, frozen=True, kw_only=True):
    """A call of a tool, as a model wrote it."""

    id: str
    """What the provider calls it; its answer has to name the same."""
    name: str
    arguments: str
    """JSON, if the model did not get it wrong."""


class LeftFolder(Record, frozen=True, kw_only=True):
    """A folder as an attempt left it."""

    tree: str
    """Digest of the paths, modes and contents of its files, under which they are kept."""
    place: str = ""
    """Where the folder is; empty where a scenario plays it."""
    files: tuple[str, ...] = ()
    """The paths at which it differs from what was there before the first attempt."""
    change: str = ""
    """That difference, which is the artifact."""
    last_change: str = ""
    """What this attempt changed."""


class Artifact(Record, frozen=True, kw_only=True):
    """One version of an artifact."""

    name: str
    author: str
    """The state that wrote it."""
    attempt: int
    text: str
    data: Any = None
    is_data: bool = False
    fields: dict[str, Any] = {}
    fault: str = ""
    """Why this is no proper artifact: missing, empty, cut off, not JSON, breaks its schema."""
    fault_code: str = ""
    infeasible: bool = False
    missing: tuple[str, ...] = ()
    """Fields of an infeasible answer that it did not fill in as it should; they are empty."""
    fallback: bool = False
    fallback_reason: str = ""
    """Of a fallback: why the run came to it. What a report says of its last loop (`exhausted`,
    `stalled`, `infeasible`, `incomplete`, `rejected`), the class of an error, `limit`, the choice
    of a person; else the edge that led there."""
    version: int = 0
    """Which version of this artifact it is in the run, from 1, whoever wrote the others; 0 is not
    known."""
    previous: int = 0
    """The version that was current before it; 0 for none."""
    attempts: int = 0
    """How often authors had begun to work on it by then; a fallback is no attempt."""
    phase: str = ""
    """The phase that the run's events had named last."""
    edited: bool = False
    """A person has changed it since the author wrote it."""
    workspace: str = ""
    """Digest of the files that its author left where it worked, if that is a program."""
    tree: str = ""
    """Of a folder: the digest of its files, under which they are kept."""
    place: str = ""
    """Of a folder: where it is."""

    @property
    def made(self) -> Version:
        """What is told of it besides its content."""
        return Version(
            author=self.author,
            attempt=self.attempt,
            attempts=self.attempts,
            version=self.version,
            previous=self.previous,
            phase=self.phase,
            fallback=self.fallback,
            fallback_reason=self.fallback_reason,
        )


class Version(Record, frozen=True, kw_only=True):
    """What is told of a version of an artifact besides its content."""

    author: str
    """The state that wrote it."""
    attempt: int
    """Which work of that state it was."""
    attempts: int = 0
    """How often authors had begun to work on the artifact by then."""
    version: int = 0
    """Which version of the artifact it is in the run, from 1."""
    previous: int = 0
    """The version that was current before it; 0 for none."""
    phase: str = ""
    """The phase that the run's events had named last."""
    fallback: bool = False
    """Whether it is a fallback."""
    fallback_reason: str = ""
    """Why the run came to it, then."""


class Deferral(Record, frozen=True, kw_only=True):
    """Findings that wait for the state that has to mend them, until it works again."""

    to: str
    by: str
    """The state that judged."""
    findings: tuple[str, ...]
    """Their ids; what is no longer open then is left out."""
    edge: str | None = None
    """The edge whose feedback tells them; without it the default one does."""
    revision: int
    """Of the edge that was taken."""
    max_revisions: int
    answer: dict[str, Any] = {}
    """What a person said who sent the work back: for the feedback of that edge."""


class Feedback(Record, frozen=True, kw_only=True):
    """What a decision tells a state that has to work again."""

    to: str
    text: str
    revision: int
    max_revisions: int
    tells: Deferral | None = None
    """With `origins` or `from: best`, the findings that it tells, to be told anew where some go to
    others or are given up."""


class Best(Record, frozen=True, kw_only=True):
    """An earlier version from which the work goes on, because none since then was better."""

    state: str
    """The validate state that judged it."""
    author: str
    attempt: int
    """Which attempt of its author it was."""
    made_from: dict[str, int] = {}
    """By state, how often those had worked from whose artifacts it was made."""
    artifacts: tuple[str, ...] = ()
    """What is again as it was then."""
    withdrawn: tuple[Finding, ...] = ()
    """What was open and was found only in what is given up."""


class HumanAnswer(Record, frozen=True, kw_only=True):
    """What a person decided."""

    choice: str
    comment: str = ""
    form: dict[str, Any] = {}
    edit: str | None = None
    """The edited artifact, where the state offers `edit:`."""
    origins: dict[str, tuple[str, ...]] = {}
    """For findings of the last report, as they are named: the states that have to mend them."""
    limits: dict[str, Any] = {}
    """Limits of the run that it raises."""
    by: str = "person"
    """The name of who answered, else `person`; `script` or `timeout` where nobody did."""


class Considered(Record, frozen=True, kw_only=True):
    """What a person decided about: the last report, as they reclassified it."""

    state: str
    """The state that judged."""
    artifact: str
    attempt: int
    verdict: str
    findings: dict[str, int]
    """How many there are of each level."""
    blocking: int
    """How many of them block."""
    origins: dict[str, tuple[str, ...]] = {}
    """By the ids of those that a person reclassified: the states that have to mend them."""
    origin: str | None = None
    """The earliest origin of what blocks, where the machine has `origins`."""


class Ran(Record, frozen=True, kw_only=True):
    """One run of a program, by a command validator or a tool."""

    validator: str
    """Of a tool `AGENT.TOOL`."""
    exit_code: int = 0
    stdout: str = ""
    """The end of what it printed."""
    stderr: str = ""
    fault: Literal["", "timeout", "not_found"] = ""
    """Why there is no exit code."""
    message: str = ""
    """What was told about the fault."""
    files: dict[str, str] = {}
    """The report that it wrote, where that is a file; a very long one is left out."""


class Choice(Record, frozen=True, kw_only=True):
    """One way to answer a question."""

    name: str
    closed: str = ""
    """Why it can't be chosen now; empty when it can."""
    takes_comment: bool = False
    """The feedback uses a comment."""
    needs_comment: bool = False
    """It can't do without one."""


class Delivery(Record, frozen=True, kw_only=True):
    """What somebody outside delivers."""

    text: str | None = None
    """The artifact, data as JSON; none where it is what lies in the workspace."""
    by: str = "person"
    """The name of who delivers, else `person`."""


class Wanted(Record, frozen=True, kw_only=True):
    """What somebody outside has to deliver."""

    agent: str
    """The agent that they play."""
    call: str
    """The key of the `intended` event that asks for it."""
    artifact: str
    attempt: int
    """Which work of the state it is, from 1."""
    form: Literal["text", "data", "file", "folder"]
    """A text, JSON data, or what lies in the workspace."""
    takes_text: bool = True
    """Whether a text can be delivered: not where only the file or folder counts."""
    json_schema: dict[str, Any] | None = None
    """Of data: the JSON Schema that it has to fit."""
    workspace: str = ""
    """The folder in which to work, where there is one."""
    path: str = ""
    """Of a file or folder: where it is in the workspace."""
    before: str = ""
    """Of a file: what sums up the one that was there when it was asked for."""

    @property
    def is_left(self) -> bool:
        """Whether it is what was left in the workspace."""
        return self.form in ("file", "folder")


class Change(Record, frozen=True, kw_only=True):
    """One difference between two definitions."""

    place: str
    """The dotted path of the value."""
    before: str = ""
    """What stood there, on one line and shortened; empty where nothing did."""
    after: str = ""
    """What stands there now; empty where nothing does."""
