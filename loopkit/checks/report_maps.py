"""`bad-path`, `empty`, `form-untold`: a `map` whose parts overlap or whose judge lacks its form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.checks.subject import Subject
from loopkit.checks.word_tables import ambiguous, one_sided
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.language import Agent, JudgeRule, ReportMap
from loopkit.values import Value

OF_BOOLS = '; a bool\'s are "true" and "false"'
TABLES = ("verdicts", "severities", "codes", "origins")


class Mapped(Value, frozen=True):
    """A judge with a `map`, and the place of the map."""

    path: DocPath
    rule: JudgeRule
    map: ReportMap


def check_report_maps(subject: Subject) -> Iterator[Problem]:
    """Each `map` by itself, and whether its judge knows the form of its answer."""
    for mapped in judges_with_map(subject):
        agent = subject.machine.agents.get(mapped.rule.judge)
        yield from _check_form(subject, mapped, agent)
        yield from _of_map(subject, mapped.path, mapped.map)
    for placed in subject.rules:
        if placed.rule.report_map is not None and placed.rule.asks is None:
            yield from _of_map(subject, (*placed.path, "map"), placed.rule.report_map)


def _of_map(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    if read == ReportMap():
        message = "`map` maps nothing, so it has no effect"
        remedy = "name the parts that have other names in the report, such as `findings: issues`"
        yield subject.source.problem(path, "empty", message, help=remedy, key=True)
    yield from _two_in_one(subject, path, read)
    for table in TABLES:
        words: Mapping[str, object] = getattr(read, table)
        yield from ambiguous(subject, (*path, table), words)
    yield from one_sided(subject, (*path, "verdicts"), read.verdicts, OF_BOOLS)
    if read.origin is not None and not subject.machine.origins:
        message = "`origin` is not read: the machine declares no `origins`"
        yield subject.no_effect((*path, "origin"), message)


def judges_with_map(subject: Subject) -> Iterator[Mapped]:
    """Every judge whose report is mapped."""
    for placed in subject.rules_of(JudgeRule):
        if placed.rule.map is not None:
            yield Mapped((*placed.path, "map"), placed.rule, placed.rule.map)


def _check_form(subject: Subject, mapped: Mapped, agent: Agent | None) -> Iterator[Problem]:
    if mapped.rule.prompt is None and agent is not None and agent.schema_ is None:
        yield subject.source.problem(
            mapped.path,
            "form-untold",
            "nothing tells this judge to answer in the form that `map` reads",
            help=f"give the agent `{mapped.rule.judge}` a `schema:`, or write a `prompt:` here "
            "that says how to answer",
            key=True,
        )


def _two_in_one(subject: Subject, path: DocPath, read: ReportMap) -> Iterator[Problem]:
    verdict, findings = read.verdict, read.findings
    if verdict is not None and (_leads_into(verdict, findings) or _leads_into(findings, verdict)):
        message = f"`{verdict}` cannot be the verdict where `{findings}` is the list of findings"
        remedy = "name the field whose value is the word of the verdict"
        yield subject.source.problem((*path, "verdict"), "bad-path", message, help=remedy)


def _leads_into(outer: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")
