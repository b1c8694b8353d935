"""How a report is read that is not in our form, beside `judge` or `command`.

The key `map` reads a report of another shape, the key `verdict` a verdict out of text.
"""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from loopkit.language.section import Id, Ids, Noun, Text, Written, fault

PART_PATTERN = r"^[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?(\.[^\s.\[\]]([^.\[\]]*[^\s.\[\]])?)*$"


def _part(path: str) -> str:
    if not re.fullmatch(PART_PATTERN, path):
        raise fault(
            "bad-path",
            f"`{path}` is not a path to a part of a report" if path else "this path is empty",
            help="write the names of its fields with dots between: `result.verdict`",
        )
    return path


PartPath = Annotated[str, AfterValidator(_part), Field(json_schema_extra={"pattern": PART_PATTERN})]
"""Where a part of a report stands: names of fields with dots between them."""


class ReportCheck(Noun):
    """A check whose result a report gives as true or false."""

    severity: Id | None = None
    """The severity of the finding if the check is false. Default: one that blocks."""
    code: str = ""
    """The code of the finding: the kind of defect."""
    message: Text | None = None
    """The message of the finding: what is wrong, and what is expected. Not a template. Default: one
    that names the path."""
    origin: Ids = ()
    """The states that must fix it, if the machine has `origins`."""


class ReportMap(Noun):
    """How to read a report that is not in the standard form. Parts that are not mapped are read
    under their own names.

    Words are compared ignoring case; true, false, null and numbers are compared by their JSON text.
    A table is closed: a word that it does not list is the reviewer's mistake.
    """

    verdict: PartPath | None = None
    """The path of the verdict. If neither this nor `verdicts` is set, a missing verdict follows
    from the findings."""
    verdicts: dict[str, Literal["pass", "warn", "fail"]] = {}
    """The meaning of each word for a verdict. Default: `pass`, `warn` and `fail` themselves."""
    findings: PartPath = "findings"
    """The path of the list of findings. An item that is a text is the message itself."""
    message: PartPath = "message"
    """The path of the message in a finding. The paths down to `line` are relative to a finding as
    well."""
    severity: PartPath | None = None
    """The path of the severity. If neither this nor `severities` is set, it may be missing: the
    finding then blocks if the verdict is `fail` or missing."""
    severities: dict[str, Id] = {}
    """The meaning of each word for a severity: a severity of the machine, or `none` for no finding.
    Default: the severities themselves."""
    code: PartPath = "code"
    """The path of the code: the kind of defect."""
    codes: dict[str, str] = {}
    """The code for each of the report's words. Default: the words themselves."""
    key: PartPath | None = None
    """The path of a name that a finding keeps in every round, however it is worded."""
    origin: PartPath | None = None
    """The path of the state that injected the defect, or of a list of states, if the machine has
    `origins`. Findings without one fall to the author of the judged artifact."""
    origins: dict[str, Ids] = {}
    """The states that each word stands for; an empty list means unknown. Default: the states' own
    names."""
    location: PartPath = "location"
    """The path of the heading or field that the finding is about."""
    line: PartPath = "line"
    """The path of the line number."""
    error_count: PartPath = "error_count"
    """The path of a number that, if present, must equal the number of findings that reject."""
    warning_count: PartPath = "warning_count"
    """The path of a number that, if present, must equal the number of findings that do not
    block."""
    counts: dict[str, PartPath] = {}
    """For severities, the paths of numbers that, if present, must equal the number of listed
    findings of that severity. A key is the report's word, or a severity of the machine."""
    met: PartPath | None = None
    """The path of the number of criteria met. A pass with fewer met than checked becomes a
    warning."""
    checked: PartPath | None = None
    """The path of the number of criteria checked."""
    checks: dict[PartPath, ReportCheck] = {}
    """Checks, by the paths of their results. A check that is false is a finding, whatever the
    verdict."""
    score: PartPath = "score"
    """The path of the score, if the rule has one."""

    @property
    def given_codes(self) -> frozenset[str] | None:
        """The codes of all findings; none where the report may give any.

        A table of codes is closed: other words are no report.
        """
        if not self.codes:
            return None
        of_checks = {check.code for check in self.checks.values() if check.code}
        return frozenset({*self.codes.values(), *of_checks})

    @property
    def names_origins(self) -> bool:
        """Whether a report may say who injected what it finds."""
        of_checks = any(check.origin for check in self.checks.values())
        return self.origin is not None or bool(self.origins) or of_checks

    @property
    def item_paths(self) -> tuple[str, ...]:
        paths = (self.severity, self.key, self.origin)
        named = (path for path in paths if path is not None)
        return (self.message, self.code, self.location, self.line, *named)

    @model_validator(mode="after")
    def _counts_both(self) -> Self:
        if (self.met is None) != (self.checked is None):
            given, missing = ("met", "checked") if self.checked is None else ("checked", "met")
            message = f"`{given}` is compared with `{missing}`, which is not mapped"
            remedy = f"add `{missing}:` with its path, or delete it"
            raise fault("no-effect", message, (given,), help=remedy)
        return self


Take = Literal["last", "first", "strictest", "unique"]
GROUPS = ("message", "severity", "file", "line", "code", "key")
"""The groups of a pattern for findings; `message` has to be there."""


class VerdictCounts(Noun):
    """Numbers in a text that limit its verdict: with fewer criteria met than checked it is not a
    pass."""

    met: str
    """A pattern whose first group is the number of criteria met."""
    checked: str
    """A pattern whose first group is the number of criteria checked."""


class VerdictReading(Noun):
    """How to read a verdict and findings from a reviewer's text.

    Patterns are regular expressions, or names under `patterns:`.
    """

    pattern: str | None = None
    """The pattern of the verdict: its group `verdict`, or else its first group, captures the word.
    Default: a line such as `**Verdict:** FAIL`."""
    words: dict[str, Literal["pass", "warn", "fail"]] = {}
    """The meaning of each word, ignoring case. Default: PASS, WARN and FAIL."""
    severities: dict[str, Id] = {}
    """The meaning of further words for a finding: a severity of the machine, or `none` for no
    finding. The words of verdicts and the severities themselves are known."""
    findings: str | None = None
    """The pattern of a finding's line, with the group `message`. A group `key` captures a name that
    the finding keeps in every round. Default: `- [FAIL] text`."""
    take: Take = "last"
    """Which of several verdicts counts; with `unique` all must agree."""
    counts: VerdictCounts | None = None
    """Numbers in the text that limit the verdict."""

    @property
    def patterns(self) -> Written:
        yield from self.written("pattern", "findings")
        counted = self.counts.written("met", "checked") if self.counts is not None else ()
        yield from ((("counts", *at), pattern) for at, pattern in counted)

    @property
    def given_codes(self) -> frozenset[str] | None:
        """The codes of findings; none where a group of a pattern may give any."""
        return frozenset() if self.findings is None else None
