"""States that do their work themselves: `agent`, `run`, `human`, `render`, `data`, `set`
and `validate`."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from loopkit.language.agents.agent import Workspace
from loopkit.language.datatypes.datatype import PYTHON_TYPES, DataType
from loopkit.language.datatypes.notation import (
    common_type,
    file_record,
    list_of,
    parse_type,
    record_with,
)
from loopkit.language.facts import INT, OF_REPORTS
from loopkit.language.guard.type_check import GuardType
from loopkit.language.section import (
    FROM_LIST,
    Argv,
    Duration,
    Emission,
    ErrorClass,
    Fields,
    Id,
    Ids,
    Notation,
    Noun,
    OnInDoubt,
    PlainText,
    ReportEmission,
    Text,
    Variables,
    Written,
    by_key,
    by_type,
    fault,
    templates_of,
)
from loopkit.language.states.each import ItemPath, ItemPaths, steps_to_items
from loopkit.language.states.state import (
    AgentChoice,
    AuthorState,
    Extract,
    Output,
    OutputName,
    RenderOutput,
    RenderOutputName,
    TemplateState,
    WorkingState,
    output_from_name,
)
from loopkit.language.validators import ByItem
from loopkit.text.json_text import texts_in

BY_CHOICE = by_key(
    ("<name>", "<from>"), "<name>", **dict.fromkeys(("from", "of", "else"), "<from>")
)


class AgentState(TemplateState):
    """Asks an agent. The answer is the artifact."""

    agent: Annotated[Id | AgentChoice, BY_CHOICE]
    """The agent to ask, or a choice between several. Its answer is the artifact."""
    prompt: Text
    """The prompt to send: a template."""
    output: OutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    workspace: Workspace | None = None
    """The folder in which the agent works."""

    kind = "agent"
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
        if isinstance(agent, str):
            return (agent,)
        return tuple(dict.fromkeys([*agent.of.values(), *filter(None, [agent.else_])]))

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
    env: Variables = ()
    """Environment variables to pass on, besides the harmless ones."""
    on_in_doubt: OnInDoubt | None = None
    """The policy for a call in doubt, which may have been made before a crash. Default: `ask`."""
    workspace: Workspace | None = None
    """The folder in which the program runs."""

    kind = "run"
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
    waits = True
    told_by = kind
    knows_before = True
    doing = "waiting for a person"
    said = ("choice", "comment", "by")

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"choice": GuardType("str", values=self.choices)}


class FilledState(TemplateState):
    """A state whose artifact is made of templates alone."""

    output: RenderOutputName | None = None
    """The artifact to write. Default: one with the state's name."""
    fallback: bool = False
    """Mark the artifact and the result as a fallback."""

    has_own_work = True
    faults: ClassVar[tuple[ErrorClass, ...]] = ("fatal",)

    @property
    def adds(self) -> bool:
        """Whether its text is added to what its file holds."""
        return isinstance(self.output, RenderOutput) and self.output.append


class MadeText(Noun):
    """A text out of a template, or the value that this passes on."""

    render: Text
    """The template. Its text is the artifact."""

    @property
    def texts(self) -> Written:
        yield ("render",), self.render

    @property
    def lists(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        return {}

    def texts_at(self, steps: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield self.render, tuple(steps)

    def type_with(self, given: DataType) -> DataType | None:
        """The type of the value that it passes on; None for a text."""
        known = _type_of_template(self.render, {"input": given}, is_text=True)
        if known.scalar is not None:
            return None
        return DataType({}) if known.optional else known


class RenderState(FilledState, MadeText):
    """Fills in a template: for a deterministic fallback, a merge, or an imported text."""

    kind = "render"
    told_by = kind


def _of_one(lists: dict[str, ItemPaths]) -> dict[str, ItemPaths]:
    if len(lists) > 1:
        message = f"one name goes through lists, and here are {len(lists)}"
        remedy = "write `for: {NAME: [PATH, PATH]}` for one list after another"
        raise fault("item-path", message, help=remedy)
    return lists


class MadeData(Noun):
    """Data out of values, without writing JSON: one value, or one for each item of a list."""

    data: Any
    """The artifact. Texts at any depth are templates; a single `{{ … }}` passes on the value
    itself."""
    for_: Annotated[dict[Id, ItemPaths], AfterValidator(_of_one)] = Field({}, alias="for")
    """The name of an item, and the path of its list. The artifact is then a list, with the data
    once for each item; of several lists, one after the other."""

    @property
    def texts(self) -> Written:
        yield from texts_in(self.data, ("data",))

    @property
    def lists(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        return {name: tuple(map(steps_to_items, paths)) for name, paths in self.for_.items()}

    def texts_at(self, steps: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The templates that make what a path of the artifact leads to, with the steps inside."""
        yield from _texts_at(self.data, tuple(steps[1 if self.for_ and steps else 0 :]))

    def type_with(self, given: DataType) -> DataType:
        names = {"input": given}
        for name, lists in self.lists.items():
            found = [given.at(steps[1:]) if steps[0] == "input" else None for steps in lists]
            names[name] = common_type(one or DataType({}) for one in found)
        made = _type_of(self.data, names)
        return list_of(made) if self.for_ else made


class DataState(FilledState, MadeData):
    """Makes data."""

    kind = "data"

    @property
    def about(self) -> str:
        lists = (f" for each {name} of {', '.join(paths)}" for name, paths in self.for_.items())
        return self.kind + "".join(lists)

    @property
    def templates(self) -> Written:
        yield from self.texts
        yield from super().templates

    @property
    def item_lists(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        return self.lists

    @property
    def may_be_kept(self) -> bool:
        # Its templates alone say nothing of the lists.
        return self.needs is not None and super().may_be_kept


class FirstText(MadeText):
    """The text that an artifact has when a run starts."""

    fields: dict[Id, Extract] = {}
    """Typed fields to extract from the text."""


FirstValue = Annotated[
    PlainText | FirstText | MadeData,
    by_key(("<text>", "<render>", "<data>"), "<render>", data="<data>"),
]


def _texts_at(value: object, steps: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, str) or not steps:
        yield from ((text, steps) for _, text in texts_in(value))
    elif isinstance(value, Mapping):
        yield from _texts_at(value.get(steps[0]), steps[1:])
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_at(inner, steps[1:])


def _type_of(value: object, names: Mapping[str, DataType]) -> DataType:
    """The type of a value with templates; what these read of `names` is known."""
    match value:
        case str():
            return _type_of_template(value, names)
        case Mapping():
            return record_with({name: _type_of(inner, names) for name, inner in value.items()})
        case [_, *_]:
            return list_of(common_type(_type_of(inner, names) for inner in value))
    word = next((word for word, kinds in PYTHON_TYPES.items() if type(value) in kinds), "any")
    return parse_type(word)


def _type_of_template(
    text: str, names: Mapping[str, DataType], *, is_text: bool = False
) -> DataType:
    """The type of what a template gives; with `is_text`, only a path passes on a value."""
    # The schema of machines is printed without the template sandbox.
    from loopkit.language.template.rendering import parse_if_valid  # noqa: PLC0415 - it takes long

    unknown = DataType({})
    if (template := parse_if_valid(text)) is None:
        return unknown
    if not template.is_expression or (is_text and template.whole is None):
        return parse_type("str")
    first, *steps = template.whole or ("",)
    known = names.get(first)
    for step in steps:
        known = known.field(step) if known is not None and not known.optional else None
    # Defaults have been filled in.
    return unknown if known is None else known.replace(default=None, has_default=False)


class FileValues(Noun):
    """Values for keys of one mapping in a YAML or JSON file."""

    set: PlainText
    """The file: a template."""
    at: ItemPath | None = None
    """The path of the mapping to change; `[]` goes through the items of a list. Default: the
    root."""
    where: dict[str, Any] = {}
    """The values by which the one item of a list is known."""
    values: dict[str, Any] = {}
    """The new values, by key. Default: the file is only read."""
    expect: dict[str, Any] = {}
    """What has to stand there before, by key; if it does not, nothing is changed."""

    @property
    def texts(self) -> Written:
        yield ("set",), self.set
        for key in ("where", "values", "expect"):
            yield from texts_in(getattr(self, key), (key,))


class SetState(FileValues, AuthorState):
    """Sets values in a YAML or JSON file, and reads it."""

    type: Notation = "any"
    """The type of the data in the file."""

    kind = "set"
    has_own_work = True
    faults: ClassVar[tuple[ErrorClass, ...]] = ("content", "fatal")

    @property
    def about(self) -> str:
        return f"set {', '.join(self.values)}" if self.values else "read a file"

    @property
    def templates(self) -> Written:
        yield from self.texts

    @property
    def leaves(self) -> DataType:
        return parse_type(file_record(self.type))

    def output_at(self, name: str) -> Output:
        return output_from_name(name)


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
    emit: Annotated[Id | ReportEmission, by_type("<name>", "<verdicts>")] | None = None  # type: ignore[assignment] # wider than elsewhere; nobody assigns to a frozen noun
    """The name of an event to store when the state starts its work, and one for each verdict."""

    kind = "validate"
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
