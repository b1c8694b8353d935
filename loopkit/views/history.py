"""The history of an artifact: its rounds, the last change, and the path of the run."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from loopkit.engine.events import Artifact
from loopkit.engine.findings import Finding, Report
from loopkit.engine.ledger import normalise
from loopkit.engine.rounds import Attempt, Round
from loopkit.engine.state import RunState
from loopkit.language.severities import ERROR
from loopkit.machine.graph import Graph
from loopkit.text import item, one_line, plural, printable

MOST_LINES = 60
"""How many lines of a diff are shown."""
MOST_STEPS = 24
"""How many states of a long way are shown, the last ones."""


def counted(report: Report) -> str:
    """A verdict with what was found: `fail, 3 blocking findings, 1 warning`."""
    parts: list[str] = [report.verdict]
    parts += [plural(len(report.blocking), "blocking finding")] if report.blocking else []
    parts += [plural(len(report.warnings), "warning")] if report.warnings else []
    parts += [f"score {report.score:g}"] if report.score is not None else []
    return ", ".join(parts)


def weight(finding: Finding) -> str:
    """How bad a finding is, where that is not simply an error."""
    if finding.severity == ERROR:
        return "" if finding.blocking else "not blocking: "
    return f"{finding.severity}: "


def found_by(finding: Finding) -> str:
    """Who named a finding that several reviewers share."""
    return f" (found by {', '.join(finding.reviewers)})" if finding.reviewers else ""


def origins_of(finding: Finding) -> str:
    """Who has to mend it, where the machine has origins, and whether nobody has said so."""
    if not finding.origins:
        return ""
    told = "origin assumed" if finding.defaulted else "origin"
    return f" ({told}: {', '.join(finding.origins)})"


def round_lines(run: RunState, report: Report | None) -> Iterator[str]:
    """The verdict of each attempt that the state of a report judged, where there were several."""
    rounds = _rounds(run, report.state) if report else []
    if len(rounds) < 2:
        return
    yield "Attempts judged:"
    given_up = _given_up(run, rounds)
    for entry in rounds:
        left = " (given up)" if entry.attempt in given_up else ""
        here = " (shown here)" if entry.report == report else ""
        yield f"  {entry.report.attempt}: {counted(entry.report)}{left}{here}"


def past(finding: Finding, run: RunState, report: Report) -> str:
    """What earlier attempts had of a finding, in a few words; nothing of a new one."""
    if finding.status == "new":
        return ""
    before = _before(run, report)
    had = [r.report.attempt for r in before if any(f.id == finding.id for f in r.report.findings)]
    if not had:
        return finding.status
    if finding.status == "regressed":
        return f"back: it was in attempt {', '.join(map(str, had))}, and gone"
    # Of attempts in a row that had it, the first.
    attempts = [r.report.attempt for r in before]
    since = had[-1]
    for attempt in reversed(attempts[: attempts.index(had[-1]) + 1]):
        if attempt not in had:
            break
        since = attempt
    return f"since attempt {since}"


def resolved_lines(report: Report) -> Iterator[str]:
    """What the attempt before still had, and what nobody looked for this time."""
    if report.resolved:
        yield "Resolved by this attempt:"
        yield from (item(finding.message) for finding in report.resolved)
    if report.unseen:
        yield "Found before, and not looked for in this attempt:"
        yield from (item(finding.message) for finding in report.unseen)


def change_lines(run: RunState, artifact: Artifact) -> Iterator[str]:
    """How an artifact differs from the attempt before it, as far as that was judged."""
    earlier = [r for r in run.rounds if r.judged.name == artifact.name]
    given_up = _given_up(run, earlier)
    kept = [r.judged for r in earlier if r.attempt not in given_up]
    before = [a for a in kept if a.attempt < artifact.attempt and a.author == artifact.author]
    if not before:
        return
    last = max(before, key=lambda version: version.attempt)
    if artifact.tree and last.tree:
        between = range(last.attempt + 1, artifact.attempt)
        lost = {attempt for attempt, *_ in given_up}
        is_next = all((artifact.author, attempt) in lost for attempt in between)
        yield from _folder_lines(last, artifact, is_next=is_next)
        return
    if normalise(last) == normalise(artifact):
        yield f"It is the same as attempt {last.attempt}, white space aside."
        return
    yield f"Changed since attempt {last.attempt}:"
    diff = list(
        difflib.unified_diff(printed_lines(last), printed_lines(artifact), lineterm="", n=2)
    )[2:]
    yield from _shortened(diff)


def _folder_lines(last: Artifact, artifact: Artifact, *, is_next: bool) -> Iterator[str]:
    """What the newest attempt changed in a folder, which is shown against its first state."""
    if last.tree == artifact.tree:
        yield f"It is the same as attempt {last.attempt}."
    elif is_next:
        yield f"Changed since attempt {last.attempt}:"
        yield from _shortened(printable(artifact.fields["last_change"]).splitlines())


def _shortened(diff: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}".rstrip() for line in diff[:MOST_LINES])
    if len(diff) > MOST_LINES:
        yield f"  … and {plural(len(diff) - MOST_LINES, 'more line')}"


def way_lines(graph: Graph, run: RunState) -> Iterator[str]:
    """The states that the run went through, with the verdicts on its way."""
    steps = [graph.by_id[edge].source for edge in run.route if edge in graph.by_id]
    if not steps:
        return
    told = [one_line(step) for step in (*steps, run.state)]
    shown = told[-MOST_STEPS:]
    gap = ["…"] if len(told) > MOST_STEPS else []
    counts = ((step, sum(1 for _ in same)) for step, same in groupby(shown))
    folded = (step if number == 1 else f"{step} ×{number}" for step, number in counts)
    yield f"Route: {' → '.join([*gap, *folded])}"


def _before(run: RunState, report: Report) -> list[Round]:
    rounds = _rounds(run, report.state)
    own = next((i for i, r in enumerate(rounds) if r.report == report), len(rounds))
    given_up = _given_up(run, rounds)
    return [entry for entry in rounds[:own] if entry.attempt not in given_up]


def _rounds(run: RunState, state: str) -> list[Round]:
    return list(run.rounds_at.get(state, ()))


def _given_up(run: RunState, rounds: Iterable[Round]) -> set[Attempt]:
    """The attempts among these that no later one starts from."""
    lines = {state: set(known.line.attempts) for state, known in run.rounds_at.items()}
    return {r.attempt for r in rounds if r.attempt not in lines[r.report.state]}


def printed_lines(artifact: Artifact) -> list[str]:
    """An artifact line by line; data as indented JSON."""
    text = artifact.text
    if artifact.is_data:
        text = json.dumps(artifact.data, indent=2, ensure_ascii=False, sort_keys=True)
    return printable(text).splitlines()
