"""The `judge` rule: a model judges, and its report is read."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from loopkit.language.noun import FROM_LIST, ByItself, Id, Noun, Text, Texts, Written, fault
from loopkit.language.validators.report_map import ReportMap
from loopkit.language.validators.rule import Example, RuleBase
from loopkit.language.validators.verdict import VerdictReading


class Score(Noun):
    """A number that a judge gives besides its verdict; the higher, the better."""

    min: float = Field(0, strict=False, allow_inf_nan=False)
    """The lowest that it may give."""
    max: float = Field(10, strict=False, allow_inf_nan=False)
    """The highest."""

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.min >= self.max:
            raise fault("empty-range", "`min` is not below `max`", ("min",), help="exchange them")
        return self


_REVIEW = """
case "$(cat)" in
*Peppermint*) echo '{"verdict": "pass", "findings": []}' ;;
*) echo '{"verdict": "fail", "findings": [{"message": "No tea.", "severity": "error"}]}' ;;
esac
"""


class JudgeRule(RuleBase):
    """A model judges, with a structured report."""

    judge: Id
    """The agent that is asked."""
    rubric: Annotated[tuple[Text, ...], FROM_LIST] = ()
    """What to judge by; no templates."""
    sees: Texts = ()
    """What the judge is shown besides the artifact, such as `input.issue`."""
    prompt: Text | None = None
    """Instead of the prompt made from `rubric` and `sees`."""
    map: Annotated[ReportMap, ByItself(ReportMap)] | None = None
    """How its report is read, where that has another shape than ours."""
    verdict: Annotated[VerdictReading, ByItself(VerdictReading)] | None = None
    """How its verdict is read out of text, where it gives no report."""
    score: Score | None = None
    """It gives a score too, of this range."""
    reask: int = Field(2, ge=0, le=10)
    """How often it is asked again when its answer can't be read or contradicts itself."""
    submit: bool = False
    """It hands in its report by calling a tool, instead of writing it as its answer."""
    nonce: bool = False
    """Its answer has to repeat a code of this one question, so that no other answer is taken for
    it."""
    always: bool = False
    """Asked also where a deterministic rule blocks already."""
    samples: int = Field(1, ge=1, le=25)
    """How often it is asked the same question, each time anew; the samples are combined to one
    answer."""
    combine: Literal["majority", "strictest"] = "majority"
    """Whether the samples vote, or one that fails is enough."""
    confirm: Literal["fail"] | None = None
    """A fail counts only if it fails again when it is asked once more, anew."""

    @model_validator(mode="after")
    def _submits_a_report(self) -> Self:
        if self.submit and self.verdict is not None:
            raise fault(
                "no-effect",
                "`submit` hands in a report, and this judge answers in text",
                ("submit",),
                help="delete it, or the `verdict:`",
            )
        return self

    @property
    def is_own_form(self) -> bool:
        """Whether it gives a report in our form."""
        return self.map is None and self.verdict is None

    kind = "judge"
    played = "judge"
    may_be_lost = True
    example = Example(
        {"judge": "critic", "rubric": ["It is drinkable."]},
        passes="Peppermint tea.",
        fails="Hot water.",
        agents={"critic": {"command": ["sh", "-c", _REVIEW]}},
    )

    @property
    def asks(self) -> str:
        return self.judge

    @property
    def is_always_asked(self) -> bool:
        return self.always

    @property
    def most_samples(self) -> int:
        return self.samples + (self.confirm is not None)

    @property
    def score_range(self) -> tuple[float, float] | None:
        return None if self.score is None else (self.score.min, self.score.max)

    @property
    def grades(self) -> bool:
        return True

    @property
    def names_origins(self) -> bool:
        return self.is_own_form or (self.map is not None and self.map.names_origins)

    @property
    def forgives(self) -> bool:
        return self.confirm is not None

    @property
    def codes(self) -> frozenset[str] | None:
        if self.verdict is not None:
            return self.verdict.given_codes
        return self.map.given_codes if self.map is not None else None

    @property
    def templates(self) -> Written:
        if self.prompt is not None:
            yield ("prompt",), self.prompt

    @property
    def mentions(self) -> Iterator[str]:
        yield from self.sees

    @property
    def about(self) -> str:
        """The agent, and how often it is asked where that is not once."""
        times = f" {self.samples} times" if self.samples > 1 else ""
        return f"{self.judge}{times}" + (" and again where it fails" if self.confirm else "")
