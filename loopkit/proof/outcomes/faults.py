"""Errors with which a state's work can end, instead of a row of facts."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.language.agents.calls import ErrorClass
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.proof.outcomes.unjudged import may_be_infeasible, rows_named


def faults_of(analysis: Analysis, name: str) -> tuple[ErrorClass, ...]:
    """The classes of error with which a state's work can end after the retries."""
    state = analysis.machine.states[name]
    if state.judges is not None:
        return tuple(_of_judging(analysis, name))
    loses_content = _may_lose_content(analysis, name)
    return tuple(fault for fault in state.faults if fault != "content" or loses_content)


def _may_lose_content(analysis: Analysis, name: str) -> bool:
    """Whether a content fault ends the work: elsewhere it goes on to the state that judges it."""
    graph = analysis.graph
    state = graph.states[name]
    if not state.may_leave_none or graph.on(name, "content"):
        return True
    return not state.asks and not graph.judging_follows(name)


def _of_judging(analysis: Analysis, name: str) -> Iterator[ErrorClass]:
    """An incomplete report ends by the worst class among its missing answers."""
    named = rows_named(analysis, name)
    rules = analysis.rules_at[name]
    is_ended = "incomplete" not in named
    has_judge = any(rule.asks is not None for rule in rules)
    if is_ended and any(rule.may_be_lost for rule in rules):
        yield "transient"
    if (is_ended and has_judge) or is_given_up(analysis, name):
        yield "content"
    # A template that cannot be filled in, or a workspace that is not there, leaves no report.
    yield "fatal"


def is_given_up(analysis: Analysis, name: str) -> bool:
    """Whether an author's `infeasible` becomes a content fault of the judging state."""
    is_named = "infeasible" in rows_named(analysis, name)
    return not is_named and may_be_infeasible(analysis, name)
