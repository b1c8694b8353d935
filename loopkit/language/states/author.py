"""The base of the states that write an artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopkit.language.noun import Written
from loopkit.language.states.output import Output, OutputName, named_output
from loopkit.language.states.state import WorkingState


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
        return named_output(self.output or name)
