"""The state `validate`: an artifact is judged."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from loopkit.language.agents.agent import Workspace
from loopkit.language.agents.calls import ErrorClass
from loopkit.language.facts import OF_REPORTS
from loopkit.language.guard import GuardType
from loopkit.language.noun import FROM_LIST, Id
from loopkit.language.states.state import Example, WorkingState
from loopkit.language.validators import ByItem


class ValidateState(WorkingState):
    """Judges an artifact and writes a report."""

    validate_: Id = Field(alias="validate")
    """The artifact to judge."""
    by: Annotated[tuple[ByItem, ...], Field(min_length=1), FROM_LIST]
    """The validators to use: names, and rules written inline."""
    stop: Literal["first"] | None = None
    """`first`: stop at the first deterministic validator that blocks."""
    combine: Literal["strictest", "majority"] = "strictest"
    """Whether one judge that fails is enough, or the judges vote."""
    merge: Literal["key"] | None = None
    """`key`: merge findings of several judges with the same key into one, of the worst severity."""
    quorum: Annotated[int, Field(ge=1)] | None = None
    """How many of the judges asked have to answer. Default: all."""
    block: Id | None = None
    """The mildest severity that blocks in this state, instead of the machine's `blocking`."""
    settle_after: Annotated[int, Field(ge=1)] | None = None
    """The number of rounds after which new findings block only if they have the worst severity."""
    workspace: Workspace | None = None
    """The folder in which `command` rules run."""

    kind = "validate"
    example = Example({"validate": "plan", "by": [{"min_chars": 1}]})
    has_own_work = True
    works_outside = True

    @property
    def faults(self) -> tuple[ErrorClass, ...]:
        return ("transient", "content", "fatal")

    @property
    def about(self) -> str:
        return f"validate {self.validate_}"

    @property
    def judges(self) -> str:
        return self.validate_

    @property
    def judged_by(self) -> tuple[ByItem, ...]:
        return self.by

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return OF_REPORTS
