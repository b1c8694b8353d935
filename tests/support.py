"""Playing machine files in tests: real files, the real runner, scripted agents, a real journal."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from jsonschema import Draft7Validator

from loopkit.agents.port import AgentPort, OutsideAgentPort, Reply, Request
from loopkit.app import App, Script
from loopkit.checks import check
from loopkit.cli import invoke
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.document.reading import read_file
from loopkit.drive.active import ActiveRun, Clock
from loopkit.drive.breakers import Breakers
from loopkit.drive.repair import AS_IT_IS, Mend
from loopkit.drive.stored_runs import Stored
from loopkit.engine.changes import fold
from loopkit.engine.events import Decided, Event, Intended, Waiting, Worked
from loopkit.engine.findings import Report
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.engine.records import Usage
from loopkit.engine.state import RunState
from loopkit.language.datatypes.datatype import conform
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.inclusion import digest_of
from loopkit.language.input_faults import with_files
from loopkit.language.load import Loaded, Source, load
from loopkit.scenario.cases import load_scenario
from loopkit.views.console import lines
from loopkit.views.schemas import SCHEMAS
from loopkit.views.steps import Steps

E = TypeVar("E", bound=Event)
T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PLAN_REVIEW = ROOT / "machines" / "plan_review.yaml"
MACHINES = sorted(
    path for path in (ROOT / "machines").glob("*.yaml") if ".scenario" not in path.suffixes
)
"""The machine files of the project, without the scenarios beside them."""
PASS: dict[str, Any] = {"data": {"verdict": "pass", "findings": []}}
"""A judge's call that finds nothing."""
KIND_EXAMPLES = read_file(ROOT / "tests" / "data" / "kinds.yaml", shown_as="kinds.yaml").plain()


@cache
def _published() -> Draft7Validator:
    return Draft7Validator(SCHEMAS["machine"]())


def published_faults(machine: object) -> list[str]:
    """What the published schema finds wrong in a machine."""
    return [error.message for error in _published().iter_errors(machine)]


def copied(folder: Path) -> Path:
    """This folder with the project's files, as a clone has them."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def plan(name: str) -> str:
    """A realistic plan of `tests/data/plans`, its line ends as they are."""
    return (ROOT / "tests/data/plans" / f"{name}.md").read_bytes().decode()


def fails(*messages: str) -> dict[str, Any]:
    """A judge's call that finds these errors."""
    findings = [{"message": message, "severity": "error"} for message in messages]
    return {"data": {"verdict": "fail", "findings": findings}}


def warns(*messages: str) -> dict[str, Any]:
    """A judge's call that finds these warnings."""
    findings = [{"message": message, "severity": "warning"} for message in messages]
    return {"data": {"verdict": "warn", "findings": findings}}


def coding(*does: str, prompt: str = ".prompt") -> str:
    """A command whose n-th call does the n-th of some shell scripts, and keeps its last prompt."""
    acts = " ".join(f"{n}) {act};;" for n, act in enumerate(does, 1))
    script = f"cat > {prompt}; echo >> .count; case $(wc -l < .count) in {acts} esac; echo Done."
    return json.dumps(["sh", "-c", script])


def scenario(**parts: Mapping[str, Any]) -> str:
    """A scenario file with these `agents`, `commands` and `answers`."""
    text = json.dumps({"scenario": 1, **parts}, ensure_ascii=False)
    # YAML takes a byte order mark inside a text by its number only.
    return text.replace("\ufeff", "\\ufeff")


@dataclass
class Played:
    """How a run went."""

    state: RunState
    stored: Sequence[Stored]
    folder: Path
    requests: Sequence[Request] = ()
    """What the agents were asked by this process, in order."""

    @property
    def folded(self) -> RunState:
        """The state that the stored events lead to; of figures it keeps what the run keeps."""
        return fold(self.events).replace(counted=self.state.counted)

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

    def asked(self, agent: str) -> list[Request]:
        """The whole requests to an agent: the conversation, the session, the folder."""
        return [request for request in self.requests if request.agent == agent]


@dataclass
class Overheard:
    """An agent whose requests are noted, and whose n-th one never comes back."""

    port: AgentPort
    requests: list[Request]
    hang_at: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)

    async def ready(self) -> None:
        await self.port.ready()

    def quote(self, request: Request) -> Usage:
        return self.port.quote(request)

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        if len(self.requests) == self.hang_at:
            self.hanging.set()
            await asyncio.Event().wait()
        return await self.port.ask(request)


@dataclass
class QuickClock:
    """Time in which pauses last no time; everything else takes a hundredth of a second."""

    time: float = 1_800_000_000.0
    slept: list[float] = field(default_factory=list)
    """Every pause that took any time, in seconds."""

    def now(self) -> float:
        self.time += 0.01
        return self.time

    def monotonic(self) -> float:
        return self.now()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


class Said(NamedTuple):
    """What a command wrote to stdout and to stderr."""

    out: str
    err: str


@dataclass(frozen=True)
class CommandLine:
    """The command line, in this process."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, code: int, *argv: str) -> Said:
        """What a command that has to exit with this code says on stdout and stderr."""
        ended, said = self.ends(*argv)
        assert ended == code, (argv, ended, said)
        return said

    def ends(self, *argv: str) -> tuple[int, Said]:
        """The exit code of a command, and what it says."""
        self.said()
        return invoke([*argv]), self.said()

    def said(self) -> Said:
        """What was said since this was asked last."""
        return Said(*self.capsys.readouterr())


def progress_of(events: Iterable[Stored]) -> Steps:
    """The steps after these events, as a console knows them."""
    return Steps(is_kept=False).after(events)


def console_lines(run: Played) -> list[str]:
    """What the console says of a run, line by line."""
    befores = (progress_of(run.stored[:index]) for index in range(len(run.stored)))
    pairs = zip(befores, run.stored, strict=True)
    return [line.text for before, stored in pairs for line in lines(before, stored)]


def previous(text: str, *, edited: bool = False) -> str:
    """How a prompt that does not name it shows the version before."""
    by = ", as a reviewer has changed it" if edited else ""
    return f"Your previous version{by}:\n\n```\n{text}\n```"


def listed(prompt: str) -> str:
    """The findings in a prompt whose feedback nobody worded."""
    _, lead, rest = prompt.partition("Earlier answers to this task were wrong")
    if lead:
        return rest.partition(":\n")[2].rpartition("\n\n")[0]
    return prompt.partition("Revision ")[2].partition(":\n\n")[2].rpartition("\n\nReply with")[0]


def asked_anew(prompt: str, *findings: str) -> str:
    """How an author is asked again without its version."""
    told = "\n".join(f"- {finding}" for finding in findings)
    return f"Earlier answers to this task were wrong:\n{told}\n\n{prompt}"


def _done(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it, in a loop of its own."""
    result: list[T] = []

    async def keep() -> None:
        result.append(await work)

    # What the task of a loop returns is written out, events and all, when the loop ends.
    asyncio.run(keep())
    return result[0]


_SOUND: dict[tuple[str, str], Loaded] = {}
_OURS: dict[Path, Loaded] = {}
"""Machines of the project, whose files no test changes."""
_SCRIPTS: dict[str, Script] = {}
_ENGINES: dict[str, Engine] = {}
"""By definition, for tests that play the same machine one after the other."""
MOST_ENGINES = 30


def sound(path: Path) -> Loaded:
    """The machine of a file, which has to pass the checks; each text is read and checked once.

    What a machine takes from other files, or starts in its folder, is read each time, unless it
    is one of the project's.
    """
    if path in _OURS:
        return _OURS[path]
    text = path.read_text(encoding="utf-8")
    known = _SOUND.get((text, path.name))
    if known is not None:
        return _placed(known, path)
    loaded = load(path)
    errors = [problem for problem in check(loaded) if problem.severity == "error"]
    assert not errors, errors
    definition = json.dumps(json.loads(loaded.resolved)["machine"], ensure_ascii=False)
    if path in MACHINES:
        _OURS[path] = loaded
    elif not loaded.source.included and str(path.parent) not in definition:
        _SOUND[text, path.name] = loaded
    return loaded


def _placed(loaded: Loaded, path: Path) -> Loaded:
    """The same machine read from another folder."""
    document = loaded.source.document.replace(file=str(path))
    definition = json.loads(loaded.resolved)
    definition["files"] = {str(path): digest_of(document.text)}
    resolved = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return Loaded(loaded.machine, Source(document), path.parent, resolved, digest_of(resolved))


@dataclass
class Desk:
    """A folder with machine files, and runs of them that outlive an app."""

    folder: Path
    in_memory: bool = True
    url: str = ""
    """Of its journal, where that is in no folder."""
    scripts: int = field(default=0)
    breakers: Breakers = field(default_factory=Breakers)
    """What all runs of the desk know of the providers, as those of one process do."""
    clock: Clock | None = None
    """The time; without one the real time."""

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
        return _done(self._play(machine, script, dict(inputs or {}), limits))

    def abort(
        self,
        machine: str | Path,
        script: str | Path | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        in_call: int = 1,
    ) -> Played:
        """Run a machine and abort its n-th call to an agent in flight, as a second Ctrl-C does."""
        return _done(self._play(machine, script, dict(inputs or {}), None, in_call))

    def problems(self, machine: str) -> list[Problem]:
        """What is wrong with a machine file, errors and warnings."""
        try:
            return check(load(self.write("machine.yaml", machine)))
        except ProblemsFound as found:
            return list(found.problems)

    def resume(
        self, run: str, limits: Mapping[str, Any] | None = None, mend: Mend = AS_IT_IS
    ) -> Played:
        """Go on with a stored run in a new app over the same journal, as another process would."""
        return _done(self._resume(run, limits, None, mend))

    def repair(self, run: str, machine: str, limits: Mapping[str, Any] | None = None) -> Played:
        """Go on with a stored run and another machine, which has to pass the checks."""
        assert [p for p in self.problems(machine) if p.severity == "error"] == []
        return self.resume(run, limits, Mend(load(self.folder / "machine.yaml")))

    def answer(self, run: str, choice: str, **parts: Any) -> Played:
        """Answer the open question and go on."""
        return _done(self._resume(run, None, HumanAnswer(choice=choice, **parts)))

    def deliver(self, run: str, text: str | None = None, by: str = "me") -> Played:
        """Deliver what is wanted from outside and go on."""
        return _done(self._resume(run, None, Delivery(text=text, by=by)))

    @property
    def state_folder(self) -> Path | str | None:
        return self.url or (None if self.in_memory else self.folder / ".loopkit")

    async def _play(
        self,
        machine: str | Path,
        script: str | Path | None,
        inputs: dict[str, Any],
        limits: Mapping[str, Any] | None,
        hang_at: int = 0,
    ) -> Played:
        path = machine if isinstance(machine, Path) else self.write("machine.yaml", machine)
        loaded = sound(path)
        filled, faults = conform(inputs, parse_fields(loaded.machine.input))
        assert isinstance(filled, dict)
        assert not faults, faults
        filled = with_files(filled, parse_fields(loaded.machine.input), self.folder)
        if len(_ENGINES) > MOST_ENGINES:
            _ENGINES.clear()
        async with self._app(_ENGINES) as app:
            active = await app.start(loaded, filled, self.script(script), limits)
            return await self._drive(app, active, hang_at)

    def script(self, script: str | Path | None) -> Script | None:
        """A scenario of this text or file, as a run takes it."""
        if not isinstance(script, str):
            return Script(*load_scenario(script)) if script else None
        self.scripts += 1
        path = self.write(f"scenario_{self.scripts}.yaml", script)
        if script in _SCRIPTS:
            return _SCRIPTS[script]
        read = Script(*load_scenario(path))
        # What it takes from other files is read each time.
        return read if "file" in script else _SCRIPTS.setdefault(script, read)

    async def _resume(
        self,
        run: str,
        limits: Mapping[str, Any] | None,
        answer: HumanAnswer | Delivery | None,
        mend: Mend = AS_IT_IS,
    ) -> Played:
        async with self._app() as app:
            if answer is not None:
                await app.post(run, answer)
            return await self._drive(app, await app.resume(run, limits, mend), 0)

    async def _drive(self, app: App, active: ActiveRun, hang_at: int) -> Played:
        requests: list[Request] = []
        hanging = asyncio.Event()
        active.agents = dict(active.agents) | {
            name: Overheard(port, requests, hang_at, hanging)
            for name, port in active.agents.items()
            if not isinstance(port, OutsideAgentPort)
        }
        driving = asyncio.create_task(app.drive(active))
        if hang_at:
            await asyncio.wait_for(hanging.wait(), timeout=120)
            driving.cancel()
        with suppress(asyncio.CancelledError):
            await driving
        return Played(active.state, await app.events(active.state.run), self.folder, requests)

    def _app(self, engines: dict[str, Engine] | None = None) -> App:
        app = App.open(self.state_folder, breakers=self.breakers, clock=self.clock, engines=engines)
        app.folder = self.folder
        return app
