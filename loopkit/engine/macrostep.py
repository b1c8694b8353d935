"""The pure step: (run state, completed work) → the events of one macrostep.

It computes what the guards read and one bit for each edge, lets the compiled machine choose, and
writes down the choice. It reads no clock, no file and no network, so that the same work always
gives the same events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile

from loopkit.engine.best_version import (
    attempts_at,
    fallback_reason,
    find_better_version,
    go_back,
    reason_for_leaving,
    with_version,
)
from loopkit.engine.changes import apply
from loopkit.engine.events import (
    Alerted,
    Decided,
    Emitted,
    Entered,
    Event,
    Finished,
    Kept,
    Suspended,
    Worked,
)
from loopkit.engine.feedback import feedback_for
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Artifact, Deferral, Feedback, Version
from loopkit.engine.questions import Questions
from loopkit.engine.revisions import Facts, earliest_origin, guard_facts, has_room
from loopkit.engine.state import RunState, author_task
from loopkit.engine.template_values import (
    NO_NAMES,
    blocking_for,
    choose_agent,
    fault_findings,
    plain_answer,
    plain_artifact,
    render,
    reports_for,
    template_names,
)
from loopkit.language.machine import Alert
from loopkit.language.section import Emission
from loopkit.language.states import FinalState, State
from loopkit.language.states.state import WorkingState
from loopkit.language.template.errors import TemplateError
from loopkit.machine.compiler import Decider
from loopkit.machine.edges import Edge
from loopkit.machine.graph import artifact_of
from loopkit.machine.program import NO_WAYS, Program, Ways
from loopkit.text import one_line
from loopkit.values import Mutable

COUNTED = ("attempt", "cap_reached", "revisions", "max_revisions")


class Macrostep(Mutable, eq=False):
    """The events of one completed piece of work, and the state of the run after them."""

    run: RunState
    """A copy of the state before, so that nothing has changed if a template fails."""
    events: list[Event] = []
    begins_call: bool = False
    """Whether the state that it enters begins with the intent of a call.

    Then it is written with that intent: one commit for both, and still before anything is spent or
    judged.
    """

    def add(self, event: Event) -> None:
        """Apply a further event; the engine applies those of every step itself."""
        apply(self.run, event, self.events)


class Engine:
    """The macrosteps of one program. Each thread needs its own."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.questions = Questions(program)
        self.plans = program.plans
        self._decider = Decider(program.graph)
        self._alert = program.machine.alert

    def begin(self, run: RunState, now: float) -> Macrostep:
        step = Macrostep(run.copy())
        self._enter(step, self.program.machine.start, None, now)
        return step

    def step(self, run: RunState, work: Worked | Kept, now: float) -> Macrostep:
        """One macrostep: `worked`, `decided`, `entered`, and an immediate event of the new state.

        A state that is `kept` goes on as after its last work. If an error has no edge, the run
        suspends instead, and the state stays as it was. `now` is Unix time, for questions that
        expire. Raises NoEdge if no edge takes the work, which the checks rule out.
        """
        plan, step = self.plans[run.state], Macrostep(run.copy())
        if isinstance(work, Kept):
            step.add(work)
            # It goes on with the facts of its last work.
            known = dict(run.facts[work.state])
            work = Worked(state=work.state, visit=work.visit, outcome="done", facts=known)
        else:
            if work.artifact is not None:
                work = with_version(self.program, run, work, work.artifact)
            apply(step.run, work, step.events)
        facts = guard_facts(self.program, step.run, work)
        ways = plan.ways.get(work.outcome, NO_WAYS)
        bits = ways.always or self._bits(step.run, ways, facts)
        if work.outcome != "done" and True not in bits:
            return suspend(run, work)
        edge = self._decider.decide(run.state, work.outcome, bits)
        if plan.restores and not edge.back and (best := run.best_round()):
            # A person was shown the best round's artifacts, and goes forward with them.
            work = work.replace(restored=run.artifacts_at(best))
            step = Macrostep(run.copy())
            step.add(work)
        better = find_better_version(plan, edge, run, step.run, work) if edge.from_best else None
        feedback_run = step.run if better is None else go_back(step.run.copy(), better)
        feedback: tuple[Feedback, ...] = ()
        deferrals: tuple[Deferral, ...] = ()
        if edge.back or step.run.deferred:
            feedback, deferrals = feedback_for(
                self.program, feedback_run, work, edge, facts["attempt"]
            )
        emitted, emission = None, edge.emit
        if emission is None and work.report is not None:
            verdict = "pass" if work.report.valid else work.report.verdict
            emission = plan.state.emits_of_verdicts.get(verdict)
        if emission is not None:
            emitted = event_on_edge(self.program, step.run, emission, work)
        decided = Decided(
            edge=edge.id,
            source=edge.source,
            target=edge.target,
            facts=_facts_to_record(facts, work, ways.names) if plan.elsewhere else facts,
            bits=bits,
            left_because=reason_for_leaving(self.program, facts, edge, work),
            spends=edge.counters,
            resets=edge.resets,
            feedback=feedback,
            deferrals=deferrals,
            best=better,
        )
        apply(step.run, decided, step.events)
        if self._alert is not None and step.run.alerted is None:
            self._watch(step, self._alert)
        if emitted is not None:
            step.add(emitted)
        self._enter(step, edge.target, edge.id, now)
        return step

    def finish(self, run: RunState) -> Macrostep:
        """The macrostep that ends a run in the active final state; raises TemplateError."""
        step = Macrostep(run.copy())
        final = self.plans[run.state].final
        assert final is not None
        step.add(self._final_event(step.run, run.state, final))
        return step

    def _bits(self, run: RunState, ways: Ways, facts: Facts) -> tuple[bool, ...]:
        return tuple(
            (predicate is None or predicate(facts)) and (is_always or self._is_open(run, edge))
            for edge, predicate, is_always in ways.edges
        )

    def _is_open(self, run: RunState, edge: Edge) -> bool:
        """Whether a conditional edge is open: the one of a limit once, any other with room left.

        Only failed work is revised, and it goes to the earliest origin if there are origins.
        """
        if edge.event == "limit":
            return not run.then_used
        if not has_room(self.program, run, edge):
            return False
        origin = edge.origin
        if origin is not None and earliest_origin(self.program, run, edge.source) != origin:
            return False
        judges = edge.event == "done" and self.plans[edge.source].state.judges is not None
        return not judges or run.reports[edge.source].verdict == "fail"

    def _watch(self, step: Macrostep, alert: Alert) -> None:
        figures = step.run.figures
        rate = figures.correction_rate
        threshold = alert.correction_rate
        if rate is not None and rate > threshold:
            step.add(
                Alerted(
                    figure="correction_rate",
                    value=rate,
                    threshold=threshold,
                    works=figures.works,
                    corrections=figures.again,
                )
            )

    def _enter(self, step: Macrostep, target: str, by: str | None, now: float) -> None:
        run, plan = step.run, self.plans[target]
        visit = run.visits.get(target, 0) + 1
        attempt = run.attempts.get(target, 0) + 1
        apply(run, Entered(state=target, visit=visit, attempt=attempt, by=by), step.events)
        if plan.final is not None:
            # Before a run ends, trees of its own have to be merged or left, and files to be marked.
            if not run.isolated and plan.final.mark is None:
                step.add(self._final_event(run, target, plan.final))
            return
        step.begins_call = bool(plan.state.call)
        if plan.emission is not None and not is_kept(self.program, run):
            step.add(event_at_start(self.program, run, plan.emission))
        if plan.human is not None:
            step.add(self.questions.question(run, plan.human, now))

    def _final_event(self, run: RunState, name: str, state: FinalState) -> Finished:
        best = run.best_round(state.of) if state.pick == "best" else None
        current = run.artifacts_at(best) if best else run.artifacts
        result: dict[str, object] = {}
        picked: dict[str, Version] = {}
        absent: list[str] = []
        for artifact_name in state.result:
            if (artifact := current.get(artifact_name)) is None:
                absent.append(artifact_name)
                continue
            picked[artifact_name] = artifact.made
            result[artifact_name] = (
                plain_artifact(self.program, run, artifact) if artifact.is_data else artifact.text
            )
        success = state.succeeds
        failures = [
            *_unread_failures(self.program, run, current, result),
            *(f"`{agent}` has read only a part of a prompt" for agent in sorted(run.cut_short)),
        ]
        return Finished(
            outcome=name,
            success=success,
            result=result,
            picked=picked,
            absent=tuple(absent),
            although=" and ".join(failures) if success else "",
            left=() if success else tuple(each.place for each in run.isolated.values()),
        )


def _unread_failures(
    program: Program, run: RunState, current: Mapping[str, Artifact], result: Iterable[str]
) -> Iterator[str]:
    """What has failed since a person was asked last: current versions that the last verdict does
    not accept, work of which no guard reads whether it failed, and loops that came to nothing."""
    states = program.machine.states
    sources = [program.graph.by_id[e].source for e in run.route]
    at_work = dict.fromkeys(takewhile(lambda name: not states[name].waits, reversed(sources)))
    reports = [run.reports[name] for name in reversed(at_work) if name in run.reports]
    judged = {report.artifact: report for report in reports}
    for name, report in judged.items():
        if name in current and current[name].version == report.version and not report.valid:
            is_missing = report.verdict == "incomplete"
            verdict = f"the last verdict on `{name}` is {report.verdict}"
            yield f"`{name}` was not judged" if is_missing else verdict
    guards = [(program.graph.by_id[e].source, names) for e, names in program.guard_names.items()]
    read = {n if "." in n else f"{source}.{n}" for source, names in guards for n in names}
    for name in at_work:
        failure = states[name].failure(name, run.facts.get(name, NO_NAMES))
        is_read = not read.isdisjoint(f"{name}.{fact}" for fact in states[name].failing)
        # A loop that has come to nothing reads it and goes on all the same.
        if failure and (not is_read or program.plans[name].revises):
            yield failure
        # A judge, a later author and the result say more of an artifact than its author's loop.
        made = current.get(program.graph.written.get(name, ""))
        is_left = made is not None and made.author == name and made.name not in {*judged, *result}
        if is_left and states[name].asks and _has_run_out(program, run, name):
            yield f"no revision after `{name}` helped"


def _has_run_out(program: Program, run: RunState, name: str) -> bool:
    """Whether a state was left only because no revision was left."""
    route = [program.graph.by_id[edge] for edge in run.route]
    last = max(place for place, edge in enumerate(route) if edge.source == name)
    if route[last].back or route[last].event != "done":
        return False
    # What its guards would have read with all revisions left.
    then = run.copy()
    then.state, then.counters = name, {}
    then.entered_by = run.route[last - 1] if last else None
    work = Worked(state=name, visit=run.visit, outcome="done", facts=dict(run.facts[name]))
    facts = guard_facts(program, then, work)
    edges = program.plans[name].ways["done"].edges
    edge = next((edge for edge, holds, _ in edges if holds is None or holds(facts)), None)
    # Where none would be taken then, the one that was taken asks whether a revision is left.
    return edge is None or edge.back


def suspend(run: RunState, work: Worked) -> Macrostep:
    """The macrostep of an error that no edge catches: the run stops where it is."""
    step = Macrostep(run.copy())
    step.add(suspension(work))
    return step


def suspension(work: Worked) -> Suspended:
    return Suspended(
        state=work.state,
        reason="content" if work.outcome == "done" else work.outcome,
        message=work.error,
        remedy=work.remedy,
        resume_at=work.resume_at,
        commands=work.commands,
        time_s=work.time_s,
        refused=work.refused,
    )


def _facts_to_record(facts: Facts, work: Worked, read: frozenset[str]) -> Facts:
    """The facts of the work, and the others that the guards of its edges could read."""
    return {
        name: value
        for name, value in facts.items()
        if name in work.facts or name in COUNTED or name in read
    }


FIRST = {"feedback": "", "previous": "", "revision": 0, "max_revisions": 0}
"""The values that a prompt has for earlier work if there was none."""


def work_digest(program: Program, run: RunState) -> str:
    """The digest of everything that the active state's work depends on; raises TemplateError.

    Empty if the state always works.
    """
    if run.state not in program.graph.keeping:
        return ""
    state = program.machine.states[run.state]
    asked = program.machine.agents.get(choose_agent(program, run, run.state) or "")
    parts = (
        _needs_or_prompt(program, run, state),
        state.model_dump(mode="json", exclude={"needs", *WorkingState.model_fields}),
        asked and asked.model_dump(mode="json", exclude_defaults=True),
    )
    written = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode()).hexdigest()


def _needs_or_prompt(program: Program, run: RunState, state: State) -> object:
    """The values that the state needs, or else the text of its task."""
    if state.needed is None:
        return render(program, run, state.work_template, FIRST)
    needed = [program.template(f"{{{{ {path} }}}}") for path in state.needed]
    return [template.value(template_names(program, run, template)) for template in needed]


def is_kept(program: Program, run: RunState) -> bool:
    """Whether the active state keeps what it made at its last work.

    If a template can't be filled in, it does not, so that its work reports why.
    """
    if run.is_revision or run.state in run.pending or not run.made_from:
        return False
    artifact = run.artifacts.get(artifact_of(program.machine, run.state) or "")
    if artifact is None or not _is_last_work(run, artifact):
        return False
    with suppress(TemplateError):
        return run.made_from[artifact.name] == (run.state, work_digest(program, run))
    return False


def _is_last_work(run: RunState, artifact: Artifact) -> bool:
    """Whether the active state wrote this at its last work, and it was not changed since.

    A version that a person picked as the best may be earlier. Work that has begun goes on.
    """
    by, _ = run.made_from.get(artifact.name, ("", ""))
    has_begun = author_task(run.state, run.visit) in run.tasks
    is_last = (artifact.author, artifact.attempt) == (by, run.attempts.get(by))
    return by == run.state and is_last and not has_begun


LONGEST_LABEL = 200
"""Characters of a phase or a source."""


def event_at_start(program: Program, run: RunState, emission: Emission) -> Emitted:
    """The event at the start of work, with the findings it has to fix; raises TemplateError."""
    name = _in_hand(program, run)
    reports = reports_for(program, run, run.state)
    about = [each for each in reports if each.artifact == name or not each.valid]
    mild = {finding.id: finding for report in about for finding in report.warnings}
    found = (*blocking_for(program, run, run.state), *mild.values())
    last = run.last_report if run.state in program.graph.fallbacks else None
    reason = _reason_of(last) if last is not None else ""
    return event_of_work(program, run, emission, found, reason=reason)


def event_on_edge(program: Program, run: RunState, emission: Emission, work: Worked) -> Emitted:
    """The event of an edge that completed work takes; `run` is the one with the work."""
    answer = plain_answer(program, work.state, work.answer) if work.answer else {}
    name = _in_hand(program, run)
    current = run.artifacts.get(name)
    # The artifact of the work never came.
    is_lost = work.outcome != "done" and not work.artifact and run.state in program.graph.written
    if current is None or is_lost:
        names = {} if is_lost else answer
        return event_of_work(program, run, emission, (), names, work.error)
    found, reason = _findings_in(program, run, current, work)
    told = event_of_work(program, run, emission, found, answer, reason, current)
    last = run.last_report
    return told.replace(stalled=last is not None and found is last.findings and last.stalled)


def event_of_work(
    program: Program,
    run: RunState,
    emission: Emission,
    findings: tuple[Finding, ...],
    names: Mapping[str, object] = NO_NAMES,
    reason: str = "",
    made: Artifact | None = None,
) -> Emitted:
    """The event of the active state's work, which may be unfinished, such as a draft.

    `made` is the version that the event is about, if the work has left one.
    """
    name, current = _in_hand(program, run), made
    if made is None and run.state not in program.graph.written:
        current = run.artifacts.get(name)
    fallback = fallback_reason(run) if run.state in program.graph.fallbacks else ""
    if current is None:
        attempt, by = attempts_at(program, run, name), run.state
        version = run.versions.get(name, 0) + 1 if name else 0
    else:
        attempt = current.attempts
        version = current.version
        by = current.author
    return Emitted(
        name=emission.name,
        state=run.state,
        artifact=name,
        attempt=attempt,
        artifact_version=version,
        phase=_label(program, run, emission.phase, names) or run.phase,
        source=_label(program, run, emission.source, names) or by,
        fallback=made.fallback_reason if made else fallback,
        findings=findings,
        reason=reason,
    )


def _in_hand(program: Program, run: RunState) -> str:
    """The artifact that the active state is about; empty if there is none yet."""
    state = program.machine.states[run.state]
    own = state.judges or program.graph.written.get(run.state)
    return own or (run.last_report.artifact if run.last_report else "")


def _findings_in(
    program: Program, run: RunState, artifact: Artifact, work: Worked
) -> tuple[tuple[Finding, ...], str]:
    """The findings in a version, and why there is no verdict on it."""
    report = run.reports.get(run.state, run.last_report)
    if work.artifact is not None and work.artifact.fault and work.answer is None:
        return fault_findings(work.artifact, program.machine.levels.worst), ""
    if report is None or (report.artifact, report.version) != (artifact.name, artifact.version):
        return (), work.error
    return report.findings, _reason_of(report)


def _reason_of(report: Report) -> str:
    return f"infeasible: {report.reason}" if report.verdict == "infeasible" else report.reason


def _label(program: Program, run: RunState, text: str | None, names: Mapping[str, object]) -> str:
    if text is None:
        return ""
    return one_line(render(program, run, text, names), LONGEST_LABEL).strip()
