"""Runs as data for other programs: what an API tells of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopkit.drive.stored_runs import OpenQuestion
from loopkit.engine.events import HumanAnswer, Suspended, Usage, Waiting
from loopkit.engine.findings import Report
from loopkit.engine.records import Record
from loopkit.engine.state import RunState
from loopkit.journal.records import RunRow
from loopkit.text.run_ids import ancestors_of
from loopkit.views.summary import status_of
from loopkit.views.version_diff import KeptVersion


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
    """The summary of a run; `usage` is that of its family."""
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
    """The summary of a run whose records can't be read, with the cause."""
    return RunSummary(
        run=row.run,
        machine=row.machine,
        status="damaged" if is_damaged else "unreadable",
        created_at=row.created_at,
        updated_at=row.updated_at,
        seq=row.seq,
        fault=cause,
    )


def run_data(
    summary: RunSummary,
    state: RunState,
    asked: Sequence[OpenQuestion],
    children: Sequence[tuple[str, RunSummary]],
) -> RunData:
    """The data of a run; `asked` are the open questions of its family, `children` by their keys."""
    begun = {
        child.started.child: child.started.state
        for inner in state.children.values()
        for child in inner.values()
    }
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
        children=tuple(
            ChildRun(state=begun[one.run], key=key, summary=one) for key, one in children
        ),
    )


def as_shown_version(kept: KeptVersion) -> ShownVersion:
    """A version of an artifact as data, without its content."""
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
        size=len(artifact.text),
        report=kept.report,
    )
