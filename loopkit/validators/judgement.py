"""A judge's report: read strictly, because a wrong verdict costs more than asking again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from loopkit.findings import Answer, Finding, Severity
from loopkit.validators.answer import answer_with, storable
from loopkit.validators.identity import finding_ids
from loopkit.validators.json_text import NoJson, canonical, json_in, parse_json

RULE = "judge"
"""The rule of all findings of a judge. The codes that it gives vary too much to identify any."""

WORDS_LIMIT = 2_000
"""Characters of a judge's own words that become a finding."""

MAX_LINE = 2**31

_Word = TypeVar("_Word", bound=str)
_VERDICTS = ("pass", "warn", "fail")
_SEVERITIES: tuple[Severity, ...] = ("error", "warning")
_COUNTS: dict[str, Severity] = {"error_count": "error", "warning_count": "warning"}
_VERDICT_KEY = re.compile(r"""["']verdict["']\s*:""", re.IGNORECASE)
_NO_WORDS = frozenset({"verdict", "severity", "code"})


@dataclass(frozen=True, slots=True)
class Misread:
    """No verdict could be read; the reason is in sentences that the judge can act on."""

    reason: str
    last_resort: Answer | None = None
    """Where it did say `fail`: that, with a blocking finding in its own words, for when asking
    again gives nothing better."""


class _Doubt(Exception):
    """Why the report is not taken, in sentences for the judge."""


def read_judgement(validator: str, text: str) -> Answer | Misread:
    """The verdict and the findings of a judge's report, `{"verdict": …, "findings": […]}`.

    The report may stand in a fence or in prose; equal ones are one. Words may have any case, and
    unknown keys are ignored. Whatever leaves a doubt is Misread: no JSON, several different
    reports, a second "verdict" anywhere, an unknown word, a finding without message, `pass` with
    an error, `fail` without one, `warn` with none or with an error, counts that do not match.
    `pass` with warnings is read as `warn`. Total, and never a pass by default.
    """
    try:
        report = _only_report(text)
        verdict = _word(report, "verdict", _VERDICTS)
    except _Doubt as doubt:
        return Misread(storable(str(doubt)))
    try:
        findings = _findings(validator, report)
        _refuse_contradiction(verdict, report, findings)
    except _Doubt as doubt:
        last_resort = _in_own_words(validator, report, text) if verdict == "fail" else None
        return Misread(storable(str(doubt)), last_resort)
    return answer_with(validator, findings)


def _only_report(text: str) -> Mapping[str, object]:
    whole = parse_json(text)
    found = json_in(text)
    values = found.values if isinstance(whole, NoJson) else (whole,)
    reports = [value for value in values if isinstance(value, dict) and "verdict" in value]
    if not reports and found.broken:
        raise _Doubt(f"The JSON cannot be read: {found.broken[0].reason}.")
    if not reports:
        raise _Doubt('The answer holds no JSON object with the key "verdict".')
    if len({canonical(report) for report in reports}) > 1:
        raise _Doubt("The answer holds several different reports. Give exactly one.")
    if len(_VERDICT_KEY.findall(text)) > len(reports):
        raise _Doubt('The answer has "verdict" in other places too. Give the report alone.')
    return reports[0]


def _word(record: Mapping[str, object], key: str, words: Sequence[_Word], at: str = "") -> _Word:
    value = record.get(key)
    said = value.strip().casefold() if isinstance(value, str) else None
    found = next((word for word in words if word == said), None)
    if found is None:
        allowed = ", ".join(f'"{word}"' for word in words)
        was = f"not {_shown(value)}" if key in record else "and is missing"
        raise _Doubt(f'"{key}"{at} must be one of {allowed}, {was}.')
    return found


def _findings(validator: str, report: Mapping[str, object]) -> list[Finding]:
    listed = report.get("findings")
    if not isinstance(listed, list | None):
        raise _Doubt(f'"findings" must be a list of objects, not {_shown(listed)}.')
    parts = [_parts(item, f" of finding {number}") for number, item in enumerate(listed or [], 1)]
    defects = [(RULE, str(part["location"]), str(part["message"])) for part in parts]
    return [
        Finding.model_validate({"id": identity, "validator": validator, "rule": RULE, **part})
        for identity, part in zip(finding_ids(validator, defects), parts, strict=True)
    ]


def _parts(item: object, at: str) -> dict[str, object]:
    if not isinstance(item, dict):
        raise _Doubt(
            f'Each finding must be an object with "message" and "severity", not {_shown(item)}.'
        )
    message = _text(item, "message", at)
    if not message:
        raise _Doubt(f'"message"{at} is missing or blank. Say what is wrong and what is expected.')
    return {
        "message": message,
        "severity": _word(item, "severity", _SEVERITIES, at),
        "code": _text(item, "code", at),
        "location": _text(item, "location", at),
        "line": _line(item, at),
    }


def _text(item: Mapping[str, object], key: str, at: str) -> str:
    value = item.get(key)
    if not isinstance(value, str | None):
        raise _Doubt(f'"{key}"{at} must be text, not {_shown(value)}.')
    return storable(value or "").strip()


def _line(item: Mapping[str, object], at: str) -> int | None:
    line = item.get("line")
    if line is None:
        return None
    if isinstance(line, bool) or not isinstance(line, int) or not 1 <= line <= MAX_LINE:
        raise _Doubt(f'"line"{at} must be a line number, or be left out; it is {_shown(line)}.')
    return line


def _refuse_contradiction(
    verdict: str, report: Mapping[str, object], findings: Sequence[Finding]
) -> None:
    has_error = any(finding.blocking for finding in findings)
    for key, severity in _COUNTS.items():
        number = sum(finding.severity == severity for finding in findings)
        if report.get(key, number) != number:
            raise _Doubt(f'"{key}" is {_shown(report[key])}, but there are {number} of them.')
    if verdict == "fail" and not has_error:
        raise _Doubt(
            'The verdict is "fail", but no finding has the severity "error". '
            "Name what has to be corrected, or give another verdict."
        )
    if verdict != "fail" and has_error:
        raise _Doubt(
            f'The verdict is "{verdict}", but a finding has the severity "error". '
            'Make the verdict "fail", or the finding a "warning".'
        )
    if verdict == "warn" and not findings:
        raise _Doubt(
            'The verdict is "warn", but there are no findings. '
            'Name at least one "warning", or give the verdict "pass".'
        )


def _in_own_words(validator: str, report: Mapping[str, object], text: str) -> Answer:
    around = f"{text.partition('{')[0]}\n{text.rpartition('}')[2]}".replace("```json", "")
    said = "; ".join(_words(report)) or " ".join(around.replace("```", "").split())
    message = storable(said or "The reviewer rejects it and does not say why.")[:WORDS_LIMIT]
    [identity] = finding_ids(validator, [(RULE, "", message)])
    finding = Finding(id=identity, message=message, validator=validator, rule=RULE)
    return answer_with(validator, [finding])


def _words(value: object) -> Iterator[str]:
    """Every text in a report that says something."""
    if isinstance(value, str) and value.strip():
        yield value.strip()
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key not in _NO_WORDS:
                yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)


def _shown(value: object) -> str:
    text = canonical(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
