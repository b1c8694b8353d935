"""The state `each`: another machine runs once for each item of a list."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.facts import BOOL, BOUNDED_COUNT
from loopkit.language.guard import GuardError, GuardType, parse_path
from loopkit.language.guard.paths import ITEMS
from loopkit.language.noun import Id, Ids, Noun, fault, one_or_more
from loopkit.language.states.children import (
    BLOCKED,
    CANCELLED,
    CONFLICT,
    EXAMPLE,
    RESULT,
    ChildrenState,
)
from loopkit.language.states.state import Example

PATH_HELP = "write it like `input.tasks`, or `input.sections[].tasks[]`"


def _path(text: str) -> str:
    try:
        first, *_ = parse_path(text)
    except GuardError as error:
        raise fault("bad-path", error.problem.message, help=PATH_HELP) from error
    if first == ITEMS:
        raise fault("bad-path", "the path does not start with a name", help=PATH_HELP)
    return text


Positive = Annotated[int, Field(ge=1)]
ItemPath = Annotated[str, AfterValidator(_path)]
"""A dotted path; `[]` behind a step goes through the items of a list."""
ItemPaths = Annotated[
    tuple[ItemPath, ...],
    BeforeValidator(one_or_more, json_schema_input_type=ItemPath | list[ItemPath]),
    Field(min_length=1),
]


class After(Noun):
    """Which other items an item waits for, and with which outcomes."""

    of: ItemPaths
    """The paths of their keys."""
    when: Annotated[Ids, Field(min_length=1)]
    """The outcomes that are waited for; any other one blocks the item."""


class EachState(ChildrenState):
    """Run another machine for each item of a list; the results by key are the artifact."""

    each: ItemPath
    """The list: a path in the input or in an artifact, `[]` for lists inside lists."""
    as_: Id = Field(alias="as")
    """What templates call the item."""
    key: ItemPath
    """The path of what names an item, each differently: `task.id`."""
    after: (
        Annotated[
            Annotated[ItemPaths, Tag("<paths>")] | Annotated[After, Tag("<after>")],
            Discriminator(lambda v: "<paths>" if isinstance(v, str | list | tuple) else "<after>"),
        ]
        | None
    ) = None
    """Paths of the keys of the items that an item waits for; they have to succeed."""
    group: ItemPath | None = None
    """Only items with the same value here run at the same time; one without runs by itself."""
    parallel: Positive = 1
    """How many run at the same time; one that waits for a person frees its place."""
    serial: Ids = ()
    """States of the machine of which only one works at a time, among all items."""
    alone: Ids = ()
    """States of the machine during which no other item works."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """Each run works in a tree of its own, and what succeeds is merged in order."""
    stop_on: Ids = ()
    """Outcomes after which no item is begun, and those in hand are cancelled."""
    min_items: Annotated[int, Field(ge=0)] = 1
    """How many items there are at least."""
    max_items: Positive | None = None
    """How many there are at most; needed where the type of the list does not say it."""

    kind = "each"
    has_keys = True
    example = Example(
        {
            "each": "input.parts",
            "as": "part",
            "key": "part",
            "max_items": 3,
            "machine": "child.yaml",
            "input": {"text": "{{ part }}"},
        },
        input={"parts": {"type": ["str"], "default": ["tea"]}},
        files={"child.yaml": EXAMPLE},
    )

    @property
    def about(self) -> str:
        return f"{self.machine.file} for each {self.as_} of {self.each}"

    @property
    def is_of_input(self) -> bool:
        """Whether the list is known from the start."""
        return parse_path(self.each)[0] == "input"

    @property
    def isolates(self) -> bool:
        return self.isolate != "none"

    @property
    def outcomes(self) -> tuple[str, ...]:
        cancelled = (CANCELLED,) if self.stop_on else ()
        blocked = (BLOCKED,) if self.after is not None else ()
        conflict = (CONFLICT,) if self.isolates else ()
        return (*super().outcomes, *cancelled, *blocked, *conflict)

    @property
    def item_steps(self) -> tuple[str, ...]:
        """The steps of the path to the items themselves: `[]` at the end can be left out."""
        return parse_path(self.each.removesuffix(ITEMS) + ITEMS)

    @property
    def after_written(self) -> tuple[str, ...]:
        """The paths that say what an item waits for."""
        return self.after.of if isinstance(self.after, After) else self.after or ()

    @property
    def after_paths(self) -> tuple[str, ...]:
        """Those that lead to keys in the item itself."""
        edges = self.edge_paths
        return tuple(path for path in self.after_written if path not in edges)

    @property
    def edge_paths(self) -> tuple[str, ...]:
        """Those that lead to edges, which stand where the list does."""
        root, *_ = parse_path(self.each)
        return tuple(path for path in self.after_written if parse_path(path)[0] == root != self.as_)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The outcomes that an item waits for."""
        if isinstance(self.after, After):
            return self.after.when
        return tuple(name for name, final in self.child.finals.items() if final.succeeds)

    @property
    def names_given(self) -> frozenset[str]:
        return super().names_given | {self.as_}

    @property
    def _names_read(self) -> frozenset[str]:
        first, *_ = parse_path(self.each)
        return super()._names_read | {first}

    @property
    def leaves(self) -> DataType:
        return parse_record({"...": RESULT})

    @property
    def facts(self) -> Mapping[str, GuardType]:
        counts = dict.fromkeys(("succeeded", "failed", "total"), BOUNDED_COUNT)
        return {**counts, "deadlocked": BOOL}
