"""The composition root: a machine file and a state folder in, a run driven out."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

from loopkit.agents.assignment import (
    Functions,
    NotRunnable,
    refuse_misnamed,
    refuse_unplayable,
)
from loopkit.agents.model import client
from loopkit.agents.players import Players, players_of
from loopkit.agents.port import Person
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import ActiveRun, Clock, Listener, Stored
from loopkit.drive.advance import advance, doubts
from loopkit.drive.archive import definition, read_record, refuse_strange, state_after
from loopkit.drive.breaker import Breakers
from loopkit.drive.inbox import CANCEL, consume
from loopkit.drive.new_claim import NewClaim
from loopkit.drive.occupancy import Occupancy
from loopkit.drive.posting import post_answer
from loopkit.drive.questions import asked_anew
from loopkit.drive.surroundings import NobodyThere, RealClock
from loopkit.engine.events import Claimed, HumanAnswer, Repaired, Resumed, Started
from loopkit.engine.macrostep import Engine
from loopkit.engine.state import RunState, apply, fold
from loopkit.journal import Claim, Journal, RunBusy
from loopkit.journal.memory import MemoryJournal
from loopkit.journal.sqlite import SqliteJournal
from loopkit.language import Machine
from loopkit.language.load import Loaded, load_resolved, named_file
from loopkit.machine.program import Program
from loopkit.repair import AS_IT_IS, Definition, Mend, repair
from loopkit.repair.files import changed_file, found_file
from loopkit.repair.refusals import refuse_limits, refuse_over
from loopkit.scenario import Scenario, read_resolved
from loopkit.text import is_broken
from loopkit.views.hints import hints


@dataclass(frozen=True)
class Script:
    """A scenario with the digest under which the journal keeps it."""

    scenario: Scenario
    resolved: str
    digest: str


MOST_NAMED = 5
"""How many runs are named where an id is not told in full."""


class App:
    """Runs of machines over one journal."""

    def __init__(
        self,
        journal: Journal,
        *,
        folder: Path,
        clock: Clock | None = None,
        person: Person | None = None,
        listeners: Sequence[Listener] = (),
        breakers: Breakers | None = None,
        engines: dict[str, Engine] | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(3),
        functions: Functions | None = None,
        notify: Sequence[str] = (),
    ) -> None:
        """`token` ends the ids of new runs, by chance and short enough to be typed.

        `functions` play agents, by the names of these. `notify` is started instead of the
        notifiers of machines.
        """
        self.journal = journal
        self.folder = folder
        self.clock = clock or RealClock()
        self.person = person or NobodyThere()
        self.listeners = listeners
        self.breakers = breakers or Breakers()
        self._engines = {} if engines is None else engines
        self._stored: set[str] = set()
        self._begun: WeakValueDictionary[str, NewClaim] = WeakValueDictionary()
        """By their ids, runs that were started here and may not be stored yet."""
        self._token = token
        self._known_players: dict[str, Players] = {}
        """By the digests of definitions, who plays where no scenario does."""
        self.functions = functions or {}
        self._notify = notify
        self._occupancy = Occupancy()

    @classmethod
    def open(cls, state: Path | None, **parts: Any) -> App:
        """An app over the SQLite journal of a state folder; none keeps it in memory."""
        folder = Path.cwd() if state is None else state.absolute().parent
        journal = MemoryJournal() if state is None else SqliteJournal.open(state)
        return cls(journal, folder=folder, **parts)

    async def start(
        self,
        loaded: Loaded,
        inputs: Mapping[str, Any],
        script: Script | None = None,
        limits: Mapping[str, Any] | None = None,
        *,
        run: str = "",
    ) -> ActiveRun:
        """A new run, claimed and not yet driven; raises NotRunnable.

        It is stored with what it does first, before anything is spent. `run` is its id, which no
        other run may have; without it the run gets one.
        """
        scenario = script.scenario if script else None
        refuse_unplayable(loaded.machine, scenario, self.functions, limits or {})
        if is_broken(str(self.folder)):
            raise NotRunnable(
                "the path of the project folder is not valid UTF-8; rename the folder, "
                "or set LOOPKIT_STATE to a state folder elsewhere"
            )
        await self._store(loaded.digest, loaded.resolved)
        if script is not None:
            await self._store(script.digest, script.resolved)
        machine = loaded.machine.name or "machine"
        run = run or await self._new_id(machine)
        claim = self._begun[run] = NewClaim(self.journal, run, machine, loaded.digest)
        engine = self.engine(loaded.machine, loaded.digest)
        players = self._players(loaded.machine, loaded.digest, scenario)
        active = self._active(claim, fold((Claimed(),)), engine, players)
        started = Started(
            run=run,
            machine=machine,
            definition=loaded.digest,
            script=script.digest if script else None,
            folder=str(self.folder),
            input=dict(inputs),
            limits=dict(limits or {}),
        )
        active.stage(started)
        if players.calls_models:
            # The library behind models takes seconds to load, and the run can be seen meanwhile.
            await active.append()
        return active

    async def _new_id(self, machine: str) -> str:
        """An id that no other run has; among thousands two may well draw the same."""
        while True:
            run = f"{machine}-{self._token()}"
            if run not in self._begun and not await self.journal.has(run):
                return run

    async def _store(self, digest: str, text: str) -> None:
        if digest not in self._stored:
            await self.journal.store_definition(digest, text)
            self._stored.add(digest)

    async def resume(
        self, run: str, limits: Mapping[str, Any] | None = None, mend: Mend = AS_IT_IS
    ) -> ActiveRun:
        """A stored run, claimed, in exactly the state in which it stopped.

        With `mend` it goes on with another definition. Raises NotRunnable, and ProblemsFound where
        that does not fit what the run has done; nothing is stored then.
        """
        before = await self.state_of(run)
        refuse_over(before)
        await self.machine_of(before)
        scenario = await self.scenario_of(before)
        claim = await self.journal.claim(run)
        try:
            return await self._resumed(claim, run, scenario, limits or {}, mend)
        except (NotRunnable, ProblemsFound):
            if not await claim.release((CANCEL,)):
                await self._cancel(claim, run)
            raise

    async def _resumed(
        self,
        claim: Claim,
        run: str,
        scenario: Scenario | None,
        limits: Mapping[str, Any],
        mend: Mend,
    ) -> ActiveRun:
        # Whoever drove it until now may have brought it to its end.
        state = await self.state_of(run)
        refuse_over(state)
        machine = await self.machine_of(state)
        if mend.is_any:
            stored = await definition(self.journal, run, state.definition, str)
            wanted = mend.applied(stored)
            repaired = repair(state, machine, wanted, limits)
            if repaired.changes:
                return await self._repaired(
                    claim, state, scenario, limits, (machine, wanted), repaired
                )
        refuse_unplayable(machine, scenario, self.functions, {**state.limits, **limits})
        refuse_limits(machine, state, limits)
        engine = self.engine(machine, state.definition)
        players = self._players(machine, state.definition, scenario)
        active = self._active(claim, state, engine, players)
        if active.state.status == "suspended" or limits:
            await active.append(Resumed(limits=dict(limits)))
        return active

    async def _repaired(
        self,
        claim: Claim,
        state: RunState,
        scenario: Scenario | None,
        limits: Mapping[str, Any],
        machines: tuple[Machine, Definition],
        repaired: Repaired,
    ) -> ActiveRun:
        """The run with another definition, and an open question asked anew."""
        old, wanted = machines
        ahead = state.copy()
        apply(ahead, repaired)
        refuse_unplayable(wanted.machine, scenario, self.functions, {**ahead.limits, **limits})
        if scenario is not None:
            refuse_misnamed(wanted.machine, scenario)
        engine = self.engine(wanted.machine, wanted.digest)
        question = asked_anew(engine, ahead, self.clock.now())
        await self._store(wanted.digest, wanted.resolved)
        players = self._players(wanted.machine, wanted.digest, scenario)
        active = self._active(claim, state, engine, players)
        # What becomes of open calls is what the definition said under which they were made.
        lost = doubts(old, state)
        await active.append(Resumed(limits=dict(limits)), *lost, repaired, *question)
        return active

    async def post_answer(self, run: str, answer: HumanAnswer, question: str | None = None) -> bool:
        """Leave an answer in the inbox; false where it was given before.

        It is for the `question` of that id; without one for the open question, unless it is
        typed twice. Raises AnswerRefused, and NotRunnable where nothing is asked.
        """
        history = await self.events(run)
        state = state_after(run, history)
        if state.status != "waiting" and answer in state.answers.values():
            return False
        refuse_over(state)
        engine = self.engine(await self.machine_of(state), state.definition)
        given, now = (answer, question), self.clock.now()
        return await post_answer(self.journal, engine, history, state, given, now)

    async def cancel(self, run: str, reason: str) -> str:
        """End a run, or leave word for the process that drives it; what happened, in a sentence."""
        before = await self.state_of(run)
        refuse_over(before)
        await self.machine_of(before)
        message_id = f"cancel:{secrets.token_hex(8)}"
        await self.journal.post(run, CANCEL, message_id, reason, self.clock.now())
        try:
            await self._cancel(await self.journal.claim(run), run)
        except RunBusy as busy:
            # From now on its owner can't end it in another way; it may have before.
            state = await self.state_of(run)
            if not state.is_over:
                return f"{busy}; it cancels the run after the step in hand"
        else:
            state = await self.state_of(run)
        if state.status != "cancelled":
            refuse_over(state)
        return f"run {run} is cancelled"

    async def _cancel(self, claim: Claim, run: str) -> None:
        """Cancel a claimed run, as its inbox says, unless it is over."""
        try:
            state = await self.state_of(run)
            if not state.is_over:
                machine = await self.machine_of(state)
                engine = self.engine(machine, state.definition)
                players = self._players(machine, state.definition, None)
                await consume(self._active(claim, state, engine, players))
        finally:
            await claim.release()

    async def run_named(self, beginning: str) -> str:
        """The id of the one run that begins like this; what begins none as it is.

        Raises NotRunnable where several do.
        """
        found = await self.journal.named(beginning, limit=MOST_NAMED)
        if beginning in found or not found:
            return beginning
        if len(found) > 1:
            more = ", …" if len(found) == MOST_NAMED else ""
            raise NotRunnable(f"`{beginning}` begins several runs: {', '.join(found)}{more}")
        return found[0]

    async def drive(self, active: ActiveRun) -> RunState:
        """Advance a run and let go of it; the state in which it stopped."""
        try:
            await advance(active)
        finally:
            await active.claim.release()
        return active.state

    async def events(self, run: str, after: int = 0) -> list[Stored]:
        """The events of a run behind `after`, oldest first."""
        return [read_record(run, record) for record in await self.journal.read(run, after)]

    async def state_of(self, run: str) -> RunState:
        return state_after(run, await self.events(run))

    async def machine_of(self, state: RunState) -> Machine:
        machine = await definition(self.journal, state.run, state.definition, load_resolved)
        refuse_strange(state, machine)
        return machine

    async def machine_name_of(self, state: RunState) -> Path:
        """The file that the run's machine was read from, as it was named then."""
        return await definition(self.journal, state.run, state.definition, named_file)

    async def machine_file_of(self, state: RunState) -> Path | None:
        """The same where it is now, seen from here or from the project folder."""
        return found_file(await self.machine_name_of(state), (Path(), Path(state.folder)))

    async def hints_for(self, state: RunState) -> list[str]:
        """Lines that lead on with a run that stopped."""
        if state.suspended is None:
            return []
        machine, file = await self.machine_of(state), await self.machine_file_of(state)
        return list(hints(state, machine, file))

    async def changed_file(self, run: str) -> Path | None:
        """The run's machine file, where it says something else than the run has by now."""
        state = await self.state_of(run)
        stored = await definition(self.journal, run, state.definition, str)
        return changed_file(stored, await self.machine_file_of(state))

    async def scenario_of(self, state: RunState) -> Scenario | None:
        if state.script is None:
            return None
        return await definition(self.journal, state.run, state.script, read_resolved)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await client.close()
        await self.journal.close()

    async def is_over(self, run: str) -> bool:
        return (await self.state_of(run)).is_over

    def engine(self, machine: Machine, digest: str) -> Engine:
        """The engine of a definition; made once, because compiled classes are never freed."""
        if digest not in self._engines:
            self._engines[digest] = Engine(Program(machine, digest))
        return self._engines[digest]

    def _players(self, machine: Machine, digest: str, scenario: Scenario | None) -> Players:
        """Who plays in a run; what a scenario plays belongs to one run."""
        if scenario is None and digest in self._known_players:
            return self._known_players[digest]
        players = players_of(machine, scenario, self.functions, self.person, self.clock)
        if scenario is None:
            self._known_players[digest] = players
        return players

    def _active(self, claim: Claim, state: RunState, engine: Engine, players: Players) -> ActiveRun:
        if players.calls_models:
            client.preload()
        return ActiveRun(
            program=engine.program,
            engine=engine,
            claim=claim,
            clock=self.clock,
            agents=players.agents,
            commands=players.commands,
            person=players.person,
            breakers=self.breakers,
            redact=players.redact,
            listeners=self.listeners,
            notify=self._notify or players.notify,
            contents=self.journal.contents,
            occupancy=self._occupancy,
            asked_before=state.question.question if state.question else "",
            state=state,
        )
