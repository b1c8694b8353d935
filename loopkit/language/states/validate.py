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
    """Judge an artifact; leaves a report."""

    validate_: Id = Field(alias="validate")
    """The artifact that is judged; the work leaves a report."""
    by: Annotated[tuple[ByItem, ...], Field(min_length=1), FROM_LIST]
    """Names of validators, and rules written inline."""
    stop: Literal["first"] | None = None
    """Deterministic validators stop at the first one that blocks."""
    combine: Literal["strictest", "majority"] = "strictest"
    """Whether one judge that fails is enough, or judges are outvoted."""
    merge: Literal["key"] | None = None
    """Findings of several judges that have one key are one finding, of the worst severity."""
    quorum: Annotated[int, Field(ge=1)] | None = None
    """How many of the judges asked have to answer; without it all."""
    block: Id | None = None
    """Findings of this severity and worse block here, instead of the machine's `blocking`."""
    settle_after: Annotated[int, Field(ge=1)] | None = None
    """After so many rounds, what nobody found before blocks only with the worst severity."""
    workspace: Workspace | None = None
    """Where `command` rules run."""

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
