"""The present configuration: where a run stands, read from its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopkit.language.datatypes import facts_of
from loopkit.language.facts import VERDICT
from loopkit.machine.program import flat_facts
from loopkit.proof.bounds.configurations import Present
from loopkit.proof.bounds.variables import THEN, Variable
from loopkit.proof.outcomes import Analysis

if TYPE_CHECKING:
    from loopkit.engine.state import RunState


def present_of(analysis: Analysis, run: RunState) -> Present:
    """Where a run stands in a machine, which need not be the one that it was started with."""
    values = dict(_counts(run)) | dict(_facts(run)) | dict(_judged(analysis, run))
    values[THEN] = int(run.then_used)
    return Present(run.state, values, facts_of(run.input, analysis.scope.input, "input."))


def _counts(run: RunState) -> Iterator[tuple[Variable, object]]:
    for counter, spent in run.counters.items():
        yield Variable("counter", counter), spent
    for state, attempts in run.attempts.items():
        yield Variable("works", state), attempts
    for name, artifact in run.artifacts.items():
        yield Variable("version", name), artifact.attempt


def _facts(run: RunState) -> Iterator[tuple[Variable, object]]:
    reports = {name: {VERDICT: report.verdict} for name, report in run.reports.items()}
    for name, value in flat_facts({**run.facts, "reports": reports}).items():
        yield Variable("fact", name), frozenset(value) if isinstance(value, list | tuple) else value


def _judged(analysis: Analysis, run: RunState) -> Iterator[tuple[Variable, object]]:
    """Two for each version judged before the current one, and one where that was judged."""
    versions: dict[str, set[tuple[str, int]]] = {}
    for judged in run.rounds:
        version = (judged.judged.author, judged.judged.attempt)
        versions.setdefault(judged.report.state, set()).add(version)
    for name, seen in versions.items():
        state = analysis.judges.get(name)
        artifact = run.artifacts.get(state.validate_) if state is not None else None
        now = (artifact.author, artifact.attempt) if artifact else None
        yield Variable("judged", name), 2 * len(seen - {now}) + (now in seen)
