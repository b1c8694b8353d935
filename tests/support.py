"""Playing machine files in tests: real files, the real runner, scripted agents, a real journal."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from loopkit.active import Stored
from loopkit.app import App, Script
from loopkit.checks import check
from loopkit.datatypes import conform, parse_fields
from loopkit.events import Decided, Event, HumanAnswer, Intended, Waiting, Worked
from loopkit.findings import Report
from loopkit.load import load
from loopkit.runstate import RunState
from loopkit.scenario import load_scenario

E = TypeVar("E", bound=Event)
ROOT = Path(__file__).parents[1]


@dataclass
class Played:
    """How a run went."""

    state: RunState
    stored: Sequence[Stored]
    folder: Path

    @property
    def events(self) -> list[Event]:
        return [stored.event for stored in self.stored]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcome(self) -> str | None:
        return self.state.finished.outcome if self.state.finished else None

    @property
    def result(self) -> dict[str, Any]:
        return self.state.finished.result if self.state.finished else {}

    @property
    def route(self) -> list[str]:
        """The states, in the order in which they were entered."""
        decided = self.of(Decided)
        return [decided[0].source, *(event.target for event in decided)] if decided else []

    @property
    def reports(self) -> list[Report]:
        return [event.report for event in self.of(Worked) if event.report is not None]

    @property
    def questions(self) -> list[Waiting]:
        return self.of(Waiting)

    def prompts(self, agent: str) -> list[str]:
        """What an agent was sent last in each call, in order."""
        return [event.prompt for event in self.of(Intended) if event.agent == agent]


@dataclass
class Desk:
    """A folder with machine files, and runs of them that outlive an app."""

    folder: Path
    in_memory: bool = True
    scripts: int = field(default=0)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def play(
        self,
        machine: str | Path,
        script: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> Played:
        """Run a machine as far as it goes; the machine has to pass the checks."""
        path = machine if isinstance(machine, Path) else self.write("machine.yaml", machine)
        if isinstance(script, str):
            self.scripts += 1
            script = self.write(f"scenario_{self.scripts}.yaml", script)
        return asyncio.run(self._play(path, script, dict(inputs or {}), limits))

    def resume(self, run: str, limits: Mapping[str, Any] | None = None) -> Played:
        """Go on with a stored run in a new app over the same journal, as another process would."""
        return asyncio.run(self._resume(run, limits, None))

    def answer(self, run: str, choice: str, **parts: Any) -> Played:
        """Answer the open question and go on."""
        return asyncio.run(self._resume(run, None, HumanAnswer(choice=choice, **parts)))

    @property
    def state_folder(self) -> Path | None:
        return None if self.in_memory else self.folder / ".loopkit"

    async def _play(
        self,
        path: Path,
        script: Path | None,
        inputs: dict[str, Any],
        limits: Mapping[str, Any] | None,
    ) -> Played:
        loaded = load(path)
        assert [p for p in check(loaded) if p.severity == "error"] == []
        filled, faults = conform(inputs, parse_fields(loaded.machine.input))
        assert isinstance(filled, dict)
        assert not faults
        played = Script(*load_scenario(script)) if script else None
        app = self._app()
        try:
            active = await app.start(loaded, filled, played, limits)
            state = await app.drive(active)
            return Played(state, await app.events(state.run), self.folder)
        finally:
            await app.close()

    async def _resume(
        self, run: str, limits: Mapping[str, Any] | None, answer: HumanAnswer | None
    ) -> Played:
        app = self._app()
        try:
            if answer is not None:
                await app.post_answer(run, answer)
            active = await app.resume(run, limits)
            state = await app.drive(active)
            return Played(state, await app.events(run), self.folder)
        finally:
            await app.close()

    def _app(self) -> App:
        app = App.open(self.state_folder)
        app.folder = self.folder
        return app
