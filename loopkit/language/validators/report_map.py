"""The `map` key: reads a report of another shape, beside `judge` or `command`."""

import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from loopkit.language.noun import Id, Ids, Noun, Text, fault

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
    """A check that a report tells the result of, as true or false."""

    severity: Id | None = None
    """How bad it is where it is false; without it that blocks."""
    code: str = ""
    """The kind of defect."""
    message: Text | None = None
    """What is wrong then and what is expected; no template."""
    origin: Ids = ()
    """The states that have to mend it, where the machine has `origins`."""


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
    origin: PartPath | None = None
    """Who injected the defect, where the machine has `origins`: a word, or a list of them. What
    says nothing there falls to the author of what is judged."""
    origins: dict[str, Ids] = {}
    """The states that the words mean, none for "nobody knows"; default is their names."""
    location: PartPath = "location"
    """The heading or field that it concerns."""
    line: PartPath = "line"
    """The number of the line."""
    error_count: PartPath = "error_count"
    """A number that has to be that of the findings that reject, where it is there."""
    warning_count: PartPath = "warning_count"
    """As `error_count`, for those that do not block."""
    counts: dict[str, PartPath] = {}
    """Numbers that have to be those of the findings listed with a severity, given by the report's
    word for it or by the level, where they are there."""
    met: PartPath | None = None
    """The number of criteria that are met; a pass with fewer than were checked is a warning."""
    checked: PartPath | None = None
    """The number of criteria that were checked."""
    checks: dict[PartPath, ReportCheck] = {}
    """Checks by where their result stands: a false one is a finding, whatever the verdict says."""
    score: PartPath = "score"
    """The score, where the rule has one."""

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
        """Where the parts of a finding stand in an item."""
        paths = (self.severity, self.key, self.origin)
        named = (path for path in paths if path is not None)
        return (self.message, self.code, self.location, self.line, *named)

    @model_validator(mode="after")
    def _counts_both(self) -> Self:
        if (self.met is None) != (self.checked is None):
            given, missing = ("met", "checked") if self.checked is None else ("checked", "met")
            raise fault(
                "no-effect",
                f"`{given}` is compared with `{missing}`, which is not mapped",
                (given,),
                help=f"add `{missing}:` with its path, or delete it",
            )
        return self
