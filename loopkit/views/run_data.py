"""Runs as data for other programs, and in lines: status, usage, last report, what comes next.

Besides: all versions of an artifact, and how two differ; and the children of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.events import Event, Reread, Started, Suspended, Waiting, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Artifact, HumanAnswer
from loopkit.engine.records import Record, Usage
from loopkit.engine.state import Child, RunState
from loopkit.journal.records import RunRow
from loopkit.machine.scope import ReportItems
from loopkit.text import columns, indent_lines, item, one_line, or_empty, plural
from loopkit.text.editing import changed_lines
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import ancestors_of, place_of, resume_line
from loopkit.views.amounts import cost_of, duration, usage_text
from loopkit.views.review import (
    artifact_lines,
    conflicts_of,
    phase_and_fallback,
    report_lines,
    verdict_text,
    version_suffix,
)


class RunSummary(Record, frozen=True, kw_only=True):
    """A run in a list."""

    run: str
    machine: str
    status: str
    """`new`, `running`, `waiting`, `suspended`, `finished` or `cancelled`; `interrupted` where the
    process that drove it is gone; `damaged` or `unreadable` where its records are."""
    state: str = ""
    """The active state, or the last one."""
    outcome: str | None = None
    """The final state."""
    success: bool | None = None
    """Whether that is a success."""
    is_driven: bool = False
    """Whether a process has the run in hand."""
    created_at: float
    """Unix time."""
    updated_at: float
    """Unix time of its last event."""
    seq: int
    """The number of its last event."""
    usage: Usage = Usage()
    """What it and its children have spent."""
    fault: str = ""
    """What is wrong with its records."""


class ShownVersion(Record, frozen=True, kw_only=True):
    """One version of an artifact, without its content."""

    artifact: str
    number: int
    """Which version it is in the run, from 1."""
    author: str
    """The state that wrote it."""
    attempt: int
    """Which work of that state it was."""
    is_data: bool
    """Whether its content is JSON."""
    is_fallback: bool = False
    is_edited: bool = False
    """A person has changed it."""
    is_infeasible: bool = False
    """Its author said that it can't be done."""
    fault: str = ""
    """Why it is no proper artifact."""
    size: int
    """Characters of its content."""
    report: Report | None = None
    """The last report on it."""


class AskedQuestion(Record, frozen=True, kw_only=True):
    """An open question, of a run or of one of its children."""

    run: str
    """The run that asks, which an answer has to name."""
    place: str
    """Where that belongs in the family; empty for the run itself."""
    question: Waiting


class ChildRun(Record, frozen=True, kw_only=True):
    """A run that a state of this one has begun."""

    state: str
    key: str
    """What names its item; empty where there is only one."""
    summary: RunSummary


class RunData(Record, frozen=True, kw_only=True):
    """Everything about a run but its events and the content of its artifacts."""

    summary: RunSummary
    parent: str | None = None
    """The run that began it."""
    definition: str
    """Digest of the resolved definition that holds now."""
    folder: str
    input: dict[str, Any]
    limits: dict[str, Any]
    """Limits that were set for the run over those of its machine."""
    route: tuple[str, ...]
    """The ids of the edges that it took, in order."""
    artifacts: dict[str, int]
    """The version that each artifact has now, from 1; 0 is not known."""
    report: Report | None
    """The last report."""
    questions: tuple[AskedQuestion, ...]
    """What it and its children ask now."""
    answers: dict[str, HumanAnswer]
    """The last answer to each state that asks."""
    suspended: Suspended | None
    """Why it stopped, and what can be done about it."""
    result: dict[str, Any]
    """The artifacts that it has ended with."""
    children: tuple[ChildRun, ...]


def summary_of(row: RunRow, state: RunState, usage: Usage) -> RunSummary:
    finished = state.finished
    return RunSummary(
        run=row.run,
        machine=row.machine,
        status=status_of(state, is_driven=row.is_driven),
        state=state.state,
        outcome=finished.outcome if finished else None,
        success=finished.success if finished else None,
        is_driven=row.is_driven,
        created_at=row.created_at,
        updated_at=row.updated_at,
        seq=row.seq,
        usage=usage,
    )


def unreadable_summary(row: RunRow, cause: str, *, is_damaged: bool) -> RunSummary:
    status = "damaged" if is_damaged else "unreadable"
    empty = summary_of(row, RunState(), Usage())
    return empty.replace(status=status, is_driven=False, fault=cause)


def run_data(
    summary: RunSummary,
    state: RunState,
    asked: Sequence[OpenQuestion],
    children: Sequence[ChildRun],
) -> RunData:
    return RunData(
        summary=summary,
        parent=next(ancestors_of(state.run), None),
        definition=state.definition,
        folder=state.folder,
        input=state.input,
        limits=dict(state.limits),
        route=tuple(state.route),
        artifacts={name: artifact.version for name, artifact in state.artifacts.items()},
        report=state.last_report,
        questions=tuple(
            AskedQuestion(run=one.state.run, place=one.place, question=one.question)
            for one in asked
        ),
        answers=dict(state.answers),
        suspended=state.suspended,
        result=state.finished.result if state.finished else {},
        children=tuple(children),
    )


def as_shown_version(kept: KeptVersion) -> ShownVersion:
    artifact = kept.artifact
    return ShownVersion(
        artifact=artifact.name,
        number=kept.number,
        author=artifact.author,
        attempt=artifact.attempt,
        is_data=artifact.is_data,
        is_fallback=artifact.fallback,
        is_edited=artifact.edited,
        is_infeasible=artifact.infeasible,
        fault=artifact.fault,
        size=artifact.size,
        report=kept.report,
    )


def status_of(state: RunState, *, is_driven: bool) -> str:
    """The status in one word; `interrupted` if the process that drove the run is gone."""
    if state.waits_for_children:
        return "waiting"
    is_under_way = state.status in ("new", "running")
    return "interrupted" if is_under_way and not is_driven else state.status


def standing_of(state: RunState) -> str:
    """The active state of a run; or its outcome, and what had failed although it succeeds."""
    if (finished := state.finished) is None:
        return state.state
    although = f", although {finished.although}" if finished.although else ""
    return f"{_in_words(finished.outcome, finished.success)}{although}"


def _in_words(outcome: str, success: bool) -> str:
    return f"{outcome} ({'success' if success else 'failure'})"


def summary(
    state: RunState,
    hints: Sequence[str],
    usage: Usage,
    *,
    is_driven: bool,
    items: ReportItems | None = None,
) -> Iterator[str]:
    """A run in lines, each a paragraph, without the open question, which has a view of its own.

    `hints` continue a suspended run; `usage` is that of its family; `items` are the further fields
    of findings in its machine.
    """
    status = status_of(state, is_driven=is_driven)
    place = standing_of(state)
    yield f"{state.run}: {status} at {place}" if place else f"{state.run}: {status}"
    yield f"spent: {usage_text(usage)}, {duration(usage.time_s)} of work"
    yield from _answers(state)
    for name, value in state.input.items():
        yield f"input {name}: {one_line(or_empty(text_or_json(value)), 80)}"
    if state.status != "waiting":
        entered = (edge.partition("[")[0].partition(".")[0] for edge in state.route)
        yield "route: " + " → ".join((*entered, state.state))
        yield from report_lines(state.last_report, items=items)
    if state.suspended is not None:
        why = "" if state.waits_for_children else f"suspended ({state.suspended.reason}): "
        yield f"{why}{state.suspended.message}"
        yield from hints
    elif state.finished is not None and state.error:
        yield f"ended after an error: {state.error}"
    elif status == "interrupted":
        yield f"resume with: {resume_line(state.run)}"
    yield from _trees(state)
    yield from _results(state)


def filled_in(form: Mapping[str, object]) -> dict[str, str]:
    return {name: text_or_json(value) for name, value in form.items() if value is not None}


def _answers(state: RunState) -> Iterator[str]:
    for name, answer in state.answers.items():
        filled = ", ".join(f"{field} {value}" for field, value in filled_in(answer.form).items())
        edited = "edited" if answer.edit is not None else ""
        details = "; ".join(part for part in (one_line(answer.comment), filled, edited) if part)
        more = f": {details}" if details else ""
        yield f"answer {name}: {answer.choice} (by {answer.by}){more}"


def _trees(state: RunState) -> Iterator[str]:
    if conflicts := state.finished.conflicts if state.finished else ():
        files = one_line(", ".join(conflicts), 1_000)
        yield f"not merged, because they have changed in the workspace as well: {files}"
    verb = "left its work" if state.is_over else "works"
    for isolated in state.isolated.values():
        if isolated.source not in state.merged:
            yield f"{verb} in {isolated.place}, not in {isolated.source}"


def _results(state: RunState) -> Iterator[str]:
    if state.finished is None:
        return
    for name, value in state.finished.result.items():
        label = version_suffix(state.finished.picked[name])
        shown = or_empty(text_or_json(value))
        yield f"result {name}{label}:\n{indent_lines(shown, '  ')}"


@dataclass(slots=True)
class KeptVersion:
    """One version of an artifact, and the last report on it."""

    number: int
    artifact: Artifact
    report: Report | None = None

    @property
    def title(self) -> str:
        """`plan 2, attempt 2 by draft: fail, 1 blocking finding`."""
        artifact = self.artifact
        how = phase_and_fallback(artifact.made) + (", edited" if artifact.edited else "")
        verdict = verdict_text(self.report) if self.report is not None else "not judged"
        return one_line(f"{artifact.name} {self.number}, {artifact.by}{how}: {verdict}")

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.report.findings if self.report is not None else ()


def versions_of(events: Iterable[Event]) -> dict[str, list[KeptVersion]]:
    found: dict[str, list[KeptVersion]] = {}
    for event in events:
        left = (event.artifact,) if isinstance(event, Worked | Reread) else ()
        for artifact in event.artifacts if isinstance(event, Started) else left:
            if artifact is not None:
                versions = found.setdefault(artifact.name, [])
                versions.append(KeptVersion(len(versions) + 1, artifact))
        if isinstance(event, Worked) and event.report is not None:
            # A report may be about an earlier version than the last.
            known = found.get(event.report.artifact, ())
            for each in [one for one in known if event.report.version in (0, one.number)][-1:]:
                each.report = event.report
    return found


def diff_lines(before: KeptVersion, after: KeptVersion) -> Iterator[str]:
    yield f"--- {before.title}"
    yield f"+++ {after.title}"
    yield from changed_lines(artifact_lines(before.artifact), artifact_lines(after.artifact))
    for here, there in ((before, after), (after, before)):
        known = {finding.id for finding in there.findings}
        if only := [finding for finding in here.findings if finding.id not in known]:
            yield f"Found only in {here.artifact.name} {here.number}:"
            yield from (item(finding.message) for finding in only)


MOST_SHOWN = 20


class Row(NamedTuple):
    place: str
    run: str
    """Empty if it never began."""
    outcome: str
    """Empty if it has not ended."""
    success: bool
    result: Mapping[str, Any]


def rows_of(state: RunState) -> Iterator[tuple[str, list[Row]]]:
    for name, children in state.children.items():
        begun = sorted(children.values(), key=lambda child: child.started.index)
        rows = [_row(child) for child in begun]
        if name != state.state and name in state.artifacts and begun[0].started.key:
            # Children that never began are known from the results alone.
            rows += [
                Row(place_of(name, key), "", one["outcome"], False, one)
                for key, one in state.artifacts[name].data.items()
                if key not in children
            ]
        yield name, rows


def _row(child: Child) -> Row:
    place = place_of(child.started.state, child.started.key)
    run = child.started.child
    if child.ended is None:
        return Row(place, run, "", False, {})
    result = child.ended.result
    return Row(place, run, result["outcome"], result["success"], result)


def rows_to_show(rows: Sequence[Row]) -> list[Row]:
    """All rows, or if there are many, the first that have not succeeded."""
    if len(rows) <= MOST_SHOWN:
        return list(rows)
    return [row for row in rows if not row.success][:MOST_SHOWN]


def child_lines(
    state: RunState, name: str, rows: Sequence[Row], known: Mapping[str, RunState], driven: bool
) -> Iterator[str]:
    """The children of a state; `known` has the states of those shown that have not ended."""
    first = next(iter(state.children[name].values())).started
    total = first.of
    if total > 1 or first.key:
        counts = Counter(row.outcome or "not ended" for row in rows)
        words = [plural(total, "item", ",")]
        words += [f"{count:,} {outcome}" for outcome, count in counts.items()]
        words += [f"{total - len(rows):,} not begun"] if total > len(rows) else []
        yield f"{name}: {', '.join(words)}"
    shown = rows_to_show(rows)
    if table := [_cells(row, known.get(row.run), driven) for row in shown]:
        for line in columns([("item", "status", "rounds", "calls", "cost"), *table], "<<>>>"):
            yield f"  {line}"
    for row in shown:
        if row.outcome:
            yield from (f"  {row.place}: {told}" for told in conflicts_of(row.result))
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more: loopkit runs ls {state.run}"


def _cells(row: Row, state: RunState | None, driven: bool) -> tuple[str, ...]:
    if row.outcome:
        result = row.result
        status = _in_words(row.outcome, row.success)
        amounts = (str(result["rounds"]), str(result["calls"]), cost_of(result["cost"]))
        return row.place, status, *(amounts if row.run else ("", "", ""))
    if state is None:
        return row.place, "new", "", "", ""
    status = status_of(state, is_driven=driven)
    if state.state:
        status = f"{status} at {state.state}"
    usage, rounds = state.usage, str(len(state.rounds))
    return row.place, status, rounds, str(usage.agent_calls), cost_of(usage.cost_usd)
