"""`not-a-template`: template braces in a text that is sent unchanged."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import JudgeRule


def check_plain_texts(subject: Subject) -> Iterator[Problem]:
    """A warning for `{{ }}` in the `system:` of agents, in rubrics and in messages of checks."""
    for path, text in _plain_texts(subject):
        for number, line in enumerate(text.split("\n"), 1):
            if "{{" in line and "}}" in line:
                problem = subject.source.problem_inside(
                    path,
                    "not-a-template",
                    "this is not a template; it is sent as written",
                    help="move the variable part into the prompt",
                    line=number,
                    column=line.index("{{") + 1,
                    length=2,
                )
                yield problem.replace(severity="warning")


def _plain_texts(subject: Subject) -> Iterator[tuple[DocPath, str]]:
    for name, agent in subject.machine.agents.items():
        yield from ((("agents", name, *at), text) for at, text in agent.plain_texts)
    for placed in subject.rules_of(JudgeRule):
        for index, criterion in enumerate(placed.rule.rubric):
            yield (*placed.path, "rubric", index), criterion
    for mapping in subject.rules:
        read = mapping.rule.report_map
        for at, met in read.checks.items() if read is not None else ():
            yield (*mapping.path, "map", "checks", at, "message"), met.message or ""
