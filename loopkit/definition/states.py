"""States: exactly one kind of work each, known by the key that carries it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.definition.agents import OnInDoubt, Workspace
from loopkit.definition.noun import (
    Argv,
    Duration,
    Fields,
    Id,
    Ids,
    Noun,
    Text,
    Texts,
    _tuple,
    fault,
)
from loopkit.definition.transitions import OnError, Transitions
from loopkit.definition.validators import ByItem


class ExtractSection(Noun):
    """A field that is the text under a heading or a bold label."""

    section: str
    or_title: bool = False
    """Where there is no such section, the document's title."""
    default: str | None = None


class ExtractMatch(Noun):
    """A field that is the first match of a pattern, its first group where it has one."""

    match: str
    default: str | None = None


class ExtractAll(Noun):
    """A field that is the list of all matches, in order, each once."""

    all: str


class ExtractCount(Noun):
    """A field that says how often a pattern matches."""

    count: str
    default: int | None = None
    """Instead of 0."""


def _extract_kind(value: object) -> str | None:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((f"<{key}>" for key in ("section", "match", "all", "count") if key in keys), None)


Extract = Annotated[
    Annotated[ExtractSection, Tag("<section>")]
    | Annotated[ExtractMatch, Tag("<match>")]
    | Annotated[ExtractAll, Tag("<all>")]
    | Annotated[ExtractCount, Tag("<count>")],
    Discriminator(
        _extract_kind,
        custom_error_type="unknown-extract",
        custom_error_message="this is no way to take a field out of a text",
    ),
]


class Output(Noun):
    """The artifact that a state leaves behind."""

    name: Id
    file: str | None = None
    """The artifact is this file of the workspace, if this attempt wrote it."""
    else_: Literal["reply"] | None = Field(None, alias="else")
    """Where the attempt wrote no file: the reply is the artifact."""
    fields: dict[Id, Extract] = {}
    """Typed fields taken out of the text."""


OutputName = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[Output, Tag("<output>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<output>"),
]


class _Working(Noun):
    description: str = ""
    transitions: Transitions | None = None
    next: Id | None = None
    """One unguarded transition."""
    on_error: OnError | None = None
    emit: Id | None = None
    """An event of this name is added when the state's work starts."""

    @model_validator(mode="after")
    def _goes_somewhere(self) -> _Working:
        if self.transitions is not None and self.next is not None:
            raise fault(
                "two-ways-out",
                "a state has either `next` or `transitions`",
                ("next",),
                help="delete one; `next: STATE` is short for one transition without a guard",
            )
        if self.transitions is None and self.next is None:
            raise fault(
                "no-way-out", "the state has no way out", help="add `next:` or `transitions:`"
            )
        return self


class AgentState(_Working):
    """Ask an agent; its answer is the artifact."""

    agent: Id
    prompt: Text
    output: OutputName | None = None
    workspace: Workspace | None = None


class CommandState(_Working):
    """Run a command; its stdout is the artifact. A non-zero exit is no error."""

    run: Argv
    stdin: Text | None = None
    output: OutputName | None = None
    fallback: bool = False
    timeout: Duration = 600.0
    env: Texts = ()
    on_in_doubt: OnInDoubt | None = None
    workspace: Workspace | None = None


class RenderState(_Working):
    """Fill a template: a deterministic fallback, a merge, an imported text."""

    render: Text
    output: OutputName | None = None
    fallback: bool = False


class ValidateState(_Working):
    """Judge an artifact; leaves a report."""

    validate_: Id = Field(alias="validate")
    by: Annotated[tuple[ByItem, ...], Field(min_length=1), BeforeValidator(_tuple)]
    stop: Literal["first"] | None = None
    """Deterministic validators stop at the first one that blocks."""
    workspace: Workspace | None = None


class HumanState(_Working):
    """Wait for a person, holding no process."""

    human: Text
    choices: Annotated[Ids, Field(min_length=1)]
    show: Ids = ()
    pick: Literal["last", "best"] = "last"
    form: Fields = {}
    edit: Id | None = None
    timeout: Duration | None = None
    otherwise: Id | None = None
    """The choice that answers for an absent person after `timeout`."""


class ChoiceState(_Working):
    """No work: decides at once."""


WorkingState = AgentState | CommandState | RenderState | ValidateState | HumanState | ChoiceState
AuthorState = AgentState | CommandState | RenderState


class FinalState(Noun):
    """The end; the outcome is the state's name."""

    description: str = ""
    final: Literal["success", "failure"]
    result: Ids = ()
    pick: Literal["last", "best"] = "last"
    of: Id | None = None
    """The validate state whose reports say which was best."""


STATE_KINDS: dict[str, type[Noun]] = {
    "agent": AgentState,
    "run": CommandState,
    "render": RenderState,
    "validate": ValidateState,
    "human": HumanState,
    "final": FinalState,
    "choice": ChoiceState,
}


def state_kind(value: Any) -> str:
    """The kind of a state, from its mapping or its object."""
    if isinstance(value, Noun):
        return next(kind for kind, noun in STATE_KINDS.items() if type(value) is noun)
    keys = value if isinstance(value, dict) else {}
    return next((kind for kind in STATE_KINDS if kind in keys), "choice")


State = Annotated[
    Annotated[AgentState, Tag("<agent>")]
    | Annotated[CommandState, Tag("<run>")]
    | Annotated[RenderState, Tag("<render>")]
    | Annotated[ValidateState, Tag("<validate>")]
    | Annotated[HumanState, Tag("<human>")]
    | Annotated[FinalState, Tag("<final>")]
    | Annotated[ChoiceState, Tag("<choice>")],
    Discriminator(lambda value: f"<{state_kind(value)}>"),
]
