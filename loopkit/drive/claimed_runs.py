"""Claimed runs: those that this process begins or resumes, with their players.

A validator run by itself is one of them: a machine of two states around it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loopkit.agents.model import client
from loopkit.agents.players import Functions, Players, players_of
from loopkit.agents.port import Person
from loopkit.drive.active import (
    ActiveRun,
    Clock,
    Inboxes,
    Listener,
    NobodyThere,
    Observer,
    Occupancy,
    RealClock,
)
from loopkit.drive.advance import advance
from loopkit.drive.breakers import Breakers, SharedBreakers, rates_in
from loopkit.drive.inbox import cancellation
from loopkit.drive.isolation import in_tree_above, own_tree, workspace
from loopkit.drive.limits import Account, Budget
from loopkit.drive.notify import alert_listener
from loopkit.drive.replies import make_artifact
from loopkit.drive.stored_runs import Stored, StoredRuns, open_children
from loopkit.engine.events import ChildStarted, Replied, Resumed, Started
from loopkit.engine.findings import Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Artifact
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.journal.journal import Claim, Journal
from loopkit.language.agents import Agent
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.load import Loaded, with_machine
from loopkit.language.machine import Machine
from loopkit.language.states import FinalState
from loopkit.language.states.kinds import ValidateState
from loopkit.language.states.state import Output, RenderOutput
from loopkit.language.template.sandbox import MAX_OUTPUT
from loopkit.language.transitions import Transition
from loopkit.language.validators import Rule, Validator, rules_of
from loopkit.machine.inputs import first_artifacts
from loopkit.machine.program import Program, ResolvedMachine
from loopkit.scenario.cases import Scenario
from loopkit.text.run_ids import batch_of, is_child, root_of


class ClaimedRuns(StoredRuns):
    def __init__(
        self,
        journal: Journal,
        *,
        folder: Path | None = None,
        clock: Clock | None = None,
        person: Person | None = None,
        listeners: Sequence[Listener] = (),
        listeners_of: Callable[[str], Sequence[Listener]] | None = None,
        observe: Callable[[], Sequence[Observer]] = tuple,
        breakers: Breakers | None = None,
        engines: dict[str, Engine] | None = None,
        token: Callable[[], str] = lambda: os.urandom(3).hex(),
        functions: Functions | None = None,
        notify: Sequence[str] = (),
    ) -> None:
        """`folder` is where runs work instead of the folders of their machine files. `token` gives
        the random end of the ids of new runs, short enough to be typed.

        `listeners` hear of runs, but not of their children; `listeners_of` gives those of each run
        instead. `observe` gives those who watch all runs, when the first one is claimed. `notify`
        is started instead of the notifiers of machines.
        """
        super().__init__(journal)
        self.inboxes = Inboxes(journal)
        self.folder = folder
        self.clock = clock or RealClock(journal.now)
        self.person = person or NobodyThere()
        self._listeners_of = listeners_of or (lambda run: () if is_child(run) else listeners)
        self._observe = observe
        self._observers: Sequence[Observer] | None = None
        self.breakers = breakers or Breakers()
        shared, rates = journal.limits, rates_in(os.environ.get("LOOPKIT_CALLS", ""))
        own = Breakers(rates=rates) if shared is None else SharedBreakers(shared, rates)
        self._asked = breakers or own
        """What is known of real providers; scenarios play others."""
        self._engines = {} if engines is None else engines
        self._stored: set[str] = set()
        self._begun: set[str] = set()
        """The ids of runs that were started here and may not be stored yet."""
        self._token = token
        self._playable: set[str] = set()
        """Digests of definitions that can be played without a scenario."""
        self._known_players: dict[str, Players] = {}
        """By digest of the definition, the players without a scenario."""
        self.functions = functions or {}
        self._notify = notify
        self._occupancy = Occupancy()
        self._batches: dict[str, Budget] = {}
        """By name, those of which other processes run a part."""

    async def _begin(
        self,
        started: Started,
        definition: ResolvedMachine,
        scenario: Scenario | None,
        needs: Sequence[str] | None = None,
    ) -> ActiveRun:
        run, machine = started.run, definition.machine
        # Before the first await, so that no other run takes the same id.
        self._begun.add(run)
        claim = self.journal.begin(
            run, machine=started.machine, definition=definition.digest, needs=needs
        )
        await self._store(started.definition, definition.resolved)
        played = machine, definition.digest, scenario
        active = await self._active(claim, RunState(), *played, is_driven=needs is None)
        first = (*_first_artifacts(machine, started.input), *started.artifacts)
        active.stage(started.replace(artifacts=tuple({one.name: one for one in first}.values())))
        if needs is None and self._players(*played).calls_models:
            # The library behind models takes seconds to load, and the run can be seen meanwhile.
            await active.append()
        return active

    async def ready(self, parent: ActiveRun, state: str) -> None:
        """Wait for what the children of a state need to call models, if they do."""
        if parent.scenario is None:
            child = parent.program.children[state]
            if self._players(child.machine, child.digest, None).calls_models:
                await client.ready()

    async def child(self, parent: ActiveRun, started: ChildStarted) -> ActiveRun | RunState:
        """Begin or resume a child; returns the run to drive, or its state if it is over."""
        told = parent.scenario
        scenario = told and told.of_child(started.state, started.key, started.visit)
        if await self.journal.has(started.child):
            state = await self.state_of(started.child)
            if state.is_over:
                return state
            machine = await self.machine_of(state)
            claim = await self.journal.claim(started.child)
            child = await self._active(claim, state, machine, state.definition, scenario)
            if state.status == "suspended":
                await child.append(Resumed())
        else:
            definition = parent.program.children[started.state]
            folder, isolate = parent.folder, parent.state.isolate
            if isolate != "none":
                top = folder.joinpath(*[".."] * definition.machine.levels_up).resolve()
                tree = await own_tree(parent, in_tree_above(parent, top), isolate)
                folder = tree / folder.relative_to(top)
            begins = Started(
                run=started.child,
                machine=definition.machine.label,
                definition=definition.digest,
                folder=str(folder),
                input=started.input,
                feedback=started.feedback,
                isolate=started.isolate,
            )
            child = await self._begin(begins, definition, scenario)
        child.trees_above = await _trees_for_children(parent)
        return child

    async def cancel_child(self, run: str, reason: str) -> RunState | None:
        """Cancel a child and its own children; returns its state, or None if it has not begun."""
        if not await self.journal.has(run):
            return None
        state = await self.state_of(run)
        if not state.is_over:
            claim = await self.journal.claim(run)
            try:
                for child in open_children(state):
                    await self.cancel_child(child.started.child, reason)
                active = await self._idle(claim, state)
                await active.append(*cancellation(state, reason))
            finally:
                await claim.release()
        return await self.state_of(run)

    async def drive(self, active: ActiveRun) -> RunState:
        """Advance a run, release it, and return the state in which it stopped."""
        try:
            async with self._within_batch(active):
                await advance(active)
        finally:
            self._begun.discard(active.claim.run)
            # Released before, unless something went wrong.
            await active.claim.release(due=active.claim.due)
        if active.lost is not None:
            raise active.lost
        if active.alarm is not None:
            # The process may end with the run, and must not end before the notifier.
            await active.alarm
        return active.state

    @asynccontextmanager
    async def _within_batch(self, active: ActiveRun) -> AsyncIterator[None]:
        """Entered while a run is driven, which spends of the account of its batch, if it has one.

        Other processes may drive other runs of the batch.
        """
        shared, run = self.journal.limits, active.claim.run
        if shared is None or not (name := batch_of(root_of(run))):
            yield
            return
        outer = active.budget.outermost
        if is_own := active.budget.parent is None:
            account = Account(shared, name)
            outer = self._batches.setdefault(name, Budget("the batch", account=account))
        if outer.account is None or not await outer.refresh():
            yield
            return
        await shared.free_others(run, active.state.open_calls.keys())
        with outer.driving(active) if is_own else nullcontext():
            yield

    async def _idle(self, claim: Claim, state: RunState) -> ActiveRun:
        """A claimed run that is not driven, and so asks no model."""
        machine = await self.machine_of(state)
        return await self._active(claim, state, machine, state.definition, None, is_driven=False)

    async def _new_id(self, machine: str) -> str:
        """An id that no other run has; among thousands of runs, random ids can collide."""
        while True:
            run = f"{machine}-{self._token()}"
            # The journal is asked first: meanwhile another run may have begun here.
            if not await self.journal.has(run) and run not in self._begun:
                return run

    async def _store(self, digest: str, text: str) -> None:
        if digest not in self._stored:
            await self.journal.store_definition(digest, text)
            self._stored.add(digest)

    def engine(self, machine: Machine, digest: str) -> Engine:
        """The engine of a definition, made once, because compiled classes are never freed."""
        if digest not in self._engines:
            self._engines[digest] = Engine(Program(machine, digest))
        return self._engines[digest]

    def _players(self, machine: Machine, digest: str, scenario: Scenario | None) -> Players:
        known = self._known_players if scenario is None else dict[str, Players]()
        if digest not in known:
            known[digest] = players_of(machine, scenario, self.functions, self.person, self.clock)
        return known[digest]

    async def _active(
        self,
        claim: Claim,
        state: RunState,
        machine: Machine,
        digest: str,
        scenario: Scenario | None,
        *,
        is_driven: bool = True,
    ) -> ActiveRun:
        engine, players = self.engine(machine, digest), self._players(machine, digest, scenario)
        if is_driven and players.calls_models:
            client.preload()
        if not engine.program.is_counted:
            state.counted = None
        person, run = players.person, claim.run
        is_root = not is_child(run)
        if not is_root and players.scenario is None:
            # Nobody is asked while siblings work; when all have stopped, somebody can answer.
            person = NobodyThere()
        active = ActiveRun(
            program=engine.program,
            engine=engine,
            claim=claim,
            clock=self.clock,
            agents=players.agents,
            commands=players.commands,
            person=person,
            children=self,
            scenario=players.scenario,
            breakers=self.breakers if players.scenario else self._asked,
            redact=players.redact,
            listeners=self._listeners_of(run),
            notify=self._notify or players.notify,
            contents=self.journal.contents,
            occupancy=self._occupancy,
            asked_before=state.question.question if state.question else "",
            state=state,
            keeps_texts=self.journal.keeps_texts,
        )
        # Its programs must not go on beside those of the next owner.
        claim.tell = active.lose
        if is_root and active.notify and engine.program.machine.alert:
            active.listeners = (*active.listeners, alert_listener(active))
        if self._observers is None:
            self._observers = self._observe()
        for observer in self._observers:
            listener = await observer.listener(active, self._history)
            active.listeners = (*active.listeners, listener)
        return active

    async def _history(self, run: str) -> Sequence[Stored]:
        return await self.events(run) if await self.journal.has(run) else ()

    async def close(self) -> None:
        """Let the observers pass on the events that are left."""
        for observer in self._observers or ():
            await observer.close()


async def _trees_for_children(parent: ActiveRun) -> Mapping[str, str]:
    """By workspace: the trees of ancestors in which children work too."""
    if parent.state.isolate != "none":
        # Its tree is the folder of its children.
        return {}
    shared = parent.program.machine.workspace
    if shared is not None and shared.isolate != "none":
        await workspace(parent, shared)
    own = {each.source: each.place for each in parent.state.isolated.values()}
    return {**parent.trees_above, **own}


VERDICT_STATE = "text_to_judge_verdict"
JUDGED = "artifact_to_judge"
"""The artifact of a validator by which no state judges."""


class NoReport(Exception):
    """The run around a validator stopped before there was a report; the message says why."""


@dataclass(frozen=True)
class StandaloneValidator:
    """A validator of a machine, to judge texts by itself as it judges an artifact in a run."""

    loaded: Loaded
    name: str

    @property
    def machine(self) -> Machine:
        return self.loaded.machine

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        return rules_of(self.machine.validators[self.name])

    @property
    def asks(self) -> frozenset[str]:
        return frozenset(rule.asks for rule in self.rules if rule.asks is not None)

    @cached_property
    def artifact(self) -> str:
        """The artifact that the text stands for: the first state with the validator judges it."""
        judging = self.machine.states_of(ValidateState).values()
        return next((s.validate_ for s in judging if self.name in s.by), JUDGED)

    @cached_property
    def author(self) -> Agent | None:
        """The agent whose answer is the artifact, if it answers with data; None for a text."""
        agents = (agent for name in self._outputs for agent in self.machine.agents_at(name))
        return next((agent for agent in agents if agent.schema_ is not None), None)

    @cached_property
    def _outputs(self) -> dict[str, Output]:
        outputs = ((name, state.output_at(name)) for name, state in self.machine.states.items())
        return {name: out for name, out in outputs if out is not None and out.name == self.artifact}

    @cached_property
    def _output(self) -> RenderOutput:
        outputs = self._outputs.values()
        fields = next((output.fields for output in outputs if output.fields), {})
        fence = next((output.fence for output in outputs if output.fence), None)
        return RenderOutput(name=self.artifact, fields=fields, fence=fence)

    @cached_property
    def judging(self) -> Loaded:
        """A machine that begins with a text or data, and judges it by this validator."""
        machine, written = self.machine, self.machine.validators[self.name]
        done = "text_to_judge_done"
        judges = ValidateState(
            validate_=self.artifact,
            by=(self.name,),
            transitions=(
                Transition(guard="incomplete", target=done),
                Transition(guard="infeasible", target=done),
                Transition(target=done),
            ),
        )
        changed = machine.model_copy(
            update={
                "artifacts": {**machine.artifacts, self.artifact: ""},
                "states": {VERDICT_STATE: judges, done: FinalState(final="success")},
                "validators": {**machine.validators, self.name: _without_baseline(written)},
                "agents": {n: agent for n, agent in machine.agents.items() if n in self.asks},
                "initial": VERDICT_STATE,
                # No state of the machine wrote the text, so none can have to fix it.
                "origins": (),
                "limits": machine.limits.model_copy(update={"then": None}),
            }
        )
        return with_machine(self.loaded, changed)

    def read(self, text: str) -> Artifact:
        """The artifact of a text, or of the data in it; raises NoReport if it is too long."""
        if len(text) > MAX_OUTPUT:
            told = f"the text has {len(text):,} characters"
            raise NoReport(f"{told}; at most {MAX_OUTPUT:,} can be judged")
        reply, patterns = Replied(key="", text=text, usage=Usage()), self.machine.patterns
        made = make_artifact(reply, self.author, self._output, "", 1, patterns)
        return made.replace(version=1)

    def by_itself(self, report: Report) -> Report:
        """The report without the names of what is only there to judge the text."""
        artifact = "" if report.artifact == JUDGED else report.artifact
        return report.replace(state="", artifact=artifact)

    def inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The input that the judging machine starts with; missing values are None."""
        return {**dict.fromkeys(parse_record(self.machine.input).fields or {}), **inputs}


def _first_artifacts(machine: Machine, given: Mapping[str, Any]) -> tuple[Artifact, ...]:
    return tuple(
        Artifact(
            name=name,
            author="",
            attempt=0,
            text=first.text,
            data=first.value[0] if first.value else None,
            is_data=bool(first.value),
            fields=first.fields,
            version=1,
        )
        for name, first in first_artifacts(machine, given).items()
    )


def _without_baseline(validator: Validator) -> Validator:
    """The validator without baselines: there is no earlier work, so that every finding counts."""
    rules = tuple(
        rule.model_copy(update={"baseline": False}) if rule.has_baseline else rule
        for rule in rules_of(validator)
    )
    return rules if isinstance(validator, tuple) else rules[0]
