"""The state `human`: a person is asked."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from loopkit.language.guard import GuardType
from loopkit.language.noun import Duration, Fields, Id, Ids, Text, Written
from loopkit.language.states.state import Example, WorkingState


class HumanState(WorkingState):
    """Waits for a person's answer. No process has to keep running."""

    human: Text
    """The question to ask: a template."""
    choices: Annotated[Ids, Field(min_length=1)]
    """The possible answers."""
    show: Ids = ()
    """The artifacts to show to the person; `report` is the last report."""
    pick: Literal["last", "best"] = "last"
    """Which versions of the artifacts to show."""
    form: Fields = {}
    """Fields to fill in besides the choice."""
    edit: Id | None = None
    """An artifact that the person may edit; the answer can contain its new text."""
    timeout: Duration | None = None
    """How long the question stays open."""
    otherwise: Id | None = None
    """The choice that counts if nobody answers within `timeout`."""

    kind = "human"
    example = Example(
        {"human": "Publish {{ plan }}?", "choices": ["publish", "stop"]}, answer="publish"
    )
    waits = True
    knows_before = True
    doing = "waiting for a person"
    said = ("choice", "comment", "by")

    @property
    def edits(self) -> str | None:
        return self.edit

    @property
    def shown(self) -> Written:
        yield from ((("show", index), name) for index, name in enumerate(self.show))

    @property
    def templates(self) -> Written:
        yield ("human",), self.human

    @property
    def facts(self) -> Mapping[str, GuardType]:
        return {"choice": GuardType("str", values=self.choices)}

    @property
    def asked_form(self) -> Mapping[str, Any]:
        return self.form
