"""`fields-as-data`: a condition on data reads the fields that were taken out of a text."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import RequireRule
from loopkit.language.guard import GuardError, parse_path, parse_requirement


def check_fields_as_data(subject: Subject) -> Iterator[Problem]:
    """A warning for each `require` of whose artifact every author makes such a text.

    The text may hold data as well, under other names; what it has a pattern for is hardly that.
    """
    for placed in subject.rules:
        rule = placed.rule
        if not isinstance(rule, RequireRule):
            continue
        read = _read(rule)
        for state in placed.used_at:
            artifact = subject.machine.states[state].judges
            found = sorted(read & _fields(subject, artifact or ""))
            if found:
                told = f"`{found[0]}` is a field of the text of `{artifact}`"
                message = f"{told}, and `require` reads only data, JSON or YAML"
                remedy = "judge the text itself, with `section`, `matches` or `count`"
                path = (*placed.path, "require")
                yield subject.source.problem(
                    path, "fields-as-data", message, help=remedy, severity="warning"
                )


def _read(rule: RequireRule) -> frozenset[str]:
    """The fields of the artifact that a rule may read; another check reports its syntax."""
    try:
        if rule.each is not None:
            parse_path(rule.each)
            return frozenset({rule.each.partition("[")[0].partition(".")[0]})
        return frozenset(name.partition(".")[0] for name in parse_requirement(rule.require).names)
    except GuardError:
        return frozenset()


def _fields(subject: Subject, artifact: str) -> frozenset[str]:
    """The fields that every author of an artifact extracts from its text."""
    machine = subject.machine
    authors = subject.graph.artifacts.get(artifact, ())
    each = []
    for author in authors:
        output = machine.states[author].output_at(author)
        is_data = any(agent.schema_ is not None for agent in machine.agents_at(author))
        each.append(frozenset() if output is None or is_data else frozenset(output.fields))
    return frozenset.intersection(*each) if each else frozenset()
