"""The `judge` rule: a model judges, and its report is read."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopkit.language.section import FROM_LIST, ByItself, Id, Noun, Text, Texts, fault
from loopkit.language.validators.report_map import ReportMap, VerdictReading
from loopkit.language.validators.rule import RuleBase


class Score(Noun):
    """A number that a judge gives besides its verdict; higher is better."""

    min: float = Field(0, strict=False, allow_inf_nan=False)
    """The lowest score."""
    max: float = Field(10, strict=False, allow_inf_nan=False)
    """The highest score."""
    pass_: float | None = Field(None, strict=False, allow_inf_nan=False, alias="pass")
    """The lowest score that passes. A report then needs no verdict and no findings: below it is a
    finding that names both numbers."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.min >= self.max:
            raise fault("empty-range", "`min` is not below `max`", ("min",), help="exchange them")
        if self.pass_ is not None and not self.min < self.pass_ <= self.max:
            message = f"`pass` is not above {self.min:g} and at most {self.max:g}"
            raise fault("empty-range", message, ("pass",), help="no other score divides the range")
        return self


class JudgeRule(RuleBase):
    """Asks a model to judge, with a structured report."""

    judge: Id
    """The agent to ask."""
    rubric: Annotated[tuple[Text, ...], FROM_LIST] = ()
    """The criteria to judge by; not templates."""
    sees: Texts = ()
    """Further values to show to the judge, such as `input.issue`."""
    prompt: Text | None = None
    """A template that replaces the prompt made from `rubric` and `sees`."""
    map: Annotated[ReportMap, ByItself(ReportMap)] | None = None
    """How to read a report that is not in the standard form."""
    verdict: Annotated[VerdictReading, ByItself(VerdictReading)] | None = None
    """How to read a verdict from text, if the judge gives no report."""
    score: Score | None = None
    """The range of the score that the judge gives besides its verdict."""
    reask: int = Field(2, ge=0, le=10)
    """The maximum number of re-asks if the answer is unreadable or contradicts itself."""
    submit: bool = False
    """Have the judge submit its report by a tool call, instead of writing it as its answer."""
    nonce: bool = False
    """Require the answer to repeat a code that belongs to this question, so that no other answer
    can be taken for it."""
    always: bool = False
    """Ask the judge even if a deterministic rule already blocks."""
    samples: int = Field(1, ge=1, le=25)
    """How many times to ask the same question, independently. The samples are combined into one
    answer."""
    combine: Literal["majority", "strictest"] = "majority"
    """Whether the samples vote, or one that fails is enough."""
    confirm: Literal["fail"] | None = None
    """Count a fail only if a second, independent opinion fails too."""

    @model_validator(mode="after")
    def _submits_a_report(self) -> Self:
        if self.submit and self.verdict is not None:
            message = "`submit` hands in a report, and this judge answers in text"
            remedy = "delete it, or the `verdict:`"
            raise fault("no-effect", message, ("submit",), help=remedy)
        return self

    @property
    def most_reasks(self) -> int:
        """With the one about an approval that contradicts itself."""
        return self.reask + 1

    @property
    def is_own_form(self) -> bool:
        return self.map is None and self.verdict is None

    @property
    def is_in_words(self) -> bool:
        return not self.is_own_form

    kind = "judge"
    played = "judge"
    may_be_lost = True
    grades: ClassVar[bool] = True

    @property
    def names_origins(self) -> bool:
        return self.is_own_form or (self.map is not None and self.map.names_origins)

    @property
    def codes(self) -> frozenset[str] | None:
        if self.verdict is not None:
            return self.verdict.given_codes
        return self.map.given_codes if self.map is not None else None

    @property
    def about(self) -> str:
        """The agent, and how often it is asked where that is not once."""
        times = f" {self.samples} times" if self.samples > 1 else ""
        return f"{self.judge}{times}" + (" and again where it fails" if self.confirm else "")
