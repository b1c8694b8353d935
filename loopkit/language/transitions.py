"""Transitions: forward with `target`, back with `revise`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from loopkit.language.noun import FROM_LIST, Bound, Id, Ids, Noun, Text, fault


class Transition(Noun):
    """One way out of a state; the first enabled one is taken."""

    guard: str | None = None
    """A condition on facts; without it the transition may always be taken."""
    target: Id | None = None
    """The state that comes next: forward."""
    revise: Id | None = None
    """The state that has to work again: back, counted and with feedback."""
    feedback: Text | None = None
    """A key of `feedback:`, or a template."""
    max: Bound | None = None
    """How many revisions this edge grants."""
    budget: Id | None = None
    """A counter of `limits.budgets` that several edges share."""
    resets: Ids = ()
    """The other edges that revise to these states start at zero again."""
    emit: Id | None = None
    """An event of this name is stored when the transition is taken."""

    @model_validator(mode="after")
    def _one_way(self) -> Transition:
        if (self.target is None) == (self.revise is None):
            raise fault(
                "one-direction",
                "a transition has either `target` or `revise`",
                help="forward is `target: STATE`; back, counted and with feedback, `revise: STATE`",
            )
        if self.target is not None:
            for key in ("feedback", "max", "budget", "resets"):
                if getattr(self, key) not in (None, ()):
                    raise fault(
                        "forward-only",
                        f"`{key}` belongs to `revise`",
                        (key,),
                        help="delete it; a forward transition is taken at most once on each path",
                    )
        return self


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


ErrorTarget = Annotated[
    Annotated[Id, Tag("<state>")] | Annotated[ErrorEdge, Tag("<edge>")],
    Discriminator(lambda value: "<state>" if isinstance(value, str) else "<edge>"),
]


class ErrorTargets(Noun):
    """One way out for each class of error."""

    transient: ErrorTarget | None = None
    """Where timeouts, rate limits and the like go after the retries."""
    content: ErrorTarget | None = None
    """Where answers go that are no artifact."""
    fatal: ErrorTarget | None = None
    """Where errors go that another try would not mend."""


def _error_form(value: object) -> str:
    if isinstance(value, str):
        return "<state>"
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return "<edge>" if "revise" in keys else "<classes>"


OnError = Annotated[
    Annotated[Id, Tag("<state>")]
    | Annotated[ErrorEdge, Tag("<edge>")]
    | Annotated[ErrorTargets, Tag("<classes>")],
    Discriminator(_error_form),
]
Transitions = Annotated[tuple[Transition, ...], Field(min_length=1), FROM_LIST]
ErrorKind = Literal["transient", "content", "fatal"]
