"""Open findings of earlier rounds: how a judge is asked about them, and its answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from loopkit.language.template import parse
from loopkit.validators.judges.form import Doubt, VerdictWord, fold, quote
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.report_parts import MISSING, Report, excerpt, meaning, part

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding

KNOWN = "known"
"""The key in a report of our form for the findings that were open, by their ids."""
Standing = Literal["open", "resolved"]
STANDINGS: Mapping[str, Standing] = {"open": "open", "resolved": "resolved"}

OF_KNOWN = """\
"known" says of each finding that was open, by its id, whether it is still "open" in this version \
or "resolved". "findings" holds only what is not among them."""

BESIDE = 'Write it beside "verdict", as {"ID": "open"}.'

_ASKED = """\
You have judged an earlier version of it. These findings of yours were open then, each with its id:

{{ known | untrusted }}"""


def open_findings_text(known: Sequence[Finding]) -> str:
    """The part of a prompt with the open findings, fenced; empty where there are none."""
    # JSON, because there no message can look like the line of another finding.
    lines = [json.dumps(_parts(finding), ensure_ascii=False) for finding in known]
    return parse(_ASKED).render({"known": "\n".join(lines)}) if lines else ""


def _parts(finding: Finding) -> dict[str, object]:
    parts = {
        "id": finding.id,
        "severity": finding.graded or finding.severity,
        "code": finding.code,
        "location": finding.location,
        "line": finding.line,
        "message": finding.message,
    }
    return {key: value for key, value in parts.items() if value}


def read_open_findings(
    validator: str,
    report: Report,
    verdict: VerdictWord | None,
    listed: Sequence[Finding],
    form: ReportForm,
) -> list[Finding]:
    """The earlier findings that are still open, without those that the report lists again.

    Each has to be answered by its id, unless the verdict is `pass`: then those left out are
    resolved. Raises Doubt where one is left out, unknown, answered with another word, or
    contradicts the rest of the report.
    """
    if not form.known:
        return []
    standings, repeated = _standings(report, form), {finding.id for finding in listed}
    _refuse_resolved(standings, listed)
    left_out = [f.id for f in form.known if f.id not in standings and f.id not in repeated]
    if left_out and verdict != "pass":
        raise Doubt(
            f"{quote(KNOWN)} does not say of {_ids(left_out)} whether it is "
            f"{' or '.join(map(quote, STANDINGS))}."
        )
    still_open = [_reopen(f, validator, form) for f in form.known if standings.get(f.id) == "open"]
    severe = [f.id for f in still_open if form.levels.rejects(f.severity, form.cap)]
    if severe and verdict != "fail":
        raise Doubt(
            f"The verdict is {excerpt(part(report, form.verdict))}, but {quote(KNOWN)} says that "
            f"{_ids(severe)} is open, which has to be corrected. Make them agree."
        )
    return [finding for finding in still_open if finding.id not in repeated]


def unresolved_findings(validator: str, report: Report, form: ReportForm) -> list[Finding]:
    """The earlier findings that an unusable report does not call resolved."""
    known = part(report, KNOWN)
    answers = known.items() if isinstance(known, Mapping) else ()
    resolved = {i for i, word in answers if isinstance(word, str) and fold(word) == "resolved"}
    return [_reopen(f, validator, form) for f in form.known if f.id not in resolved]


def _standings(report: Report, form: ReportForm) -> dict[str, Standing]:
    known = part(report, KNOWN)
    if known is MISSING or known is None:
        return {}
    if not isinstance(known, Mapping):
        raise Doubt(f"{quote(KNOWN)} must be an object with an answer for each id.")
    unknown = [identity for identity in known if identity not in {f.id for f in form.known}]
    if unknown:
        raise Doubt(f"{quote(KNOWN)} has {_ids(unknown)}, and no such finding was open.")
    return {
        identity: meaning(word, STANDINGS, f"{quote(identity)} of {quote(KNOWN)}")
        for identity, word in known.items()
    }


def _refuse_resolved(standings: Mapping[str, Standing], listed: Sequence[Finding]) -> None:
    for finding in listed:
        if standings.get(finding.id) == "resolved":
            raise Doubt(
                f"{quote(KNOWN)} says that {quote(finding.id)} is resolved, and a finding says "
                "the same again. Make them agree."
            )


def _reopen(finding: Finding, validator: str, form: ReportForm) -> Finding:
    """An earlier finding as this judge repeats it, at the severity that it was given."""
    level = finding.graded or finding.severity
    if finding.defaulted:
        # A default origin is found anew: another author may have written this version.
        finding = finding.replace(origins=(), defaulted=False)
    return finding.replace(
        severity=level,
        graded="",
        blocking=form.levels.is_severe(level),
        validator=validator,
        reviewers=(),
        status="new",
        identified=True,
    )


def _ids(ids: Sequence[str]) -> str:
    return ", ".join(map(quote, ids))
