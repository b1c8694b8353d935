"""The base of all states: their ways out, and what each kind says of itself.

A kind of state is known by the key that carries its work. Its module here says what it is.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.calls import ErrorClass, OnInDoubt
from loopkit.language.datatypes import DataType
from loopkit.language.emission import Emission, Emit
from loopkit.language.guard import GuardType
from loopkit.language.noun import Id, Noun, Written, fault
from loopkit.language.states.output import Output
from loopkit.language.transitions import OnError, Transitions
from loopkit.language.validators import ByItem
from loopkit.values import Value, field

if TYPE_CHECKING:
    from loopkit.language.machine import Machine


class Example(Value, frozen=True):
    """A state of a kind without its way out, behind one that writes the artifact `plan`."""

    state: Mapping[str, Any]
    agents: Mapping[str, Any] = field(default_factory=dict)
    """The agents whom it asks."""
    answer: str = ""
    """What a person answers."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """What the machine takes."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts of files beside the machine file."""


class AgentChoice(Noun):
    """A choice between several agents, made by a word in the data."""

    from_: str = Field(alias="from")
    """The dotted path of that word in the input or in an artifact: `input.task.agent`."""
    of: Annotated[dict[str, Id], Field(min_length=1)]
    """The agent to use for each word."""

    @property
    def template(self) -> str:
        """What fills in the word."""
        return f"{{{{ {self.from_} }}}}"

    @property
    def steps(self) -> tuple[str, ...]:
        """The path, step by step."""
        return tuple(self.from_.split("."))

    @property
    def is_of_input(self) -> bool:
        """Whether it is known from the start."""
        return self.steps[0] == "input"


class StateBase(Noun):
    """What is known of every state. Each kind says where it differs."""

    description: str = ""
    """A note for readers; has no effect."""

    kind: ClassVar[str]
    """The key by which states of this kind are known."""
    example: ClassVar[Example]
    """One for tests and readers."""
    ends: ClassVar[bool] = False
    """Whether the run ends here."""
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
    beside: ClassVar[tuple[str, ...]] = ()
    """What templates see under its artifact, beside the fields of that."""

    @property
    def about(self) -> str:
        """Its work for a place with little room."""
        return self.kind

    @property
    def drawn_as(self) -> str:
        """Its shape in a diagram."""
        return self.kind

    @property
    def succeeds(self) -> bool:
        """Whether the run is a success here."""
        return False

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        """The classes of error that may be left of its work."""
        return ()

    @property
    def asks(self) -> tuple[str, ...]:
        """The agents of which one writes its artifact; none where no agent does."""
        return ()

    @property
    def choice(self) -> AgentChoice | None:
        """The choice among its agents, if it has one."""
        return None

    @property
    def work_template(self) -> str:
        """The one template that describes its work, if there is one."""
        return ""

    @property
    def emits(self) -> Emission | None:
        """The event that is stored when its work starts."""
        return None

    @property
    def needed(self) -> tuple[str, ...] | None:
        """The artifacts and fields on which its work depends; none where it does not name them."""
        return None

    @property
    def may_be_kept(self) -> bool:
        """Whether its work leaves nothing but its artifact, which may do again as it is."""
        return False

    @property
    def judges(self) -> str | None:
        """The artifact that it judges."""
        return None

    @property
    def judged_by(self) -> tuple[ByItem, ...]:
        """The names of the validators, and the rules, by which it judges."""
        return ()

    @property
    def child(self) -> "Machine | None":
        """The machine that its work runs."""
        return None

    @property
    def isolates(self) -> bool:
        """Whether each run of that machine works in a tree of its own."""
        return False

    @property
    def edits(self) -> str | None:
        """The artifact of another state that its work may change."""
        return None

    @property
    def picks_best(self) -> bool:
        """Whether it takes the best versions of artifacts instead of the last ones."""
        return getattr(self, "pick", "last") == "best"

    @property
    def shown(self) -> Written:
        """The artifacts that it shows or hands over, and `report` for the last report."""
        yield from ()

    @property
    def templates(self) -> Written:
        """The templates that its work fills in."""
        yield from ()

    @property
    def own_workspace(self) -> Workspace | None:
        """The folder that it works in instead of its agent's or the machine's."""
        own: Workspace | None = getattr(self, "workspace", None)
        return own

    @property
    def facts(self) -> Mapping[str, GuardType]:
        """The facts that its work always leaves for guards."""
        return {}

    @property
    def leaves(self) -> DataType | None:
        """The type of the data that its work always leaves, whoever works."""
        return None

    @property
    def asked_form(self) -> Mapping[str, Any] | None:
        """The fields that somebody fills in, in the notation of the language."""
        return None

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

    @property
    def emits(self) -> Emission | None:
        return Emission.of(self.emit)

    @model_validator(mode="after")
    def _goes_somewhere(self) -> Self:
        if self.transitions is not None and self.next is not None:
            raise fault(
                "two-ways-out",
                "a state has either `next` or `transitions`",
                ("next",),
                help="delete one; `next: STATE` is short for one transition without a guard",
            )
        if self.transitions is None and self.next is None:
            raise fault(
                "no-way-out", "the state has no transition", help="add `next:` or `transitions:`"
            )
        return self
