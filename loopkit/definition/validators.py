"""Validators: lists of rules, or one judge. A rule is known by the key it carries."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag

from loopkit.definition.noun import (
    Argv,
    Duration,
    Id,
    Notation,
    Noun,
    Text,
    Texts,
    _tuple,
    fault,
)

PART_PATTERN = r"^[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?(\.[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?)*$"


class Count(Noun):
    """How often a pattern has to match."""

    min: int = Field(1, ge=0)
    """At least so often."""
    max: int | None = Field(None, ge=0)
    """At most so often."""


class RuleBase(Noun):
    """What every rule may say."""

    severity: Literal["error", "warning"] = "error"
    """An error blocks, a warning does not."""
    code: str = ""
    """A name for the finding, for `"CODE" in codes`."""
    guard: str | None = None
    """Where it is false, the rule does not apply."""


class FixedRule(RuleBase):
    """A rule that judges without a model."""

    message: Text | None = None
    """A template that sees `item`, `index`, `value`, `artifact`; each rule has a default."""


class MatchesRule(FixedRule):
    """The pattern is found in the text."""

    matches: str
    """A regular expression, or a name under `patterns:`; `^` and `$` match at every line."""
    outside_code: bool = False
    """Fenced and indented code does not count."""
    count: Count = Count()
    """How often it has to match."""


class NotMatchesRule(FixedRule):
    """The pattern is not found; each match is a finding with its line."""

    not_matches: str
    """A regular expression, or a name under `patterns:`."""
    outside_code: bool = False
    """Fenced and indented code does not count."""


class SectionRule(FixedRule):
    """A heading or a bold label of this name stands in the Markdown, with text under it."""

    section: str
    """The heading or label."""
    or_title: bool = False
    """The document's title with text under it will do."""


class MinCharsRule(FixedRule):
    """The text, outer white space removed, has at least so many characters."""

    min_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""


class MaxCharsRule(FixedRule):
    """The text, outer white space removed, has at most so many characters."""

    max_chars: int = Field(ge=0)
    """How many characters, outer white space removed."""


class SchemaRule(FixedRule):
    """JSON or YAML data of this shape."""

    schema_: Notation = Field(alias="schema")
    """A type in the notation of the language, or a JSON Schema."""
    tolerant: bool = False
    """Take the data out of a code fence or the prose around it."""


class RequireRule(FixedRule):
    """A condition on data, in the guard language."""

    require: str
    """The condition; names are fields of the data or the item."""
    each: str | None = None
    """A path such as `nodes[]`; the condition is tried on every item."""


class CommandRule(FixedRule):
    """A program judges: exit 0 passes, one of `fail_codes` fails, all else is an error."""

    command: Argv
    """The program and its arguments; each is a template."""
    stdin: Text | None = None
    """A template; default is the artifact."""
    fail_codes: Annotated[tuple[int, ...], BeforeValidator(_tuple)] = (1,)
    """Exit codes that mean a defect."""
    timeout: Duration = 600.0
    """After that the program is ended, and there is no verdict."""
    env: Texts = ()
    """Environment variables that the program may see besides the harmless ones."""


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
    severities: dict[str, Literal["error", "warning", "none"]] = {}
    """What the words of a severity mean; `none` is no finding. Default is `error` and `warning`."""
    code: PartPath = "code"
    """The kind of defect."""
    codes: dict[str, str] = {}
    """The codes of findings by the report's words for them; without it these are the codes."""
    location: PartPath = "location"
    """The heading or field that it concerns."""
    line: PartPath = "line"
    """The number of the line."""
    error_count: PartPath = "error_count"
    """A number in the report that has to be that of its errors, where it is there."""
    warning_count: PartPath = "warning_count"
    """As `error_count`, for the warnings."""


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
    reask: int = Field(2, ge=0, le=10)
    """How often it is asked again when its answer can't be read or contradicts itself."""
    always: bool = False
    """Asked also where a deterministic rule blocks already."""


RULE_KINDS: dict[str, type[RuleBase]] = {
    "matches": MatchesRule,
    "not_matches": NotMatchesRule,
    "section": SectionRule,
    "min_chars": MinCharsRule,
    "max_chars": MaxCharsRule,
    "schema": SchemaRule,
    "require": RequireRule,
    "command": CommandRule,
    "judge": JudgeRule,
}


def rule_kind(value: object) -> str | None:
    """The tag of the rule that a mapping or a rule object is."""
    if isinstance(value, RuleBase):
        return next(f"<{kind}>" for kind, noun in RULE_KINDS.items() if isinstance(value, noun))
    if isinstance(value, dict):
        return next((f"<{kind}>" for kind in RULE_KINDS if kind in value), None)
    return None


Rule = Annotated[
    Annotated[MatchesRule, Tag("<matches>")]
    | Annotated[NotMatchesRule, Tag("<not_matches>")]
    | Annotated[SectionRule, Tag("<section>")]
    | Annotated[MinCharsRule, Tag("<min_chars>")]
    | Annotated[MaxCharsRule, Tag("<max_chars>")]
    | Annotated[SchemaRule, Tag("<schema>")]
    | Annotated[RequireRule, Tag("<require>")]
    | Annotated[CommandRule, Tag("<command>")]
    | Annotated[JudgeRule, Tag("<judge>")],
    Discriminator(
        rule_kind,
        custom_error_type="unknown-rule",
        custom_error_message="this is no rule",
    ),
]


def _rules(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Rules = Annotated[tuple[Rule, ...], Field(min_length=1), BeforeValidator(_rules)]
Validator = Annotated[
    Annotated[Rules, Tag("<rules>")] | Annotated[Rule, Tag("<rule>")],
    Discriminator(lambda value: "<rules>" if isinstance(value, (list, tuple)) else "<rule>"),
]
"""A list of rules, or one rule by itself."""
ByItem = Annotated[
    Annotated[Id, Tag("<name>")] | Annotated[Rule, Tag("<rule>")],
    Discriminator(lambda value: "<name>" if isinstance(value, str) else "<rule>"),
]
"""The name of a validator, or a rule inline."""


def rules_of(validator: Rule | tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of a validator, whichever way it is written."""
    return validator if isinstance(validator, tuple) else (validator,)
