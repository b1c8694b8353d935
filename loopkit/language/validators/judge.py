"""The `judge` rule: a model judges, and its report is read."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from loopkit.language.noun import Id, Noun, Text, Texts, fault
from loopkit.language.validators.rule import RuleBase
from loopkit.language.validators.verdict import VerdictReading

PART_PATTERN = r"^[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?(\.[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?)*$"


def _part(path: str) -> str:
    if not re.fullmatch(PART_PATTERN, path):
        raise fault(
            "bad-path",
            f"`{path}` is no path to a part of a report" if path else "this path is empty",
            help="write the names of its fields with dots between: `result.verdict`",
        )
    return path


PartPath = Annotated[str, AfterValidator(_part), Field(json_schema_extra={"pattern": PART_PATTERN})]
"""Where a part of a report stands: names of fields with dots between them."""


class ReportMap(Noun):
    """How a report of another shape is read. What is not mapped is read under its own name.

    Words are compared without regard to case; true, false, null and numbers of a report by their
    JSON text. A table is closed: a word that it does not know is the reviewer's mistake.
    """

    verdict: PartPath | None = None
    """Without it and without `verdicts`, a report without verdict has that of its findings."""
    verdicts: dict[str, Literal["pass", "warn", "fail"]] = {}
    """What the words of the verdict mean; default is `pass`, `warn` and `fail` themselves."""
    findings: PartPath = "findings"
    """The list of findings; an item that is a text is a message by itself."""
    message: PartPath = "message"
    """Within a finding, as all that follows."""
    severity: PartPath | None = None
    """Without it and without `severities`, a finding may have none: it blocks where the verdict
    is `fail` or is not given."""
    severities: dict[str, Id] = {}
    """What the words of a severity mean: a level, or `none` for no finding. Default is the levels
    themselves."""
    code: PartPath = "code"
    """The kind of defect."""
    codes: dict[str, str] = {}
    """The codes of findings by the report's words for them; without it these are the codes."""
    key: PartPath | None = None
    """What each finding is called in every round, however it is worded: with it, its id."""
    location: PartPath = "location"
    """The heading or field that it concerns."""
    line: PartPath = "line"
    """The number of the line."""
    error_count: PartPath = "error_count"
    """A number that has to be that of the findings that reject, where it is there."""
    warning_count: PartPath = "warning_count"
    """As `error_count`, for those that do not block."""
    score: PartPath = "score"
    """The score, where the rule has one."""


class Score(Noun):
    """A number that a judge gives besides its verdict; the higher, the better."""

    min: float = Field(0, strict=False, allow_inf_nan=False)
    """The lowest that it may give."""
    max: float = Field(10, strict=False, allow_inf_nan=False)
    """The highest."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Score:
        if self.min >= self.max:
            raise fault("empty-range", "`min` is not below `max`", ("min",), help="exchange them")
        return self


class JudgeRule(RuleBase):
    """A model judges, with a structured report."""

    judge: Id
    """The agent that is asked."""
    rubric: Texts = ()
    """What to judge by; no templates."""
    sees: Texts = ()
    """What the judge is shown besides the artifact, such as `input.issue`."""
    prompt: Text | None = None
    """Instead of the prompt made from `rubric` and `sees`."""
    map: ReportMap | None = None
    """How its report is read, where that has another shape than ours."""
    verdict: VerdictReading | None = None
    """How its verdict is read out of text, where it gives no report."""
    score: Score | None = None
    """It gives a score too, of this range."""
    reask: int = Field(2, ge=0, le=10)
    """How often it is asked again when its answer can't be read or contradicts itself."""
    always: bool = False
    """Asked also where a deterministic rule blocks already."""
    samples: int = Field(1, ge=1, le=25)
    """How often it is asked the same question, each time anew; the samples are combined to one
    answer."""
    combine: Literal["majority", "strictest"] = "majority"
    """Whether the samples vote, or one that fails is enough."""
    confirm: Literal["fail"] | None = None
    """A fail counts only if it fails again when it is asked once more, anew."""

    @property
    def is_own_form(self) -> bool:
        """Whether it gives a report in our form."""
        return self.map is None and self.verdict is None
