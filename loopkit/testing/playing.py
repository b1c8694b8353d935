"""One case played: the real driver over a journal in memory, with prepared replies only.

No model and no program is ever called: what the case does not play is noted and reported. Pauses
pass at once, and all other work takes no time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, nextafter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Generic, NamedTuple, TypeVar

from loopkit.agents.players import Unprepared
from loopkit.agents.port import Crashed
from loopkit.app import App, Script
from loopkit.document.document import DocPath
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnswerRefused
from loopkit.drive.breakers import Breakers
from loopkit.drive.stored_runs import Stored, StoredRuns, state_after
from loopkit.engine.events import ChildStarted, Event
from loopkit.engine.state import RunState
from loopkit.journal.journal import Journal, open_journal
from loopkit.language.datatypes.notation import parse_record
from loopkit.language.inclusion import digest_of
from loopkit.language.states.each import ChildrenState
from loopkit.scenario.cases import Resume, read_resolved
from loopkit.scenario.playable import Miss, Playable
from loopkit.scenario.script import ANY, CHILDREN
from loopkit.testing.suites import Suite
from loopkit.text.run_ids import place_of

Of = TypeVar("Of")


class Child(NamedTuple, Generic[Of]):
    """What is known of a child."""

    state: str
    key: str
    """The key of its item; empty for an only child."""
    visit: int
    run: Of


@dataclass(frozen=True)
class FamilyRun:
    state: RunState
    events: tuple[Stored, ...]
    children: tuple[Child[FamilyRun], ...] = ()

    @property
    def plain_events(self) -> list[Event]:
        return [stored.event for stored in self.events]

    @property
    def cost_usd(self) -> float | None:
        """The cost of it and all its children; None where unknown."""
        costs = [self.state.usage.cost_usd]
        for child in self.children:
            known = self.state.children[child.state][child.key]
            if known.ended is None and known.started.visit == child.visit:
                # Not yet part of the cost of the run itself.
                costs.append(child.run.cost_usd)
        return None if None in costs else sum(cost for cost in costs if cost is not None)


@dataclass(frozen=True)
class Run(FamilyRun):
    unprepared: tuple[Miss, ...] = ()
    """What was asked for but not prepared, in order."""
    refused: Miss | None = None


def play(suite: Suite, case: str) -> Run:
    """Play a case to where it ends, waits or is suspended. Pauses in it take no time."""
    played: list[Run] = []
    asyncio.run(_play_into(played, suite, case))
    return played[0]


async def _play_into(played: list[Run], suite: Suite, name: str) -> None:
    """Play a case in a folder, and with a clock and a journal, of its own."""
    # The run is kept instead of returned: asyncio prints the result of its main task.
    with TemporaryDirectory(prefix="loopkit-case-", ignore_cleanup_errors=True) as made:
        # Workspaces that lead up stay inside.
        folder = Path(made, *["case"] * suite.machine.machine.levels_up)
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - nothing else runs meanwhile
        clock, engines = PlayedClock(), suite.machines.engines
        journal = open_journal(None, clock=clock.now)
        async with PlayedApp(journal, folder=folder, clock=clock, engines=engines) as app:
            played.append(await _run_of(app, suite, name))


async def _run_of(app: PlayedApp, suite: Suite, name: str) -> Run:
    written = json.loads(suite.written.script_json(name))
    resolved = json.dumps(complete(written, suite.playable), ensure_ascii=False)
    script = Script(read_resolved(resolved), resolved, digest_of(resolved))
    case = suite.case(name)
    resumes = list(case.resumes)
    assert app.folder is not None
    inputs = _with_own_files(suite, name, app.folder)
    active = await app.start(suite.machine, inputs, script, case.limits.named)
    refused: Miss | None = None
    goes_on = True
    while goes_on:
        try:
            await app.drive(active)
            goes_on = active.state.status == "suspended" and bool(resumes)
            if goes_on:
                active = await _resume(app, active.state.run, resumes.pop(0))
        except AnswerRefused as refusal:
            refused = Miss(app.refused_at, f"the answer was refused: {refusal}", "refused")
            goes_on = False
        except Crashed:
            # Another process takes up a run like this, whose own was killed.
            active = await _resume(app, active.state.run, Resume())
    family = await family_of(app, active.state.run)
    unprepared = tuple(dict.fromkeys(app.unprepared))
    return Run(active.state, family.events, family.children, unprepared, refused)


def _with_own_files(suite: Suite, name: str, folder: Path) -> dict[str, Any]:
    """The input of a case, with each file where it is played: its bytes, or at least its data."""
    inputs = dict(suite.inputs[name])
    top = suite.written.folder.resolve()
    fields = (parse_record(suite.machine.machine.input).fields or {}).items()
    files = {key: inputs[key] for key, field in fields if field.is_file and inputs.get(key)}
    whole = {key: Path(file["path"]).absolute() for key, file in files.items()}
    paths = {key: Path(os.path.normpath(path)) for key, path in whole.items()}
    if not all(path.is_relative_to(top) for path in paths.values()):
        top = Path(os.path.commonpath([path.parent for path in paths.values()]))
    for key, path in paths.items():
        target = folder / path.relative_to(top)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != files[key]["digest"]:
            content = json.dumps(files[key]["data"], ensure_ascii=False).encode()
        target.write_bytes(content)
        inputs[key] = {**files[key], "path": str(target)}
    return inputs


async def _resume(app: App, run: str, resume: Resume) -> ActiveRun:
    """Take the run up as another process would, which knows nothing of the providers."""
    await app.clock.sleep(resume.after)
    app.breakers = Breakers()
    return await app.resume(run, resume.limits.named)


class PlayedApp(App):
    """An app that asks no real agent or person; what is not played is noted."""

    def __init__(self, journal: Journal, **parts: Any) -> None:
        super().__init__(journal, **parts)
        self._occupancy.makes_folders = True
        self.unprepared: list[Miss] = []
        self.refused_at: DocPath = ()
        """The place of the answer that was refused."""
        self._children: dict[str, tuple[str, DocPath]] = {}
        """By run: the name of the child in messages, and the place of its part."""

    async def child(self, parent: ActiveRun, started: ChildStarted) -> ActiveRun | RunState:
        said = parent.scenario and parent.scenario.child(started.state, started.key, started.visit)
        around, place = self._children.get(parent.state.run, ("", ()))
        called = place_of(started.state, started.key, around)
        self._children[started.child] = called, (*place, *(said.at if said else ()))
        return await super().child(parent, started)

    async def drive(self, active: ActiveRun) -> RunState:
        called, place = self._children.get(active.state.run, ("", ()))
        noted = partial(self._noted, f"`{called}`: " if called else "", place)
        watched: Any = SimpleNamespace
        active.agents = {
            name: watched(ready=port.ready, quote=noted(port.quote), ask=port.ask)
            for name, port in active.agents.items()
        }
        played = active.commands
        active.commands = watched(result=noted(played.result), plays=played.plays)
        try:
            return await super().drive(active)
        except AnswerRefused:
            state = active.state
            # If a child refused it, the runs around that child raise the same afterwards.
            self.refused_at = self.refused_at or (*place, "answers", state.state, state.visit - 1)
            raise

    def _noted(self, who: str, place: DocPath, asked: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any) -> Any:
            try:
                return asked(*args)
            except Unprepared as missing:
                at = (*place, *missing.at) if missing.at else ()
                message = f"{who}{missing.message}"
                self.unprepared.append(Miss(at, message, "unprepared", is_key=not at))
                raise

        return ask


def complete(parts: Mapping[str, Any], bill: Playable) -> dict[str, Any]:
    """The parts of a run, with an empty one for every agent and command that has none.

    Its children get the same, so that nothing real is called.
    """
    parts_of_all = {**parts}
    for part, names in (("agents", bill.machine.agents), ("commands", bill.commands)):
        parts_of_all[part] = {**{name: [] for name in names}, **parts.get(part, {})}
    child_parts = parts.get(CHILDREN, {})
    child_states = bill.machine.states_of(ChildrenState)
    parts_of_all[CHILDREN] = {
        state: _complete_children(child_parts.get(state, {}), child, child_states[state])
        for state, child in bill.children.items()
    }
    return parts_of_all


def _complete_children(said: Any, bill: Playable, state: ChildrenState) -> Any:
    if not state.has_keys:
        return _complete_visits(said, bill)
    return {key: _complete_visits(item, bill) for key, item in {ANY: {}, **said}.items()}


def _complete_visits(said: Any, bill: Playable) -> list[Any]:
    return [complete(one, bill) for one in (said if isinstance(said, list) else [said])]


async def family_of(stored: StoredRuns, run: str) -> FamilyRun:
    events = tuple(await stored.events(run))
    begun = [one.event for one in events if isinstance(one.event, ChildStarted)]
    children = [
        Child(child.state, child.key, child.visit, await family_of(stored, child.child))
        for child in begun
        if await stored.journal.has(child.child)
    ]
    return FamilyRun(state_after(run, events), events, tuple(children))


START = 1_767_225_600.0
"""Unix time at which every case begins: midnight of 2026-01-01, UTC."""


class PlayedClock:
    """The time of one case. Pauses that begin together end as if they had passed together."""

    def __init__(self) -> None:
        self._time = START

    def now(self) -> float:
        return self._time

    monotonic = now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return
        # Rounded up: a sleeper must never wake before the time that it waits for.
        end = nextafter(self._time + seconds, inf)
        await asyncio.sleep(0)
        self._time = max(self._time, end)
