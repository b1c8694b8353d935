"""States: exactly one kind of work each, known by the key that carries it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.language.agents import OnInDoubt, Workspace
from loopkit.language.noun import (
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
from loopkit.language.section import Section
from loopkit.language.transitions import OnError, Transitions
from loopkit.language.validators import ByItem


class ExtractSection(Section):
    """A field that is the text under a heading or a bold label."""

    default: str | None = None
    """Where nothing is found; without it none."""


class ExtractMatch(Noun):
    """A field that is the first match of a pattern, its first group where it has one."""

    match: str
    """A regular expression, or a name under `patterns:`."""
    default: str | None = None
    """Where nothing is found; without it none."""


class ExtractAll(Noun):
    """A field that is the list of all matches, in order, each once."""

    all: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""


class ExtractCount(Noun):
    """A field that says how often a pattern matches."""

    count: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""
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
    """What the artifact is called."""
    file: str | None = None
    """The artifact is this file of the workspace, if this attempt wrote it."""
    else_: Literal["reply"] | None = Field(None, alias="else")
    """Where the attempt wrote no file: the reply is the artifact."""
    fence: Literal["strip"] | None = None
    """`strip`: where the text has exactly one code fence, the artifact is what stands in it."""
    fields: dict[Id, Extract] = {}
    """Typed fields taken out of the text."""


OutputName = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[Output, Tag("<output>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<output>"),
]


class _Working(Noun):
    description: str = ""
    """For readers."""
    transitions: Transitions | None = None
    """The ways out, in the order in which they are tried."""
    next: Id | None = None
    """One unguarded transition."""
    on_error: OnError | None = None
    """Where an error goes that is left after the retries."""
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
    """The agent that is asked; its answer is the artifact."""
    prompt: Text
    """What it is asked: a template."""
    output: OutputName | None = None
    """The artifact; without it one with the state's name."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""


class CommandState(_Working):
    """Run a command; its stdout is the artifact. A non-zero exit is no error."""

    run: Argv
    """The program and its arguments; each is a template, and no shell is involved."""
    stdin: Text | None = None
    """What the program reads: a template; without it nothing."""
    output: OutputName | None = None
    """The artifact; without it one with the state's name."""
    fallback: bool = False
    """Marks the artifact and the result as a fallback."""
    timeout: Duration = 600.0
    """After that the program is ended."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""
    on_in_doubt: OnInDoubt | None = None
    """After a crash, what becomes of a run of the program that may have happened."""
    workspace: Workspace | None = None
    """The folder in which the program works."""


class RenderState(_Working):
    """Fill a template: a deterministic fallback, a merge, an imported text."""

    render: Text
    """The template whose text is the artifact."""
    output: OutputName | None = None
    """The artifact; without it one with the state's name."""
    fallback: bool = False
    """Marks the artifact and the result as a fallback."""


class ValidateState(_Working):
    """Judge an artifact; leaves a report."""

    validate_: Id = Field(alias="validate")
    """The artifact that is judged; the work leaves a report."""
    by: Annotated[tuple[ByItem, ...], Field(min_length=1), BeforeValidator(_tuple)]
    """Names of validators, and rules written inline."""
    stop: Literal["first"] | None = None
    """Deterministic validators stop at the first one that blocks."""
    combine: Literal["strictest", "majority"] = "strictest"
    """Whether one judge that fails is enough, or judges are outvoted."""
    merge: Literal["key"] | None = None
    """Findings of several judges that have one key are one finding, of the worst severity."""
    quorum: Annotated[int, Field(ge=1)] | None = None
    """How many of the judges asked have to answer; without it all."""
    block: Id | None = None
    """Findings of this severity and worse block here, instead of the machine's `blocking`."""
    settle_after: Annotated[int, Field(ge=1)] | None = None
    """After so many rounds, what nobody found before blocks only with the worst severity."""
    workspace: Workspace | None = None
    """Where `command` rules run."""


class HumanState(_Working):
    """Wait for a person, holding no process."""

    human: Text
    """The question that a person is asked: a template."""
    choices: Annotated[Ids, Field(min_length=1)]
    """The answers that there are."""
    show: Ids = ()
    """Artifacts that the person sees; `report` is the last report."""
    pick: Literal["last", "best"] = "last"
    """Which versions are shown."""
    form: Fields = {}
    """Fields to fill in besides the choice."""
    edit: Id | None = None
    """The artifact of which the answer may bring a new text."""
    timeout: Duration | None = None
    """How long the question stays open."""
    otherwise: Id | None = None
    """The choice that answers for an absent person after `timeout`."""


class ChoiceState(_Working):
    """No work: decides at once."""


WorkingState = AgentState | CommandState | RenderState | ValidateState | HumanState | ChoiceState
AuthorState = AgentState | CommandState | RenderState


class FinalState(Noun):
    """The end; the outcome is the state's name."""

    description: str = ""
    """For readers."""
    final: Literal["success", "failure"]
    """The end of the run: whether it is a success decides the exit code."""
    result: Ids = ()
    """The artifacts that the run ends with."""
    pick: Literal["last", "best"] = "last"
    """Which versions are the result."""
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
