"""The present point of a run, read from its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loopkit.language.datatypes import facts_of
from loopkit.language.facts import VERDICT
from loopkit.machine.program import flat_facts
from loopkit.proof.bounds.configurations import Present
from loopkit.proof.bounds.variables import FOUND, THEN, Variable
from loopkit.proof.outcomes import Analysis

if TYPE_CHECKING:
    from loopkit.engine.state import RunState


def present_of(analysis: Analysis, run: RunState) -> Present:
    """The present point of a run in a machine, which need not be the one that it started with."""
    values = dict(_counts(run)) | dict(_facts(run)) | dict(_judgement_counts(analysis, run))
    values |= dict.fromkeys(_variables_of_kept_work(run), 1)
    edge = analysis.graph.by_id.get(run.entered_by or "")
    values[Variable("before", run.state)] = edge.source if edge else None
    values[THEN] = int(run.then_used)
    return Present(run.state, values, facts_of(run.input, analysis.scope.input, "input."))


def _counts(run: RunState) -> Iterator[tuple[Variable, object]]:
    for counter, spent in run.counters.items():
        yield Variable("counter", counter), spent
    for state, attempts in run.attempts.items():
        yield Variable("works", state), attempts
    for name, artifact in run.artifacts.items():
        yield Variable("version", name), artifact.attempt
        yield Variable("author", name), artifact.author


def _variables_of_kept_work(run: RunState) -> Iterator[Variable]:
    """The states that may keep their artifact, without those that have to work."""
    for name, _ in run.made_from.values():
        if name not in run.pending and not (name == run.state and run.is_revision):
            yield Variable("kept", name)


def _facts(run: RunState) -> Iterator[tuple[Variable, object]]:
    reports = {name: {VERDICT: verdict} for name, verdict in run.verdicts.items()}
    for name, value in flat_facts({**run.facts, "reports": reports}).items():
        yield Variable("fact", name), frozenset(value) if isinstance(value, list | tuple) else value
    last = run.last_report
    yield FOUND, last.state if last is not None and last.origin is not None else None


def _judgement_counts(analysis: Analysis, run: RunState) -> Iterator[tuple[Variable, object]]:
    """Twice the number of versions judged before the current one, plus one if that was judged."""
    attempts = {(part.author, part.attempt) for part in run.artifacts.values()}
    for name in analysis.judges.keys() & run.rounds_at.keys():
        rounds = [*run.rounds_at[name]]
        is_judged = any(attempts.issuperset(judged.attempt) for judged in rounds)
        yield Variable("judged", name), 2 * (len(rounds) - is_judged) + is_judged
