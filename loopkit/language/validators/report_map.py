"""The `map` key: reads a report of another shape, beside `judge` or `command`."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from loopkit.language.noun import Id, Noun, fault

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

    @property
    def given_codes(self) -> frozenset[str] | None:
        """The codes of all findings; none where the report may give any.

        A table of codes is closed: other words are no report.
        """
        return frozenset(self.codes.values()) if self.codes else None
