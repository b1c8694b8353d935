"""`outside-judge`: somebody outside would judge; the author who is judged could be the same."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.problems import Problem
from loopkit.language import JudgeRule


def check_outside_agents(subject: Subject) -> Iterator[Problem]:
    """No judge is played from outside: whoever delivers work must not judge it."""
    agents = subject.machine.agents
    for placed in subject.rules_of(JudgeRule):
        judge = placed.rule.judge
        if judge in agents and not agents[judge].is_called:
            message = f"`{judge}` is played from outside, and such an agent never judges"
            remedy = "name a model or a program, or let a person decide in a `human` state"
            path = (*placed.path, "judge")
            yield subject.source.problem(path, "outside-judge", message, help=remedy)
