"""Expectations of a case: the nouns below `expect:`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from loopkit.engine.findings import Status, Verdict
from loopkit.language.noun import Id, Noun, Text, fault
from loopkit.scenario.in_children import ITEMS, ONLY, InChild, as_visits, every_child, form_of

GAP = "…"
"""In a list: any number of items between the one before it and the one after it."""
GAPS = frozenset({GAP, "...", "*"})
WAITING, SUSPENDED = "waiting", "suspended"


def _texts(value: object) -> object:
    return (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
    )


def _steps(value: object) -> object:
    if not isinstance(value, list):
        return value
    return tuple(GAP if isinstance(step, str) and step in GAPS else step for step in value)


Pieces = Annotated[tuple[str, ...], BeforeValidator(_texts, json_schema_input_type=str | list[str])]
"""One piece of text, or several."""
Sequence = Annotated[tuple[str, ...], BeforeValidator(_steps)]
"""Names in order; `…` (also `...` or `"*"`) stands for anything between."""
Position = Annotated[int, Field(ge=1)]
Count = Annotated[int, Field(ge=0)]


class _Quoting(Noun):
    contains: Pieces = ()
    """Texts that must occur in it."""
    lacks: Pieces = ()
    """Texts that must not occur in it."""

    @model_validator(mode="after")
    def _says_something(self) -> _Quoting:
        if not self.model_fields_set & {"contains", "lacks", "equals", "data"}:
            raise fault(
                "expects-nothing", "this expects nothing", help="add `contains: …` or `lacks: …`"
            )
        return self


class ExpectedFinding(Noun):
    """Findings in reports. Each key narrows down which ones are meant."""

    state: Id | None = None
    """The validate state. Default: any."""
    attempt: Position | None = None
    """The author's attempt that was judged. Default: any."""
    message: Text | None = None
    """A text that occurs in the finding's message."""
    code: str | None = None
    """The code of the finding."""
    validator: str | None = None
    """The validator that reported it."""
    severity: Id | None = None
    """The severity of the finding."""
    status: Status | None = None
    """The status of the finding compared with earlier rounds."""
    origin: Id | None = None
    """A state that must fix it."""
    defaulted: bool | None = None
    """Whether its origin was set by default, because nobody named one."""
    count: Count | None = None
    """The exact number of such findings. Default: at least one."""


class ExpectedFeedback(_Quoting):
    """Feedback that a state must receive when it has to work again."""

    to: Id | None = None
    """The state that receives it. Default: any state."""
    attempt: Position | None = None
    """The attempt that receives it; the first revision is attempt 2. Default: any attempt."""


class ExpectedPrompt(_Quoting):
    """The last message of a call to an agent."""

    agent: Id | None = None
    """The agent. Default: any."""
    state: Id | None = None
    """The state in which the agent is asked. Default: any."""
    validator: str | None = None
    """The validator for which a judge is asked. Default: any."""
    attempt: Position | None = None
    """The attempt of the state or, for a judge, of the author that it judges. Default: any."""
    call: Position = 1
    """The number of the call in the attempt; retries and re-asks follow the first."""


class ExpectedArtifact(_Quoting):
    """The conditions that the last version of an artifact must meet."""

    equals: Text | None = None
    """The whole text. Trailing spaces and surrounding blank lines are ignored."""
    data: Any = None
    """The whole value, if the artifact is data."""


Verdicts = Annotated[
    tuple[Literal[Verdict, "…", "...", "*"], ...], Field(min_length=1), BeforeValidator(_steps)
]
Numbers = Annotated[dict[str, Count], Field(min_length=1)]


class Expect(Noun):
    """The conditions that the run of a case must meet."""

    outcome: Id | None = None
    """The final state, `waiting`, or `suspended`."""
    reason: Literal["limit", "transient", "content", "fatal", "waiting"] | None = None
    """The reason why the run is suspended."""
    says: Pieces = ()
    """Texts that must occur in the open question, or in the reason why the run is suspended."""
    path: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_steps)] | None = None
    """The states, in the order in which they are entered."""
    kept: Sequence | None = None
    """The states that keep the artifact of their last work, in order."""
    verdicts: Annotated[dict[Id, Verdicts], Field(min_length=1)] | None = None
    """The verdicts of each validate state, in order."""
    findings: (
        Annotated[tuple[ExpectedFinding, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """The findings that reports must have."""
    feedback: (
        Annotated[tuple[ExpectedFeedback, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """The feedback that states must receive when they have to work again."""
    prompts: (
        Annotated[tuple[ExpectedPrompt, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """The prompts that agents must receive."""
    revisions: Numbers | None = None
    """The number of revisions used, by the state that is revised or by edge."""
    calls: Numbers | None = None
    """The number of calls to each agent, including retries and re-asks, or of each tool
    (`AGENT.TOOL`)."""
    calls_at_most: Numbers | None = None
    """The maximum number of calls to each agent or tool."""
    cost_usd_at_most: Annotated[float, Field(ge=0, strict=False)] | None = None
    """The maximum cost of the whole run, in USD."""
    events: Sequence | None = None
    """The names of the events that `emit:` stores, in order."""
    artifacts: Annotated[dict[Id, ExpectedArtifact], Field(min_length=1)] | None = None
    """The artifacts at the end of the run."""
    children: dict[Id, ExpectedChildren] | None = None
    """The same conditions for the runs that a state starts, by the keys of their items."""

    @model_validator(mode="after")
    def _belongs_together(self) -> Expect:
        if self.reason is not None and self.outcome not in (None, SUSPENDED):
            raise fault(
                "reason-without-suspension",
                f"`reason` tells why a run is suspended, and `{self.outcome}` is expected",
                ("reason",),
                help=f"delete it, or expect `outcome: {SUSPENDED}`",
            )
        return self

    @property
    def in_children(self) -> Iterator[InChild[Expect]]:
        """The expectations of all children."""
        return every_child(self.children or {})

    @property
    def is_empty(self) -> bool:
        """Whether nothing is expected at all."""
        return not self.model_fields_set


def _form(value: object) -> str:
    return form_of(value, frozenset(Expect.model_fields))


ExpectedVisits = Annotated[
    tuple[Expect, ...],
    Field(min_length=1),
    BeforeValidator(as_visits, json_schema_input_type=Expect | list[Expect]),
]
"""What has to be true of a child on each visit of its state; the last one counts from then on."""
ExpectedChildren = Annotated[
    Annotated[ExpectedVisits, Tag(ONLY)]
    | Annotated[Annotated[dict[str, ExpectedVisits], Field(min_length=1)], Tag(ITEMS)],
    Discriminator(_form),
]
"""Expectations of the only child of a state, or of its items by their keys."""
Expect.model_rebuild()
