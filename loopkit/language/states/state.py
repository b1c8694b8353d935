"""The base of all states, their ways out, and the artifact that one leaves behind.

A kind of state is known by the key that carries its work; its class says where it differs.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.language.agents.agent import Workspace
from loopkit.language.datatypes.datatype import DataType
from loopkit.language.guard.type_check import GuardType
from loopkit.language.section import (
    Emission,
    Emit,
    ErrorClass,
    Id,
    Key,
    Noun,
    OnInDoubt,
    Section,
    Spelled,
    Texts,
    Written,
    by_type,
    fault,
    id_from,
    or_one,
)
from loopkit.language.transitions import OnError, Transitions
from loopkit.language.validators import ByItem

if TYPE_CHECKING:
    from loopkit.language.machine import Machine


def _agents_by_name(value: object) -> object:
    words = value if isinstance(value, list) else ()
    is_list = words and all(isinstance(word, str) for word in words)
    return {word: id_from(word) for word in words} if is_list else value


WORDS = BeforeValidator(_agents_by_name, json_schema_input_type=dict[str, Id] | list[str])


class AgentChoice(Noun):
    """A choice between several agents, made by a word in the data."""

    from_: str = Field(alias="from")
    """The dotted path of that word in the input or in an artifact: `input.task.agent`."""
    of: Annotated[dict[str, Id], WORDS, Field(min_length=1)] = {}
    """The agent to use for each word, or a list of words that are names of agents. Default: each
    agent of the machine, by its name and by that of its file."""
    else_: Id | None = Field(None, alias="else")
    """The agent to use for any other word, and where there is none."""

    @property
    def template(self) -> str:
        """What fills in the word; empty where it is missing and another agent is named for that."""
        path = self.from_ if self.else_ is None else f'{self.from_} | default("")'
        return f"{{{{ {path} }}}}"

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(self.from_.split("."))

    @property
    def is_of_input(self) -> bool:
        """Whether the word is known from the start."""
        return self.steps[0] == "input"


class ExtractSection(Section):
    """A field with the text under a heading or bold label."""

    default: str | None = None
    """The value if nothing is found. Default: none."""


class ExtractMatch(Noun):
    """A field with the first match of a pattern, or with its first group if it has one."""

    match: str
    """A regular expression, or a name under `patterns:`."""
    default: str | None = None
    """The value if nothing is found. Default: none."""


class ExtractAll(Noun):
    """A field with the list of all matches of a pattern, in order and without duplicates."""

    all: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""


class ExtractCount(Noun):
    """A field with the number of matches of a pattern."""

    count: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Ignore fenced and indented code."""
    default: int | None = None
    """The value if nothing matches, instead of 0."""


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
        custom_error_message="this does not say how to extract a field from a text",
    ),
]


class Output(Noun):
    """The artifact that a state writes."""

    name: Id
    """The name of the artifact."""
    file: str | None = None
    """The file in the workspace that is the artifact, if this attempt wrote it."""
    folder: str | None = None
    """The folder in the workspace that is the artifact, if this attempt changed anything in it. Its
    text is the diff against the contents before the first attempt."""
    ignore: Texts = ()
    """What is no part of the folder, as patterns of names (`*.lock`) or of paths in the workspace
    (`out/*.txt`)."""
    else_: Literal["reply"] | None = Field(None, alias="else")
    """`reply`: use the reply as the artifact if the attempt did not write the file or change the
    folder."""
    fence: Literal["strip", "keep"] | None = None
    """`strip`: if the text has exactly one code fence, its content is the artifact. `keep`: a fence
    stays. Default: the fence of an answer goes if nothing stands around it."""
    fields: dict[Id, Extract] = {}
    """Typed fields to extract from the text."""

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        for key in ("file", "fence"):
            if self.folder is not None and getattr(self, key) is not None:
                message = f"`{key}` is for a text, and this artifact is a folder"
                remedy = f"delete `{key}`, or `folder`"
                raise fault("folder-as-text", message, (key,), help=remedy)
        if self.ignore and self.folder is None:
            message = "`ignore` is for a folder, and this artifact is a text"
            raise fault("unused", message, ("ignore",), help="delete `ignore`")
        return self

    @cached_property
    def is_left(self) -> bool:
        """Whether it is what the work leaves in the workspace."""
        return self.file is not None or self.folder is not None

    @cached_property
    def may_be_missing(self) -> bool:
        """Whether there may be none, because the work left nothing there."""
        return self.is_left and self.else_ is None

    @property
    def is_whole_folder(self) -> bool:
        """Whether it is a folder whatever is answered: then that is all of the work."""
        return self.folder is not None and self.else_ is None

    @property
    def templates(self) -> Written:
        return self.written("file", "folder")

    @property
    def beside(self) -> tuple[str, ...]:
        """What templates see under it, beside its fields."""
        return OF_FOLDERS if self.folder is not None else ()


class StateBase(Noun):
    """What is known of every state. Each kind says where it differs."""

    description: str = ""
    """A note for readers; has no effect."""

    kind: ClassVar[str]
    """The key by which states of this kind are known."""
    ends: ClassVar[bool] = False
    knows_before: ClassVar[bool] = False
    """Whether its guards may ask from which state a run came to it."""
    waits: ClassVar[bool] = False
    """Whether a person is asked, who is told of choices that are closed."""
    call: ClassVar[Literal["", "author", "run"]] = ""
    """The one call that is its work, by the role of that call."""
    has_own_work: ClassVar[bool] = False
    """Whether it does something itself that takes its time, and that can be kept apart."""
    works_outside: ClassVar[bool] = False
    """Whether limits are looked at before its work, and a workspace is made for it."""
    if_in_doubt: ClassVar[OnInDoubt] = "ask"
    """What becomes of a run of its program that may have happened, where the state says nothing."""
    reads_feedback: ClassVar[bool] = False
    """Whether its work can see what has to change."""
    doing: ClassVar[str] = ""
    """Its work in a word, where that cannot fail."""
    said: ClassVar[tuple[str, ...]] = ()
    """What templates see under its name, beside the fields of a form."""
    failing: ClassVar[tuple[str, ...]] = ()
    """The facts that say whether its work failed, where that is no error."""
    told_by: ClassVar[str] = ""
    """The key of the one template that tells its work, if there is one."""
    beside: ClassVar[tuple[str, ...]] = ()
    """What templates see under its artifact, beside the fields of that."""

    @property
    def about(self) -> str:
        """Its work for a place with little room."""
        return self.drawn_as

    @property
    def drawn_as(self) -> str:
        return getattr(self, "final", self.kind)

    @property
    def succeeds(self) -> bool:
        return self.drawn_as == "success"

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        """The classes of error that may be left of its work."""
        return ()

    def failure(self, name: str, facts: Mapping[str, Any]) -> str:
        """What failed by the facts of its last work, in words; empty if nothing did."""
        return ""

    @property
    def asks(self) -> tuple[str, ...]:
        """The agents of which one writes its artifact; none where no agent does."""
        return ()

    @property
    def choice(self) -> AgentChoice | None:
        return None

    @property
    def work_template(self) -> str:
        """The one template that tells its work; empty if there is none."""
        return getattr(self, self.told_by, "") if self.told_by else ""

    @property
    def emits(self) -> Emission | None:
        """The event that is stored when its work starts."""
        return Emission.of(getattr(self, "emit", None))

    @property
    def emits_of_verdicts(self) -> Mapping[str, Emission]:
        """The events that are stored when it is left with a report, by verdict."""
        return {}

    needed: ClassVar[Key[tuple[str, ...] | None]] = Key("needs", None)
    """The artifacts and fields on which its work depends; none where it does not name them."""

    @property
    def may_be_kept(self) -> bool:
        """Whether its work leaves nothing but its artifact, which may do again as it is."""
        return False

    judges: ClassVar[Key[str | None]] = Key("validate_", None)
    judged_by: ClassVar[Key[tuple[ByItem, ...]]] = Key("by", ())

    @property
    def child(self) -> "Machine | None":
        return None

    @property
    def isolates(self) -> bool:
        """Whether each run of that machine works in a tree of its own."""
        return getattr(self, "isolate", "none") != "none"

    edits: ClassVar[Key[str | None]] = Key("edit", None)
    """The artifact of another state that its work may change."""

    @property
    def picks_best(self) -> bool:
        """Whether it takes the best versions of artifacts instead of the last ones."""
        return getattr(self, "pick", "last") == "best"

    @property
    def shown(self) -> Written:
        """The artifacts that it shows or hands over, and `report` for the last report."""
        for key in ("show", "result"):
            yield from (((key, index), name) for index, name in enumerate(getattr(self, key, ())))

    @property
    def templates(self) -> Written:
        if self.told_by:
            yield (self.told_by,), self.work_template

    @property
    def item_lists(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        """The names of items that its work goes through, with the steps to their lists."""
        return {}

    own_workspace: ClassVar[Key[Workspace | None]] = Key("workspace", None)
    """The folder that it works in instead of its agent's or the machine's."""

    @property
    def facts(self) -> Mapping[str, GuardType]:
        """The facts that its work always leaves for guards."""
        return {}

    @property
    def leaves(self) -> DataType | None:
        """The type of the data that its work always leaves, whoever works."""
        return None

    asked_form: ClassVar[Key[Mapping[str, Any] | None]] = Key("form", None)
    """The fields that somebody fills in, in the notation of the language."""

    @property
    def may_leave_none(self) -> bool:
        """Whether its work may leave no artifact: an empty answer, a file not written."""
        return False

    def output_at(self, name: str) -> Output | None:
        """The artifact that it writes, in its long form, where the state has this name."""
        return None


class WorkingState(StateBase):
    """A state that does something, and goes on."""

    transitions: Transitions | None = None
    """The transitions out of the state, in the order in which they are tried."""
    next: Id | None = None
    """The next state: short for a single transition without a guard."""
    on_error: OnError | None = None
    """The state or edge to take if an error remains after all retries."""
    emit: Emit | None = None
    """The name of an event to store when the state starts its work."""

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Self:
        if self.transitions is not None and self.next is not None:
            message = "a state has either `next` or `transitions`"
            remedy = "delete one; `next: STATE` is short for one transition without a guard"
            raise fault("two-ways-out", message, ("next",), help=remedy)
        if self.transitions is None and self.next is None:
            raise fault(
                "no-way-out", "the state has no transition", help="add `next:` or `transitions:`"
            )
        return self


OF_FOLDERS = ("files", "last_change", "digest")
"""Of a folder: the paths that differ from before the first attempt, what this attempt changed, and
what is equal where the contents are."""


class RenderOutput(Output):
    """The artifact of a `render` state."""

    file: str | None = None
    """The file in the workspace to write the text to."""
    append: bool = False
    """Append the text to the file instead of replacing it."""


OutputName = Annotated[Id | Output, by_type("<name>", "<output>")]
RenderOutputName = Annotated[Id | RenderOutput, by_type("<name>", "<output>")]


@cache
def output_from_name(name: str) -> Output:
    return Output(name=name)


Need = Annotated[
    str,
    Spelled(
        r"^[a-z][a-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$",
        "bad-path",
        "is no artifact and no field of one",
        "write it like `plan`, or `plan.interfaces`",
    ),
]
Needs = Annotated[tuple[Need, ...], or_one(Need), Field(min_length=1)]


class AuthorState(WorkingState):
    """A state whose work leaves an artifact."""

    if TYPE_CHECKING:
        # Among the fields of each kind it has the place that messages and schemas give it.
        @property
        def output(self) -> OutputName | None: ...

    @property
    def templates(self) -> Written:
        yield from super().templates
        if isinstance(self.output, Output):
            yield from ((("output", *path), text) for path, text in self.output.templates)

    def output_at(self, name: str) -> Output:
        if isinstance(self.output, Output):
            return self.output
        return output_from_name(self.output or name)


class TemplateState(AuthorState):
    """A state whose work is told by one template, which can also say what has to change."""

    needs: Needs | None = None
    """The artifacts, or fields of artifacts, that the work is made from. If they are unchanged and
    nothing else requires new work, the state keeps its last artifact."""

    reads_feedback = True

    @property
    def may_be_kept(self) -> bool:
        # A file may also have been written by somebody else.
        output = self.output
        return not (isinstance(output, Output) and output.is_left)
