"""States whose work other machines do: `each` runs one for each item of a list, `machine` one."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema

from loopkit.language.datatypes.datatype import DataType
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.facts import BOOL, BOUNDED_COUNT
from loopkit.language.guard.evaluate import ITEMS, parse_path
from loopkit.language.guard.grammar import GuardError
from loopkit.language.guard.type_check import GuardType
from loopkit.language.section import ErrorClass, Id, Ids, Noun, Written, by_type, fault, or_one
from loopkit.language.states.state import AuthorState, Output, output_from_name
from loopkit.text.json_text import texts_in

if TYPE_CHECKING:
    from loopkit.language.machine import Machine

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
ItemPaths = Annotated[tuple[ItemPath, ...], or_one(ItemPath), Field(min_length=1)]


def steps_to_items(path: str) -> tuple[str, ...]:
    """The steps of the path of a list to its items: `[]` at the end can be left out."""
    return parse_path(path.removesuffix(ITEMS) + ITEMS)


class After(Noun):
    """The items that an item waits for, and the outcomes that it waits for."""

    of: ItemPaths
    """The paths of the keys of those items."""
    when: Annotated[Ids, Field(min_length=1)]
    """The outcomes to wait for; any other outcome blocks the item."""


PATHS_OR_MORE = by_type("<paths>", "<after>", str, list, tuple)
CANCELLED, BLOCKED, CONFLICT = "cancelled", "blocked", "conflict"
CHANGED_TOO = "the file has changed in the workspace as well"
"""The start of the finding about a file for which an item is in conflict."""
WITHOUT_END = (CANCELLED, BLOCKED, CONFLICT, "error")
"""Outcomes of children that came to no final state; no final state of theirs may be called so."""
RESULT = {
    "outcome": "str",
    "success": "bool",
    "result": {"...": "any"},
    "rounds": "int",
    "calls": "int",
    "cost": "optional num",
    "findings": ["any"],
    "duration": "num",
}
"""The type of what a child leaves, in the notation of the language: its outcome, whether that is a
success, its artifacts, how often it was judged, its calls, their USD (none is unknown), the last
findings that are open, and its seconds of work."""


class ChildMachine(Noun):
    """Another machine, read from its file."""

    file: str
    """The file, as the machine names it."""
    files: dict[str, str]
    """The digests of all files that it was read from; its own is the last."""
    definition: "Machine"
    """What it says, every included file in it."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        # Authors write the file's name; the rest is what becomes of it.
        return {"type": "string"}


class ChildrenState(AuthorState):
    """A state whose work is done by runs of another machine; their results are the artifact."""

    machine: ChildMachine
    """The path of the machine file, in the folder of this one or below."""
    input: dict[str, Any] = Field(default={})
    """The input of the other machine. Texts at any depth are templates; a single `{{ … }}` passes
    on the value itself."""

    has_keys: ClassVar[bool] = False
    """Whether there is a child for each of several keys."""
    works_outside = True
    reads_feedback = True
    doing = "giving other runs what this one was given"

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        """The run's artifacts may not fit a child's input; the run's input was checked before."""
        return () if self._names_read <= self.names_given else ("content",)

    @property
    def child(self) -> "Machine":
        return self.machine.definition

    @property
    def most_runs(self) -> int:
        """How often an item may run at one visit."""
        return 1

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(self.child.finals)

    @property
    def templates(self) -> Written:
        yield from texts_in(self.input, ("input",))

    @property
    def names_given(self) -> frozenset[str]:
        """What is known before a run starts, as templates call it."""
        return frozenset({"input"})

    @property
    def _names_read(self) -> frozenset[str]:
        return frozenset[str]().union(*(_names_in(text) for _, text in self.templates))

    @property
    def leaves(self) -> DataType:
        return parse_record(RESULT)

    def output_at(self, name: str) -> Output:
        return output_from_name(name)


class EachState(ChildrenState):
    """Runs another machine for each item of a list. The results, by key, are the artifact."""

    each: ItemPath
    """The path of the list in the input or in an artifact; `[]` goes into nested lists."""
    as_: Id = Field(alias="as")
    """The name of the item in templates and paths."""
    key: ItemPath
    """The path of the item's key, which must be unique in the list: `task.id`."""
    after: Annotated[ItemPaths | After, PATHS_OR_MORE] | None = None
    """The paths of the keys of the items that an item waits for. These must succeed, unless `when`
    names other outcomes."""
    group: ItemPath | None = None
    """The path of the item's group. Only items of the same group run at the same time; an item
    without one runs alone."""
    exclusive: ItemPaths | None = None
    """The paths of what an item needs for itself alone: items that need the same never run at the
    same time."""
    parallel: Positive = 1
    """The maximum number of items that run at the same time, not counting those that wait for a
    person."""
    serial: Ids = ()
    """States of the other machine of which only one works at a time, across all items."""
    alone: Ids = ()
    """States of the other machine during which no other item works."""
    isolate: Literal["none", "copy", "worktree"] = "none"
    """Whether each child runs in a tree of its own. Trees of successful children are merged in
    order."""
    on_conflict: Literal["again"] | None = None
    """`again`: an item that can't be merged runs once more, on what was merged meanwhile."""
    stop_on: Ids = ()
    """Outcomes that end the work: no further item starts, and running ones are cancelled."""
    min_items: Annotated[int, Field(ge=0)] = 1
    """The minimum number of items."""
    max_items: Positive | None = None
    """The maximum number of items; required unless the type of the list sets one."""

    kind = "each"
    failing = ("failed", "succeeded")
    has_keys = True

    @property
    def about(self) -> str:
        return f"{self.machine.file} for each {self.as_} of {self.each}"

    @property
    def most_runs(self) -> int:
        return 1 if self.on_conflict is None else 2

    @property
    def is_of_input(self) -> bool:
        """Whether the list is known from the start."""
        return parse_path(self.each)[0] == "input"

    @property
    def outcomes(self) -> tuple[str, ...]:
        cancelled = (CANCELLED,) if self.stop_on else ()
        blocked = (BLOCKED,) if self.after is not None else ()
        conflict = (CONFLICT,) if self.isolates else ()
        return (*super().outcomes, *cancelled, *blocked, *conflict)

    @property
    def item_steps(self) -> tuple[str, ...]:
        return steps_to_items(self.each)

    @property
    def item_lists(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        return {self.as_: (self.item_steps,)}

    @property
    def after_written(self) -> tuple[str, ...]:
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

    def failure(self, name: str, facts: Mapping[str, Any]) -> str:
        failed = facts.get("failed", 0)
        return f"{failed:,} of {facts['total']:,} items failed in `{name}`" if failed else ""


class MachineState(ChildrenState):
    """Runs another machine once. Its result is the artifact."""

    kind = "machine"
    failing = ("outcome",)

    @property
    def about(self) -> str:
        return f"machine {self.machine.file}"

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"outcome": GuardType("str", values=self.outcomes)}

    def failure(self, name: str, facts: Mapping[str, Any]) -> str:
        outcome = facts.get("outcome")
        is_failure = outcome is not None and not self.child.finals[outcome].succeeds
        return f"`{name}` ended in `{outcome}`" if is_failure else ""


def _names_in(text: str) -> frozenset[str]:
    # The schema of machines is printed without the template sandbox.
    from loopkit.language.template.rendering import parse_if_valid  # noqa: PLC0415 - it takes long

    template = parse_if_valid(text)
    return frozenset() if template is None else template.names
