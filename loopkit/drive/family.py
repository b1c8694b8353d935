"""Families: a run, and the runs of other machines that one of its states has begun."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from loopkit.drive.account import FamilyAccount, SharedLimitReached
from loopkit.drive.active import ActiveRun, ChildrenStopped, Stopped
from loopkit.drive.again import Reentry, plan_reentry
from loopkit.drive.child_results import Result, result_of, without_run
from loopkit.drive.gate import Gate
from loopkit.drive.inbox import CANCEL, INBOX_SECONDS, WAKE
from loopkit.drive.schedule import Schedule
from loopkit.drive.stopped_children import suspension
from loopkit.engine.events import ChildEnded, ChildStarted, Feedback, Suspended, Usage
from loopkit.engine.state import RunState
from loopkit.engine.tasks import Child
from loopkit.language.states.children import BLOCKED, CANCELLED, ChildrenState
from loopkit.language.states.each import EachState
from loopkit.machine.item_list import Item

KEY_DIGITS = 10
"""Digits of a key's digest that are part of a child's id."""


class Family:
    """The children of a state on one visit, and when each of them works."""

    def __init__(
        self,
        active: ActiveRun,
        name: str,
        items: Sequence[Item],
        inputs: Mapping[str, dict[str, Any]],
    ) -> None:
        """`inputs` are those of the children, by key."""
        state = active.program.machine.states[name]
        assert isinstance(state, ChildrenState)
        self._active = active
        self._name = name
        self._state = state
        self._keys = [item.key for item in items]
        self._places = {key: place for place, key in enumerate(self._keys)}
        self._inputs = inputs
        self._account = FamilyAccount(active)
        self._hands: dict[str, ActiveRun] = {}
        """By their keys, the children that are driven."""
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._stopped: dict[str, RunState] = {}
        """By their keys, the children that stopped before their end."""
        self._woken: set[str] = set()
        """The runs of children that were answered while they were about to stop."""
        again = plan_reentry(active, name, items, inputs) if self._visit > 1 else Reentry()
        self._feedback = again.feedback
        self._results: dict[str, Result] = dict(again.kept)
        of_visit = {k: c for k, c in self._begun.items() if c.started.visit == self._visit}
        self._results |= {k: c.ended.result for k, c in of_visit.items() if c.ended is not None}
        each = state if isinstance(state, EachState) else None
        self._schedule = Schedule(
            items,
            each.awaited if each else (),
            parallel=each.parallel if each else 1,
            is_grouped=each is not None and each.group is not None,
            begun=of_visit,
            ended={key: result["outcome"] for key, result in self._results.items()},
        )
        self._isolate = each.isolate if each else "none"
        self._to_merge = deque(self._schedule.merge_order() if self._isolate != "none" else ())
        """The keys of those that have not ended, in the order in which they are merged."""
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
        await self._book()
        self._require_time()
        # Before any child is driven: nobody works meanwhile.
        await self._active.children.ready(self._active, self._name)
        await self._drive()
        if await self._is_to_be_cancelled():
            await self._cancel("its parent is cancelled")
            raise Stopped
        if self._active.stopping:
            raise Stopped(self.time_s)
        if self._account.reached is not None:
            reached = self._account.reached.as_own
            if self._goes_on_at_a_limit:
                await self._cancel(str(reached))
            reached.time_s = self.time_s
            raise reached
        if self._is_halted:
            await self._cancel(f"another item of `{self._name}` ended as one that stops all others")
        if self._stopped:
            raise ChildrenStopped(self._suspension())
        return {key: self._results.get(key) or self._without_run(key) for key in self._keys}

    def _require_time(self) -> None:
        """Raise LimitReached if the time of this run, or of one above it, is over."""
        try:
            self._account.require_room(Usage())
        except SharedLimitReached as reached:
            raise (reached.as_own if reached.account is self._account else reached) from reached

    @property
    def time_s(self) -> float:
        """Seconds of work that no record has yet."""
        return self._account.take_time()

    # -- before and after ------------------------------------------------------------------

    @property
    def _visit(self) -> int:
        return self._active.state.visit

    @property
    def _begun(self) -> Mapping[str, Child]:
        return self._active.state.children.get(self._name, {})

    async def _book(self) -> None:
        """Count the committed usage of the children that have begun and not ended."""
        for child in self._open():
            self._account.book(await self._active.children.commitment(child.started.child))
        self._account.add_time(await self._active.children.lost_time(self._active.state))

    def _open(self) -> list[Child]:
        begun = self._begun.values()
        return [c for c in begun if c.started.visit == self._visit and c.ended is None]

    async def _cancel(self, reason: str) -> None:
        """End the children that have not ended."""
        for child in self._open():
            key = child.started.key
            self._stopped.pop(key, None)
            state = await self._active.children.cancel_child(child.started.child, reason)
            if state is not None:
                await self._end(key, state)
        for key in self._keys:
            if key not in self._schedule.blocked:
                self._results.setdefault(key, without_run(CANCELLED))

    @property
    def _goes_on_at_a_limit(self) -> bool:
        state = self._active.state
        return not state.then_used and bool(self._active.program.graph.on(self._name, "limit"))

    def _without_run(self, key: str) -> Result:
        on, became = self._schedule.blocked[key]
        return without_run(BLOCKED, f"it waits for `{on}`, which is {became}")

    # -- driving ---------------------------------------------------------------------------

    async def _drive(self) -> None:
        """Drive children until none can go on."""
        stops = asyncio.ensure_future(self._active.wait_for_stop())
        looked_at = time.monotonic()
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
                self._collect()
                if self._must_stop():
                    self._halt()
                if time.monotonic() - looked_at > INBOX_SECONDS:
                    looked_at = time.monotonic()
                    await self._wake()
                    if await self._is_to_be_cancelled():
                        self._halt()
        except BaseException:
            # The other children finish their current work first: it may be paid for already.
            self._halt()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            raise
        finally:
            stops.cancel()

    async def _wake(self) -> None:
        """Resume the children that were answered since they stopped."""
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

    def _collect(self) -> None:
        """Remove the tasks that have ended; raises what a task raised."""
        for task in [task for task in self._tasks if task.done()]:
            del self._tasks[task]
            task.result()

    def _must_stop(self) -> bool:
        return self._active.stopping or self._account.reached is not None

    async def _is_to_be_cancelled(self) -> bool:
        """Whether somebody has asked for the end of this run."""
        return any(message.kind == CANCEL for message in await self._active.claim.inbox())

    def _halt(self) -> None:
        self._is_halted = True
        for child in self._hands.values():
            child.stop()

    async def _run(self, key: str) -> None:
        child = await self._active.children.child(self._active, await self._record_start(key))
        if isinstance(child, ActiveRun):
            child.may_merge = lambda: self._is_next(key)
            child.gate = self._gate
            self._hands[key] = child
            if self._is_halted:
                child.stop()
            try:
                with self._account.driving(child):
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
        """Whether all items that are merged before this one have ended."""
        while self._to_merge and self._is_gone(self._to_merge[0]):
            self._to_merge.popleft()
        return not self._to_merge or self._to_merge[0] == key

    def _is_gone(self, key: str) -> bool:
        return key in self._results or key in self._schedule.blocked

    async def _record_start(self, key: str) -> ChildStarted:
        """Record the start of a child, before the child itself is stored; returns the event."""
        begun = self._begun.get(key)
        if begun is not None and begun.started.visit == self._visit:
            return begun.started
        started = ChildStarted(
            state=self._name,
            visit=self._visit,
            key=key,
            child=self._id(key),
            definition=self._active.program.children[self._name].digest,
            input=self._inputs[key],
            feedback=self._feedback_for(key),
            isolate=self._isolate,
            index=self._places[key],
            of=len(self._keys),
        )
        await self._active.append(started)
        return started

    def _feedback_for(self, key: str) -> Feedback | None:
        """The feedback for the child's first author; None if there is none."""
        feedback = self._feedback.get(key)
        to = self._active.program.children[self._name].first_author
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
            time_s=self._account.take_time(),
        )
        # In one turn: what a child has spent is counted as this run's or as its own, never as both.
        self._account.strike(committed)
        self._active.stage(ended)
        self._results[key] = ended.result
        self._schedule.end(key, ended.result["outcome"])
        if ended.result["outcome"] in self._stop_on:
            self._halt()
        await self._active.append()

    # -- what stopped ----------------------------------------------------------------------

    def _suspension(self) -> Suspended:
        stopped = {key: self._stopped[key] for key in self._keys if key in self._stopped}
        return suspension(self._name, stopped, self._account.take_time())
