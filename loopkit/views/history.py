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
"""How many states of a long route are shown, the last ones."""


def verdict_text(report: Report) -> str:
    """A verdict with the number of findings: `fail, 3 blocking findings, 1 warning`."""
    parts: list[str] = [report.verdict]
    parts += [plural(len(report.blocking), "blocking finding")] if report.blocking else []
    parts += [plural(len(report.warnings), "warning")] if report.warnings else []
    parts += [f"score {report.score:g}"] if report.score is not None else []
    return ", ".join(parts)


def weight(finding: Finding) -> str:
    """The severity of a finding; empty for a blocking error."""
    if finding.severity == ERROR:
        return "" if finding.blocking else "not blocking: "
    return f"{finding.severity}: "


def reviewers_of(finding: Finding) -> str:
    """The reviewers of a panel that reported a finding; empty without a panel."""
    return f" (found by {', '.join(finding.reviewers)})" if finding.reviewers else ""


def origins_of(finding: Finding) -> str:
    """The states that have to fix a finding, if the machine has origins, and whether they are
    assumed."""
    if not finding.origins:
        return ""
    label = "origin assumed" if finding.defaulted else "origin"
    return f" ({label}: {', '.join(finding.origins)})"


def round_lines(run: RunState, report: Report | None) -> Iterator[str]:
    """The verdict on each attempt that the state of a report judged, if there were several."""
    rounds = _rounds(run, report.state) if report else []
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
        return f"back: it was in attempt {', '.join(map(str, had))}, and gone"
    # The first of the consecutive attempts that had it.
    attempts = [r.report.attempt for r in before]
    since = had[-1]
    for attempt in reversed(attempts[: attempts.index(had[-1]) + 1]):
        if attempt not in had:
            break
        since = attempt
    return f"since attempt {since}"


def resolution_lines(report: Report) -> Iterator[str]:
    """The findings that this attempt resolved, and those that were not looked for this time."""
    if report.resolved:
        yield "Resolved by this attempt:"
        yield from (item(finding.message) for finding in report.resolved)
    if report.unseen:
        yield "Found before, and not looked for in this attempt:"
        yield from (item(finding.message) for finding in report.unseen)


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
        yield from _folder_lines(last, artifact, is_next=is_next)
        return
    if normalise(last) == normalise(artifact):
        yield f"It is the same as attempt {last.attempt}, white space aside."
        return
    yield f"Changed since attempt {last.attempt}:"
    diff = list(
        difflib.unified_diff(artifact_lines(last), artifact_lines(artifact), lineterm="", n=2)
    )[2:]
    yield from _first_lines(diff)


def _folder_lines(last: Artifact, artifact: Artifact, *, is_next: bool) -> Iterator[str]:
    """What the newest attempt changed in a folder; its artifact is a diff from the first state."""
    if last.tree == artifact.tree:
        yield f"It is the same as attempt {last.attempt}."
    elif is_next:
        yield f"Changed since attempt {last.attempt}:"
        yield from _first_lines(printable(artifact.fields["last_change"]).splitlines())


def _first_lines(diff: Sequence[str]) -> Iterator[str]:
    yield from (f"  {line}".rstrip() for line in diff[:MOST_LINES])
    if len(diff) > MOST_LINES:
        yield f"  … and {plural(len(diff) - MOST_LINES, 'more line')}"


def route_lines(graph: Graph, run: RunState) -> Iterator[str]:
    """The route of a run on one line; consecutive visits of one state are folded."""
    steps = [graph.by_id[edge].source for edge in run.route if edge in graph.by_id]
    if not steps:
        return
    names = [one_line(step) for step in (*steps, run.state)]
    shown = names[-MOST_STEPS:]
    gap = ["…"] if len(names) > MOST_STEPS else []
    counts = ((step, sum(1 for _ in same)) for step, same in groupby(shown))
    folded = (step if number == 1 else f"{step} ×{number}" for step, number in counts)
    yield f"Route: {' → '.join([*gap, *folded])}"


def _earlier_rounds(run: RunState, report: Report) -> list[Round]:
    rounds = _rounds(run, report.state)
    own = next((i for i, r in enumerate(rounds) if r.report == report), len(rounds))
    abandoned = _attempts_given_up(run, rounds)
    return [entry for entry in rounds[:own] if entry.attempt not in abandoned]


def _rounds(run: RunState, state: str) -> list[Round]:
    return list(run.rounds_at.get(state, ()))


def _attempts_given_up(run: RunState, rounds: Iterable[Round]) -> set[Attempt]:
    """The attempts of these rounds that are not part of the current line."""
    lines = {state: set(known.line.attempts) for state, known in run.rounds_at.items()}
    return {r.attempt for r in rounds if r.attempt not in lines[r.report.state]}


def artifact_lines(artifact: Artifact) -> list[str]:
    """An artifact line by line; data as indented JSON."""
    text = artifact.text
    if artifact.is_data:
        text = json.dumps(artifact.data, indent=2, ensure_ascii=False, sort_keys=True)
    return printable(text).splitlines()
