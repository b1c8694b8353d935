"""Parts of a scenario: what agents, commands and people say in a run, and in its children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from loopkit.language.noun import Id, Noun
from loopkit.scenario.in_children import (
    CHILDREN,
    ITEMS,
    ONLY,
    InChild,
    as_visits,
    every_child,
    form_of,
    one_child,
)
from loopkit.scenario.script import Answers, Commands, Role

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
        """The parts of all children."""
        return every_child(self.children)

    def child(self, state: str, key: str, visit: int) -> InChild[ChildParts] | None:
        """The part of one child; None where it has none."""
        return one_child(self.children, state, key, visit)


class ChildParts(Parts):
    """The parts of a scenario for one run of another machine."""


def parts_form(value: object) -> str:
    """The form of the parts of one state's children."""
    return form_of(value, frozenset({*PARTS, CHILDREN}))


SaidOnVisits = Annotated[
    tuple[ChildParts, ...],
    Field(min_length=1),
    BeforeValidator(as_visits, json_schema_input_type=ChildParts | list[ChildParts]),
]
ChildrenSaid = Annotated[
    Annotated[SaidOnVisits, Tag(ONLY)] | Annotated[dict[str, SaidOnVisits], Tag(ITEMS)],
    Discriminator(parts_form),
]
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
