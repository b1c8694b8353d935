"""The form in which a judge has to answer, by its rule and its agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loopkit.language import Agent, JudgeRule
from loopkit.language.datatypes import parse_fields
from loopkit.language.severities import Severities
from loopkit.validators.judges.form import AnswerForm
from loopkit.validators.judges.own_form import OwnForm
from loopkit.validators.judges.report_form import ReportForm
from loopkit.validators.judges.text_form import TextForm

if TYPE_CHECKING:
    from loopkit.engine.findings import Finding


def form_of(
    rule: JudgeRule,
    agent: Agent,
    levels: Severities,
    patterns: Mapping[str, str],
    known: Sequence[Finding] = (),
    origins: Sequence[str] = (),
) -> AnswerForm:
    """The form of a judge's answer; in our own it says of each known finding whether it is open.

    `origins` are those of the machine; a report may say which of them injected a defect.
    """
    if rule.verdict is not None:
        return TextForm(reading=rule.verdict, patterns=patterns, levels=levels, cap=rule.severity)
    form = report_form_of(rule, agent, levels, origins)
    return form.replace(known=known) if isinstance(form, OwnForm) else form


def report_form_of(
    rule: JudgeRule, agent: Agent, levels: Severities, origins: Sequence[str] = ()
) -> ReportForm:
    """The form of a judge's report; the `schema:` of its agent counts beside a `map` only."""
    if rule.map is None:
        return OwnForm(levels=levels, cap=rule.severity, score=rule.score, origins=origins)
    datatype = parse_fields(agent.schema_) if agent.schema_ else None
    return ReportForm(
        levels=levels,
        cap=rule.severity,
        score=rule.score,
        parts=rule.map,
        datatype=datatype,
        origins=origins,
    )
