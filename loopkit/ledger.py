"""The findings ledger: new, recurring, resolved, regressed, and when revising has stalled.

Everything is computed from the rounds of one validate state: one entry for
each attempt that it judged, judging one attempt again replaces its entry.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from loopkit.events import Artifact
from loopkit.findings import Answer, ErrorClass, Finding, Report, Status, Verdict
from loopkit.runstate import Round, RunState

WORST_CLASS: tuple[ErrorClass, ...] = ("fatal", "content", "transient")
SEVERITY_ORDER = {"error": 0, "warning": 1}


def complete(
    run: RunState, state: str, artifact: Artifact, answers: Sequence[Answer], *, stall: int
) -> Report:
    """The report of one round, with each finding's status and whether revising has stalled."""
    rounds = rounds_of(run, state)
    earlier = [r for r in rounds if _identity(r.judged) != _identity(artifact)]
    known = {f.id for r in earlier for f in r.report.findings}
    last = {f.id for f in earlier[-1].report.findings} if earlier else set()
    findings = tuple(
        finding.model_copy(update={"status": _status(finding.id, known, last)})
        for finding in _merged(answers)
    )
    verdict = combine(answers, findings)
    now = {finding.id for finding in findings}
    resolved = tuple(
        finding.model_copy(update={"status": "resolved"})
        for finding in (earlier[-1].report.findings if earlier else ())
        if finding.id not in now
    )
    missing = [answer for answer in answers if answer.verdict in ("error", "unparsed")]
    report = Report(
        state=state,
        artifact=artifact.name,
        author=artifact.author,
        attempt=artifact.attempt,
        verdict=verdict,
        answers=tuple(answers),
        findings=findings,
        resolved=resolved if verdict in ("pass", "warn", "fail") else (),
        error_class=_worst_class(missing) if verdict == "incomplete" else None,
        reason=_reason(verdict, missing, answers),
    )
    is_stalled = verdict == "fail" and bool(earlier) and stalled(earlier, artifact, report, stall)
    return report.model_copy(update={"stalled": is_stalled})


def rounds_of(run: RunState, state: str) -> list[Round]:
    """One round for each attempt that a validate state judged completely; the last one counts."""
    latest: dict[tuple[str, int], Round] = {}
    for entry in run.rounds:
        if entry.report.state == state:
            latest.pop(_identity(entry.judged), None)
            latest[_identity(entry.judged)] = entry
    return list(latest.values())


def combine(answers: Iterable[Answer], findings: Iterable[Finding]) -> Verdict:
    """The strictest verdict counts; missing answers make the report incomplete."""
    given = {answer.verdict for answer in answers}
    if "infeasible" in given:
        return "infeasible"
    if any(finding.blocking for finding in findings):
        return "fail"
    if given & {"error", "unparsed"}:
        return "incomplete"
    if any(not finding.blocking for finding in findings):
        return "warn"
    return "pass" if "pass" in given else "not_applicable"


def stalled(earlier: Sequence[Round], artifact: Artifact, report: Report, stall: int) -> bool:
    """Whether revising made no progress.

    True when the artifact equals an earlier attempt, or when for some period p
    the last `stall`·p sets of blocking finding ids repeat with period p.
    """
    text = normalised(artifact)
    if any(normalised(entry.judged) == text for entry in earlier):
        return True
    sets = [frozenset(f.id for f in entry.report.blocking) for entry in earlier]
    sets.append(frozenset(f.id for f in report.blocking))
    return any(_repeats(sets, period, stall) for period in range(1, len(sets) // stall + 1))


def _repeats(sets: Sequence[frozenset[str]], period: int, stall: int) -> bool:
    tail = sets[-stall * period :]
    return all(tail[i] == tail[i - period] for i in range(period, len(tail)))


def normalised(artifact: Artifact) -> str:
    """What two versions must share to be the same: see "The findings ledger" of the language."""
    if artifact.is_data:
        return json.dumps(artifact.data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = unicodedata.normalize("NFC", artifact.text).replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n")


def best_round(run: RunState, of: str | None) -> Round | None:
    """The best complete round: of the state named, else of the last validated one.

    Fewest blocking findings of deterministic validators, then fewest blocking,
    then fewest warnings, then the earliest. What is no artifact, so that no rule
    was run on it, comes after everything that is one.
    """
    state = of or (run.rounds[-1].report.state if run.rounds else None)
    rounds = [entry for entry in run.rounds if entry.report.state == state]
    return min(rounds, key=_rank, default=None)


def _rank(entry: Round) -> tuple[bool, int, int, int]:
    report = entry.report
    deterministic = sum(f.blocking and f.rule != "judge" for f in report.findings)
    is_none = bool(entry.judged.fault)
    return is_none, deterministic, len(report.blocking), len(report.warnings)


def _identity(artifact: Artifact) -> tuple[str, int]:
    return artifact.author, artifact.attempt


def _status(finding_id: str, known: set[str], last: set[str]) -> Status:
    if finding_id in last:
        return "recurring"
    return "regressed" if finding_id in known else "new"


def _merged(answers: Iterable[Answer]) -> list[Finding]:
    """Every finding once, blocking ones first, in the order of the validators."""
    unique: dict[str, Finding] = {}
    for finding in (found for answer in answers for found in answer.findings):
        known = unique.get(finding.id)
        if known is None or (finding.blocking and not known.blocking):
            unique[finding.id] = finding
    return sorted(unique.values(), key=lambda finding: SEVERITY_ORDER[finding.severity])


def _worst_class(missing: Sequence[Answer]) -> ErrorClass:
    classes = {answer.error_class or "content" for answer in missing}
    return next(error_class for error_class in WORST_CLASS if error_class in classes)


def _reason(verdict: Verdict, missing: Sequence[Answer], answers: Sequence[Answer]) -> str:
    if verdict == "incomplete":
        return "; ".join(f"{answer.validator}: {answer.reason}" for answer in missing)
    if verdict == "infeasible":
        return next(answer.reason for answer in answers if answer.verdict == "infeasible")
    return ""


def facts_of(report: Report) -> Mapping[str, object]:
    """What a report tells the guards of its state."""
    return {
        "valid": report.valid,
        "verdict": report.verdict,
        "error_count": len(report.blocking),
        "warning_count": len(report.warnings),
        "codes": sorted({finding.code for finding in report.findings if finding.code}),
        "regressed": report.verdict == "fail" and bool(report.regressed),
        "stalled": report.stalled,
        "infeasible": report.verdict == "infeasible",
        "incomplete": report.verdict == "incomplete",
    }
