"""The review at a question: the artifact, its verdict, and its history."""

from __future__ import annotations

import json
from collections.abc import Iterator

from loopkit.engine.events import Artifact, Waiting
from loopkit.engine.findings import Finding, Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.revisions import most_of
from loopkit.engine.state import RunState
from loopkit.language.datatypes import described, parse_record
from loopkit.text import indented, item, or_empty, printable
from loopkit.views.history import (
    change_lines,
    counted,
    found_by,
    past,
    resolved_lines,
    round_lines,
    way_lines,
    weight,
)

RULE = "─" * 72


def review(engine: Engine, run: RunState) -> str:
    """The open question of a run, with everything that is needed to answer it."""
    question = run.question
    if question is None:
        return ""
    artifacts, report = engine.question_contents(run)
    parts = [
        *_artifacts(run, artifacts),
        *_judged(run, report),
        *_way(engine, run),
        *_question(question),
    ]
    return "\n".join(parts)


def _artifacts(run: RunState, artifacts: dict[str, Artifact]) -> Iterator[str]:
    for name, artifact in artifacts.items():
        label = " (fallback)" if artifact.fallback else ""
        yield f"{RULE}\n{name}, attempt {artifact.attempt} by {artifact.author}{label}\n{RULE}"
        yield or_empty(printable(_text(artifact)).strip("\n"))
        yield RULE
        yield from change_lines(run, artifact)
        yield ""


def _text(artifact: Artifact) -> str:
    """The artifact as a person reads it: data as indented JSON."""
    if not artifact.is_data:
        return artifact.text
    return json.dumps(artifact.data, indent=2, ensure_ascii=False)


def _judged(run: RunState, report: Report | None) -> Iterator[str]:
    """A report with what earlier attempts had of it."""
    if report is None:
        return
    yield f"Verdict of {report.state}: {counted(report)}{_stalling(report)}"
    for finding in report.findings:
        yield _finding(finding, past(finding, run, report))
    yield from resolved_lines(report)
    yield from _unheard(report)
    yield from round_lines(run, report)


def _stalling(report: Report) -> str:
    return ", the last revisions made no progress" if report.stalled else ""


def _unheard(report: Report) -> Iterator[str]:
    """The reviewers whose answer is missing, or counts otherwise than they gave it."""
    for answer in report.answers:
        if answer.reason and answer.verdict != "not_applicable":
            yield item(f"{answer.validator} ({answer.verdict}): {answer.reason}")


def report_lines(report: Report | None, judged_by: str = "") -> Iterator[str]:
    """A report as lines: the verdict of a state or validator, then every finding."""
    if report is None:
        return
    yield f"Verdict of {judged_by or report.state}: {counted(report)}{_stalling(report)}"
    yield from (_finding(finding) for finding in report.findings)
    if report.reason:
        yield indented(report.reason, "  ")


def _finding(finding: Finding, history: str = "") -> str:
    kind = weight(finding)
    status = f" ({history})" if history else ""
    line = f"line {finding.line}" if finding.line else ""
    places = [place for place in (finding.location, line) if place]
    where = f" [{', '.join(places)}]" if places else ""
    return item(f"{kind}{finding.message}{where}{found_by(finding)}{status}")


def _way(engine: Engine, run: RunState) -> Iterator[str]:
    """How the run came here, and the attempts used."""
    yield from way_lines(engine.program.graph, run)
    edge = engine.program.graph.by_id.get(run.entered_by or "")
    if edge is not None:
        condition = f", because `{edge.guard}`" if edge.guard else ""
        yield f"Came here from {edge.source}{condition}"
    program, spent = engine.program, run.counters
    used = [
        f"{_counted(engine, counter)} {spent[counter]} of {most_of(program, run, counter)}"
        for counter in program.graph.caps
        if spent.get(counter, 0)
    ]
    if used:
        yield "Revisions: " + ", ".join(used)
    worked = [f"{s} {n}" for s, n in run.attempts.items() if s in engine.program.graph.authors]
    if worked:
        yield "Attempts: " + ", ".join(worked)


def _counted(engine: Engine, counter: str) -> str:
    """What a counter counts: an edge as `validate → draft`, or a budget by its name."""
    edge = engine.program.graph.by_id.get(counter)
    return f"{edge.source} → {edge.target}" if edge else counter.removeprefix("budget:")


def _question(question: Waiting) -> Iterator[str]:
    yield ""
    yield or_empty(printable(question.text))
    for choice in question.choices:
        closed = f"  (closed: {choice.closed})" if choice.closed else ""
        comment = "  (with a comment)" if choice.takes_comment else ""
        yield f"  {choice.name}{comment}{closed}"


def option_lines(question: Waiting) -> Iterator[str]:
    """The options of `loopkit answer` that an answer can have besides its choice."""
    for name, field in (parse_record(question.form).fields or {}).items():
        yield f"  --form {name}=…   ({described(field)})"
    if question.edit is not None:
        yield f"  --edit FILE   (your version of {question.edit})"
