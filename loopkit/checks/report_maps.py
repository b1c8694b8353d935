"""What a judge's `map` reads is asked for, and its words mean something."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopkit.checks.subject import Subject
from loopkit.definition import Agent, JudgeRule, ReportMap
from loopkit.graph import DocPath
from loopkit.problems import Problem
from loopkit.validators.report_form import folded

TABLES = ("verdicts", "severities", "codes")


@dataclass(frozen=True, slots=True)
class Mapped:
    """A judge with a `map`, and where the map stands."""

    path: DocPath
    rule: JudgeRule
    map: ReportMap


def check_report_maps(subject: Subject) -> Iterator[Problem]:
    """Each `map` by itself, and whether its judge is told how to answer."""
    for mapped in mapped_judges(subject):
        agent = subject.machine.agents.get(mapped.rule.judge)
        yield from _untold(subject, mapped, agent)
        yield from _without_parts(subject, mapped)
        yield from _two_in_one(subject, mapped)
        for table in TABLES:
            words: Mapping[str, str] = getattr(mapped.map, table)
            yield from _ambiguous(subject, (*mapped.path, table), words)
        yield from _one_sided(subject, mapped)


def mapped_judges(subject: Subject) -> Iterator[Mapped]:
    """Every judge whose report is mapped."""
    for placed in subject.rules:
        if isinstance(placed.rule, JudgeRule) and placed.rule.map is not None:
            yield Mapped((*placed.path, "map"), placed.rule, placed.rule.map)


def _untold(subject: Subject, mapped: Mapped, agent: Agent | None) -> Iterator[Problem]:
    if mapped.rule.prompt is None and agent is not None and agent.schema_ is None:
        yield subject.source.problem(
            mapped.path,
            "form-untold",
            "nothing tells this judge to answer in the form that `map` reads",
            help=f"give the agent `{mapped.rule.judge}` a `schema:`, or write a `prompt:` here "
            "that says how to answer",
            key=True,
        )


def _without_parts(subject: Subject, mapped: Mapped) -> Iterator[Problem]:
    if mapped.map == ReportMap():
        message = "`map` says nothing that is not so without it"
        remedy = "name what is called otherwise in the report, such as `findings: issues`"
        yield subject.source.problem(mapped.path, "empty", message, help=remedy, key=True)


def _two_in_one(subject: Subject, mapped: Mapped) -> Iterator[Problem]:
    verdict, findings = mapped.map.verdict, mapped.map.findings
    if verdict is not None and (_leads_into(verdict, findings) or _leads_into(findings, verdict)):
        path = (*mapped.path, "verdict")
        message = f"`{verdict}` cannot be the verdict where `{findings}` is the list of findings"
        remedy = "name the field whose value is the word of the verdict"
        yield subject.source.problem(path, "bad-path", message, help=remedy)


def _leads_into(outer: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


def _ambiguous(subject: Subject, path: DocPath, words: Mapping[str, str]) -> Iterator[Problem]:
    """Words that are one word to the reader, and an empty one."""
    known: dict[str, str] = {}
    for word in words:
        if not folded(word):
            yield subject.source.problem(
                (*path, word), "bad-word", "this word is blank", key=True,
                help="write the word that the report has there",
            )  # fmt: skip
        elif (before := known.setdefault(folded(word), word)) != word:
            yield subject.source.problem(
                (*path, word), "bad-word", f"`{word}` is the same word as `{before}`", key=True,
                help="words are compared without regard to case; delete one of them",
            )  # fmt: skip


def _one_sided(subject: Subject, mapped: Mapped) -> Iterator[Problem]:
    meanings = set(mapped.map.verdicts.values())
    if not meanings or ("fail" in meanings and meanings & {"pass", "warn"}):
        return
    lacking = "accept" if "fail" in meanings else "reject"
    yield subject.source.problem(
        (*mapped.path, "verdicts"),
        "one-sided",
        f"with these words the judge can only {'reject' if lacking == 'accept' else 'accept'}",
        help=f'add the word with which it would {lacking}; a bool\'s are "true" and "false"',
        severity="warning",
        key=True,
    )
