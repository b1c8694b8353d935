"""The bases of the states that write an artifact, and of those that are told how by a template."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from loopkit.language.noun import Spelled, Written, one_or_more
from loopkit.language.states.output import Output, OutputName, output_from_name
from loopkit.language.states.state import WorkingState

NEED_PATTERN = r"^[a-z][a-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"


Need = Annotated[
    str,
    Spelled(
        NEED_PATTERN,
        "bad-path",
        "is no artifact and no field of one",
        "write it like `plan`, or `plan.interfaces`",
    ),
]
Needs = Annotated[
    tuple[Need, ...],
    BeforeValidator(one_or_more, json_schema_input_type=Need | list[Need]),
    Field(min_length=1),
]
"""Artifacts, and fields of artifacts."""


class AuthorState(WorkingState):
    """A state whose work leaves an artifact."""

    if TYPE_CHECKING:
        # Among the fields of each kind it has the place that messages and schemas give it.
        @property
        def output(self) -> OutputName | None: ...

    @property
    def templates(self) -> Written:
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
    @abstractmethod
    def work_template(self) -> str:
        """The template."""

    @property
    def needed(self) -> tuple[str, ...] | None:
        return self.needs

    @property
    def may_be_kept(self) -> bool:
        # A file may also have been written by somebody else.
        output = self.output
        return not (isinstance(output, Output) and output.is_left)
