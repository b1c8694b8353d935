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
    """Pieces of text that are in it."""
    lacks: Pieces = ()
    """Pieces of text that are not in it."""

    @model_validator(mode="after")
    def _says_something(self) -> _Quoting:
        if not self.model_fields_set & {"contains", "lacks", "equals", "data"}:
            raise fault(
                "expects-nothing", "this expects nothing", help="add `contains: …` or `lacks: …`"
            )
        return self


class ExpectedFinding(Noun):
    """Findings that reports have; each key narrows which ones are meant."""

    state: Id | None = None
    """The validate state; without it any."""
    attempt: Position | None = None
    """The attempt of the author that was judged; without it any."""
    message: Text | None = None
    """A piece of the finding's message."""
    code: str | None = None
    """Its code."""
    validator: str | None = None
    """The validator that found it."""
    severity: Id | None = None
    """Whether it blocks."""
    status: Status | None = None
    """What it is against earlier rounds."""
    origin: Id | None = None
    """A state that has to mend it."""
    defaulted: bool | None = None
    """Whether nobody said who that is."""
    count: Count | None = None
    """How many such findings there are; without it at least one."""


class ExpectedFeedback(_Quoting):
    """What a state is told when it has to work again."""

    to: Id | None = None
    """The state that is told; without it any."""
    attempt: Position | None = None
    """The attempt that it is told for; the second is the first revision. Without it any."""


class ExpectedPrompt(_Quoting):
    """What an agent is sent last in a call."""

    agent: Id | None = None
    """The agent; without it any."""
    state: Id | None = None
    """The state in which it is asked; without it any."""
    validator: str | None = None
    """The validator for which a judge is asked; without it any."""
    attempt: Position | None = None
    """The attempt: of the state, or for a judge of the author that it judges. Without it any."""
    call: Position = 1
    """Which call of the attempt; retries and re-asks follow the first."""


class ExpectedArtifact(_Quoting):
    """A version of an artifact."""

    equals: Text | None = None
    """The whole text; trailing blanks and outer blank lines do not count."""
    data: Any = None
    """The value, where the artifact is data."""


Verdicts = Annotated[
    tuple[Literal[Verdict, "…", "...", "*"], ...], Field(min_length=1), BeforeValidator(_steps)
]
Numbers = Annotated[dict[str, Count], Field(min_length=1)]


class Expect(Noun):
    """What has to be true of a case's run."""

    outcome: Id | None = None
    """The final state, or `waiting`, or `suspended`."""
    reason: Literal["limit", "transient", "content", "fatal", "waiting"] | None = None
    """Why the run is suspended."""
    says: Pieces = ()
    """Pieces of the open question, or of the reason for which the run is suspended."""
    path: Annotated[tuple[str, ...], Field(min_length=1), BeforeValidator(_steps)] | None = None
    """The states in the order in which they are entered."""
    kept: Sequence | None = None
    """The states that keep what they made before, in order."""
    verdicts: Annotated[dict[Id, Verdicts], Field(min_length=1)] | None = None
    """The verdicts of each validate state, in order."""
    findings: (
        Annotated[tuple[ExpectedFinding, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """What reports found."""
    feedback: (
        Annotated[tuple[ExpectedFeedback, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """What states are told that have to work again."""
    prompts: (
        Annotated[tuple[ExpectedPrompt, ...], Field(min_length=1), BeforeValidator(_texts)] | None
    ) = None
    """What agents are sent."""
    revisions: Numbers | None = None
    """How many revisions were spent: by the state that is revised, or by edge."""
    calls: Numbers | None = None
    """How often each agent is called, retries and re-asks included; each tool as `AGENT.TOOL`."""
    calls_at_most: Numbers | None = None
    """How often each agent, or tool, is called at most."""
    cost_usd_at_most: Annotated[float, Field(ge=0, strict=False)] | None = None
    """What the whole run costs at most, in USD."""
    events: Sequence | None = None
    """The names that `emit:` stores, in order."""
    artifacts: Annotated[dict[Id, ExpectedArtifact], Field(min_length=1)] | None = None
    """The versions that the run ends with."""
    children: dict[Id, ExpectedChildren] | None = None
    """The same of the runs that a state begins, by the keys of their items."""

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
