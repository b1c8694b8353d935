"""Scripts: replies and faults of agents, results of commands, answers of people.

Those of children are named by state, by the key of the item and by visit of the state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from loopkit.language.section import (
    FROM_LIST,
    ByForm,
    Duration,
    Id,
    Ids,
    Noun,
    Text,
    Texts,
    fault,
    or_one,
)
from loopkit.text.run_ids import place_of

Fault = Literal[
    "rate_limit",
    "timeout",
    "server_error",
    "connection",
    "unreadable",
    "authentication",
    "quota",
    "missing_model",
    "region_outage",
    "context_too_long",
    "session_lost",
    "content_policy",
    "bad_request",
    "capped",
    "refusal",
    "cut_off",
    "invalid_json",
    "crash",
]
CRASH = "crash"
"""The fault after which the run goes on in another process, with the call in doubt."""


class SpentTokens(Noun):
    """The tokens to count for a played reply."""

    input: int = Field(0, ge=0)
    """The number of input tokens."""
    output: int = Field(0, ge=0)
    """The number of output tokens."""
    total: int = Field(0, ge=0)
    """The number of tokens that are not known to be input or output."""

    @property
    def tokens(self) -> int:
        return self.input + self.output + self.total

    @property
    def is_counted(self) -> bool:
        """Whether each token is known to be input or output."""
        return bool(self.input or self.output) and not self.total


Cost = Annotated[float, Field(ge=0, strict=False)]


class Reserved(Noun):
    """The maximum amounts of a call, reserved in the limits before it is made."""

    tokens: int = Field(0, ge=0)
    """The number of input and output tokens."""
    cost_usd: Cost | None = 0.0
    """The cost in USD; null if unknown."""


class PlayedFolder(Noun):
    """A stand-in for the output folder after a call."""

    change: str = ""
    """The diff against the contents before the first attempt. This is the artifact."""
    last_change: str = ""
    """The diff against the contents before this attempt."""
    files: Annotated[tuple[str, ...], FROM_LIST] = ()
    """The paths of the files that differ."""
    tree: str = ""
    """A digest that is equal for equal contents. Default: a digest of `change`."""


class PlayedToolCall(Noun):
    """A call of a tool."""

    name: str
    """The name of the tool, which need not exist."""
    input: Any = {}
    """The arguments of the call."""
    arguments: Text | None = None
    """The arguments as a text, which need not be valid JSON."""

    @property
    def text(self) -> str:
        written = json.dumps(self.input, ensure_ascii=False)
        return written if self.arguments is None else self.arguments


class Left(Noun):
    """What a played call or command leaves behind."""

    files: dict[str, str] = {}
    """The files that it writes to its workspace."""
    workspace: str = ""
    """A stand-in for all files of the workspace afterwards. Default: the real files are
    compared."""
    folder: PlayedFolder | None = None
    """A stand-in for the output folder afterwards. Default: the real folder is compared."""
    message: str = ""
    """The message about the fault."""


class Played(Left):
    """One played call: a reply, or a fault."""

    reply: Text | None = None
    """The text of the reply."""
    data: Any = None
    """The reply as a value; it is sent as JSON."""
    cut_off: bool = False
    """The reply was cut off by the provider's length limit."""
    fault: Fault | None = None
    """The fault that occurs instead of a reply."""
    retry_after: Duration | None = None
    """The wait that the provider asks for with the fault."""
    sent: bool = True
    """With a fault: whether a request was sent. If not, it is not counted as a call."""
    delay: Duration = 0.0
    """The duration of the call."""
    usage: SpentTokens = SpentTokens()
    """The tokens to count for the call."""
    cost_usd: Cost | None = 0.0
    """The cost to count for the call, in USD; null if unknown."""
    reserved: Reserved | None = None
    """The amounts to reserve in the limits before the call, instead of its actual usage."""
    said: Annotated[tuple[Text, ...], FROM_LIST] = ()
    """All messages of a judge's transcript, if there are more than the reply."""
    recorded: bool = False
    """The reply comes from a real judge, so it must answer for every open finding."""
    tool_calls: Annotated[tuple[PlayedToolCall, ...], FROM_LIST] = ()
    """The tools that the agent calls. Its next call follows after their results."""
    tools: bool = True
    """Whether the agent can call tools. If not, loopkit calls the required one with the reply."""
    session: bool = True
    """Whether a program names a session that can be resumed."""
    notes: dict[str, Texts] = {}
    """What is told of how the reply was made, by code: findings that block nothing."""

    @model_validator(mode="after")
    def _one_thing(self) -> Played:
        given = [k for k in ("reply", "data", "fault") if k in self.model_fields_set]
        is_other = bool(self.files or self.folder or self.tool_calls) and not given
        if len(given) != 1 and not is_other and not self.is_refused:
            raise fault("one-reply", "a call plays one of `reply`, `data`, `fault`")
        return self

    @property
    def is_refused(self) -> bool:
        """Whether a limit leaves no room for the call, so that it is never made."""
        return self.model_fields_set == {"reserved"}

    @property
    def text(self) -> str:
        if "data" in self.model_fields_set:
            return json.dumps(self.data, ensure_ascii=False)
        return self.reply or ""


class PlayedTry(Left):
    """One run of a command."""

    exit_code: int = 0
    """The exit code."""
    stdout: Text = ""
    """The program's standard output."""
    stderr: str = ""
    """The program's standard error."""
    fault: Literal["timeout", "not_found"] | None = None
    """The fault that occurs instead of an exit."""


class PlayedAnswer(Noun):
    """A person's answer."""

    choice: Id | None = None
    """One of the choices of the question. Default: nobody answers."""
    after: Duration = 0.0
    """The time that passes before the answer. The question may have expired by then."""
    comment: str = ""
    """The person's comment."""
    form: dict[Id, Any] = {}
    """The values of the form's fields."""
    edit: Text | None = None
    """The new text of the artifact that the question lets the person edit."""
    origins: dict[str, Ids] = {}
    """The states that must fix findings of the last report, by the finding's id, code or key."""
    limits: dict[Id, int] = {}
    """The limits of the run that the answer raises."""

    @model_validator(mode="after")
    def _something_happens(self) -> PlayedAnswer:
        if self.choice is None and not self.after:
            raise fault(
                "no-answer",
                "an answer has a `choice`, or `after:` alone where nobody answers",
                help="add `choice: …`",
            )
        return self


def _calls(value: object) -> object:
    calls = value if isinstance(value, list) else [value]
    return tuple({"reply": call} if isinstance(call, str) else call for call in calls)


def as_tuple(value: object) -> Any:
    return tuple(value) if isinstance(value, list) else (value,)


def _answer(value: object) -> object:
    return {"choice": value} if isinstance(value, str) else value


Call = str | Played
Attempt = Annotated[tuple[Played, ...], or_one(Call, _calls)]
"""The calls of one attempt: a reply, or a list of calls (faults, then a reply)."""
Attempts = Annotated[tuple[Attempt, ...], FROM_LIST]
Role = Annotated[
    Attempts | dict[str, Attempts],
    ByForm(("<attempts>", "<places>"), lambda v: ("<attempts>", "<places>")[isinstance(v, dict)]),
]
"""The attempts of an agent in order, or by the state or validator where it is asked."""
Answer = Annotated[
    PlayedAnswer, BeforeValidator(_answer, json_schema_input_type=str | PlayedAnswer)
]
Answers = Annotated[tuple[Answer, ...], FROM_LIST]
Command = Annotated[tuple[PlayedTry, ...], Field(min_length=1), or_one(PlayedTry, as_tuple)]
"""The tries of one use of a command; only the last one need not have failed."""
Commands = Annotated[tuple[Command, ...], FROM_LIST]


def call_at(calls: Sequence[Played], settled: int, lost: int) -> int:
    """The position in an attempt of the call after `settled` answers and failures.

    `lost` calls never came back: each stands for one played crash, and the call after it is next.
    """
    for position, played in enumerate(calls):
        if played.fault == CRASH and lost > 0:
            lost -= 1
        elif settled > 0 and played.fault != CRASH:
            settled -= 1
        else:
            return position
    return len(calls) + settled


ANY = "*"
"""The key for every item that is not named."""
CHILDREN = "children"
ONLY, ITEMS = "<only>", "<items>"
"""The forms of the parts of a state's children: one child without a key, or items by key."""
Place = tuple[str | int, ...]
Said = TypeVar("Said")
Visits: TypeAlias = tuple[Said, ...]
"""One part for each visit of the state; the last one counts from then on."""
Children: TypeAlias = Mapping[str, Visits[Said] | Mapping[str, Visits[Said]]]
"""Parts by state, and for an `each` state by the keys of its items too."""


class InChild(NamedTuple, Generic[Said]):
    """The part of a child, and its place in the file."""

    at: Place
    state: str
    key: str
    """The key of the item, or `*`; empty where the state has only one child."""
    visit: int
    """The visit of the state, from 1; the part of the last one is for all later visits too."""
    said: Said

    @property
    def called(self) -> str:
        return place_of(self.state, self.key)


def every_child(children: Children[Said]) -> Iterator[InChild[Said]]:
    for state, parts in children.items():
        by_key = parts if isinstance(parts, Mapping) else {"": parts}
        for key, visits in by_key.items():
            for visit in range(1, len(visits) + 1):
                yield _on_visit(state, key, visit, visits)


def one_child(children: Children[Said], state: str, key: str, visit: int) -> InChild[Said] | None:
    parts = children.get(state, ())
    by_key = parts if isinstance(parts, Mapping) else {"": parts}
    named = key if key in by_key else ANY
    visits = by_key.get(named, ())
    return _on_visit(state, named, min(visit, len(visits)), visits) if visits else None


def _on_visit(state: str, key: str, visit: int, visits: Visits[Said]) -> InChild[Said]:
    at = (CHILDREN, state, key, visit - 1) if key else (CHILDREN, state, visit - 1)
    return InChild(at, state, key, visit, visits[visit - 1])


def form_of(value: object, fields: frozenset[str]) -> str:
    """The form of the parts of a state's children, as a file has them.

    `fields` are those of the part of one child.
    """
    is_one = isinstance(value, Mapping) and ANY not in value and not fields.isdisjoint(value)
    return ONLY if is_one or isinstance(value, list | tuple) else ITEMS


PARTS = ("agents", "commands", "answers")
"""Parts of a case that all cases of a file may share."""


class Parts(Noun):
    """What is said in a run."""

    agents: dict[Id, Role] = {}
    """The replies of each agent, by attempt."""
    commands: dict[str, Commands] = {}
    """The results of commands, by the name of the `run` state, validator or tool (`AGENT.TOOL`)."""
    answers: dict[Id, Answers] = {}
    """The person's answers, in order, by the state that asks."""
    children: dict[Id, ChildrenSaid] = {}
    """The same parts for the runs that a state starts, by the keys of their items."""

    @property
    def in_children(self) -> Iterator[InChild[ChildParts]]:
        return every_child(self.children)

    def child(self, state: str, key: str, visit: int) -> InChild[ChildParts] | None:
        return one_child(self.children, state, key, visit)


class ChildParts(Parts):
    """The parts of a scenario for one run of another machine."""


def parts_form(value: object) -> str:
    return form_of(value, frozenset({*PARTS, CHILDREN}))


SaidOnVisits = Annotated[tuple[ChildParts, ...], Field(min_length=1), or_one(ChildParts, as_tuple)]
ChildrenSaid = Annotated[SaidOnVisits | dict[str, SaidOnVisits], ByForm((ONLY, ITEMS), parts_form)]
# Nouns that inherit the field are defined where the name of its type is not known.
Parts.model_rebuild()
ChildParts.model_rebuild()


def with_own(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The `children` that all cases share, with a case's own, as a file has them."""
    merged = {**shared, **own}
    for state in shared.keys() & own.keys():
        if parts_form(shared[state]) == parts_form(own[state]) == ITEMS:
            merged[state] = {**shared[state], **own[state]}
    return merged
