"""States that do their work themselves: `agent`, `run`, `human`, `render` and `validate`."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.calls import ErrorClass, OnInDoubt
from loopkit.language.facts import INT, OF_REPORTS
from loopkit.language.guard.type_check import GuardType
from loopkit.language.section import (
    FROM_LIST,
    Argv,
    Duration,
    Emission,
    Fields,
    Id,
    Ids,
    ReportEmission,
    Text,
    Texts,
    Written,
    templates_of,
)
from loopkit.language.states.state import (
    AgentChoice,
    AuthorState,
    Example,
    Output,
    OutputName,
    RenderOutput,
    RenderOutputName,
    TemplateState,
    WorkingState,
)
from loopkit.language.validators import ByItem


def _tag(value: object) -> str:
    is_choice = isinstance(value, AgentChoice) or (
        isinstance(value, Mapping) and not {"from", "of", "else"}.isdisjoint(value)
    )
    return "<from>" if is_choice else "<name>"


class AgentState(TemplateState):
    """Asks an agent. The answer is the artifact."""

    agent: Annotated[
        Annotated[Id, Tag("<name>")] | Annotated[AgentChoice, Tag("<from>")], Discriminator(_tag)
    ]
    """The agent to ask, or a choice between several. Its answer is the artifact."""
    prompt: Text
    """The prompt to send: a template."""
    output: OutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""

    kind = "agent"
    example = Example(
        {"agent": "writer", "prompt": "Make {{ plan }} better."},
        agents={"writer": {"command": ["sh", "-c", "echo Better tea."]}},
    )
    call = "author"
    told_by = "prompt"
    has_own_work = True
    works_outside = True
    faults: ClassVar[tuple[ErrorClass, ...]] = ("transient", "content", "fatal")
    may_leave_none: ClassVar[bool] = True

    @property
    def about(self) -> str:
        by = f" by {self.choice.from_}" if self.choice is not None else ""
        return f"agent {' or '.join(self.asks)}{by}"

    @cached_property
    def asks(self) -> tuple[str, ...]:
        agent = self.agent
        return (agent,) if isinstance(agent, str) else agent.agents

    @cached_property
    def choice(self) -> AgentChoice | None:
        return None if isinstance(self.agent, str) else self.agent


class CommandState(AuthorState):
    """Runs a command. Its stdout is the artifact; a non-zero exit code is not an error."""

    run: Argv
    """The program and its arguments; each is a template. No shell is involved."""
    stdin: Text | None = None
    """A template for the program's stdin. Default: no input."""
    output: OutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    fallback: bool = False
    """Mark the artifact and the result as a fallback."""
    timeout: Duration = 600.0
    """The time after which the program is killed."""
    env: Texts = ()
    """Environment variables to pass on, besides the harmless ones."""
    on_in_doubt: OnInDoubt | None = None
    """The policy for a call in doubt, which may have been made before a crash. Default: `ask`."""
    workspace: Workspace | None = None
    """The folder in which the program runs."""

    kind = "run"
    example = Example({"run": ["cat"], "stdin": "{{ plan }}"})
    call = "run"
    has_own_work = True
    works_outside = True
    said = ("exit_code",)
    failing = ("exit_code",)
    beside = ("stderr",)
    facts: ClassVar[Mapping[str, GuardType]] = {"exit_code": INT}

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        return ("transient", "content", "fatal") if self.may_leave_none else ("transient", "fatal")

    @property
    def about(self) -> str:
        return " ".join((self.kind, *self.run))

    @property
    def templates(self) -> Written:
        yield from templates_of("run", self.run, self.stdin)
        yield from super().templates

    def failure(self, name: str, facts: Mapping[str, Any]) -> str:
        code = facts.get("exit_code", 0)
        return f"`{name}` ended with exit code {code}" if code else ""

    @property
    def may_leave_none(self) -> bool:
        return isinstance(self.output, Output) and self.output.may_be_missing


class HumanState(WorkingState):
    """Waits for a person's answer. No process has to keep running."""

    human: Text
    """The question to ask: a template."""
    choices: Annotated[Ids, Field(min_length=1)]
    """The possible answers."""
    show: Ids = ()
    """The artifacts to show to the person; `report` is the last report."""
    pick: Literal["last", "best"] = "last"
    """Which versions of the artifacts to show."""
    form: Fields = {}
    """Fields to fill in besides the choice."""
    edit: Id | None = None
    """An artifact that the person may edit; the answer can contain its new text."""
    timeout: Duration | None = None
    """How long the question stays open."""
    otherwise: Id | None = None
    """The choice that counts if nobody answers within `timeout`."""

    kind = "human"
    example = Example(
        {"human": "Publish {{ plan }}?", "choices": ["publish", "stop"]}, answer="publish"
    )
    waits = True
    told_by = kind
    knows_before = True
    doing = "waiting for a person"
    said = ("choice", "comment", "by")

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"choice": GuardType("str", values=self.choices)}


class RenderState(TemplateState):
    """Fills in a template: for a deterministic fallback, a merge, or an imported text."""

    render: Text
    """The template. Its text is the artifact."""
    output: RenderOutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    fallback: bool = False
    """Mark the artifact and the result as a fallback."""

    kind = "render"
    example = Example({"render": "{{ plan }} And cake."})
    told_by = kind
    has_own_work = True
    faults: ClassVar[tuple[ErrorClass, ...]] = ("fatal",)

    @property
    def adds(self) -> bool:
        """Whether its text is added to what its file holds."""
        return isinstance(self.output, RenderOutput) and self.output.append


class ValidateState(WorkingState):
    """Judges an artifact and writes a report."""

    validate_: Id = Field(alias="validate")
    """The artifact to judge."""
    by: Annotated[tuple[ByItem, ...], Field(min_length=1), FROM_LIST]
    """The validators to use: names, and rules written inline."""
    stop: Literal["first"] | None = None
    """`first`: stop at the first deterministic validator that blocks."""
    combine: Literal["strictest", "majority"] = "strictest"
    """Whether one judge that fails is enough, or the judges vote."""
    merge: Literal["key"] | None = None
    """`key`: merge findings of several judges with the same key into one, of the worst severity."""
    quorum: Annotated[int, Field(ge=1)] | None = None
    """How many of the judges asked have to answer. Default: all."""
    block: Id | None = None
    """The mildest severity that blocks in this state, instead of the machine's `blocking`."""
    settle_after: Annotated[int, Field(ge=1)] | None = None
    """The number of rounds after which new findings block only if they have the worst severity."""
    workspace: Workspace | None = None
    """The folder in which `command` rules run."""
    emit: (
        Annotated[
            Annotated[Id, Tag("<name>")] | Annotated[ReportEmission, Tag("<verdicts>")],
            Discriminator(lambda value: "<name>" if isinstance(value, str) else "<verdicts>"),
        ]
        | None
    ) = None  # type: ignore[assignment] # it has more keys here
    """The name of an event to store when the state starts its work, and one for each verdict."""

    kind = "validate"
    example = Example({"validate": "plan", "by": [{"min_chars": 1}]})
    has_own_work = True
    works_outside = True
    faults: ClassVar[tuple[ErrorClass, ...]] = ("transient", "content", "fatal")
    facts: ClassVar[Mapping[str, GuardType]] = OF_REPORTS

    @property
    def about(self) -> str:
        return f"validate {self.validate_}"

    @property
    def emits(self) -> Emission | None:
        emit = self.emit
        return emit.at_start if isinstance(emit, ReportEmission) else Emission.of(emit)

    @cached_property
    def emits_of_verdicts(self) -> Mapping[str, Emission]:
        return self.emit.of_verdicts if isinstance(self.emit, ReportEmission) else {}
