"""Runs as data for other programs: status, usage, last report, versions and children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loopkit.engine.events import Suspended, Waiting
from loopkit.engine.findings import Report
from loopkit.engine.payloads import HumanAnswer
from loopkit.engine.records import Record, Usage
from loopkit.engine.state import Child, RunState
from loopkit.journal.records import RunRow
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json
from loopkit.text.run_ids import place_of
from loopkit.views.amounts import usage_suffix
from loopkit.views.steps import Call, KeptVersion, Step


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
    since: float
    """Unix time of its last event."""


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


def call_title(call: Call, step: Step) -> str:
    """`draft, attempt 2: author writer (openai/gpt-5) answered · 3 s · 1,204 tokens`."""
    intent = call.intent
    task = f" ({intent.asked_at})" if intent.asked_at not in (step.state, intent.agent) else ""
    model = f" ({one_line(call.model)})" if call.model else ""
    status = call.status if call.status != "open" else "waits for the answer"
    who = f"{intent.role} {intent.agent}{task}{model}"
    spent = usage_suffix(call.usage)
    return f"{step.state}, attempt {step.attempt}: {who} {status}{spent}"


def word_of(status: str, success: bool | None) -> str:
    """The status of a run; of one that has finished, whether that is a success."""
    if status != "finished":
        return status
    return "succeeded" if success else "failed"


def standing_of(state: RunState) -> str:
    """The active state of a run; or its outcome, and what had failed although it succeeds."""
    if (finished := state.finished) is None:
        return state.state
    although = f", although {finished.although}" if finished.although else ""
    return f"{in_words(finished.outcome, finished.success)}{although}"


def in_words(outcome: str, success: bool) -> str:
    return f"{outcome} ({'success' if success else 'failure'})"


def filled_in(form: Mapping[str, object]) -> dict[str, str]:
    return {name: text_or_json(value) for name, value in form.items() if value is not None}


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
