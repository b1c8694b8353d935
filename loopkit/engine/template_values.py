"""Values for templates and guards at run time, by name; and the findings that concern a state.

Each is built only when a template asks for it. A value that may be missing is left out, so that `is
defined` is right; `scope` knows the same before a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import indent

from loopkit.engine.findings import OF_ARTIFACT, REPEATED, Finding, Report, finding_id
from loopkit.engine.payloads import Artifact, Deferral, HumanAnswer
from loopkit.engine.revisions import revision_of, used_up
from loopkit.engine.state import RunState
from loopkit.engine.telemetry import round_usd, usd_without_held
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.facts import COMPLETE, PRINTED_FACTS
from loopkit.language.template.rendering import Template
from loopkit.language.template.sandbox import FieldedText, WordedList, WordedRecord
from loopkit.machine.flow import readable
from loopkit.machine.graph import ANSWER_CODES, BREAKS_SCHEMA
from loopkit.machine.program import Program
from loopkit.machine.scope import FINDING, ReportItems

NO_NAMES: Mapping[str, object] = {}


def render(
    program: Program, run: RunState, text: str, extra: Mapping[str, object] = NO_NAMES
) -> str:
    """A template filled in with the current values of the run; raises TemplateError.

    `extra` are values by names that take precedence.
    """
    template = program.template(text)
    if template.constant is not None:
        return template.constant
    return template.render(template_names(program, run, template, extra))


def template_names(
    program: Program, run: RunState, template: Template, extra: Mapping[str, object] = NO_NAMES
) -> dict[str, object]:
    """The values of the names that a template uses and that exist now."""
    wanted: dict[str, object] = {}
    for name in template.names:
        value = extra[name] if name in extra else _build(program, run, name)
        if value is not _ABSENT:
            wanted[name] = value
    return wanted


class AllNames(Mapping[str, object]):
    """Every name that exists in a run now, for rules, whose templates are filled in later.

    Each value is built when it is first asked for: the history of a long run is long.
    """

    def __init__(self, program: Program, run: RunState) -> None:
        self._program = program
        self._run = run
        self._known: dict[str, object] = {}

    def __getitem__(self, name: str) -> object:
        if name not in self._known:
            self._known[name] = _build(self._program, self._run, name)
        if self._known[name] is _ABSENT:
            raise KeyError(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        run = self._run
        names = {*BUILDERS, *run.artifacts, *run.answers, *run.facts}
        return (name for name in names if name in self)

    def __len__(self) -> int:
        return len([*self])


_ABSENT = object()


def _build(program: Program, run: RunState, name: str) -> object:
    if name in run.artifacts:
        return plain_artifact(program, run, run.artifacts[name])
    if name in run.answers:
        return plain_answer(program, name, run.answers[name])
    if name in run.facts and name in program.graph.states:
        return dict(run.facts[name])
    builder = BUILDERS.get(name)
    return _ABSENT if builder is None else builder(program, run)


def plain_artifact(program: Program, run: RunState, artifact: Artifact) -> object:
    """An artifact as templates see it: its data, or its text with fields."""
    if artifact.is_data:
        return readable(artifact.data, program.type_from(artifact.author))
    facts = run.facts.get(artifact.author, {}) if artifact.name == artifact.author else {}
    return FieldedText(artifact.text, {**facts, **artifact.fields})


def plain_answer(program: Program, state: str, answer: HumanAnswer) -> dict[str, object]:
    form = program.type_from(state)
    left_out = dict.fromkeys(form.fields or {}) if form is not None else {}
    form_values = {
        name: readable(value, form and form.field(name)) for name, value in answer.form.items()
    }
    plain = {"choice": answer.choice, "comment": answer.comment, "by": answer.by}
    return {**left_out, **form_values, **plain}


_OWN_CODES = frozenset({*ANSWER_CODES, REPEATED})
"""The codes of loopkit itself, which tell an author nothing that their messages do not."""
_MARKS = {"recurring": "not fixed yet", "regressed": "came back"}
LISTS = ("warnings", "resolved", "regressed")
"""The lists of findings that templates know besides the blocking ones."""
OF_REPORT = (
    *("state", "artifact", "author", "attempt", "attempts", "version", "previous", "phase"),
    *("fallback", "score", "origin"),
)


def plain_report(report: Report, items: ReportItems | None = None) -> dict[str, object]:
    facts = report.facts
    return {
        **{name: getattr(report, name) for name in OF_REPORT},
        **{name: facts[name] for name in PRINTED_FACTS},
        "findings": plain_findings(report.findings, items),
        "reason": report.reason,
        "answers": [
            {"validator": a.validator, "verdict": a.verdict, "reason": a.reason}
            for a in report.answers
        ],
    }


def open_findings(program: Program, run: RunState) -> list[WordedRecord]:
    found = blocking_for(program, run, run.state)
    return plain_findings(found[: program.machine.limits.feedback_items], program.report_items)


def previous(program: Program, run: RunState) -> object:
    """The version before this one: the author's own last one, or what this state judged last."""
    if run.state in program.graph.judges:
        rounds = run.rounds_at.get(run.state)
        last = rounds.line.last if rounds is not None else None
        return plain_artifact(program, run, last.judged) if last else ""
    artifact = last_version(program, run)
    return plain_artifact(program, run, artifact) if artifact else ""


def last_version(program: Program, run: RunState) -> Artifact | None:
    return run.artifacts.get(program.graph.written.get(run.state, ""))


def entering_revision(program: Program, run: RunState) -> tuple[int, int]:
    """(revision, max_revisions) of the edge that entered the state; zeros for a forward one."""
    edge = program.graph.by_id.get(run.entered_by or "")
    if edge is None or not edge.back:
        return 0, 0
    return revision_of(program, run, edge, run.counters)


def attempt_of(program: Program, run: RunState) -> int:
    """The attempt of the current work; in a validate state, the author's that it judges."""
    judged = program.machine.states[run.state].judges
    if judged is None:
        return run.attempts.get(run.state, 0) + 1
    artifact = run.artifacts.get(judged)
    return artifact.attempt if artifact else 0


def _history(program: Program, run: RunState) -> list[dict[str, object]]:
    """The rounds that concern the state's own artifact, oldest first."""
    judged = program.machine.states[run.state].judges
    name = judged or program.graph.written.get(run.state)
    return [
        {
            "attempt": r.report.attempt,
            "version": r.report.version,
            "verdict": r.report.verdict,
            "findings": plain_findings(r.report.findings, program.report_items),
            "artifact": plain_artifact(program, run, r.judged),
        }
        for r in run.rounds
        if name is None or r.report.artifact == name
    ]


def choose_agent(program: Program, run: RunState, state: str) -> str | None:
    """The agent that a state asks; None if it asks none, or if its word names none."""
    plan = program.plans[state]
    if (choice := plan.state.choice) is not None:
        return choice.of.get(render(program, run, choice.template), choice.else_)
    return next(iter(plan.state.asks), None)


def _schema(program: Program, run: RunState) -> object:
    agent = program.machine.agents.get(choose_agent(program, run, run.state) or "")
    if agent is None or agent.schema_ is None:
        return ""
    return json.dumps(parse_fields(agent.schema_).schema, indent=2, ensure_ascii=False)


def _of_reports(key: str, program: Program, run: RunState) -> list[WordedRecord]:
    reports = reports_for(program, run, run.state)
    found = {each.id: each for report in reports for each in getattr(report, key)}
    return plain_findings(found.values(), program.report_items)


def _telemetry(_: Program, run: RunState) -> dict[str, object]:
    defects = run.figures.defects if run.counted is not None else []
    return {
        "calls": run.usage.agent_calls,
        "cost_usd": round_usd(usd_without_held(run.usage)),
        "seconds": run.usage.time_s,
        "defects": [defect.plain() for defect in defects],
    }


def plain_finding(finding: Finding, items: ReportItems | None = None) -> WordedRecord:
    """A finding as templates see it; with `items` if reports of other shapes are read."""
    plain = WordedRecord({name: getattr(finding, name) for name in FINDING})
    plain |= {"reviewers": [*finding.named_by], "origins": [*finding.origins]}
    if items is not None:
        plain["item"] = items.read(finding.item)
    plain.words = finding_in_words(finding, items)
    return plain


def plain_findings(
    findings: Iterable[Finding], items: ReportItems | None = None
) -> list[WordedRecord]:
    return WordedList(plain_finding(finding, items) for finding in findings)


def finding_in_words(finding: Finding, items: ReportItems | None) -> str:
    marks = ", ".join(_marks(finding, items))
    message = indent(finding.message.strip(), "  ").strip()
    return f"{message} ({marks})" if marks else message


def _marks(finding: Finding, items: ReportItems | None) -> Iterator[str]:
    """Its place and code, where its message does not say them, further fields and status, and
    whether its origin is assumed."""
    at, line = finding.location, finding.line
    is_placed = bool(at) and finding.message.startswith(f"{at}:{line}:")
    if at and not is_placed and not finding.message.startswith((f"`{at}`", f"{at}: ")):
        yield f"at `{at}`"
    if line is not None and not is_placed:
        yield f"line {line}"
    is_own = finding.validator == OF_ARTIFACT and finding.code in _OWN_CODES
    if finding.code not in finding.message and not is_own:
        yield f"code `{finding.code}`"
    if items is not None:
        yield from items.further(finding.item)
    if finding.status in _MARKS:
        yield _MARKS[finding.status]
    if finding.defaulted:
        yield "origin assumed"


def part_for(program: Program, report: Report, state: str) -> Report:
    """The report with only the findings that a state has to fix, or has fixed."""
    if not program.graph.has_origins or state not in program.graph.origins:
        return report
    findings, resolved, unnamed = (
        tuple(each for each in found if state in each.origins)
        for found in (report.findings, report.resolved, report.unnamed)
    )
    return report.replace(findings=findings, resolved=resolved, unnamed=unnamed)


BUILDERS: dict[str, Callable[[Program, RunState], object]] = {
    "input": lambda program, run: readable(run.input, program.input_type),
    "report": lambda program, run: (
        plain_report(run.last_report, program.report_items) if run.last_report else _ABSENT
    ),
    "reports": lambda program, run: {
        name: plain_report(report, program.report_items) for name, report in run.reports.items()
    },
    "findings": open_findings,
    **{name: partial(_of_reports, name) for name in LISTS},
    "feedback": lambda _, run: run.feedback_for(run.state),
    "previous": previous,
    "history": _history,
    "schema": _schema,
    "telemetry": _telemetry,
    "attempt": attempt_of,
    "used_up": used_up,
    "revision": lambda program, run: entering_revision(program, run)[0],
    "max_revisions": lambda program, run: entering_revision(program, run)[1],
}


def blocking_for(program: Program, run: RunState, state: str) -> tuple[Finding, ...]:
    """The open blocking findings for a state, including those that waited for it."""
    reports = reports_for(program, run, state)
    return tuple([finding for report in reports for finding in report.blocking])


def reports_for(program: Program, run: RunState, state: str) -> Iterator[Report]:
    """The last report and those with what waited for a state, each with what concerns the state."""
    told: tuple[Finding, ...] = ()
    if run.last_report:
        report = part_for(program, run.last_report, state)
        told = report.blocking
        yield report
    if run.delivered or run.deferred:
        deferrals = (*run.delivered.get(state, ()), *run.deferred.get(state, ()))
        waiting = waiting_reports(program, run, deferrals, (finding.id for finding in told))
        yield from (report for _, report in waiting)


def waiting_reports(
    program: Program, run: RunState, deferrals: Sequence[Deferral], known_ids: Iterable[str] = ()
) -> Iterator[tuple[Deferral, Report]]:
    """The reports with open findings that wait for a state, each finding once, in the newest
    deferral that has it; only those in which something blocks.

    Findings in `known_ids` are left out: the state is told about them anyway.
    """
    seen = {*known_ids}
    waiting: list[tuple[Deferral, Report]] = []
    for deferral in reversed(deferrals):
        wanted = {*deferral.findings} - seen
        known = _open_at(run, deferral.by)
        found = tuple(f for f in known if f.id in wanted and f.is_for(deferral.to))
        seen |= wanted
        if any(finding.blocking for finding in found):
            report = part_for(program, run.reports[deferral.by], deferral.to)
            waiting.append((deferral, report.replace(findings=found)))
    return reversed(waiting)


def _open_at(run: RunState, judge: str) -> Iterator[Finding]:
    """The open findings of a validate state, with the origins that a person gave them."""
    report = run.reports[judge]
    reclassified = (
        {found.id: found for found in report.findings} if report.verdict in COMPLETE else {}
    )
    return (reclassified.get(found.id, found) for found in run.rounds_at[judge].open)


def defer_feedback(run: RunState, is_past: Callable[[Deferral], bool]) -> None:
    """Defer the feedback that a state was sent and has not worked on, if `is_past` says so.

    Open findings are sent again when the state is entered. The state has to work in any case.
    """
    for to, feedback in run.pending.items():
        past = [each.tells for each in feedback if each.tells and is_past(each.tells)]
        if past:
            run.deferred = {**run.deferred, to: (*run.deferred.get(to, ()), *past)}
            run.pending = {**run.pending, to: tuple(f for f in feedback if f.tells not in past)}


def fault_findings(artifact: Artifact, severity: str) -> tuple[Finding, ...]:
    """The author's content fault as a blocking finding, and what was found in its last draft."""
    # An artifact is looked at for all of them, whatever the validate state asks.
    found = tuple([one.replace(validator=OF_ARTIFACT) for one in artifact.fault_findings])
    if found and artifact.fault_code == BREAKS_SCHEMA:
        return tuple([one.replace(severity=severity) for one in found])
    fault = Finding(
        id=finding_id(OF_ARTIFACT, artifact.fault_code, "", artifact.fault_code),
        message=artifact.fault,
        severity=severity,
        validator=OF_ARTIFACT,
        rule=artifact.fault_code,
        code=artifact.fault_code,
    )
    return (fault, *found)
