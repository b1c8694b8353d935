"""The state `final`: the run ends."""

from typing import Literal

from loopkit.language.noun import Id, Ids, Written
from loopkit.language.states.state import Example, StateBase


class FinalState(StateBase):
    """The end; the outcome is the state's name."""

    final: Literal["success", "failure"]
    """The end of the run: whether it is a success decides the exit code."""
    result: Ids = ()
    """The artifacts that the run ends with."""
    pick: Literal["last", "best"] = "last"
    """Which versions are the result."""
    of: Id | None = None
    """The validate state whose reports say which was best."""

    kind = "final"
    example = Example({"final": "success", "result": "plan"})
    ends = True

    @property
    def about(self) -> str:
        return self.final

    @property
    def drawn_as(self) -> str:
        return self.final

    @property
    def succeeds(self) -> bool:
        return self.final == "success"

    @property
    def shown(self) -> Written:
        yield from ((("result", index), name) for index, name in enumerate(self.result))
