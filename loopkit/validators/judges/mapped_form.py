"""A form of report that a `map` reads: how a judge is told to write it, and what it rejects by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopkit.language import ReportMap
from loopkit.validators.judges.form import folded, quoted, words_for
from loopkit.validators.judges.report_form import Report, ReportForm, as_text, key_of, part

FORM_BY_SCHEMA = """\
Answer with one JSON object and nothing else. It fits this JSON Schema:

"""

FORM_AS_ASKED = "Answer with one JSON object and nothing else, in the form that was asked for."


@dataclass(frozen=True, kw_only=True)
class MappedForm(ReportForm):
    """A form of its author's, whose parts a `map` names."""

    parts: ReportMap = field(default_factory=ReportMap)

    items = "findings"
    has_verdict_once = False

    @property
    def key(self) -> str | None:
        return self.parts.key

    @property
    def takes_texts(self) -> bool:
        return self.parts.key is None

    def text_of(self, value: object) -> str | None:
        # What another report counts or flags may be a number.
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
        """Which verdict goes with which findings, where a report has to tell both."""
        fails = words_for(self.verdicts, "fail")
        errors = words_for(self.severities, *self.levels.severe)
        if not (self.has_verdict and self.has_severity and fails and errors):
            return ""
        paths = (self.verdict, self.severity, self.parts.findings)
        verdict, severity, findings = map(quoted, paths)
        return (
            f"{verdict} is {fails} if, and only if, "
            f"some item of {findings} has {severity} {errors}."
        )

    def no_error(self, is_named: bool) -> str:
        if is_named:
            return super().no_error(is_named)
        return (
            f"{quoted(self.parts.findings)} names none. "
            "Name what has to be corrected, or give another verdict."
        )

    def named(self, report: Report) -> Iterator[str]:
        """The checks that failed, and the message of everything that is listed."""
        yield from self._failed_checks(report)
        listed = part(report, self.parts.findings)
        for item in listed if isinstance(listed, list) else ():
            message = item if isinstance(item, str) else as_text(part(item, self.parts.message))
            if message and message.strip():
                yield message.strip()

    def _failed_checks(self, value: object) -> Iterator[str]:
        """What is false in a report, by its name; and each item beside the findings that fails."""
        if isinstance(value, dict):
            for key, inner in value.items():
                if inner is False and key != key_of(self.verdict):
                    yield f"{key}: false"
                elif key != key_of(self.parts.findings):
                    yield from self._failed_checks(inner)
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict) and (failed := self._failed_item(item)):
                    yield failed
                else:
                    yield from self._failed_checks(item)

    def _failed_item(self, item: Mapping[str, object]) -> str:
        """The texts of an item that has a word which means `fail`; empty where it has none."""
        meant = {folded(word) for word, meaning in self.verdicts.items() if meaning == "fail"}
        fails = meant | {"fail"}
        texts = [text.strip() for text in item.values() if isinstance(text, str) and text.strip()]
        if not any(folded(text) in fails for text in texts):
            return ""
        return ", ".join(text for text in texts if folded(text) not in fails)
