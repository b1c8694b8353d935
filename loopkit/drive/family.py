"""Families: a run, and the runs of other machines that an `each` or `machine` state has begun.

A state that is entered again keeps the results that no finding names.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from loopkit.drive.active import INBOX_SECONDS, ActiveRun, ChildrenStopped, Gate, Stopped
from loopkit.drive.inbox import WAKE
from loopkit.drive.limits import Budget
from loopkit.drive.replies import data_artifact
from loopkit.engine.events import ChildEnded, ChildStarted, Suspended, Worked
from loopkit.engine.feedback import default_feedback
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Feedback
from loopkit.engine.records import Usage
from loopkit.engine.state import Child, RunState
from loopkit.engine.template_values import AllNames, blocking_for, plain_findings
from loopkit.language.input_faults import InvalidInput
from loopkit.language.states.each import (
    BLOCKED,
    CANCELLED,
    CHANGED_TOO,
    CONFLICT,
    EachState,
    MachineState,
)
from loopkit.machine.inputs import child_input, child_inputs
from loopkit.machine.item_list import Item, items_of
from loopkit.text import one_line
from loopkit.text.run_ids import place_of

KEY_DIGITS = 10
"""Digits of a key's digest that are part of a child's id."""
AGAIN = ".2"
"""The end of the id of an item's second run."""
NOT_MERGED = (
    "Others changed the same files meanwhile, so your work could not be merged. Do it again on "
    "what they have left in:"
)
ONLY = Item(key="", value=None, location="")
Inputs = Mapping[str, dict[str, Any]]
"""The input of each child, by the key of its item."""


async def perform_children(active: ActiveRun, name: str, state: EachState | MachineState) -> Worked:
    """Run the other machine for each item, or once; what can't be used is a content error."""
    names = AllNames(active.program, active.state)
    visit = active.state.visit
    items: Sequence[Item] = (ONLY,)
    try:
        if isinstance(state, EachState):
            items = items_of(state, names)
            inputs: Inputs = child_inputs(state, items, names)
        else:
            inputs = {ONLY.key: child_input(state, names)}
    except InvalidInput as error:
        message = "; ".join(fault.message for fault in error.faults)
        return Worked(state=name, visit=visit, outcome="content", error=message)
    family = Family(active, name, state, items, inputs)
    data: Mapping[str, Any] = await family.results()
    if isinstance(state, EachState):
        succeeded = sum(result["success"] for result in data.values())
        facts: dict[str, Any] = {
            "succeeded": succeeded,
            "failed": len(data) - succeeded,
            "total": len(data),
            "deadlocked": any(result["outcome"] == BLOCKED for result in data.values()),
        }
    else:
        data = data[ONLY.key]
        facts = {"outcome": data["outcome"]}
    attempt = active.state.attempts.get(name, 0) + 1
    return Worked(
        state=name,
        visit=visit,
        outcome="done",
        facts=facts,
        artifact=data_artifact(name, attempt, data),
        time_s=family.time_s,
    )


class Family:
    """The children of a state on one visit, and when each of them works."""

    def __init__(
        self,
        active: ActiveRun,
        name: str,
        state: EachState | MachineState,
        items: Sequence[Item],
        inputs: Inputs,
    ) -> None:
        self._active = active
        self._visit = active.state.visit
        self._name = name
        self._state = state
        self._places = {item.key: place for place, item in enumerate(items)}
        self._inputs = inputs
        self._budget = Budget(active.state.run, run=active, parent=active.budget.parent)
        self._hands: dict[str, ActiveRun] = {}
        """By their keys, the children that are driven."""
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._stopped: dict[str, RunState] = {}
        """By their keys, the children that stopped before their end."""
        self._woken: set[str] = set()
        """The runs of children that were answered before they stopped."""
        self._results: dict[str, Result] = {}
        self._feedback: Mapping[str, Feedback] = {}
        if self._visit > 1:
            self._results, self._feedback = plan_reentry(active, name, items, inputs)
        of_visit = {k: c for k, c in self._begun.items() if c.started.visit == self._visit}
        each = state if isinstance(state, EachState) else None
        self._again = each is not None and each.on_conflict == "again"
        over = {k: c for k, c in of_visit.items() if not self._has_to_run_again(c)}
        self._results |= {k: c.ended.result for k, c in over.items() if c.ended is not None}
        outcomes = {key: result["outcome"] for key, result in self._results.items()}
        self._schedule = Schedule(items, each, begun=of_visit, ended=outcomes)
        self._isolate = each.isolate if each else "none"
        self._to_merge = deque(self._schedule.merge_order() if self._isolate != "none" else ())
        self._held: set[str] = set()
        """The keys of those that are done but have to let others merge first."""
        self._gate = Gate(each.serial, each.alone) if each and (each.serial or each.alone) else None
        self._stop_on = each.stop_on if each else ()
        self._is_halted = any(r["outcome"] in self._stop_on for r in self._results.values())
        """Whether no more items are begun."""

    async def results(self) -> dict[str, Result]:
        """The result of each item, by key, once all have ended.

        Raises Stopped, LimitReached if a limit of this run leaves no room for a child, and
        ChildrenStopped where one can't go on.
        """
        # What the children that have begun and not ended are committed to.
        for child in self._open():
            self._budget.book(await self._active.children.commitment(child.started.child))
        self._budget.unsaid_s += await self._active.children.lost_time(self._active.state)
        # There may be no time left for this run, or for one above it.
        self._budget.require(Usage())
        # Before any child is driven: nobody works meanwhile.
        await self._active.children.ready(self._active, self._name)
        await self._drive()
        if self._active.stopping:
            raise Stopped(self.time_s)
        if self._budget.reached is not None:
            reached = self._budget.reached.as_own
            goes_on = self._active.program.graph.on(self._name, "limit")
            if goes_on and not self._active.state.then_used:
                await self._cancel(str(reached))
            reached.time_s = self.time_s
            raise reached
        if self._is_halted:
            await self._cancel(f"another item of `{self._name}` ended as one that stops all others")
        if self._stopped:
            stopped = {key: self._stopped[key] for key in self._places if key in self._stopped}
            raise ChildrenStopped(suspension(self._name, stopped, self.time_s))
        waits = "it waits for `{}`, which is {}"
        blocked = self._schedule.blocked
        left = {k: without_run(BLOCKED, waits.format(*why)) for k, why in blocked.items()}
        return {key: self._results.get(key) or left[key] for key in self._places}

    @property
    def time_s(self) -> float:
        """Seconds of work that no record has yet; reading it resets them."""
        return self._budget.take_time()

    @property
    def _begun(self) -> Mapping[str, Child]:
        return self._active.state.children.get(self._name, {})

    def _open(self) -> list[Child]:
        begun = self._begun.values()
        return [c for c in begun if c.started.visit == self._visit and c.ended is None]

    async def _cancel(self, reason: str) -> None:
        for child in self._open():
            key = child.started.key
            self._stopped.pop(key, None)
            state = await self._active.children.cancel_child(child.started.child, reason)
            if state is not None:
                await self._end(key, state)
        for key in self._places:
            if key not in self._schedule.blocked:
                self._results.setdefault(key, without_run(CANCELLED))

    async def _drive(self) -> None:
        stops = asyncio.ensure_future(self._active.wait_for_stop())
        try:
            while True:
                self._begin()
                if not self._tasks:
                    return
                waited: set[asyncio.Future[Any]] = {*self._tasks}
                if not self._active.stopping:
                    waited.add(stops)
                await asyncio.wait(
                    waited, timeout=INBOX_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for task in [task for task in self._tasks if task.done()]:
                    del self._tasks[task]
                    task.result()
                if self._active.stopping or self._budget.reached is not None:
                    self._halt()
                if self._active.children.inboxes.may_hold(self._active.claim.run):
                    await self._wake()
        except BaseException:
            # The other children finish their current work first: it may be paid for already.
            self._halt()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        finally:
            stops.cancel()

    async def _wake(self) -> None:
        if woken := [m for m in await self._active.claim.inbox() if m.kind == WAKE]:
            await self._active.append(consumes=[message.message_id for message in woken])
            self._woken.update(message.data for message in woken)
            for key in [key for key, child in self._stopped.items() if child.run in self._woken]:
                self._woken.discard(self._stopped.pop(key).run)
                self._schedule.take_up(key)

    def _begin(self) -> None:
        if self._is_halted:
            return
        for key in [key for key in self._held if self._is_next(key)]:
            self._held.remove(key)
            self._schedule.take_up(key)
        for item in self._schedule.begin():
            task = asyncio.ensure_future(self._run(item.key))
            self._tasks[task] = item.key

    def _halt(self) -> None:
        self._is_halted = True
        for child in self._hands.values():
            (child.abort if self._active.aborting else child.stop)()

    async def _run(self, key: str) -> None:
        child = await self._active.children.child(self._active, await self._record_start(key))
        if isinstance(child, ActiveRun):
            child.may_merge = lambda: self._is_next(key)
            child.gate = self._gate
            self._hands[key] = child
            if self._is_halted:
                self._halt()
            try:
                with self._budget.driving(child):
                    await self._active.children.drive(child)
            finally:
                del self._hands[key]
            child = child.state
        if child.is_over:
            await self._end(key, child)
            return
        self._schedule.leave(key)
        if child.run in self._woken:
            self._woken.discard(child.run)
            self._schedule.take_up(key)
        elif child.status == "running":
            self._held.add(key)
        else:
            self._stopped[key] = child

    def _is_next(self, key: str) -> bool:
        """Whether all items that are merged before this one have ended, or wait for somebody."""
        while self._to_merge and self._is_gone(self._to_merge[0]):
            self._to_merge.popleft()
        left = (k for k in self._to_merge if not (k in self._stopped or self._is_gone(k)))
        return key == next(left, key)

    def _is_gone(self, key: str) -> bool:
        return key in self._results or key in self._schedule.blocked

    def _has_to_run_again(self, child: Child) -> bool:
        """Whether what a child left could not be merged, for the first time."""
        is_conflict = child.ended is not None and child.ended.result["outcome"] == CONFLICT
        return self._again and is_conflict and not child.started.again

    async def _record_start(self, key: str) -> ChildStarted:
        begun = self._begun.get(key)
        begun = begun if begun and begun.started.visit == self._visit else None
        if begun is not None and not self._has_to_run_again(begun):
            return begun.started
        started = ChildStarted(
            state=self._name,
            visit=self._visit,
            key=key,
            child=self._id(key) + (AGAIN if begun else ""),
            definition=self._active.program.children[self._name].digest,
            input=self._inputs[key],
            feedback=self._feedback_for(key, begun),
            isolate=self._isolate,
            again=begun is not None,
            index=self._places[key],
            of=len(self._places),
        )
        await self._active.append(started)
        return started

    def _feedback_for(self, key: str, before: Child | None) -> Feedback | None:
        """The feedback for the child's first author, behind a first run; None if there is none."""
        feedback = self._feedback.get(key)
        program = self._active.program.children[self._name]
        to = program.first_author
        if before is not None and before.ended is not None:
            found = before.ended.result["findings"]
            files = [one["location"] for one in found if one["message"].startswith(CHANGED_TOO)]
            text = f"{NOT_MERGED} {', '.join(files)}"
            feedback = feedback or Feedback(to="", text="", revision=1, max_revisions=1)
            feedback = feedback.replace(text="\n\n".join(filter(None, (feedback.text, text))))
            to = to or program.first_agent
        return None if feedback is None or to is None else feedback.replace(to=to)

    def _id(self, key: str) -> str:
        base = f"{self._active.state.run}/{self._name}.{self._visit}"
        digest = hashlib.sha256(key.encode()).hexdigest()[:KEY_DIGITS]
        return f"{base}.{digest}" if self._state.has_keys else base

    async def _end(self, key: str, child: RunState) -> None:
        # One that was cancelled has not counted what its own children had spent.
        committed = await self._active.children.commitment_of(child)
        spent = await self._active.children.usage_of(child)
        ended = ChildEnded(
            state=self._name,
            visit=self._visit,
            key=key,
            result=result_of(child, spent),
            usage=committed,
            time_s=self._budget.take_time(),
        )
        # In one turn: what a child has spent is counted as this run's or as its own, never as both.
        self._budget.strike(committed)
        self._active.stage(ended)
        if self._has_to_run_again(self._begun[key]) and not self._is_halted:
            self._schedule.leave(key)
            self._schedule.take_up(key)
        else:
            self._results[key] = ended.result
            self._schedule.end(key, ended.result["outcome"])
            if ended.result["outcome"] in self._stop_on:
                self._halt()
        await self._active.append()


def plan_reentry(
    active: ActiveRun, name: str, items: Sequence[Item], inputs: Inputs
) -> tuple[dict[str, Result], dict[str, Feedback]]:
    """The results of the items that are not run again, and the feedback for the others, by key.

    What succeeded with the same input is kept, unless a finding names it or its key. If all would
    be kept although there is feedback, none is.
    """
    waiting = active.state.pending.get(name, ())
    report = active.state.last_report if waiting else None
    if report is not None and report.artifact != name:
        report = None
    found: Sequence[Finding] = report.blocking if report else ()
    if active.program.graph.origins:
        found = blocking_for(active.program, active.state, name)
    keys = {item.key for item in items}
    by_key = dict[str | None, list[Finding]]()
    for finding in found:
        by_key.setdefault(_key_in(finding.location, keys), []).append(finding)
    others = by_key.pop(None, [])
    kept = _results_to_keep(active, name, items, inputs, by_key.keys())
    if waiting and not by_key and len(kept) == len(items):
        kept = {}
    feedback: dict[str, Feedback] = {}
    for item in items:
        if waiting and item.key not in kept:
            own = (*by_key.get(item.key, ()), *others)
            feedback[item.key] = _feedback_for_item(active, name, waiting, report, own)
    return kept, feedback


def _key_in(location: str, keys: set[str]) -> str | None:
    """The longest key that a location starts with: `1.1` of `1.1.result`, and not `1`."""
    ends = [at for at, char in enumerate(location) if char in ".["]
    starts = (location[:end] for end in (len(location), *reversed(ends)))
    return next((start for start in starts if start in keys), None)


def _results_to_keep(
    active: ActiveRun,
    name: str,
    items: Sequence[Item],
    inputs: Inputs,
    named: Collection[str | None],
) -> dict[str, Mapping[str, Any]]:
    before = active.state.children.get(name, {})
    visit = active.state.visit
    known = {item.key: item for item in items}
    version = active.state.artifacts.get(name)
    now: Mapping[str, Any] | None = version.data if version and version.is_data else None
    lost = {
        key
        for key in known
        if (child := before.get(key)) is None
        or child.started.visit == visit
        or child.ended is None
        or not child.ended.result["success"]
        or child.started.input != inputs[key]
        or not _is_current(child, now, visit)
        or key in named
    }
    dependents, front = _dependents(items), list(lost)
    while front:
        fresh = [key for key in dependents.get(front.pop(), ()) if key not in lost]
        lost.update(fresh)
        front += fresh
    ended = ((key, before[key].ended) for key in known if key not in lost)
    return {key: end.result for key, end in ended if end is not None}


def _dependents(items: Iterable[Item]) -> dict[str, list[str]]:
    dependents: dict[str, list[str]] = {}
    for item in items:
        for other in dict.fromkeys(item.after):
            dependents.setdefault(other, []).append(item.key)
    return dependents


def _is_current(child: Child, now: Mapping[str, Any] | None, visit: int) -> bool:
    """Whether a child's result is the one that the last visit has for its item.

    The item may not have begun then, or not have been in the list; and an error may have ended the
    visit before there was a version of it.
    """
    assert child.ended is not None
    if now is None or (child.started.key not in now and child.started.visit == visit - 1):
        return True
    return now.get(child.started.key) == child.ended.result


def _feedback_for_item(
    active: ActiveRun,
    name: str,
    waiting: Sequence[Feedback],
    report: Report | None,
    findings: Sequence[Finding],
) -> Feedback:
    last = waiting[-1].replace(tells=None)
    by_id, texts = active.program.graph.by_id, list[str]()
    for each in waiting:
        edge = by_id.get((each.tells.edge if each.tells else active.state.entered_by) or "")
        if report is None or (edge is not None and edge.feedback is not None):
            texts.append(each.text)
    hides = not any(texts)
    if report is not None and len(texts) < len(waiting):
        own = report.replace(findings=tuple(findings))
        revision = (last.revision, last.max_revisions)
        texts.append(default_feedback(active.program, own, name, revision, None, hides))
    # A child begins anew, without the version before.
    return last.replace(text="\n\n".join(filter(None, texts)), hides_previous=hides)


Result = Mapping[str, Any]
"""In the shape of `RESULT` of the language."""


def result_of(child: RunState, spent: Usage) -> dict[str, Any]:
    """The entry of a child that is over; `spent` includes all its children."""
    finished, report = child.finished, child.last_report
    found = list(map(dict, plain_findings(report.blocking))) if report else []
    if finished is not None:
        message = f"{CHANGED_TOO}; the item's version is left in {' and '.join(finished.left)}"
        found += [{"message": message, "location": path} for path in finished.conflicts]
    return {
        "outcome": finished.outcome if finished else CANCELLED,
        "success": finished is not None and finished.success,
        "result": finished.result if finished else {},
        "rounds": len(child.rounds),
        "calls": spent.agent_calls,
        "cost": spent.cost_usd,
        "findings": found,
        "duration": spent.time_s,
    }


def without_run(outcome: str, *reasons: str) -> dict[str, Any]:
    found = [{"message": reason} for reason in reasons]
    return {**result_of(RunState(), Usage()), "outcome": outcome, "findings": found}


Group = tuple[str, ...]
"""Items of one group may overlap: the group's name, or the key of an item that has none."""


class Schedule:
    """Items in the order of their list, each behind those that it waits for."""

    def __init__(
        self,
        items: Sequence[Item],
        each: EachState | None,
        *,
        begun: Collection[str],
        ended: Mapping[str, str],
    ) -> None:
        """Items that were `begun` come first; `ended` are the outcomes of those that are over."""
        self._awaited = frozenset(each.awaited if each else ())
        self._parallel = each.parallel if each else 1
        self._is_grouped = each is not None and each.group is not None
        self._items = {item.key: item for item in items}
        self._order = {item.key: (item.key not in begun, index) for index, item in enumerate(items)}
        self._waits = {item.key: len(set(item.after)) for item in items}
        self._dependents = _dependents(items)
        self._ready: dict[Group, list[tuple[tuple[bool, int], str]]] = {}
        self._running: dict[str, Group] = {}
        self.blocked: dict[str, tuple[str, str]] = {}
        """Items that can never begin: the item that each waits for, and the outcome of that."""
        self._over = set(ended)
        for key, waits in self._waits.items():
            if not waits:
                self.take_up(key)
        for key, outcome in ended.items():
            self.end(key, outcome)

    def begin(self) -> Iterator[Item]:
        while len(self._running) < self._parallel and (group := self._next_group()) is not None:
            ready, passed = self._ready[group], []
            taken = set[str]().union(*(self._items[key].exclusive for key in self._running))
            while ready and not taken.isdisjoint(self._items[ready[0][1]].exclusive):
                passed.append(heappop(ready))
            key = heappop(ready)[1] if ready else None
            for entry in passed:
                heappush(ready, entry)
            if not ready:
                del self._ready[group]
            if key is None:
                return
            self._running[key] = group
            yield self._items[key]

    def leave(self, key: str) -> None:
        del self._running[key]

    def end(self, key: str, outcome: str) -> None:
        self._running.pop(key, None)
        self._over.add(key)
        ended = [(key, outcome)]
        while ended:
            over, became = ended.pop()
            for dependent in self._dependents.get(over, ()):
                if dependent in self.blocked:
                    continue
                if became in self._awaited:
                    self._waits[dependent] -= 1
                    if not self._waits[dependent]:
                        self.take_up(dependent)
                else:
                    self.blocked[dependent] = (over, became)
                    ended.append((dependent, BLOCKED))

    def merge_order(self) -> list[str]:
        """All keys, each behind those that it waits for, otherwise in the order of the list."""
        waits = {item.key: len(set(item.after)) for item in self._items.values()}
        numbers = {key: number for number, key in enumerate(self._items)}
        keys = list(self._items)
        ready = [numbers[key] for key, left in waits.items() if not left]
        ordered: list[str] = []
        while ready:
            ordered.append(key := keys[heappop(ready)])
            for dependent in self._dependents.get(key, ()):
                waits[dependent] -= 1
                if not waits[dependent]:
                    heappush(ready, numbers[dependent])
        return ordered

    def take_up(self, key: str) -> None:
        """Queue an item that has work, for the first time or again."""
        if key in self._over:
            return
        heappush(self._ready.setdefault(self._group(key), []), (self._order[key], key))

    def _group(self, key: str) -> Group:
        if not self._is_grouped:
            return ()
        group = self._items[key].group
        return ("by itself", key) if group is None else ("group", group)

    def _next_group(self) -> Group | None:
        if self._running:
            group = next(iter(self._running.values()))
            # One without a group is alone, and so is not joined by another.
            return group if group in self._ready else None
        return min(self._ready, key=lambda group: self._ready[group][0], default=None)


MOST_TOLD = 5
MESSAGE_WIDTH = 120
_URGENCY = ("waiting", "limit", "fatal", "content", "transient", "interrupted")


def suspension(name: str, stopped: Mapping[str, RunState], time_s: float) -> Suspended:
    """The suspension of a state whose children stopped, by the most urgent of their reasons."""
    reason = min((_reason(child) for child in stopped.values()), key=_URGENCY.index)
    causes = [child.suspended for child in stopped.values() if child.suspended]
    remedies = [cause.remedy for cause in causes if cause.reason == reason and cause.remedy]
    resumes = [cause.resume_at for cause in causes if cause.resume_at is not None]
    return Suspended(
        state=name,
        reason=reason,
        message="; ".join(_messages(name, stopped)),
        remedy="\n".join(dict.fromkeys(remedies[:MOST_TOLD])),
        resume_at=min(resumes, default=None),
        time_s=time_s,
    )


def _reason(child: RunState) -> Any:
    if child.suspended is not None:
        return child.suspended.reason
    return "waiting" if child.status == "waiting" else "interrupted"


def _messages(name: str, stopped: Mapping[str, RunState]) -> Iterator[str]:
    asking = {key: child.question for key, child in stopped.items() if child.question is not None}
    others = [key for key in stopped if key not in asking]
    if len(asking) == 1:
        [(key, question)] = asking.items()
        text = one_line(question.text, MESSAGE_WIDTH)
        yield f"`{place_of(name, key)}` waits for a person: {text}"
    elif asking:
        named = [one_line(key, MESSAGE_WIDTH) for key in list(asking)[:MOST_TOLD]]
        named += [f"{len(asking) - MOST_TOLD:,} more"] if len(asking) > MOST_TOLD else []
        yield f"{len(asking):,} items wait for a person: {', '.join(named)}"
    for key in others[:MOST_TOLD]:
        suspended = stopped[key].suspended
        why = suspended.message if suspended else "it was stopped"
        yield f"`{place_of(name, key)}`: {one_line(why, MESSAGE_WIDTH)}"
    if len(others) > MOST_TOLD:
        yield f"and {len(others) - MOST_TOLD:,} more"
