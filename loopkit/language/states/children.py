"""The base of the states whose work other machines do: what they run, and with which input."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from loopkit.language.agents.calls import ErrorClass
from loopkit.language.datatypes import DataType, parse_record
from loopkit.language.noun import Noun, Place, Written
from loopkit.language.states.author import AuthorState
from loopkit.language.states.output import Output, output_from_name

if TYPE_CHECKING:
    from loopkit.language.machine import Machine

CANCELLED, BLOCKED, CONFLICT = "cancelled", "blocked", "conflict"
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
EXAMPLE = """\
loopkit: 1
input: {text: str}
states:
  copy: {render: "{{ input.text }}", next: done}
  done: {final: success, result: copy}
"""


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
    def outcomes(self) -> tuple[str, ...]:
        """The possible outcomes of a child."""
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
        """The names of all of which children are made."""
        return frozenset[str]().union(*(_names_in(text) for _, text in self.templates))

    @property
    def leaves(self) -> DataType:
        return parse_record(RESULT)

    def output_at(self, name: str) -> Output:
        return output_from_name(name)


def texts_in(value: object, at: Place) -> Iterator[tuple[Place, str]]:
    """All texts in a value, each with its place."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from texts_in(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*at, index))


def _names_in(text: str) -> frozenset[str]:
    # The schema of machines is printed without the template sandbox.
    from loopkit.language.template import TemplateError, parse  # noqa: PLC0415 - it takes long

    try:
        return parse(text).names
    except TemplateError:
        # The checks tell of it.
        return frozenset()
