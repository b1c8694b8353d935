"""One case played: the real driver over a journal in memory, with prepared replies only.

No model and no program is ever called: what the case does not play is noted and told.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir

from loopkit.agents.port import AgentPort, PlayedCommands, Reply, Request
from loopkit.agents.scripted import Crashed, Unprepared
from loopkit.app import App, Script
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import ActiveRun, Stored
from loopkit.drive.breaker import Breakers
from loopkit.drive.states.human import AnswerRefused
from loopkit.engine.events import Usage
from loopkit.engine.state import RunState
from loopkit.journal.memory import MemoryJournal
from loopkit.language.load import digest_of
from loopkit.outside.processes import CommandResult
from loopkit.scenario import Resume, read_resolved
from loopkit.testing.clock import PlayedClock
from loopkit.testing.suites import Suite


@dataclass(frozen=True)
class Run:
    """What came of a case."""

    state: RunState
    events: tuple[Stored, ...]
    """Everything that the journal has of it."""
    unprepared: tuple[str, ...] = ()
    """What was asked for and not prepared, in order."""
    refused: str = ""
    """Why the last answer was not taken, if it was not."""


def play(suite: Suite, case: str) -> Run:
    """Play a case to where it ends, waits or is suspended. Pauses in it take no time.

    Raises ProblemsFound where a part of it is still to be written.
    """
    if left := suite.unwritten[case]:
        raise ProblemsFound(left)
    stage = Stage(suite, case)
    asyncio.run(stage.play())
    assert stage.run is not None
    return stage.run


@dataclass
class Stage:
    """Where one case is played: a project folder, a clock and a journal of its own."""

    suite: Suite
    case: str
    run: Run | None = None
    """What came of it, once it is played."""
    unprepared: list[str] = field(default_factory=list)

    async def play(self) -> None:
        # The run is kept instead of returned: asyncio prints the result of its main task.
        with project_folder() as folder:
            clock = PlayedClock()
            journal = MemoryJournal(clock.now)
            engines = self.suite.machines.engines
            async with App(journal, folder=folder, clock=clock, engines=engines) as app:
                self.run = await self._play(app)

    async def _play(self, app: App) -> Run:
        resolved = _complete(self.suite.written.resolved(self.case), self.suite)
        script = Script(read_resolved(resolved), resolved, digest_of(resolved))
        case = self.suite.case(self.case)
        inputs, resumes = self.suite.inputs[self.case], list(case.resumes)
        active = await app.start(self.suite.machine, inputs, script, case.limits.named)
        refused: str | None = None
        while refused is None:
            self.watch(active)
            try:
                await app.drive(active)
                if active.state.status == "suspended" and resumes:
                    active = await self._resume(app, active.state.run, resumes.pop(0))
                else:
                    refused = ""
            except AnswerRefused as refusal:
                refused = str(refusal)
            except Crashed:
                # As another process takes up a run whose own was killed.
                active = await self._resume(app, active.state.run, Resume())
        events = tuple(await app.events(active.state.run))
        return Run(active.state, events, tuple(dict.fromkeys(self.unprepared)), refused)

    async def _resume(self, app: App, run: str, resume: Resume) -> ActiveRun:
        """The run taken up as by another process, which knows nothing of the providers."""
        await app.clock.sleep(resume.after)
        app.breakers = Breakers()
        return await app.resume(run, resume.limits.named)

    def watch(self, active: ActiveRun) -> None:
        """Take part in a run before it is driven: who is asked for something is noted."""
        agents = active.agents.items()
        active.agents = {name: _WatchedAgent(port, self.unprepared) for name, port in agents}
        active.commands = _WatchedCommands(active.commands, self.unprepared)


@contextmanager
def project_folder() -> Iterator[Path]:
    """A project folder of the case's own. Few cases have files, so it is not made beforehand."""
    folder = Path(gettempdir()) / f"loopkit-case-{secrets.token_hex(8)}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _complete(resolved: str, suite: Suite) -> str:
    """The script with an empty part for whoever has none, so that nobody real is asked."""
    script, bill = json.loads(resolved), suite.playbill
    for part, names in (("agents", bill.machine.agents), ("commands", bill.commands)):
        script[part] = {**{name: [] for name in names}, **script[part]}
    return json.dumps(script, ensure_ascii=False)


@dataclass(frozen=True)
class _WatchedAgent:
    """An agent that is only played; what it was not prepared for is noted."""

    port: AgentPort
    unprepared: list[str]

    async def ready(self) -> None:
        await self.port.ready()

    def quote(self, request: Request) -> Usage:
        try:
            return self.port.quote(request)
        except Unprepared as missing:
            self.unprepared.append(missing.message)
            raise

    async def ask(self, request: Request) -> Reply:
        return await self.port.ask(request)


@dataclass(frozen=True)
class _WatchedCommands:
    """Commands that are only played; what they were not prepared for is noted."""

    commands: PlayedCommands
    unprepared: list[str]

    def result(
        self, place: str, index: int, folder: Path | None, earlier: int = 0
    ) -> CommandResult | None:
        try:
            return self.commands.result(place, index, folder, earlier)
        except Unprepared as missing:
            self.unprepared.append(missing.message)
            raise
