"""Reclassification: a person says which states have to fix the last findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from loopkit.document.problems import did_you_mean
from loopkit.engine.events import Considered, HumanAnswer
from loopkit.engine.findings import Finding, Report
from loopkit.engine.findings_for import defer_feedback
from loopkit.engine.ledger.attribution import earliest
from loopkit.engine.state import RunState
from loopkit.machine.origins import Origins

SHORTEST = 4
"""The fewest characters of an id that name a finding, and more if several ids begin so."""
By = Mapping[str, Sequence[str]]
"""By id of a finding: the states that have to fix it."""


class NotReclassified(Exception):
    """A person named something that is not a finding, or a state that can't have caused it."""


def short_ids(findings: Iterable[Finding]) -> dict[str, str]:
    """For each finding, the shortest beginning of its id that no other one has."""
    ids = sorted({finding.id for finding in findings})
    length = SHORTEST
    while len({each[:length] for each in ids}) < len(ids):
        length += 1
    return {each: each[:length] for each in ids}


def resolve_origins(
    origins: Origins, report: Report | None, named: By
) -> dict[str, tuple[str, ...]]:
    """The origins that a person gives, by whole ids and in order; raises NotReclassified.

    A finding can't go to a state that works later than the author of what was judged.
    """
    if not origins:
        raise NotReclassified("the machine declares no `origins`")
    if report is None or not report.findings:
        raise NotReclassified("nothing is found that could go to another state")
    given: dict[str, tuple[str, ...]] = {}
    for name, states in named.items():
        found = _find_finding(report, name)
        _refuse_unknown(states, origins.of_author(report.author), report)
        given[found] = origins.in_order((*given.get(found, ()), *states))
    return given


def _find_finding(report: Report, name: str) -> str:
    """The id of the finding that a person means, also by a code or key that only one has."""
    short = short_ids(report.findings)
    matching = {
        finding.id
        for finding in report.findings
        if name in (finding.code, finding.key) or _is_id(finding.id, name)
    } - {""}
    if len(matching) == 1 and name:
        return matching.pop()
    if len(matching) > 1 and name:
        several = ", ".join(f"`{short[each]}`" for each in sorted(matching))
        raise NotReclassified(f"`{name}` names several findings: {several}")
    words = [w for f in report.findings for w in (short[f.id], f.code, f.key) if w]
    help_ = did_you_mean(name, dict.fromkeys(words))
    raise NotReclassified(f"the last report has no finding `{name}`; {help_}")


def _is_id(whole: str, name: str) -> bool:
    return len(name) >= SHORTEST and whole.startswith(name.lower())


def _refuse_unknown(states: Iterable[str], possible: Sequence[str], report: Report) -> None:
    for state in states:
        if state not in possible:
            raise NotReclassified(
                f"nothing in `{report.artifact}` by `{report.author}` can come from `{state}`; "
                f"{did_you_mean(state, possible)}"
            )


def apply_answer(run: RunState, answer: HumanAnswer, about: Considered | None) -> None:
    """Change a run by the raised limits and the origins in an answer."""
    if answer.limits:
        run.limits = {**run.limits, **answer.limits}
    report = run.last_report
    if report is None or about is None or not about.origins:
        return
    findings = tuple(_reclassify(report.findings, about.origins))
    report = report.replace(findings=findings, origin=about.origin)
    run.last_report, run.reports = report, {**run.reports, report.state: report}
    given, judge = about.origins.keys(), report.state
    defer_feedback(
        run, lambda deferral: deferral.by == judge and not given.isdisjoint(deferral.findings)
    )


def _reclassify(findings: Iterable[Finding], by: By) -> Iterator[Finding]:
    for finding in findings:
        if finding.id in by:
            finding = finding.replace(origins=tuple(by[finding.id]), defaulted=False)
        yield finding


def consider(origins: Origins, report: Report | None, named: By) -> Considered | None:
    """The report that a person decides about: the last one, with the origins that they give.

    Raises NotReclassified.
    """
    by = resolve_origins(origins, report, named) if named else {}
    if report is None:
        return None
    findings = list(_reclassify(report.findings, by))
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.severity] = counts.get(finding.severity, 0) + 1
    return Considered(
        state=report.state,
        artifact=report.artifact,
        attempt=report.attempt,
        verdict=report.verdict,
        findings=counts,
        blocking=sum(finding.blocking for finding in findings),
        origins=by,
        origin=earliest(findings, origins),
    )
