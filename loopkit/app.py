"""The composition root: a machine file and a state folder in, a run driven out."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from loopkit.agents.model import client
from loopkit.agents.players import AgentChanges, refuse_misnamed, refuse_unplayable
from loopkit.agents.port import NotRunnable
from loopkit.checks.references import missing_plug_in
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import CANCEL, ActiveRun
from loopkit.drive.advance import doubts
from loopkit.drive.answers import delivery_failures, new_question
from loopkit.drive.claimed_runs import VERDICT_STATE, ClaimedRuns, NoReport, StandaloneValidator
from loopkit.drive.inbox import KINDS, AnyAnswer, StoredRun, consume, post
from loopkit.drive.preflight import needs_of, refuse_unprepared
from loopkit.drive.repair import (
    AS_IT_IS,
    Definition,
    Mend,
    refuse_child,
    refuse_limits,
    refuse_over,
    repair,
)
from loopkit.drive.stored_runs import definition, open_children, state_after
from loopkit.engine.changes import apply
from loopkit.engine.events import Repaired, Resumed, Started
from loopkit.engine.findings import Report
from loopkit.engine.payloads import Artifact
from loopkit.engine.state import RunState
from loopkit.journal.errors import RunBusy
from loopkit.journal.journal import Claim, Journal, open_journal
from loopkit.journal.records import NOW
from loopkit.language.load import Loaded
from loopkit.language.machine import Machine
from loopkit.machine.program import ResolvedMachine
from loopkit.observability import observers
from loopkit.scenario.cases import Scenario
from loopkit.text import is_broken, printable
from loopkit.text.run_ids import ancestors_of, root_of
from loopkit.values import NOTHING


@dataclass(frozen=True)
class Script:
    """A scenario with the digest under which the journal keeps it."""

    scenario: Scenario
    resolved: str
    digest: str


class App(ClaimedRuns):
    """Runs of machines over one journal."""

    @classmethod
    def open(cls, place: Path | str | None, journal: Journal | None = None, **parts: Any) -> App:
        """An app over the journal of a state folder or URL, or over the given one from there."""
        journal = journal or open_journal(place)
        return cls(journal, **{"observe": observers, **parts})

    async def start(
        self,
        loaded: Loaded,
        inputs: Mapping[str, Any],
        script: Script | None = None,
        limits: Mapping[str, Any] | None = None,
        *,
        run: str = "",
        needs: Sequence[str] | None = None,
        artifacts: tuple[Artifact, ...] = (),
    ) -> ActiveRun:
        """A new run, claimed and not yet driven; raises NotRunnable.

        It is stored with what it does first, before anything is spent. `run` is its id, which no
        other run may have; without it the run gets one. With `needs` it is submitted to workers
        that have these labels, and may lack here what they have. It begins with the `artifacts` as
        well as with those that its machine makes.
        """
        scenario = script.scenario if script else None
        folder = (self.folder or loaded.folder).absolute()
        if needs is None and (scenario or limits or loaded.digest not in self._playable):
            refuse_unplayable(loaded.machine, scenario, self.functions, limits or {})
            prepared = None if self._occupancy.makes_folders else folder
            refuse_unprepared(
                needs_of(loaded.machine, scenario, self.functions, inputs, folder=prepared)
            )
            if scenario is None:
                self._playable.add(loaded.digest)
        if is_broken(str(folder)):
            message = "the path of the machine file is not valid UTF-8"
            raise NotRunnable(f"{message}; rename its folder, or give another `--workspace`")
        if script is not None:
            await self._store(script.digest, script.resolved)
        machine = loaded.machine.label
        definition = ResolvedMachine(loaded.machine, loaded.resolved, loaded.digest)
        started = Started(
            run=run or await self._new_id(machine),
            machine=machine,
            definition=loaded.digest,
            script=script.digest if script else None,
            folder=str(folder),
            input=dict(inputs),
            limits=dict(limits) if limits else NOTHING,
            artifacts=artifacts,
        )
        return await self._begin(started, definition, scenario, needs)

    async def submit(self, active: ActiveRun) -> str:
        """Leave a new run that was started with `needs` to workers; its id."""
        await active.append()
        await active.claim.release(due=NOW)
        return active.state.run

    async def refuse_here(self, state: RunState) -> None:
        """Raise NotRunnable for a stored run that other hosts or processes may be able to play."""
        machine = await self.machine_of(state)
        scenario = await self.scenario_of(state)
        refuse_unplayable(machine, scenario, self.functions, state.limits)
        self._refuse_unprepared(machine, state.definition, state, scenario)
        if not await asyncio.to_thread(os.path.isdir, state.folder):
            raise NotRunnable(f"its folder `{state.folder}` is not here")
        if (missing := missing_plug_in(machine)) is not None:
            raise NotRunnable(f"the plug-in `{missing}` is not installed here")

    async def judge(
        self,
        validator: StandaloneValidator,
        text: str,
        inputs: Mapping[str, Any],
        script: Script | None = None,
    ) -> Report:
        """The report of a validator about a text, from a run of its own that is not kept.

        Raises NotRunnable, and NoReport where that run stopped before.
        """
        artifact = validator.read(text)
        given = validator.inputs(inputs)
        active = await self.start(validator.judging, given, script, artifacts=(artifact,))
        state = await self.drive(active)
        await self.journal.remove(state.run)
        report = state.reports.get(VERDICT_STATE)
        if report is None:
            stopped = state.suspended
            raise NoReport(stopped.message if stopped else "the validator gave no report")
        return validator.by_itself(report)

    async def resume(
        self, run: str, limits: Mapping[str, Any] | None = None, mend: Mend = AS_IT_IS
    ) -> ActiveRun:
        """A stored run, claimed, in exactly the state in which it stopped; of a child its root.

        With `mend` the run itself goes on with another definition, and what is changed about agents
        is changed in the children that it has begun. Raises NotRunnable, and ProblemsFound where
        that does not fit what the run has done; nothing is stored then.
        """
        root, limits = root_of(run), limits or {}
        before = await self.state_of(root)
        if run != root:
            await self.state_of(run)
        refuse_over(before)
        await self.machine_of(before)
        scenario = await self.scenario_of(before)
        claim = await self.journal.claim(root)
        try:
            if run != root and (limits or mend.is_any):
                await self._mend_child(run, limits, mend)
                limits, mend = {}, AS_IT_IS
            active = await self._resume(claim, root, scenario, limits, mend)
            await self._mend_children(active.state, mend.agents)
        except (NotRunnable, ProblemsFound):
            if not await claim.release((CANCEL,), due=claim.due):
                await self._cancel(claim, root)
            raise
        return active

    async def _mend_children(self, parent: RunState, changes: AgentChanges) -> None:
        for child in open_children(parent) if changes else ():
            name = child.started.child
            within = changes.within(child.started.state)
            if await self.journal.has(name):
                state = await self.state_of(name)
                machine = await self.machine_of(state)
                if not state.is_over and (own := within.known_in(machine)):
                    await self._mend_child(name, {}, Mend(agents=own))
                    await self._mend_children(state, own)

    async def _mend_child(self, run: str, limits: Mapping[str, Any], mend: Mend) -> None:
        """Change how a child goes on when its claimed root is driven."""
        claim = await self.journal.claim(run)
        try:
            await self._resume(claim, run, await self._scenario_within(run), limits, mend)
        finally:
            await claim.release(due=claim.due)

    async def _scenario_within(self, run: str) -> Scenario | None:
        """The scenario that plays a run, taken from that of its root."""
        parent = next(ancestors_of(run), "")
        if not parent:
            return await self.scenario_of(await self.state_of(run))
        begun = (await self.state_of(parent)).children.values()
        started = (child.started for children in begun for child in children.values())
        own = next(one for one in started if one.child == run)
        scenario = await self._scenario_within(parent)
        return scenario and scenario.of_child(own.state, own.key, own.visit)

    async def _resume(
        self,
        claim: Claim,
        run: str,
        scenario: Scenario | None,
        limits: Mapping[str, Any],
        mend: Mend,
    ) -> ActiveRun:
        # Its former driver may have finished it.
        state = await self.state_of(run)
        refuse_over(state)
        machine = await self.machine_of(state)
        if mend.is_any:
            stored = await definition(self.journal, run, state.definition, str)
            wanted = mend.apply_to(stored)
            repaired = repair(state, machine, wanted, limits)
            if repaired.changes:
                return await self._repair(
                    claim, state, scenario, limits, (machine, wanted), repaired
                )
        refuse_unplayable(machine, scenario, self.functions, {**state.limits, **limits})
        self._refuse_unprepared(machine, state.definition, state, scenario)
        refuse_limits(machine, state, limits)
        active = await self._active(claim, state, machine, state.definition, scenario)
        if active.state.status == "suspended" or limits:
            await active.append(Resumed(limits=dict(limits)))
        return active

    async def _repair(
        self,
        claim: Claim,
        state: RunState,
        scenario: Scenario | None,
        limits: Mapping[str, Any],
        machines: tuple[Machine, Definition],
        repaired: Repaired,
    ) -> ActiveRun:
        """Continue the run with another definition, and ask an open question anew."""
        old, wanted = machines
        ahead = state.copy()
        apply(ahead, repaired)
        refuse_unplayable(wanted.machine, scenario, self.functions, {**ahead.limits, **limits})
        if scenario is not None:
            refuse_misnamed(wanted.machine, scenario)
        self._refuse_unprepared(wanted.machine, wanted.digest, ahead, scenario)
        engine = self.engine(wanted.machine, wanted.digest)
        question = new_question(engine, ahead, self.clock.now())
        await self._store(wanted.digest, wanted.resolved)
        active = await self._active(claim, state, wanted.machine, wanted.digest, scenario)
        # Open calls follow the definition under which they were made.
        lost = doubts(old, state)
        # The artifact requested from outside may be a different one now.
        ended = delivery_failures(state, "asked for anew: the machine was changed")
        await active.append(Resumed(limits=dict(limits)), *lost, *ended, repaired, *question)
        return active

    def _refuse_unprepared(
        self, machine: Machine, digest: str, state: RunState, scenario: Scenario | None
    ) -> None:
        graph = self.engine(machine, digest).program.graph
        ahead = graph.reachable(state.state or machine.start)
        folder, inputs = Path(state.folder), state.input
        refuse_unprepared(
            needs_of(machine, scenario, self.functions, inputs, ahead=ahead, folder=folder)
        )

    async def remove(self, *runs: str) -> None:
        """Forget runs with their children, all or none; raises NotRunnable for a child alone."""
        for run in runs:
            refuse_child(run, "runs", "rm")
        await self.journal.remove(*runs)

    async def post(
        self, run: str, given: AnyAnswer, question: str | None = None, *, to_all: bool = False
    ) -> bool:
        """Post an answer, or an artifact from outside, to the inbox; false if it was given before.

        It is for the question or request of that id, which `waiting` names as its `question`;
        without one for the open one, unless the same is given twice in a row. With `to_all` an
        answer is also for the run's other calls in doubt. Raises AnswerRefused, and NotRunnable
        where nothing is asked.
        """
        stored = await self._stored_run(run)
        return await post(stored, given, question, self.clock.now(), to_all=to_all)

    async def post_all(
        self, given: Sequence[tuple[str, AnyAnswer, str | None]], *, to_all: bool = False
    ) -> bool:
        """Post something to each of several runs, or none; false if all of it was given before."""
        for run, one, _ in given if len(given) > 1 else ():
            stored = await self._stored_run(run)
            KINDS[type(one)].judge(stored.engine, stored.state, one, self.clock.now())
        return any([await self.post(*one, to_all=to_all) for one in given])

    async def _stored_run(self, run: str) -> StoredRun:
        history = await self.events(run)
        state = state_after(run, history)
        engine = self.engine(await self.machine_of(state), state.definition)
        return StoredRun(self.journal, engine, history, state)

    async def cancel(self, run: str, reason: str) -> str:
        """End a run, or leave word for the process that drives it; what happened, in a sentence.

        The reason is stored without control characters. Raises NotRunnable for a run that is over,
        and for a child.
        """
        refuse_child(run, "cancel")
        before = await self.state_of(run)
        refuse_over(before)
        await self.machine_of(before)
        message_id = f"cancel:{secrets.token_hex(8)}"
        await self.journal.post(run, CANCEL, message_id, printable(reason), self.clock.now())
        try:
            await self._cancel(await self.journal.claim(run), run)
        except RunBusy as busy:
            # From now on its owner can't end it in another way; it may have done so before.
            state = await self.state_of(run)
            if not state.is_over:
                driven = f"run {run!r} is being driven by {busy.owner}"
                return f"{driven}; it ends the work in hand and cancels the run"
        else:
            state = await self.state_of(run)
        if state.status != "cancelled":
            refuse_over(state)
        return f"run {run} is cancelled"

    async def empty_inbox(self, run: str) -> None:
        """Take what came after the end of a run off its inbox, so that it is not due any more."""
        claim = await self.journal.claim(run)
        messages = [message.message_id for message in await claim.inbox()]
        if messages:
            await claim.append((), messages, releases=True)
        await claim.release()

    async def _cancel(self, claim: Claim, run: str) -> None:
        """Cancel a claimed run, as its inbox says, unless it is over."""
        try:
            state = await self.state_of(run)
            if not state.is_over:
                await consume(await self._idle(claim, state))
        finally:
            await claim.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await super().close()
        await client.close()
        await self.journal.close()
