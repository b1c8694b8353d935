"""States: exactly one kind of work each, known by the key that carries it; the one table of kinds.

Here are the two that do no work: `final`, and the state without a key of its own, which decides at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from loopkit.language.section import Id, Ids, Written, one_of
from loopkit.language.states.each import EachState, MachineState
from loopkit.language.states.kinds import (
    AgentState,
    CommandState,
    DataState,
    FileValues,
    HumanState,
    RenderState,
    SetState,
    ValidateState,
)
from loopkit.language.states.state import StateBase, WorkingState


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
    mark: FileValues | None = None
    """Values that are set in a file once the run is over and its trees are merged."""

    kind = "final"
    ends = True

    @property
    def templates(self) -> Written:
        yield from super().templates
        if self.mark is not None:
            yield from ((("mark", *path), text) for path, text in self.mark.texts)


class ChoiceState(WorkingState):
    """Does no work: only decides which transition to take."""

    kind = "choice"
    doing = "choosing"
    knows_before = True


STATE_NOUNS: tuple[type[StateBase], ...] = (
    AgentState,
    CommandState,
    RenderState,
    DataState,
    SetState,
    EachState,
    MachineState,
    ValidateState,
    HumanState,
    FinalState,
    ChoiceState,
)
"""Every kind of state: the one table of them, from which all else that knows them is made."""
STATE_KINDS = {noun.kind: noun for noun in STATE_NOUNS}


if TYPE_CHECKING:
    State = WorkingState | FinalState
else:
    State = one_of(STATE_NOUNS, ChoiceState.kind)
