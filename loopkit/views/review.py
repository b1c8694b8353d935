"""The review at a question: the artifact, its verdict, and its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loopkit.engine.events import Artifact, Choice, Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.reclassification import short_ids
from loopkit.engine.revisions import find_full_counter, most_of
from loopkit.engine.state import RunState
from loopkit.language.datatypes import describe_type, parse_record
from loopkit.language.facts import UNANSWERED
from loopkit.machine.edges import Edge
from loopkit.machine.report_items import ReportItems
from loopkit.text import indent_lines, item, one_line, or_empty, printable
from loopkit.views.amounts import moment
from loopkit.views.history import (
    change_lines,
    history_of,
    origins_of,
    resolution_lines,
    reviewers_of,
    round_lines,
    route_lines,
    verdict_text,
    weight,
)
from loopkit.views.versions import suffix_beside_attempt

if TYPE_CHECKING:
    from loopkit.engine.macrostep import Engine

WHY_WIDTH = 300
RULE = "─" * 72


def review(engine: Engine, run: RunState) -> str:
    """The open question of a run, with everything that is needed to answer it."""
    question = run.question
    if question is None:
        return ""
    artifacts, report = engine.questions.contents(run)
    parts = [
        *_artifacts(run, artifacts),
        *_report_with_history(run, report, engine.program.report_items),
        *arrival_lines(engine, run),
        *_question(question),
    ]
    return "\n".join(parts)


def _artifacts(run: RunState, artifacts: dict[str, Artifact]) -> Iterator[str]:
    for name, artifact in artifacts.items():
        by = f"attempt {artifact.attempt} by {artifact.author}"
        yield f"{RULE}\n{name}, {by}{suffix_beside_attempt(artifact.made)}\n{RULE}"
        text = artifact.text
        if artifact.is_data:
            text = json.dumps(artifact.data, indent=2, ensure_ascii=False)
        yield or_empty(printable(text).strip("\n"))
        yield RULE
        yield from change_lines(run, artifact)
        yield ""


def _report_with_history(
    run: RunState, report: Report | None, items: ReportItems | None
) -> Iterator[str]:
    """A report, with the history of each finding and the verdicts on earlier attempts."""
    if report is None:
        return
    yield f"Verdict of {report.state}: {verdict_text(report)}{_stalling(report)}"
    names = short_ids(report.findings)
    for finding in report.findings:
        yield _finding(finding, items, history_of(finding, run, report), names[finding.id])
    yield from resolution_lines(report)
    for answer in report.answers:
        # Answers that are missing, or that count differently from what was given.
        if answer.reason and answer.verdict != "not_applicable":
            yield item(f"{answer.validator} ({answer.verdict}): {answer.reason}")
    yield from round_lines(run, report)


def _stalling(report: Report) -> str:
    return ", the last revisions made no progress" if report.stalled else ""


def report_lines(
    report: Report | None, judged_by: str = "", items: ReportItems | None = None
) -> Iterator[str]:
    """A report as lines: the verdict of a state or validator, then every finding.

    `items` are the further fields of findings in its machine.
    """
    if report is None:
        return
    yield f"Verdict of {judged_by or report.state}: {verdict_text(report)}{_stalling(report)}"
    yield from (_finding(finding, items) for finding in report.findings)
    if report.reason:
        yield indent_lines(report.reason, "  ")


def _finding(finding: Finding, items: ReportItems | None, history: str = "", name: str = "") -> str:
    """A finding on a line; `name` is its short id, for a finding whose origin can change."""
    kind = weight(finding)
    status = f" ({history})" if history else ""
    status += f" ({name})" if name and finding.origins else ""
    line = f"line {finding.line}" if finding.line else ""
    places = [place for place in (finding.location, line) if place]
    where = f" [{', '.join(places)}]" if places else ""
    more = ", ".join(map(one_line, items.further(finding.item))) if items is not None else ""
    where += f" ({more})" if more else ""
    whose = f"{reviewers_of(finding)}{origins_of(finding)}"
    return item(f"{kind}{finding.message}{where}{whose}{status}")


def arrival_lines(engine: Engine, run: RunState) -> Iterator[str]:
    """The missing artifacts of the question, how the run came here, and the attempts used."""
    human = engine.program.plans[run.state].human
    shown = human.show if human is not None else ()
    if absent := [name for name in shown if name != "report" and name not in run.artifacts]:
        yield f"Not written so far: {', '.join(absent)}"
    yield from route_lines(engine.program.graph, run)
    edge = engine.program.graph.by_id.get(run.entered_by or "")
    if edge is not None:
        condition = f", because `{edge.guard}`" if edge.guard else ""
        why = "; ".join(_why(engine, run, edge))
        yield f"Came here from {edge.source}{condition}{': ' * bool(why)}{one_line(why, WHY_WIDTH)}"
    program, spent = engine.program, run.counters
    used = [
        f"{_counter_name(engine, counter)} {spent[counter]} of {most_of(program, run, counter)}"
        for counter in program.graph.caps
        if spent.get(counter, 0)
    ]
    if used:
        yield "Revisions: " + ", ".join(used)
    authors = engine.program.graph.authors
    if attempts := [f"{s} {n}" for s, n in run.attempts.items() if s in authors]:
        yield "Attempts: " + ", ".join(attempts)


def _why(engine: Engine, run: RunState, edge: Edge) -> Iterator[str]:
    """Why the previous state took this edge."""
    if edge.event != "done":
        yield "a limit was reached" if edge.event == "limit" else f"a {edge.event} error"
        if run.error:
            yield run.error
        return
    report = run.reports.get(edge.source)
    if report is None:
        return
    if report.verdict in UNANSWERED:
        yield f"{report.verdict}: {report.reason}"
    if report.verdict != "fail":
        return
    if report.stalled:
        yield "the last revisions made no progress"
    for back in engine.program.graph.revise_edges[edge.source]:
        if back.origin in (None, report.origin):
            _, reason = find_full_counter(engine.program, run, back, f" of `{back.target}`")
            yield from [reason] if reason else []


def _counter_name(engine: Engine, counter: str) -> str:
    """The name of a counter: an edge as `validate → draft`, or the name of a budget."""
    edge = engine.program.graph.by_id.get(counter)
    return f"{edge.source} → {edge.target}" if edge else counter.removeprefix("budget:")


def _question(question: Waiting) -> Iterator[str]:
    yield ""
    yield or_empty(printable(question.text))
    if question.wanted is not None and question.wanted.json_schema is not None:
        schema = json.dumps(question.wanted.json_schema, ensure_ascii=False)
        yield f"\nThe answer is JSON data of this schema:\n{printable(schema)}"
    yield from choice_lines(question.choices)
    if question.expires_at is not None:
        late = (
            f"the answer is `{question.otherwise}`" if question.otherwise else "nobody waits for it"
        )
        yield f"After {moment(question.expires_at)} {late}."


def choice_lines(choices: Sequence[Choice]) -> Iterator[str]:
    """Each choice, whether it takes a comment, and why it is closed if it is."""
    for choice in choices:
        closed = f"  (closed: {choice.closed})" if choice.closed else ""
        comment = "  (with a comment)" if choice.takes_comment else ""
        yield f"  {choice.name}{comment}{closed}"


def option_lines(question: Waiting, *, has_origins: bool = False) -> Iterator[str]:
    """The options of `loopkit answer` for this question, besides the choice."""
    for name, field in (parse_record(question.form).fields or {}).items():
        yield f"  --form {name}=…   ({describe_type(field)})"
    if question.edit is not None:
        yield f"  --edit FILE   (your version of {question.edit})"
    if has_origins:
        yield "  --origin FINDING=STATE   (the state that has to fix a finding)"
