"""The state `final`: the run ends."""

from typing import Literal

from loopkit.language.noun import Id, Ids, Written
from loopkit.language.states.state import Example, StateBase


class FinalState(StateBase):
    """Ends the run. The outcome is the state's name."""

    final: Literal["success", "failure"]
    """Whether the run succeeds or fails; this decides the exit code."""
    result: Ids = ()
    """The artifacts that make up the result of the run."""
    pick: Literal["last", "best"] = "last"
    """Which versions of the artifacts to return."""
    of: Id | None = None
    """The validate state whose reports decide which version is best. Default: the one that judged
    last."""

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
