"""`judged-before`: a rule finds nothing, because an earlier state already enforces it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import Rule, ValidateState, rules_of
from loopkit.language.facts import VERDICT, of_verdict
from loopkit.language.guard.kleene import truth
from loopkit.machine.edges import Edge
from loopkit.machine.graph import artifact_of
from loopkit.proof.outcomes.severity import levels_at

TOLD = {"message", "severity", "code", "guard"}
"""Keys that do not change what a rule demands."""
_Passed = frozenset[tuple[str, str]]
"""(artifact, demand of a rule that its present version meets)."""


def check_judged_before(subject: Subject) -> Iterator[Problem]:
    """A note for each rule that an earlier state makes superfluous."""
    if not any(len(states) > 1 for states in subject.graph.judged.values()):
        return
    entering = _entering(subject)
    for name, state in subject.judges.items():
        for index, item in enumerate(state.by):
            rules = subject.machine.validators[item] if isinstance(item, str) else item
            for rule in rules_of(rules):
                if _demand(subject, state, rule) in entering[name]:
                    yield _note(subject, name, index, rule)


def _note(subject: Subject, name: str, index: int, rule: Rule) -> Problem:
    artifact = subject.judges[name].validate_
    return subject.source.problem(
        ("states", name, "by", index),
        "judged-before",
        f"the rule `{rule.kind}` finds nothing here: an earlier state lets no `{artifact}` pass "
        "that breaks it",
        help="delete it here, or there if this state should send the artifact back",
        severity="note",
    )


def _entering(subject: Subject) -> Mapping[str, _Passed]:
    """The demands that surely hold when each state is entered, on every path."""
    edges = [edge for edge in subject.graph.edges if edge.target in subject.machine.states]
    gains = {edge: _gains(subject, edge) for edge in edges}
    every = frozenset[tuple[str, str]]().union(*gains.values())
    start = subject.machine.start
    holds = dict.fromkeys(subject.machine.states, every) | {start: frozenset()}
    changed = True
    while changed:
        changed = False
        for edge in edges:
            after = _remaining(subject, edge, holds[edge.source]) | gains[edge]
            narrowed = holds[edge.target] & after
            changed |= narrowed != holds[edge.target]
            holds[edge.target] = narrowed
    return holds


def _remaining(subject: Subject, edge: Edge, holds: _Passed) -> _Passed:
    """The demands that still hold after a state's work, without those on a rewritten artifact."""
    state = subject.machine.states[edge.source]
    if state.picks_best or edge.from_best:
        return frozenset()
    written = artifact_of(subject.machine, edge.source) or state.edits
    return frozenset(fact for fact in holds if fact[0] != written)


def _gains(subject: Subject, edge: Edge) -> _Passed:
    state = subject.judges.get(edge.source)
    if state is None or not _is_for_valid(subject, edge):
        return frozenset()
    levels = levels_at(subject.machine, state)
    rules = subject.rules_at[edge.source] if state.settle_after is None else ()
    return frozenset(
        _demand(subject, state, rule)
        for rule in rules
        if rule.sees_only_artifact
        and rule.guard is None
        and levels.blocks(rule.severity or levels.ungraded)
    )


def _is_for_valid(subject: Subject, edge: Edge) -> bool:
    """Whether only a report without blocking findings takes an edge."""
    guard = subject.guards.whole(edge.guard) if edge.event == "done" and edge.guard else None
    if guard is None:
        return False
    facts = ({VERDICT: v, **of_verdict(v)} for v in ("fail", "incomplete", "infeasible"))
    return all(truth(guard.tree, report) is False for report in facts)


def _demand(subject: Subject, state: ValidateState, rule: Rule) -> tuple[str, str]:
    """The artifact and the demand of a rule, with the pattern in place of its name."""
    demand = rule.model_dump(mode="json", by_alias=True, exclude=TOLD)
    patterns = subject.machine.patterns
    if rule.sees_only_artifact:
        demand |= {str(at[-1]): patterns.get(text, text) for at, text in rule.patterns}
    return state.validate_, json.dumps(demand, sort_keys=True, default=str)
