"""The review at a question: the artifact, its verdict, and its history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from loopkit.engine.events import Waiting
from loopkit.engine.findings import NOT_NAMED_AGAIN, Finding, Report
from loopkit.engine.ledger import normalise
from loopkit.engine.payloads import Artifact, Choice, Version
from loopkit.engine.questions import short_ids
from loopkit.engine.revisions import full_counters, most_of, why_full
from loopkit.engine.rounds import Attempt, Round
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import describe_type
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.facts import ERROR, UNANSWERED
from loopkit.language.machine import NO_FINDING
from loopkit.language.states.each import CHANGED_TOO, CONFLICT
from loopkit.machine.edges import Edge
from loopkit.machine.graph import Graph
from loopkit.machine.scope import ReportItems
from loopkit.text import indent_lines, item, one_line, or_empty, plural, printable
from loopkit.text.editing import changed_lines
from loopkit.views.amounts import moment

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
    parts = [*_artifacts(run, artifacts)]
    if report is not None:
        parts += _report_with_history(run, report, engine.program.report_items)
    return "\n".join([*parts, *arrival_lines(engine, run), *_question(question)])


def _artifacts(run: RunState, artifacts: dict[str, Artifact]) -> Iterator[str]:
    for name, artifact in artifacts.items():
        how = version_suffix(artifact.made, names_attempt=True)
        yield f"{RULE}\n{name}, {artifact.by}{how}\n{RULE}"
        text = artifact.text
        if artifact.is_data:
            text = json.dumps(artifact.data, indent=2, ensure_ascii=False)
        yield or_empty(printable(text).strip("\n"))
        yield RULE
        yield from change_lines(run, artifact)
        yield ""


def _report_with_history(run: RunState, report: Report, items: ReportItems | None) -> Iterator[str]:
    names = short_ids(report.findings)
    yield _verdict(report, report.state)
    for finding in report.findings:
        yield _finding(finding, items, history_of(finding, run, report), names[finding.id])
    for answer in report.answers:
        # Answers that are missing, or that count differently from what was given.
        if answer.reason and answer.verdict != "not_applicable":
            yield item(f"{answer.validator} ({answer.verdict}): {answer.reason}")
    yield from resolution_lines(report)
    yield from round_lines(run, report)


def _verdict(report: Report, judged_by: str) -> str:
    stalled = ", the last revisions made no progress" if report.stalled else ""
    return f"Verdict of {judged_by}: {verdict_text(report)}{stalled}"


def report_lines(
    report: Report | None, judged_by: str = "", items: ReportItems | None = None
) -> Iterator[str]:
    """A report as lines: the verdict of a state or validator, then every finding."""
    if report is None:
        return
    yield _verdict(report, judged_by or report.state)
    yield from (_finding(finding, items) for finding in report.findings)
    if report.reason:
        yield indent_lines(report.reason, "  ")


def _finding(finding: Finding, items: ReportItems | None, history: str = "", name: str = "") -> str:
    """A finding on a line; `name` is its short id, for a finding whose origin can change."""
    status = f" ({history})" if history else ""
    status += f" ({name})" if name and finding.origins else ""
    line = f"line {finding.line}" if finding.line else ""
    places = [place for place in (finding.location, line) if place]
    where = f" [{', '.join(places)}]" if places else ""
    more = ", ".join(map(one_line, items.further(finding.item))) if items is not None else ""
    where += f" ({more})" if more else ""
    whose = f"{reviewers_of(finding)}{origins_of(finding)}"
    return item(f"{weight(finding)}{finding.message}{where}{whose}{status}")


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
    authors = engine.program.graph.written
    if attempts := [f"{s} {n}" for s, n in run.attempts.items() if s in authors]:
        yield "Attempts: " + ", ".join(attempts)


def _why(engine: Engine, run: RunState, edge: Edge) -> Iterator[str]:
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
        full = full_counters(engine.program, run, back)
        if full and back.origin in (None, report.origin):
            yield why_full(full, f" of `{back.target}`")


def _counter_name(engine: Engine, counter: str) -> str:
    """The name of a counter: an edge as `validate → draft`, else that of its state or budget."""
    edge = engine.program.graph.by_id.get(counter)
    return f"{edge.source} → {edge.target}" if edge else counter.rpartition(":")[2]


def _question(question: Waiting) -> Iterator[str]:
    yield ""
    yield or_empty(printable(question.text))
    if question.wanted is not None and question.wanted.json_schema is not None:
        schema = json.dumps(question.wanted.json_schema, ensure_ascii=False)
        yield f"\nThe answer is JSON data of this schema:\n{printable(schema)}"
    yield from choice_lines(question.choices)
    if question.expires_at is not None:
        # In words that are true before that time and after it.
        late = "it no longer waits for the delivery"
        late = f"the answer is `{question.otherwise}`" if question.otherwise else late
        due = f"Due by {moment(question.expires_at)}: if the run goes on after that, {late}"
        yield f"{due}; as long as it has not, a later one is taken."


def choice_lines(choices: Sequence[Choice]) -> Iterator[str]:
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


def version_suffix(version: Version, *, names_attempt: bool = False) -> str:
    """How a run made a version, in brackets; empty for the only attempt of an author.

    `names_attempt` is whether the text before it names the attempt.
    """
    attempts = version.attempt if names_attempt else version.attempts
    parts = [] if version.version in (0, 1, attempts) else [f"version {version.version}"]
    if version.attempts > 1 and not names_attempt:
        parts.append(plural(version.attempts, "attempt"))
    return phase_and_fallback(version, *parts)


def phase_and_fallback(version: Version, *before: str) -> str:
    parts = [*before, *([f"phase {one_line(version.phase)}"] if version.phase else [])]
    if version.fallback:
        why = version.fallback_reason
        parts.append(f"fallback: {one_line(why)}" if why else "fallback")
    return f" ({', '.join(parts)})" if parts else ""


MOST_LINES = 60
MOST_STEPS = 24
"""How many states of a long route are shown, the last ones."""


def verdict_text(report: Report) -> str:
    """A verdict with the number of findings: `fail, 3 blocking findings, 1 warning`."""
    parts: list[str] = [report.verdict]
    parts += [plural(len(report.blocking), "blocking finding")] if report.blocking else []
    parts += [plural(len(report.warnings), "warning")] if report.warnings else []
    is_said = report.severity in ("", NO_FINDING, *(f.severity for f in report.findings))
    parts += [] if is_said else [f"severity {report.severity}"]
    parts += [f"score {report.score:g}"] if report.score is not None else []
    return ", ".join(parts)


def weight(finding: Finding) -> str:
    """The severity of a finding; empty for a blocking error."""
    if finding.severity == ERROR:
        return "" if finding.blocking else "not blocking: "
    return f"{finding.severity}: "


def reviewers_of(finding: Finding) -> str:
    return f" (found by {', '.join(finding.reviewers)})" if finding.reviewers else ""


def origins_of(finding: Finding) -> str:
    if not finding.origins:
        return ""
    label = "origin assumed" if finding.defaulted else "origin"
    return f" ({label}: {', '.join(finding.origins)})"


def round_lines(run: RunState, report: Report) -> Iterator[str]:
    rounds = list(run.rounds_at.get(report.state, ()))
    if len(rounds) < 2:
        return
    yield "Attempts judged:"
    abandoned = _attempts_given_up(run, rounds)
    for entry in rounds:
        status = " (given up)" if entry.attempt in abandoned else ""
        here = " (shown here)" if entry.report == report else ""
        yield f"  {entry.report.attempt}: {verdict_text(entry.report)}{status}{here}"


def history_of(finding: Finding, run: RunState, report: Report) -> str:
    """In which earlier attempts a finding appeared, in a few words; empty for a new one."""
    if finding.status == "new":
        return ""
    before = _earlier_rounds(run, report)
    had = [r.report.attempt for r in before if any(f.id == finding.id for f in r.report.findings)]
    if not had:
        return finding.status
    if finding.status == "regressed":
        return f"regressed: it was in attempt {', '.join(map(str, had))}, then not"
    # The first of the consecutive attempts that had it.
    attempts = [r.report.attempt for r in before]
    until_last = reversed(attempts[: attempts.index(had[-1]) + 1])
    *_, since = takewhile(had.__contains__, until_last)
    return f"{finding.status} since attempt {since}"


def resolution_lines(report: Report) -> Iterator[str]:
    for title, findings in (
        ("Resolved by this attempt:", report.resolved),
        (f"Found before, and {NOT_NAMED_AGAIN}:", report.unnamed),
        ("Found before, and not looked for in this attempt:", report.unseen),
    ):
        if findings:
            yield title
            yield from (item(finding.message) for finding in findings)


def change_lines(run: RunState, artifact: Artifact) -> Iterator[str]:
    """How an artifact differs from the last earlier attempt that was judged."""
    earlier = [r for r in run.rounds if r.judged.name == artifact.name]
    abandoned = _attempts_given_up(run, earlier)
    kept = [r.judged for r in earlier if r.attempt not in abandoned]
    before = [a for a in kept if a.attempt < artifact.attempt and a.author == artifact.author]
    if not before:
        return
    last = max(before, key=lambda version: version.attempt)
    if artifact.tree and last.tree:
        between = range(last.attempt + 1, artifact.attempt)
        dropped = {attempt for attempt, *_ in abandoned}
        is_next = all((artifact.author, attempt) in dropped for attempt in between)
        if last.tree == artifact.tree:
            yield f"It is the same as attempt {last.attempt}."
            return
        if not is_next:
            return
        # The artifact itself is a diff from the first state.
        diff = printable(artifact.fields["last_change"]).splitlines()
    elif normalise(last) == normalise(artifact):
        yield f"It is the same as attempt {last.attempt}, white space aside."
        return
    else:
        diff = changed_lines(artifact_lines(last), artifact_lines(artifact), context=2)
    yield f"Changed since attempt {last.attempt}:"
    yield from (f"  {line}".rstrip() for line in diff[:MOST_LINES])
    if len(diff) > MOST_LINES:
        yield f"  … and {plural(len(diff) - MOST_LINES, 'more line')}"


def route_lines(graph: Graph, run: RunState) -> Iterator[str]:
    """The route of a run on one line; consecutive visits of one state are folded."""
    steps = [graph.by_id[edge].source for edge in run.route if edge in graph.by_id]
    if not steps:
        return
    names = [one_line(step) for step in (*steps, run.state)]
    gap = ["…"] if len(names) > MOST_STEPS else []
    counts = ((step, sum(1 for _ in same)) for step, same in groupby(names[-MOST_STEPS:]))
    folded = (step if number == 1 else f"{step} ×{number}" for step, number in counts)
    yield f"Route: {' → '.join([*gap, *folded])}"


def _earlier_rounds(run: RunState, report: Report) -> list[Round]:
    rounds = list(run.rounds_at.get(report.state, ()))
    own = next((i for i, r in enumerate(rounds) if r.report == report), len(rounds))
    abandoned = _attempts_given_up(run, rounds)
    return [entry for entry in rounds[:own] if entry.attempt not in abandoned]


def _attempts_given_up(run: RunState, rounds: Iterable[Round]) -> set[Attempt]:
    """The attempts of these rounds that are not part of the current line."""
    lines = {state: set(known.line.by_attempt) for state, known in run.rounds_at.items()}
    return {r.attempt for r in rounds if r.attempt not in lines[r.report.state]}


def artifact_lines(artifact: Artifact) -> list[str]:
    text = artifact.text
    if artifact.is_data:
        text = json.dumps(artifact.data, indent=2, ensure_ascii=False, sort_keys=True)
    return printable(text).splitlines()


MOST_CONFLICTS = 10


def conflicts_of(result: Mapping[str, Any]) -> Iterator[str]:
    """The files of a child that could not be merged, each with the reason; none without any."""
    found = result["findings"] if result["outcome"] == CONFLICT else []
    found = [one for one in found if one["message"].startswith(CHANGED_TOO)]
    for one in found[:MOST_CONFLICTS]:
        yield f"{one_line(one['location'])}: {one['message']}"
    if (more := len(found) - MOST_CONFLICTS) > 0:
        yield f"and {plural(more, 'other file', ',')}"
