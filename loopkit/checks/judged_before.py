"""`judged-before`: an earlier state lets nothing pass in which a rule would find something."""

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

MEANINGS = {
    "judged-before": "A rule repeats what an earlier state has already checked.",
}

TOLD = {"message", "severity", "code", "guard"}
"""Keys that say nothing of what is wanted."""
_Passed = frozenset[tuple[str, str]]
"""(artifact, what is known to hold of its present version), in the words of a rule."""


def check_judged_before(subject: Subject) -> Iterator[Problem]:
    """A note for each rule that an earlier state makes superfluous, and the ways back with it."""
    if not any(len(states) > 1 for states in subject.graph.judged.values()):
        return
    entering = _entering(subject)
    for name, state in subject.judges.items():
        for index, item in enumerate(state.by):
            rules = subject.machine.validators[item] if isinstance(item, str) else item
            for rule in rules_of(rules):
                if _wanted(subject, state, rule) in entering[name]:
                    yield _found_before(subject, name, index, rule)


def _found_before(subject: Subject, name: str, index: int, rule: Rule) -> Problem:
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
    """What surely holds when each state is entered: on every way, whatever it went through."""
    edges = [edge for edge in subject.graph.edges if edge.target in subject.machine.states]
    gains = {edge: _gained(subject, edge) for edge in edges}
    every = frozenset[tuple[str, str]]().union(*gains.values())
    start = subject.machine.start
    holds = dict.fromkeys(subject.machine.states, every) | {start: frozenset()}
    changed = True
    while changed:
        changed = False
        for edge in edges:
            after = _kept(subject, edge, holds[edge.source]) | gains[edge]
            narrowed = holds[edge.target] & after
            changed |= narrowed != holds[edge.target]
            holds[edge.target] = narrowed
    return holds


def _kept(subject: Subject, edge: Edge, holds: _Passed) -> _Passed:
    """What still holds behind the work before an edge: nothing of what that writes anew."""
    state = subject.machine.states[edge.source]
    if state.picks_best or edge.from_best:
        return frozenset()
    written = artifact_of(subject.machine, edge.source) or state.edits
    return frozenset(fact for fact in holds if fact[0] != written)


def _gained(subject: Subject, edge: Edge) -> _Passed:
    state = subject.judges.get(edge.source)
    if state is None or not _is_for_valid(subject, edge):
        return frozenset()
    levels = levels_at(subject.machine, state)
    rules = subject.rules_at[edge.source] if state.settle_after is None else ()
    return frozenset(
        _wanted(subject, state, rule)
        for rule in rules
        if rule.sees_only_artifact
        and rule.guard is None
        and levels.blocks(rule.severity or levels.ungraded)
    )


def _is_for_valid(subject: Subject, edge: Edge) -> bool:
    """Whether only a report without anything that blocks takes an edge."""
    guard = subject.guards.whole(edge.guard) if edge.event == "done" and edge.guard else None
    if guard is None:
        return False
    facts = ({VERDICT: v, **of_verdict(v)} for v in ("fail", "incomplete", "infeasible"))
    return all(truth(guard.tree, report) is False for report in facts)


def _wanted(subject: Subject, state: ValidateState, rule: Rule) -> tuple[str, str]:
    """What a rule demands of which artifact; the name of a pattern is the pattern."""
    demand = rule.model_dump(mode="json", by_alias=True, exclude=TOLD)
    patterns = subject.machine.patterns
    if rule.sees_only_artifact:
        demand |= {str(at[-1]): patterns.get(text, text) for at, text in rule.patterns}
    return state.validate_, json.dumps(demand, sort_keys=True, default=str)
