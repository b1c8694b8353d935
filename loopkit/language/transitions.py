"""Transitions: forward with `target`, back with `revise`."""

from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, SerializeAsAny, Tag, model_validator

from loopkit.language.emission import Emit
from loopkit.language.noun import FROM_LIST, Bound, ByItself, Id, Ids, Noun, Text, Written, fault


class ByOrigin(Noun):
    """The states that a revise edge leads back to: the one that injected what was found."""

    origin: Annotated[Ids, Field(min_length=1)]
    """Origins of the machine. There is one edge to each, for when it is the earliest."""


ReviseTarget = Annotated[
    Annotated[Id, Tag("<state>")] | Annotated[ByOrigin, Tag("<origin>")],
    Discriminator(lambda value: "<state>" if isinstance(value, str) else "<origin>"),
]
Budget = Annotated[
    Annotated[Id, Tag("<budget>")] | Annotated[dict[Id, Id], Tag("<by origin>")],
    Discriminator(lambda value: "<budget>" if isinstance(value, str) else "<by origin>"),
]


class Transition(Noun):
    """One way out of a state; the first enabled one is taken."""

    guard: str | None = None
    """A condition on facts; without it the transition may always be taken."""
    target: Id | None = None
    """The state that comes next: forward."""
    revise: ReviseTarget | None = None
    """The state that has to work again: back, counted and with feedback. `{origin: [STATE]}` is
    the one that injected the earliest of what was found."""
    feedback: Text | None = None
    """A key of `feedback:`, or a template."""
    max: Bound | None = None
    """How many revisions this edge grants; to each origin so many."""
    budget: Budget | None = None
    """A counter of `limits.budgets` that several edges share, or one for each origin."""
    resets: Ids = ()
    """The other edges that revise to these states start at zero again."""
    from_: Literal["last", "best"] | None = Field(None, alias="from")
    """The version to start from; by default the last one."""
    emit: Emit | None = None
    """An event of this name is stored when the transition is taken."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.target is None) == (self.revise is None):
            raise fault(
                "one-direction",
                "a transition has either `target` or `revise`",
                help="forward is `target: STATE`; back, counted and with feedback, `revise: STATE`",
            )
        if self.target is not None:
            for field in ("feedback", "max", "budget", "resets", "from_"):
                if getattr(self, field) not in (None, ()):
                    key = field.removesuffix("_")
                    raise fault(
                        "forward-only",
                        f"`{key}` belongs to `revise`",
                        (key,),
                        help="delete it; a forward transition is taken at most once on each path",
                    )
        if isinstance(self.budget, dict) and (strange := self.budget.keys() - {*self.origins}):
            raise fault(
                "strange-budget",
                f"`{min(strange)}` is no origin of this transition",
                ("budget", min(strange)),
                help="name a budget for states that `revise: {origin: [STATE]}` lists",
            )
        return self

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins to which it leads back, each over an edge of its own."""
        return self.revise.origin if isinstance(self.revise, ByOrigin) else ()

    def budget_of(self, state: str) -> str | None:
        """The counter that its edge to a state shares with others."""
        return self.budget.get(state) if isinstance(self.budget, dict) else self.budget

    @property
    def budgets(self) -> Written:
        """The shared counters that it names, each with its place."""
        if isinstance(self.budget, dict):
            yield from ((("budget", origin), name) for origin, name in self.budget.items())
        elif self.budget is not None:
            yield ("budget",), self.budget


class ErrorEdge(Noun):
    """Where a caught error goes: back, counted."""

    revise: Id
    """The state that has to work again."""
    max: Bound | None = None
    """How many revisions this edge grants."""
    budget: Id | None = None
    """A counter of `limits.budgets` that several edges share."""
    feedback: Text
    """A key of `feedback:`, or a template."""
    emit: Emit | None = None
    """An event of this name is stored when the edge is taken."""

    def budget_of(self, state: str) -> str | None:
        """The counter that it shares with others."""
        return self.budget

    @property
    def budgets(self) -> Written:
        """The shared counter that it names, with its place."""
        if self.budget is not None:
            yield ("budget",), self.budget


class ErrorExit(Noun):
    """Where a caught error goes: forward, with more to say than the state."""

    target: Id
    """The state that comes next."""
    emit: Emit | None = None
    """An event of this name is stored when the edge is taken."""


def _error_form(value: object) -> str:
    """Which form of an edge is written; without its key it is a mapping by class."""
    if isinstance(value, str):
        return "<state>"
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "<edge>" if "revise" in keys else "<exit>" if "target" in keys else "<classes>"


def _form_of_class(value: object) -> str:
    form = _error_form(value)
    return "<edge>" if form == "<classes>" else form


_State = Annotated[Id, Tag("<state>")]
_Edge = Annotated[ErrorEdge, ByItself(ErrorEdge), Tag("<edge>")]
_Exit = Annotated[ErrorExit, ByItself(ErrorExit), Tag("<exit>")]
ErrorTarget = SerializeAsAny[Annotated[_State | _Edge | _Exit, Discriminator(_form_of_class)]]


class ErrorTargets(Noun):
    """One way out for each class of error."""

    transient: ErrorTarget | None = None
    """Where timeouts, rate limits and the like go after the retries."""
    content: ErrorTarget | None = None
    """Where answers go that are no artifact."""
    fatal: ErrorTarget | None = None
    """Where errors go that another try would not mend."""


_Classes = Annotated[ErrorTargets, ByItself(ErrorTargets), Tag("<classes>")]
OnError = SerializeAsAny[Annotated[_State | _Edge | _Exit | _Classes, Discriminator(_error_form)]]
Transitions = Annotated[
    tuple[Annotated[Transition, ByItself(Transition)], ...], Field(min_length=1), FROM_LIST
]
