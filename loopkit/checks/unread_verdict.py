"""`unread-verdict`: a report that no later transition reads and nobody is shown."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks import guards, template_uses
from loopkit.checks.artifacts import REPORT
from loopkit.checks.mentions import in_template
from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.machine.guard_names import own_names
from loopkit.proof.outcomes.facts import is_of

OF_REPORTS = frozenset(
    {"report", "reports", "findings", "warnings", "resolved", "regressed", "history"}
)


def check_unread_verdict(subject: Subject) -> Iterator[Problem]:
    """A warning for a validate state whose verdict decides nothing and is shown to nobody."""
    if not subject.judges or _is_shown(subject):
        return
    read = {name for use in guards.uses(subject) for name in _names(subject, use.text)}
    for name in subject.judges:
        if not _decides(subject, name) and not any(is_of(fact, name) for fact in read):
            message = f"nothing reads the verdict of `{name}`, so it has no effect on the run"
            remedy = (
                "add a transition with `guard: valid`, or one that revises; or delete the state"
            )
            path = ("states", name)
            yield subject.source.problem(
                path, "unread-verdict", message, help=remedy, severity="warning", key=True
            )


def _decides(subject: Subject, name: str) -> bool:
    """Whether a transition of the state itself depends on its report."""
    own = own_names(subject.graph, name).keys()
    edges = subject.graph.on(name, "done")
    guarded = (edge.guard for edge in edges if edge.guard is not None)
    return any(edge.back for edge in edges) or any(own & _names(subject, g) for g in guarded)


def _names(subject: Subject, text: str) -> frozenset[str]:
    guard = subject.guards.whole(text)
    return frozenset() if guard is None else guard.names


def _is_shown(subject: Subject) -> bool:
    """Whether some text, person or result draws on reports; which one it is, is left open."""
    states = subject.machine.states.values()
    picks = any(state.picks_best for state in states)
    shows = any(at[0] == "show" and name == REPORT for s in states for at, name in s.shown)
    used = (in_template(use.text) for use in template_uses.uses(subject))
    return picks or shows or any(OF_REPORTS & mentions.names for mentions in used)
