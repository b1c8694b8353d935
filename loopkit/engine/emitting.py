"""Events that the machine's author declares: what each says about its version.

That is the version that the state writes or judges, and in every other state the one that was
judged last. A version that is still being written has its number already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopkit.engine.artifact_faults import fault_finding
from loopkit.engine.events import Artifact, Emitted, Worked
from loopkit.engine.findings import Finding
from loopkit.engine.findings_for import blocking_for, concerning
from loopkit.engine.state import RunState
from loopkit.engine.template_values import NO_NAMES, plain_answer, render
from loopkit.engine.versions import attempts_at, fallback_reason
from loopkit.language import Emission
from loopkit.machine.program import Program
from loopkit.text import one_line

LONGEST_LABEL = 200
"""Characters of a phase or a source."""


def event_at_start(program: Program, run: RunState, emission: Emission) -> Emitted:
    """The event of the active state whose work begins, with the findings that it has to fix.

    Raises TemplateError, as the other events do.
    """
    name = _in_hand(program, run)
    found: tuple[Finding, ...] = blocking_for(program, run, run.state)
    report = run.last_report
    if report is not None and (report.artifact == name or not report.valid):
        found = (*found, *concerning(program, report.warnings, run.state))
    return _about_work(program, run, emission, found)


def event_of_draft(
    program: Program, run: RunState, emission: Emission, findings: Iterable[Finding]
) -> Emitted:
    """The event of a draft in the active state, with the findings in it."""
    return _about_work(program, run, emission, tuple(findings))


def event_on_edge(program: Program, run: RunState, emission: Emission, work: Worked) -> Emitted:
    """The event of an edge that completed work takes; `run` is the one with the work."""
    answer = plain_answer(program, work.state, work.answer) if work.answer else {}
    name = _in_hand(program, run)
    if work.outcome != "done" and work.artifact is None and run.state in program.graph.written:
        # The artifact of the work never came.
        return _about_work(program, run, emission, (), {}, work.error)
    current = run.artifacts.get(name)
    if current is None:
        return _about_work(program, run, emission, (), answer, work.error)
    found, reason = _findings_in(program, run, current, work)
    return Emitted(
        name=emission.name,
        state=run.state,
        artifact=name,
        attempt=current.attempts,
        artifact_version=current.version,
        phase=_label(program, run, emission.phase, answer) or run.phase,
        source=_label(program, run, emission.source, answer) or current.author,
        fallback=current.fallback_reason,
        findings=found,
        reason=reason,
    )


def _about_work(
    program: Program,
    run: RunState,
    emission: Emission,
    findings: tuple[Finding, ...],
    names: Mapping[str, object] = NO_NAMES,
    reason: str = "",
) -> Emitted:
    """The event of the active state's unfinished work."""
    name, current = _in_hand(program, run), run.artifacts.get(_in_hand(program, run))
    writes = run.state in program.graph.written
    lost = run.state in program.graph.fallbacks
    if writes or current is None:
        attempt = attempts_at(program, run, name)
        version = run.versions.get(name, 0) + 1 if name else 0
    else:
        attempt, version = current.attempts, current.version
    by = run.state if writes or current is None else current.author
    return Emitted(
        name=emission.name,
        state=run.state,
        artifact=name,
        attempt=attempt,
        artifact_version=version,
        phase=_label(program, run, emission.phase, names) or run.phase,
        source=_label(program, run, emission.source, names) or by,
        fallback=fallback_reason(run) if lost else "",
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
        return (fault_finding(work.artifact, program.machine.levels.worst),), ""
    if report is None or (report.artifact, report.version) != (artifact.name, artifact.version):
        return (), work.error
    return report.findings, report.reason


def _label(program: Program, run: RunState, text: str | None, names: Mapping[str, object]) -> str:
    if text is None:
        return ""
    return one_line(render(program, run, text, names), LONGEST_LABEL).strip()
