"""The changes that events make to the state of a run: the one fold behind everything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from loopkit.engine.best_version import go_back, restore
from loopkit.engine.events import (
    OF_AUTHORS,
    Acted,
    Adding,
    Alerted,
    Baselined,
    Cancelled,
    Captured,
    ChildEnded,
    ChildStarted,
    Decided,
    Emitted,
    Entered,
    Event,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Isolated,
    Kept,
    Merged,
    Merging,
    Protected,
    Repaired,
    Replied,
    Reread,
    Restored,
    Resumed,
    Setting,
    Settled,
    Started,
    Suspended,
    Undone,
    Waiting,
    Worked,
)
from loopkit.engine.findings import Report
from loopkit.engine.payloads import Artifact, Deferral
from loopkit.engine.questions import apply_answer
from loopkit.engine.records import Usage
from loopkit.engine.revisions import after_edge
from loopkit.engine.rounds import Round, Rounds
from loopkit.engine.state import Child, Exchange, RunState, Task, opening_of_last_turn
from loopkit.engine.telemetry import Figures
from loopkit.engine.template_values import defer_feedback
from loopkit.language.facts import COMPLETE
from loopkit.values import replace

T = TypeVar("T")


def fold(events: Iterable[Event]) -> RunState:
    """The state after these events, the first of which begins the run."""
    state = RunState()
    for event in events:
        apply(state, event)
    return state


def apply(state: RunState, event: Event, happened: list[Event] | None = None) -> None:
    """Change a state by the event that happens next, and append that to those that `happened`."""
    if happened is not None:
        happened.append(event)
    if state.counted is not None and event.type in Figures.TAKEN:
        state.counted = (*state.counted, event)
    if (change := CHANGES.get(type(event))) is not None:
        change(state, event)


def _start(state: RunState, event: Started) -> None:
    state.run = event.run
    state.machine = event.machine
    state.definition = event.definition
    state.script = event.script
    state.folder = event.folder
    state.isolate = event.isolate
    state.input = dict(event.input)
    for artifact in event.artifacts:
        _take(state, artifact)
    if event.limits:
        state.limits = dict(event.limits)
    if event.feedback is not None:
        state.pending = {event.feedback.to: (event.feedback,)}
    state.status = "running"


def _enter(state: RunState, event: Entered) -> None:
    state.status = "running"
    state.state = event.state
    state.visit = event.visit
    state.visits = visits = state.visits.copy()
    visits[event.state] = event.visit
    state.entered_by = event.by
    state.question = None


def _intend(state: RunState, event: Intended) -> None:
    if (task := state.tasks.get(event.task)) is not None:
        state.tasks[event.task] = task.after_intent(event)
    else:
        asked_at = state.asked_at.setdefault(event.agent, {})
        index = sum(asked_at.values())
        place_index = asked_at.get(event.place, 0)
        asked_at[event.place] = place_index + 1
        state.tasks[event.task] = Task(
            agent=event.agent,
            place=event.place,
            index=index,
            place_index=place_index,
            sent=1,
            fallback=event.fallback,
        )
    state.open_calls[event.key] = event
    if event.offered:
        state.offered = {**state.offered, **event.offered}


def _act(state: RunState, event: Acted) -> None:
    name = state.open_calls[event.key].task
    if event.session is not None:
        state.tasks[name] = state.tasks[name].replace(session=event.session)


def _reply(state: RunState, event: Replied) -> None:
    # Nothing is decided by it, and it may be long.
    event = event.replace(stream="") if event.stream else event
    intent = state.open_calls.pop(event.key)
    with_whom = (intent.state, intent.agent)
    exchanges = state.conversations.get(with_whom, ()) if intent.role in OF_AUTHORS else ()
    task, before = state.tasks[intent.task], None
    if exchanges and state.is_revision and exchanges[-1].task != intent.task:
        before = opening_of_last_turn(exchanges)
    exchange = Exchange(
        intent.prompt,
        event,
        before and (before.opening or before),
        intent.task,
        intent.goes_on,
        task.tool_calls,
    )
    state.tasks[intent.task] = task.after_reply(exchange)
    if event.prompt_cut:
        state.cut_short |= {intent.agent}
    if intent.role in OF_AUTHORS:
        state.conversations[with_whom] = (*exchanges, exchange)
    _end_call(state, intent, event)


def _fail(state: RunState, event: Failed) -> None:
    event = event.replace(stream="") if event.stream else event
    intent = state.open_calls.pop(event.key)
    state.tasks[intent.task] = task = state.tasks[intent.task].after_failure(event)
    if event.begins_anew:
        # What tools have given meanwhile goes on in the fresh session.
        with_whom = (intent.state, intent.agent)
        state.conversations.pop(with_whom, None)
        if task.exchanges:
            state.conversations[with_whom] = task.exchanges
    _end_call(state, intent, event)


def _end_call(state: RunState, intent: Intended, event: Replied | Failed) -> None:
    state.usage = state.usage.plus(event.usage)
    if event.in_words:
        state.in_words |= {(intent.agent, intent.model)}
    if state.question is not None and state.awaited == event.key:
        state.status = "running"
        state.question = None


def _doubt(state: RunState, event: InDoubt) -> None:
    intent = state.open_calls.pop(event.key)
    task = state.tasks[intent.task]
    # A command has no retry budget to spend, and where a person decides, that is what counts.
    spent = intent.asks_agent and event.policy == "retry"
    # One that was ended has certainly ended; of one whose process died nobody knows.
    state.tasks[intent.task] = task.replace(
        tries=task.tries + spent,
        settled=task.settled + bool(event.reason),
        doubted=task.doubted + 1,
    )
    # The call may have been in doubt before, for another reason.
    state.doubt_reasons = _without(state.doubt_reasons, event.key)
    if event.reason:
        state.doubt_reasons = {**state.doubt_reasons, event.key: event.reason}
    if event.policy == "ask":
        state.doubts = {**state.doubts, event.key: intent}
    elif event.policy == "fail":
        state.refused |= {intent.task}
    state.usage = state.usage.plus(event.charge(intent.reserved))


def _settle(state: RunState, event: Settled) -> None:
    intent = state.doubts[event.key]
    state.doubts = _without(state.doubts, event.key)
    if event.choice == "fail":
        state.refused |= {intent.task}
    state.status = "running"
    state.question = None


def _keep_baseline(state: RunState, event: Baselined) -> None:
    place = (event.state, event.validator)
    found = {**state.baselines.get(place, {}), event.rule: frozenset(event.findings)}
    state.baselines = {**state.baselines, place: found}
    state.usage = state.usage.plus(Usage(time_s=event.time_s))


def _start_child(state: RunState, event: ChildStarted) -> None:
    if event.state not in state.children:
        state.children = {**state.children, event.state: {}}
    state.children[event.state][event.key] = Child(event)


def _end_child(state: RunState, event: ChildEnded) -> None:
    begun = state.children[event.state]
    begun[event.key] = Child(begun[event.key].started, event)
    # Children work at the same time, so only the time that this run counts itself is added.
    state.usage = state.usage.plus(event.usage.replace(time_s=event.time_s))


def _add(state: RunState, event: Adding | Setting) -> None:
    state.adding = event


def _work(state: RunState, event: Worked) -> None:
    state.error = event.error
    if event.time_s:
        state.usage = replace(state.usage, time_s=state.usage.time_s + event.time_s)
    if event.restored and (best := state.best_round()):
        state.last_report = best.report
        restore(state, event.restored)
    if event.artifact is not None:
        _take(state, event.artifact)
    if event.answer is not None:
        state.answers = {**state.answers, event.state: event.answer}
        apply_answer(state, event.answer, event.considered)
    if event.report is not None:
        _report(state, event.report)
    if event.outcome in ("done", "content"):
        state.attempts = attempts = state.attempts.copy()
        attempts[event.state] = attempts.get(event.state, 0) + 1
        state.facts = facts = state.facts.copy()
        facts[event.state] = event.facts
        if event.artifact is not None:
            if event.made_from or state.made_from:
                _write(state, event, event.artifact.name)
            if event.artifact.author == event.state:
                # Its author has worked on all feedback.
                state.pending = _without(state.pending, event.state)
                state.deferred = _without(state.deferred, event.state)
                state.delivered = _without(state.delivered, event.state)


def _keep(state: RunState, event: Kept) -> None:
    times = state.times_kept.get(event.state, 0) + 1
    state.times_kept = {**state.times_kept, event.state: times}


def _emit(state: RunState, event: Emitted) -> None:
    state.phase = event.phase


def _report(state: RunState, report: Report) -> None:
    state.reports = reports = state.reports.copy()
    reports[report.state] = report
    state.verdicts = verdicts = state.verdicts.copy()
    verdicts[report.state] = report.verdict
    state.last_report = report
    if report.verdict in COMPLETE:
        if state.pending:
            defer_feedback(state, lambda deferral: deferral.by == report.state)
        judged = state.artifacts[report.artifact]
        number = len(state.rounds)
        entry = Round(report, judged, state.artifacts, state.reports, number)
        state.rounds = (*state.rounds, entry)
        state.rounds_at = rounds = state.rounds_at.copy()
        rounds[report.state] = (rounds.get(report.state) or Rounds()).plus(entry)


def _without(known: Mapping[str, T], name: str) -> Mapping[str, T]:
    if name not in known:
        return known
    return {other: value for other, value in known.items() if other != name}


def _write(state: RunState, event: Worked, artifact: str) -> None:
    """Note what an artifact was made from, or remove the note of an earlier author."""
    others = _without(state.made_from, artifact)
    made = {artifact: (event.state, event.made_from)} if event.made_from else {}
    state.made_from = {**others, **made}


def _capture(state: RunState, event: Captured) -> None:
    state.captured[event.task] = event
    if event.tree:
        state.originals = {(event.artifact, event.place): event.tree, **state.originals}


def _protect(state: RunState, event: Protected) -> None:
    state.protected = event


def _undo(state: RunState, _: Undone) -> None:
    state.protected = None


def _take(state: RunState, artifact: Artifact) -> None:
    """Make a version the current one, also of its file or folder; an edit is in none."""
    name, number = artifact.name, artifact.version
    state.artifacts = artifacts = state.artifacts.copy()
    artifacts[name] = artifact
    state.versions = versions = state.versions.copy()
    versions[name] = number or versions.get(name, 0) + 1
    if artifact.place and not artifact.edited:
        state.on_disk = {**state.on_disk, artifact.place: (name, number)}


def _end_restore(state: RunState, event: Restored) -> None:
    restored = (state.artifacts[name] for name in event.artifacts)
    state.on_disk = {**state.on_disk, **{a.place: (a.name, a.version) for a in restored}}
    left = {name: a for name, a in state.unrestored.items() if name not in event.artifacts}
    state.unrestored = left
    state.restored_in = state.state


def _isolate(state: RunState, event: Isolated) -> None:
    state.isolated = {**state.isolated, event.source: event}


def _merge(state: RunState, event: Merging) -> None:
    state.merging = {**state.merging, event.source: event}


def _end_merge(state: RunState, event: Merged) -> None:
    state.merging = _without(state.merging, event.source)
    state.merged |= {event.source}


def _decide(state: RunState, event: Decided) -> None:
    if event.best is not None:
        go_back(state, event.best)
    if event.spends or event.resets:
        state.counters = after_edge(state.counters, event.spends, event.resets)
    for feedback in event.feedback:
        waiting = (*state.pending.get(feedback.to, ()), feedback)
        state.pending = {**state.pending, feedback.to: waiting}
    if event.feedback:
        # The feedback of an error edge itself is not about any work.
        is_of_error = event.spends and event.edge.startswith(f"{event.source}.on_error.")
        told_of_work = event.feedback[1:] if is_of_error else event.feedback
        for to in {told.to for told in told_of_work}:
            state.revised = {**state.revised, to: state.revised.get(to, 0) + 1}
    if state.deferred and (waited := state.deferred.get(event.target, ())):
        state.deferred = _without(state.deferred, event.target)
        deferrals = (*state.delivered.get(event.target, ()), *waited)
        state.delivered = {**state.delivered, event.target: deferrals}
    for deferral in event.deferrals:
        later = (*state.deferred.get(deferral.to, ()), deferral)
        state.deferred = {**state.deferred, deferral.to: later}
    if event.left_because is not None:
        state.left_because = event.left_because
    state.is_revision = bool(event.spends)
    state.route = (*state.route, event.edge)
    state.then_used = state.then_used or event.edge == f"{event.source}.limit"


def _alert(state: RunState, event: Alerted) -> None:
    state.alerted = event


def _wait(state: RunState, event: Waiting) -> None:
    state.status = "waiting"
    state.question = event


def _suspend(state: RunState, event: Suspended) -> None:
    state.status = "suspended"
    state.suspended = event
    state.usage = state.usage.plus(Usage(time_s=event.time_s))


def _repair(state: RunState, event: Repaired) -> None:
    """Change to the other definition; the event has the names that differ there."""
    state.definition = event.definition
    state.repairs += 1
    state.input = {**state.input, **event.input}
    state.limits = {name: v for name, v in state.limits.items() if name not in event.limits}
    state.route = tuple([event.edges.get(edge, edge) for edge in state.route])
    if state.entered_by is not None:
        state.entered_by = event.edges.get(state.entered_by, state.entered_by)
    _rename_edges(state, event.edges)
    state.counters = dict(event.counters)
    _move_tasks(state, event.tasks)
    if not state.state:
        # Nothing has been done yet, so the baselines are taken again.
        state.baselines = {}


def _rename_edges(state: RunState, names: Mapping[str, str]) -> None:
    """Give feedback and deferrals that wait the new ids of their edges."""

    def rename(each: Deferral) -> Deferral:
        return each.replace(edge=names.get(each.edge or "", each.edge))

    state.deferred = {to: tuple(map(rename, waiting)) for to, waiting in state.deferred.items()}
    state.pending = {
        to: tuple(each.replace(tells=each.tells and rename(each.tells)) for each in waiting)
        for to, waiting in state.pending.items()
    }


def _move_tasks(state: RunState, names: Mapping[str, str]) -> None:
    named = ((names.get(task, task), known) for task, known in state.tasks.items())
    state.tasks = {name: known for name, known in named if name}
    moved = {names.get(task, task): event for task, event in state.captured.items()}
    state.captured = {name: event for name, event in moved.items() if name}
    state.refused = frozenset(names.get(task, task) for task in state.refused)
    state.doubts = {
        key: intent.replace(task=names.get(intent.task, intent.task))
        for key, intent in state.doubts.items()
    }


def _resume(state: RunState, event: Resumed) -> None:
    # Exchanges no longer count: all if they were unusable, else only the earlier ones.
    unusable = state.suspended is not None and state.suspended.reason == "content"
    for key, task in state.tasks.items():
        state.tasks[key] = task.after_resume(len(task.exchanges) if unusable else task.renewed)
    state.status = "running" if state.question is None else "waiting"
    if state.suspended is None or state.suspended.reason != "limit":
        state.refused = frozenset()
    state.suspended = None
    state.limits = {**state.limits, **event.limits}


def _finish(state: RunState, event: Finished) -> None:
    state.status = "finished"
    state.finished = event


def _cancel(state: RunState, _: Cancelled) -> None:
    state.status = "cancelled"
    state.question = None
    state.suspended = None


CHANGES: dict[type[Event], Callable[[RunState, Any], None]] = {
    Started: _start,
    Intended: _intend,
    Acted: _act,
    Replied: _reply,
    Failed: _fail,
    InDoubt: _doubt,
    Settled: _settle,
    ChildStarted: _start_child,
    ChildEnded: _end_child,
    Adding: _add,
    Setting: _add,
    Worked: _work,
    Kept: _keep,
    Baselined: _keep_baseline,
    Captured: _capture,
    Protected: _protect,
    Undone: _undo,
    Isolated: _isolate,
    Merging: _merge,
    Merged: _end_merge,
    Reread: lambda state, event: _take(state, event.artifact),
    Restored: _end_restore,
    Decided: _decide,
    Alerted: _alert,
    Emitted: _emit,
    Entered: _enter,
    Waiting: _wait,
    Suspended: _suspend,
    Repaired: _repair,
    Resumed: _resume,
    Finished: _finish,
    Cancelled: _cancel,
}
"""The change that each type of event makes; other events make none."""
