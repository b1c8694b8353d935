"""Rounds of one validate state: one for each judged attempt, and the best of them."""

from __future__ import annotations

from loopkit.engine.events import Artifact
from loopkit.engine.state import Round, RunState


def rounds_of(run: RunState, state: str) -> list[Round]:
    """One round for each attempt that a validate state judged completely; the last one counts."""
    latest: dict[tuple[str, int], Round] = {}
    for entry in reversed(run.rounds):
        if entry.report.state == state and entry.attempt not in latest:
            latest[entry.attempt] = entry
    return [*reversed(latest.values())]


def earlier_rounds(run: RunState, state: str, artifact: Artifact) -> list[Round]:
    """The rounds before the one that judges this attempt."""
    own = (artifact.author, artifact.attempt)
    return [entry for entry in rounds_of(run, state) if entry.attempt != own]


def best_round(run: RunState, of: str | None) -> Round | None:
    """The best complete round: of the state named, else of the last validated one.

    Fewest blocking findings of deterministic validators, then fewest blocking, then fewest others,
    then the best score, then the earliest. What is no artifact, so that no rule was run on it,
    comes after everything that is one.
    """
    state = of or (run.rounds[-1].report.state if run.rounds else None)
    return min(rounds_of(run, state), key=_rank, default=None) if state else None


def _rank(entry: Round) -> tuple[bool, int, int, int, float]:
    report = entry.report
    deterministic = sum(f.blocking and f.rule != "judge" for f in report.findings)
    score = float("-inf") if report.score is None else report.score
    counts = (deterministic, len(report.blocking), len(report.warnings))
    return (bool(entry.judged.fault), *counts, -score)
