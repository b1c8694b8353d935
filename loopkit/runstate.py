"""The state of a run, folded from its events and from nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from loopkit.events import (
    Artifact,
    Baselined,
    Cancelled,
    Decided,
    Entered,
    Event,
    Failed,
    Feedback,
    Finished,
    HumanAnswer,
    InDoubt,
    Intended,
    Replied,
    Resumed,
    Settled,
    Started,
    Suspended,
    Usage,
    Waiting,
    Worked,
)
from loopkit.findings import Report

Status = Literal["new", "running", "waiting", "suspended", "finished", "cancelled"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A prompt and its reply, both committed."""

    prompt: str
    reply: Replied


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work for an agent or a command: its tries, re-asks and replies."""

    agent: str
    place: str
    index: int
    """How many tasks this agent had before."""
    place_index: int
    """How many of them at this place."""
    sent: int = 0
    """Calls that were intended, for the next key."""
    tries: int = 0
    """Failed ones since the last reply or resume: what the retry budget counts."""
    settled: int = 0
    """Calls that were answered or failed for certain."""
    retry_at: float | None = None
    exchanges: tuple[Exchange, ...] = ()
    renewed: int = 0
    """Exchanges before the last resume, which no longer count against re-asks."""
    failed: Failed | None = None
    """The last try, where it failed."""


@dataclass(frozen=True)
class Round:
    """One complete report and the artifacts as they were then.

    What later rounds compare themselves with is made once.
    """

    report: Report
    judged: Artifact
    snapshot: Mapping[str, Artifact]

    @cached_property
    def attempt(self) -> tuple[str, int]:
        """Which attempt was judged: of whom, and its number."""
        return self.judged.author, self.judged.attempt

    @cached_property
    def ids(self) -> frozenset[str]:
        """Of everything that was found."""
        return frozenset(finding.id for finding in self.report.findings)

    @cached_property
    def blocking_ids(self) -> frozenset[str]:
        return frozenset(finding.id for finding in self.report.blocking)

    @cached_property
    def blocked_by(self) -> object:
        """What blocked; equal to nothing else where one id stands for whatever fails."""
        is_identified = all(finding.identified for finding in self.report.blocking)
        return self.blocking_ids if is_identified else object()


@dataclass(frozen=True)
class RunState:
    """Where a run stands. Mappings are never changed in place."""

    run: str = ""
    machine: str = ""
    definition: str = ""
    script: str | None = None
    folder: str = ""
    status: Status = "new"
    input: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    visit: int = 0
    entered_by: str | None = None
    visits: Mapping[str, int] = field(default_factory=dict)
    attempts: Mapping[str, int] = field(default_factory=dict)
    """How often each state has completed its work, content faults included."""
    counters: Mapping[str, int] = field(default_factory=dict)
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    answers: Mapping[str, HumanAnswer] = field(default_factory=dict)
    facts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What each state's last completed work left for guards."""
    reports: Mapping[str, Report] = field(default_factory=dict)
    last_report: Report | None = None
    rounds: tuple[Round, ...] = ()
    pending: Mapping[str, tuple[Feedback, ...]] = field(default_factory=dict)
    """Feedback that waits for the state it is addressed to."""
    tasks: Mapping[str, Task] = field(default_factory=dict)
    open_calls: Mapping[str, Intended] = field(default_factory=dict)
    """Intended, and neither answered nor failed nor in doubt."""
    doubts: Mapping[str, Intended] = field(default_factory=dict)
    """In doubt, and waiting for a person's word."""
    refused: frozenset[str] = frozenset()
    """Tasks of calls in doubt that must not be made again."""
    baselines: Mapping[tuple[str, str], Mapping[str, frozenset[str]]] = field(default_factory=dict)
    """By state and validator, then by rule: the ids of what its command found at first."""
    conversations: Mapping[str, tuple[Exchange, ...]] = field(default_factory=dict)
    """All committed exchanges of each authoring state."""
    usage: Usage = Usage()
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Limits that were raised since the start."""
    then_used: bool = False
    route: tuple[str, ...] = ()
    """The edges taken, in order."""
    question: Waiting | None = None
    suspended: Suspended | None = None
    finished: Finished | None = None
    seq: int = 0

    def evolve(self, **changes: Any) -> RunState:
        """The same state with other values in some fields.

        A run has thirty fields and each event changes a few: `dataclasses.replace` would look
        at all of them every time, which took half of a step.
        """
        evolved = object.__new__(RunState)
        evolved.__dict__.update(self.__dict__)
        evolved.__dict__.update(changes)
        return evolved

    @property
    def committed(self) -> Usage:
        """What has been spent and what open calls have reserved."""
        total = self.usage
        for intent in self.open_calls.values():
            total = total.plus(intent.reserved)
        return total

    def runs_of(self, state: str) -> int:
        """How often the command of a `run` state came to an end, with a result or without."""
        tasks = (t for key, t in self.tasks.items() if t.agent == state and key.endswith(":run"))
        return sum(task.settled for task in tasks)

    def feedback_for(self, state: str) -> str:
        """The feedback that waits for a state, older first."""
        return "\n\n".join(feedback.text for feedback in self.pending.get(state, ()))


def fold(events: Iterable[Event], state: RunState | None = None) -> RunState:
    """The state after these events."""
    current = state or RunState()
    for event in events:
        current = FOLDS[event.type](current.evolve(seq=current.seq + 1), event)
    return current


def _started(state: RunState, event: Started) -> RunState:
    return state.evolve(
        run=event.run,
        machine=event.machine,
        definition=event.definition,
        script=event.script,
        folder=event.folder,
        input=event.input,
        limits=event.limits,
        status="running",
    )


def _entered(state: RunState, event: Entered) -> RunState:
    visits = {**state.visits, event.state: event.visit}
    return state.evolve(
        status="running",
        state=event.state,
        visit=event.visit,
        visits=visits,
        entered_by=event.by,
        question=None,
    )


def _intended(state: RunState, event: Intended) -> RunState:
    known = state.tasks.get(event.task)
    task = known or _new_task(state, event)
    return state.evolve(
        tasks={**state.tasks, event.task: replace(task, sent=task.sent + 1)},
        open_calls={**state.open_calls, event.key: event},
    )


def _new_task(state: RunState, event: Intended) -> Task:
    before = [task for task in state.tasks.values() if task.agent == event.agent]
    here = len([task for task in before if task.place == event.place])
    return Task(event.agent, event.place, index=len(before), place_index=here)


def _replied(state: RunState, event: Replied) -> RunState:
    intent = state.open_calls[event.key]
    exchange = Exchange(intent.prompt, event)
    task = state.tasks[intent.task]
    task = replace(
        task, tries=0, retry_at=None, failed=None, settled=task.settled + 1,
        exchanges=(*task.exchanges, exchange),
    )  # fmt: skip
    conversations = state.conversations
    if intent.role == "author":
        told = conversations.get(intent.state, ())
        conversations = {**conversations, intent.state: (*told, exchange)}
    return state.evolve(
        tasks={**state.tasks, intent.task: task},
        open_calls=_without(state.open_calls, event.key),
        conversations=conversations,
        usage=state.usage.plus(event.usage),
    )


def _failed(state: RunState, event: Failed) -> RunState:
    intent = state.open_calls[event.key]
    task = state.tasks[intent.task]
    task = replace(
        task, tries=task.tries + 1, settled=task.settled + 1, retry_at=event.retry_at, failed=event
    )
    return state.evolve(
        tasks={**state.tasks, intent.task: task},
        open_calls=_without(state.open_calls, event.key),
        usage=state.usage.plus(event.usage),
    )


def _in_doubt(state: RunState, event: InDoubt) -> RunState:
    intent = state.open_calls[event.key]
    task = state.tasks[intent.task]
    # A command in doubt has no retry budget to spend: only a process that died brought it here.
    spent = 0 if intent.role == "run" else 1
    tasks = {**state.tasks, intent.task: replace(task, tries=task.tries + spent)}
    doubts, refused = state.doubts, state.refused
    if event.policy == "ask":
        doubts = {**doubts, event.key: intent}
    elif event.policy == "fail":
        refused = refused | {intent.task}
    return state.evolve(
        tasks=tasks,
        doubts=doubts,
        refused=refused,
        open_calls=_without(state.open_calls, event.key),
        usage=state.usage.plus(intent.reserved),
    )


def _settled(state: RunState, event: Settled) -> RunState:
    intent = state.doubts[event.key]
    refused = state.refused | {intent.task} if event.choice == "fail" else state.refused
    return state.evolve(
        status="running",
        doubts=_without(state.doubts, event.key),
        refused=refused,
        question=None,
    )


def _baselined(state: RunState, event: Baselined) -> RunState:
    place = (event.state, event.validator)
    found = {**state.baselines.get(place, {}), event.rule: frozenset(event.findings)}
    return state.evolve(
        baselines={**state.baselines, place: found},
        usage=state.usage.plus(Usage(time_s=event.time_s)),
    )


def _worked(state: RunState, event: Worked) -> RunState:
    state = state.evolve(usage=state.usage.plus(Usage(time_s=event.time_s)))
    artifacts = {**state.artifacts, **event.restored}
    if event.artifact is not None:
        artifacts[event.artifact.name] = event.artifact
    state = state.evolve(artifacts=artifacts)
    if event.answer is not None:
        state = state.evolve(answers={**state.answers, event.state: event.answer})
    if event.report is not None:
        state = _reported(state, event.report)
    if event.outcome in ("done", "content"):
        state = _completed(state, event)
    return state


def _reported(state: RunState, report: Report) -> RunState:
    rounds = state.rounds
    if report.verdict in ("pass", "warn", "fail", "not_applicable"):
        judged = state.artifacts[report.artifact]
        rounds = (*rounds, Round(report, judged, state.artifacts))
    reports = {**state.reports, report.state: report}
    return state.evolve(reports=reports, last_report=report, rounds=rounds)


def _completed(state: RunState, event: Worked) -> RunState:
    attempts = {**state.attempts, event.state: state.attempts.get(event.state, 0) + 1}
    pending = state.pending
    if event.artifact is not None and event.artifact.author == event.state:
        pending = _without(pending, event.state)
    return state.evolve(
        attempts=attempts,
        facts={**state.facts, event.state: event.facts},
        pending=pending,
    )


def _decided(state: RunState, event: Decided) -> RunState:
    counters = {**state.counters, **dict.fromkeys(event.resets, 0)}
    for counter in event.spends:
        counters[counter] = counters.get(counter, 0) + 1
    pending = dict(state.pending)
    for feedback in event.feedback:
        pending[feedback.to] = (*pending.get(feedback.to, ()), feedback)
    return state.evolve(
        counters=counters,
        pending=pending,
        route=(*state.route, event.edge),
        then_used=state.then_used or event.edge.endswith(".limit"),
    )


def _waiting(state: RunState, event: Waiting) -> RunState:
    return state.evolve(status="waiting", question=event)


def _suspended(state: RunState, event: Suspended) -> RunState:
    usage = state.usage.plus(Usage(time_s=event.time_s))
    return state.evolve(status="suspended", suspended=event, usage=usage)


def _resumed(state: RunState, event: Resumed) -> RunState:
    tasks = {
        key: replace(task, tries=0, retry_at=None, failed=None, renewed=_renewed(state, task))
        for key, task in state.tasks.items()
    }
    return state.evolve(
        status="running" if state.question is None else "waiting",
        tasks=tasks,
        suspended=None,
        refused=frozenset(),
        limits={**state.limits, **event.limits},
    )


def _renewed(state: RunState, task: Task) -> int:
    """Replies that could not be used are asked for again; all others stay paid and are used."""
    unusable = state.suspended is not None and state.suspended.reason == "content"
    return len(task.exchanges) if unusable else task.renewed


def _finished(state: RunState, event: Finished) -> RunState:
    return state.evolve(status="finished", finished=event)


def _cancelled(state: RunState, _: Cancelled) -> RunState:
    return state.evolve(status="cancelled", question=None, suspended=None)


def _unchanged(state: RunState, _: Event) -> RunState:
    return state


def _without(mapping: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {k: v for k, v in mapping.items() if k != key}


FOLDS: dict[str, Callable[[RunState, Any], RunState]] = {
    "started": _started,
    "claimed": _unchanged,
    "held": _unchanged,
    "intended": _intended,
    "replied": _replied,
    "failed": _failed,
    "in_doubt": _in_doubt,
    "settled": _settled,
    "worked": _worked,
    "baselined": _baselined,
    "decided": _decided,
    "emitted": _unchanged,
    "entered": _entered,
    "waiting": _waiting,
    "suspended": _suspended,
    "resumed": _resumed,
    "refused": _unchanged,
    "finished": _finished,
    "cancelled": _cancelled,
}
