"""The form of a report in JSON that a `map` reads: its parts, its words, how it rejects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from loopkit.language.datatypes.datatype import DataType, conform
from loopkit.language.machine import NO_FINDING
from loopkit.language.validators.judge import Score
from loopkit.language.validators.report_map import ReportMap
from loopkit.validators.judges.form import AnswerForm, VerdictWord, quote, words_for
from loopkit.validators.judges.report_parts import Report, as_text, part
from loopkit.values import field

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding

VERDICTS: Mapping[str, VerdictWord] = {"pass": "pass", "warn": "warn", "fail": "fail"}
FORM_BY_SCHEMA = "Answer with one JSON object and nothing else. It fits this JSON Schema:\n\n"
FORM_AS_ASKED = "Answer with one JSON object and nothing else, in the form that was asked for."


class ReportForm(AnswerForm, frozen=True, kw_only=True):
    """The form of a report that a `map` reads; our own form is a strict one of these."""

    parts: ReportMap = field(default_factory=ReportMap)
    datatype: DataType | None = None
    """The type of a report of another form, if its agent declares one."""
    score: Score | None = None
    """The bounds of the score, if a report has to give one."""
    origins: Sequence[str] = ()
    """The states that the machine declares as origins of defects."""
    of_author: Sequence[str] = ()
    """The origins that can have injected a defect in the artifact, the earliest first."""
    known: Sequence[Finding] = ()
    """The earlier findings; a report in our form says of each whether it is still open."""

    items: ClassVar[str] = "findings"
    """The word for the items in the list of findings."""
    is_mapped: ClassVar[bool] = True
    """Whether a report has another shape than ours."""

    @property
    def verdict(self) -> str:
        return self.parts.verdict or "verdict"

    @property
    def severity(self) -> str:
        return self.parts.severity or "severity"

    @property
    def verdicts(self) -> Mapping[str, VerdictWord]:
        return self.parts.verdicts or VERDICTS

    @property
    def severities(self) -> Mapping[str, str]:
        return self.parts.severities or {level: level for level in self.levels.levels}

    @property
    def has_verdict(self) -> bool:
        """Whether a report has to have a verdict."""
        return self.parts.verdict is not None or bool(self.parts.verdicts)

    @property
    def has_severity(self) -> bool:
        """Whether each finding that is an object has a severity."""
        return self.parts.severity is not None or bool(self.parts.severities)

    def conform_report(self, report: Report) -> tuple[Report, Sequence[tuple[str, str]]]:
        """The report with the defaults of its schema, and its violations of the schema."""
        if self.datatype is None:
            return report, ()
        filled, faults = conform(report, self.datatype)
        return (filled if isinstance(filled, dict) else report), faults

    def unwanted_error(self) -> str:
        errors = words_for(self.severities, *self.levels.severe)
        fails = words_for(self.verdicts, "fail")
        milder = words_for(self.severities, *self.levels.mild, NO_FINDING)
        ways = [f"the verdict {fails}"] if fails else []
        ways += [f"the finding a {milder}"] if milder else []
        return f"a finding has the severity {errors}. Make {', or '.join(ways) or 'them agree'}."

    @property
    def key(self) -> str | None:
        """The path of the name that a finding has in every round, if it can have one."""
        return self.parts.key

    @property
    def origin(self) -> str | None:
        """The path of the state that injected a defect, if a report can name it."""
        if not self.origins:
            return None
        return self.parts.origin or ("origin" if self.parts.origins else None)

    @property
    def own_names(self) -> Collection[str] | None:
        """The fields of an item that are not kept as further fields; None where no further fields
        are kept."""
        return (self.parts.message,)

    @property
    def origin_words(self) -> Mapping[str, Sequence[str]]:
        return self.parts.origins or {name: (name,) for name in self.origins}

    @property
    def takes_texts(self) -> bool:
        """Whether a finding may be a text instead of an object."""
        return self.parts.key is None

    def text_of(self, value: object) -> str | None:
        """The text of a value in a finding: a number or a flag may stand for one."""
        return as_text(value)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        return self.datatype.schema if self.datatype else None

    @property
    def instructions(self) -> str:
        if self.datatype is None:
            return FORM_AS_ASKED
        schema = json.dumps(self.datatype.schema, indent=2, ensure_ascii=False)
        return f"{FORM_BY_SCHEMA}{schema}\n\n{self._agreement}".rstrip()

    @property
    def _agreement(self) -> str:
        """Which verdict goes with which findings, if a report has to have both."""
        fails = words_for(self.verdicts, "fail")
        errors = words_for(self.severities, *self.levels.severe)
        if not (self.has_verdict and self.has_severity and fails and errors):
            return ""
        paths = (self.verdict, self.severity, self.parts.findings)
        verdict, severity, findings = map(quote, paths)
        return (
            f"{verdict} is {fails} if, and only if, "
            f"some item of {findings} has {severity} {errors}."
        )

    def missing_error(self, names_any: bool) -> str:
        errors = words_for(self.severities, *self.levels.severe)
        none = f"no finding has the severity {errors}"
        none = none if names_any else f"{quote(self.parts.findings)} names none"
        return f"{none}. Name what has to be corrected, or give another verdict."

    def rejection_texts(self, report: Report) -> Iterator[str]:
        """The texts of a rejection that can't be used: the message of each item that it lists."""
        listed = part(report, self.parts.findings)
        for item in listed if isinstance(listed, list) else ():
            message = item if isinstance(item, str) else as_text(part(item, self.parts.message))
            if message and message.strip():
                yield message.strip()
