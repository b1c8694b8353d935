"""The base of all agents: the keys that every agent may have, and what each kind says of itself."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from loopkit.language.agents.tools import Tool
from loopkit.language.section import (
    FROM_LIST,
    ByForm,
    Duration,
    ErrorRule,
    Key,
    Noun,
    OnInDoubt,
    Retry,
    Schema,
    Written,
    by_type,
)

Session = Literal["keep", "fresh"]


Mark = Annotated[str, Field(min_length=1)]
Thoughts = Annotated[
    Literal["keep"] | Annotated[tuple[Mark, Mark], FROM_LIST], by_type("<keep>", "<marks>")
]


class KeptSession(Noun):
    """`session: {keep: N, if_lost: fail}`: one conversation, all of it or its last N turns."""

    keep: Annotated[
        Annotated[int, Field(ge=1)] | Literal["all"],
        ByForm(("<number>", "<all>"), lambda v: "<all>" if isinstance(v, str) else "<number>"),
    ] = "all"
    """The number of recent turns of the conversation to send again, or `all`."""
    if_lost: Literal["fresh", "fail"] = "fresh"
    """`fresh`: a session that is lost, or too long for the model, is begun anew, once in an
    attempt, with the whole prompt. `fail`: that is a fatal error first."""


class Workspace(Noun):
    """The folder in which an agent or a command works."""

    path: str
    """A template for the path, relative to the folder of the machine file. `..` at its beginning
    leads up."""
    create: bool = False
    """Whether the folder is created if it does not exist, which is an error otherwise."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """Whether the run works in a tree of its own: a copy of the folder, or a git worktree. It is
    merged into the folder if the run succeeds."""


class AgentBase(Noun):
    """What every agent may say."""

    description: str = ""
    """A note for readers; has no effect."""
    schema_: Schema | None = Field(None, alias="schema")
    """The type of the answer, which is then JSON data instead of text."""
    infeasible: str | None = None
    """The name of a field of the schema with which the author declares that the task cannot be
    done: a bool, or an optional text, list or record that says why."""
    session: Annotated[Session | KeptSession, by_type("<session>", "<turns>")] = "fresh"
    """`keep`: one conversation for all revisions of a state; `fresh`: a new one for each."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""

    kind: ClassVar[str]
    front_matter: ClassVar[frozenset[str]] = frozenset({"description"})
    """Its fields that the front matter of its file may have."""
    prompt_key: ClassVar[str] = "system"
    """The field that the text of its file is."""
    is_called: ClassVar[bool] = True
    """Whether loopkit asks it, which counts as a call and may cost something."""
    is_sent_turns: ClassVar[bool] = True
    """Whether what was said before is sent again with each call."""
    if_in_doubt: ClassVar[OnInDoubt] = "retry"
    """What becomes of a call that may have been made, where the agent says nothing."""

    @property
    def turns_kept(self) -> int | None:
        """How many turns of a kept session are sent again; None for all."""
        keep = self.session.keep if isinstance(self.session, KeptSession) else "all"
        return None if keep == "all" else keep

    @property
    def begins_anew(self) -> bool:
        """Whether a fresh session follows one that is lost or too long for the model."""
        if not self.is_called or not (self.is_sent_turns or self.goes_on):
            return False
        kept = self.session
        return kept.if_lost == "fresh" if isinstance(kept, KeptSession) else kept == "keep"

    @property
    def has_one_more_try(self) -> bool:
        """Whether a call may have a try beyond its `retry.attempts`: its session was lost."""
        is_single = any(asked.retry.attempts == 1 for asked in self.in_turn)
        return self.begins_anew and (is_single or self.goes_on)

    @property
    def works_on_files(self) -> bool:
        """Whether its answer is only a part of what it leaves."""
        return False

    @property
    def called(self) -> tuple[str, ...]:
        """The models or the program behind it."""
        return getattr(self, self.kind, ()) if self.is_called else ()

    protected: ClassVar[Key[tuple[str, ...]]] = Key("protect", ())
    """The patterns of the files that it must not change."""
    models: ClassVar[Key[tuple[str, ...]]] = Key("model", ())
    """The models behind it, first the one that is asked first."""

    @property
    def in_turn(self) -> "tuple[CalledAgent, ...]":
        """The agents to ask, in order, until one answers: this one, then its fallbacks."""
        return ()

    def labelled_in_turn(self, name: str) -> "Iterator[tuple[str, CalledAgent]]":
        """The agent, then its fallbacks, each with its label for messages."""
        for index, asked in enumerate(self.in_turn):
            yield f"fallback {index} of agent `{name}`" if index else f"agent `{name}`", asked

    @property
    def callable_tools(self) -> Mapping[str, Tool]:
        return {}

    required_tool: ClassVar[Key[str | None]] = Key("require_tool", None)
    """The tool whose last call must have found its answer clean."""

    @property
    def most_rounds(self) -> int:
        """The calls beyond the first that one answer takes because the agent calls tools."""
        return 0

    @property
    def most_tool_calls(self) -> int:
        return 0

    @property
    def without_tools(self) -> frozenset[int]:
        """Indexes in `in_turn` of the agents that leave tool calls to loopkit; 0 is this agent."""
        return frozenset()

    @property
    def leaves_tools_alone(self) -> bool:
        """Whether no model that may answer calls its tools itself."""
        return 0 < len(self.without_tools) == len(self.in_turn)

    @property
    def usual_calls(self) -> int:
        """The number of calls for one answer when nothing fails."""
        return 1

    @property
    def call_usd(self) -> float | None:
        """The maximum cost of one call in USD, where the machine states it."""
        return getattr(self, "price_per_run", None) if self.is_called else 0.0

    @property
    def unbounded(self) -> Mapping[str, float]:
        """The amounts that a reply can report although nothing is reserved for them, by the limit
        on them: the least that has to be left of it for a call."""
        return {}

    key_env: ClassVar[Key[str | None]] = Key("api_key_env", None)

    @property
    def own_names(self) -> Mapping[str, object]:
        """The names that its templates know under `agent`."""
        return {}

    @property
    def goes_on(self) -> bool:
        """Whether its program keeps the conversation itself, under an id."""
        return bool(getattr(self, "resume", ()))

    error_rules: ClassVar[Key[tuple[ErrorRule, ...]]] = Key("errors", ())

    @property
    def templates(self) -> Written:
        """The templates filled in for each call; those for a kept session are under `resume`."""
        yield from ()

    @property
    def plain_texts(self) -> Written:
        """Its texts that are sent unchanged, without being filled in."""
        yield from self.written("system")


class CalledAgent(AgentBase):
    """What every agent may say that loopkit asks itself."""

    file: str | None = None
    """A Markdown file that describes the agent: its text is the `system` prompt (`instructions` of
    a coding program), and its front matter can set other fields. Fields in the machine file take
    precedence."""
    retry: Retry = Retry()
    """How to retry a call after a transient error."""
    timeout: Duration = 600.0
    """The wall-clock time limit of one call."""
    thoughts: Thoughts | None = None
    """`keep`: the thoughts in an answer are a part of it. `[OPEN, CLOSE]`: they stand between these
    marks. Default: what stands between known marks, such as `<think>`, is taken out of the
    answer."""
    on_in_doubt: OnInDoubt | None = None
    """The policy for a call in doubt, which may have been made before a crash. Default: `retry` for
    models, `ask` for programs and tools."""

    @property
    def in_turn(self) -> tuple[Self, ...]:
        return (self,)
