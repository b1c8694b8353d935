"""Transitions: forward with `target`, back with `revise`."""

from typing import Annotated, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from loopkit.language.section import (
    FROM_LIST,
    Bound,
    ByItself,
    Emit,
    Id,
    Ids,
    Noun,
    Text,
    Written,
    by_key,
    by_type,
    fault,
)


class ByOrigin(Noun):
    """A revise edge to each of several origins. Only the edge to the earliest origin of the
    blocking findings is enabled."""

    origin: Annotated[Ids, Field(min_length=1)]
    """The origins to go back to. There is one edge to each."""


ReviseTarget = Annotated[Id | ByOrigin, by_type("<state>", "<origin>")]
Budget = Annotated[Id | dict[Id, Id], by_type("<budget>", "<by origin>")]


class Transition(Noun):
    """A transition out of a state. The first enabled one is taken."""

    guard: str | None = None
    """The condition under which the transition may be taken. Default: always."""
    target: Id | None = None
    """The state to go forward to."""
    revise: ReviseTarget | None = None
    """The state to go back to, with feedback; each time is counted. `{origin: [STATE]}` goes to the
    earliest origin of the findings."""
    feedback: Text | None = None
    """The feedback to give: a key of `feedback:`, or a template."""
    max: Bound | None = None
    """The maximum number of revisions by this edge (to each origin, if it has several)."""
    budget: Budget | None = None
    """The counter of `limits.budgets` to use, which several edges can share, or one counter for
    each origin."""
    resets: Ids = ()
    """The states whose other incoming revise edges have their counters reset to zero."""
    previous: Literal["auto", "show", "hide"] = "auto"
    """Whether the author is shown the version that is refused. By default an agent is not shown a
    short answer of its own that rules or judges refuse."""
    from_: Literal["last", "best"] | None = Field(None, alias="from")
    """The version from which the author starts. Default: the last one."""
    emit: Emit | None = None
    """The name of an event to store when the transition is taken."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.target is None) == (self.revise is None):
            message = "a transition has either `target` or `revise`"
            remedy = "forward is `target: STATE`; back, counted and with feedback, `revise: STATE`"
            raise fault("one-direction", message, help=remedy)
        if self.target is not None:
            for field in ("feedback", "max", "budget", "resets", "previous", "from_"):
                if getattr(self, field) not in (None, (), "auto"):
                    key = field.removesuffix("_")
                    message = f"`{key}` belongs to `revise`"
                    remedy = "delete it; a forward transition is taken at most once on each path"
                    raise fault("forward-only", message, (key,), help=remedy)
        if isinstance(self.budget, dict) and (strange := self.budget.keys() - {*self.origins}):
            message = f"`{min(strange)}` is no origin of this transition"
            remedy = "name a budget for states that `revise: {origin: [STATE]}` lists"
            raise fault("strange-budget", message, ("budget", min(strange)), help=remedy)
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
        else:
            yield from self.written("budget")


class ErrorEdge(Noun):
    """A revise edge for errors: goes back, and is counted."""

    revise: Id
    """The state to go back to."""
    max: Bound | None = None
    """The maximum number of revisions by this edge. Default: `limits.revisions`."""
    budget: Id | None = None
    """The counter of `limits.budgets` to use, which several edges can share."""
    feedback: Text
    """The feedback to give: a key of `feedback:`, or a template."""
    emit: Emit | None = None
    """The name of an event to store when the edge is taken."""

    def budget_of(self, state: str) -> str | None:
        return self.budget

    @property
    def budgets(self) -> Written:
        return self.written("budget")


class ErrorExit(Noun):
    """A forward edge for errors, as a mapping that can also set `emit`."""

    target: Id
    """The state to go to next."""
    emit: Emit | None = None
    """The name of an event to store when the edge is taken."""


_Edge = Annotated[ErrorEdge, ByItself(ErrorEdge)]
_Exit = Annotated[ErrorExit, ByItself(ErrorExit)]
TAGS = ("<state>", "<edge>", "<exit>")
KEYS = {"revise": "<edge>", "target": "<exit>"}
ErrorTarget = SerializeAsAny[Annotated[Id | _Edge | _Exit, by_key(TAGS, "<edge>", **KEYS)]]


class ErrorTargets(Noun):
    """A state or edge for each class of errors."""

    transient: ErrorTarget | None = None
    """The state or edge for timeouts, rate limits and the like that remain after the retries."""
    content: ErrorTarget | None = None
    """The state or edge for answers that cannot be used as an artifact."""
    fatal: ErrorTarget | None = None
    """The state or edge for errors that another try would not fix."""


_Classes = Annotated[ErrorTargets, ByItself(ErrorTargets)]
OnError = SerializeAsAny[
    Annotated[Id | _Edge | _Exit | _Classes, by_key((*TAGS, "<classes>"), "<classes>", **KEYS)]
]
Transitions = Annotated[
    tuple[Annotated[Transition, ByItself(Transition)], ...], Field(min_length=1), FROM_LIST
]
