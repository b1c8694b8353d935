"""Questions to a person: their text, and which of the choices are closed and why.

An answer may also say which states have to fix the last findings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from loopkit.document.problems import did_you_mean
from loopkit.engine.events import Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.ledger import earliest
from loopkit.engine.payloads import Artifact, Choice, Considered, HumanAnswer
from loopkit.engine.revisions import earliest_origin, full_counters, guard_facts, why_full
from loopkit.engine.state import RunState
from loopkit.engine.template_values import defer_feedback, render
from loopkit.language.datatypes.datatype import single_values
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.guard.evaluate import truth
from loopkit.language.states.kinds import HumanState
from loopkit.language.template.grammar import Anything, Scalar, Shape
from loopkit.language.template.rendering import check
from loopkit.machine.edges import Edge, limit_of
from loopkit.machine.graph import Origins
from loopkit.machine.program import Program, flat_facts


class Questions:
    """The questions of one program. Each thread needs its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._needing: dict[str, bool] = {}
        """For each edge, whether its feedback needs a comment."""

    def question(self, run: RunState, state: HumanState, now: float) -> Waiting:
        """The question of the active human state; raises TemplateError."""
        return Waiting(
            state=run.state,
            question=f"{run.state}:{run.visit}{run.era}",
            text=render(self.program, run, state.human).strip(),
            choices=self.choices(run),
            expires_at=None if state.timeout is None else now + state.timeout,
            otherwise=state.otherwise,
            form=state.form,
            edit=state.edit,
        )

    def choices(self, run: RunState) -> tuple[Choice, ...]:
        """The choices of the active human state, each with the reason if it is closed."""
        state = self.program.plans[run.state].human
        if state is None:
            return ()
        return tuple(self._choice(run, state, name) for name in state.choices)

    def why_refused(self, run: RunState, answer: Mapping[str, object]) -> str:
        """Why an answer can't be taken, such as an edge without room. Empty if it can."""
        known = guard_facts(self.program, run, None)
        facts = known | flat_facts(answer) | flat_facts({run.state: answer})
        missed: list[Edge] = []
        for edge, predicate, _ in self.program.plans[run.state].on("done").edges:
            if predicate is not None and not predicate(facts):
                continue
            if not self._is_for_another(run, edge):
                return self._why_closed(run, edge, missed)
            missed.append(edge)
        return "no transition of the state takes this answer"

    def _is_for_another(self, run: RunState, edge: Edge) -> bool:
        earliest_one = earliest_origin(self.program, run, edge.source)
        return edge.origin not in (None, earliest_one)

    def _why_closed(self, run: RunState, edge: Edge, missed: Sequence[Edge]) -> str:
        """Why an edge behind `missed` ones to other origins takes no answer; empty if it does."""
        if not missed or edge.back:
            full = full_counters(self.program, run, edge) if edge.back else {}
            if not full:
                return ""
            sets = " ".join(f"--set limits.{limit_of(one)}={cap + 1}" for one, cap in full.items())
            return why_full(full) + (f"; `{sets}` opens it" if all(map(limit_of, full)) else "")
        origin = earliest_origin(self.program, run, edge.source)
        if origin is None:
            return "nothing is found that could be sent back"
        names = " or ".join(f"`{each.origin}`" for each in missed)
        return f"what is found goes back to `{origin}`, not to {names}"

    def _choice(self, run: RunState, state: HumanState, name: str) -> Choice:
        fields = [field for field, _ in single_values(parse_record(state.form))]
        own = {*fields, *(f"{run.state}.{field}" for field in fields)}
        facts = {k: v for k, v in guard_facts(self.program, run, None).items() if k not in own}
        facts |= {"choice": name, f"{run.state}.choice": name}
        closed, takes_comment, needs_comment = "", False, False
        missed: list[Edge] = []
        for edge in self.program.graph.on(run.state, "done"):
            guard = self.program.graph.guards.get(edge.id)
            holds = True if guard is None else truth(guard.tree, facts)
            if holds is False:
                continue
            if self._is_for_another(run, edge):
                missed += [edge] if holds else []
                continue
            if edge.back:
                feedback = self.program.template(self.program.feedback_of(edge))
                takes_comment = takes_comment or "comment" in feedback.names
            needs_comment = needs_comment or self._needs_comment(edge)
            closed = self._why_closed(run, edge, missed)
            # A guard that reads the form may hold or not: the choice is open if it may lead on.
            if holds or not closed:
                break
        return Choice(
            name=name, closed=closed, takes_comment=takes_comment, needs_comment=needs_comment
        )

    def _needs_comment(self, edge: Edge) -> bool:
        """Whether the feedback uses the comment outside `{% if comment %}`."""
        if edge.id not in self._needing:
            template = self.program.template(self.program.feedback_of(edge))
            shapes: dict[str, Shape] = dict.fromkeys(template.names, Anything())
            shapes["comment"] = Scalar(optional=True)
            self._needing[edge.id] = edge.back and bool(check(template, shapes))
        return self._needing[edge.id]

    def contents(self, run: RunState) -> tuple[dict[str, Artifact], Report | None]:
        """The artifacts and report that the human state shows: the latest, or the best round's."""
        state = self.program.plans[run.state].human
        if state is None:
            return {}, None
        best = run.best_round() if state.pick == "best" else None
        current, report = (
            (run.artifacts_at(best), best.report) if best else (run.artifacts, run.last_report)
        )
        artifacts = {name: current[name] for name in state.show if name in current}
        return artifacts, report if "report" in state.show else None


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
        possible = origins.of_artifact(report.artifact, report.author)
        if wrong := next((state for state in states if state not in possible), None):
            raise NotReclassified(
                f"nothing in `{report.artifact}` by `{report.author}` can come from `{wrong}`; "
                f"{did_you_mean(wrong, possible)}"
            )
        given[found] = origins.in_order((*given.get(found, ()), *states))
    return given


def _find_finding(report: Report, name: str) -> str:
    """The id of the finding that a person means, also by a code or key that only one has."""
    short = short_ids(report.findings)
    matching = {
        finding.id
        for finding in report.findings
        if name in (finding.code, finding.key)
        or (len(name) >= SHORTEST and finding.id.startswith(name.lower()))
    } - {""}
    if len(matching) == 1 and name:
        return matching.pop()
    if len(matching) > 1 and name:
        several = ", ".join(f"`{short[each]}`" for each in sorted(matching))
        raise NotReclassified(f"`{name}` names several findings: {several}")
    words = [w for f in report.findings for w in (short[f.id], f.code, f.key) if w]
    help_ = did_you_mean(name, dict.fromkeys(words))
    raise NotReclassified(f"the last report has no finding `{name}`; {help_}")


def apply_answer(run: RunState, answer: HumanAnswer, about: Considered | None) -> None:
    """Change a run by the raised limits and the origins in an answer."""
    if answer.limits:
        run.limits = {**run.limits, **answer.limits}
    report = run.last_report
    if report is None or about is None or not about.origins:
        return
    findings = _reclassify(report.findings, about.origins)
    report = report.replace(findings=findings, origin=about.origin)
    run.last_report, run.reports = report, {**run.reports, report.state: report}
    given, judge = about.origins.keys(), report.state
    defer_feedback(
        run, lambda deferral: deferral.by == judge and not given.isdisjoint(deferral.findings)
    )


def _reclassify(findings: Iterable[Finding], by: By) -> tuple[Finding, ...]:
    return tuple(
        one.replace(origins=tuple(by[one.id]), defaulted=False) if one.id in by else one
        for one in findings
    )


def consider(origins: Origins, report: Report | None, named: By) -> Considered | None:
    """The report that a person decides about: the last one, with the origins that they give.

    Raises NotReclassified.
    """
    by = resolve_origins(origins, report, named) if named else {}
    if report is None:
        return None
    findings = _reclassify(report.findings, by)
    return Considered(
        state=report.state,
        artifact=report.artifact,
        attempt=report.attempt,
        verdict=report.verdict,
        findings=dict(Counter(finding.severity for finding in findings)),
        blocking=sum(finding.blocking for finding in findings),
        origins=by,
        origin=earliest(findings, origins),
    )
