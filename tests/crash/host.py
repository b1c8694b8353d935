"""Kills a run at every point where it can be killed, resumes it, and says how it ended.

`python -m tests.crash.host MACHINE SCENARIO FOLDER [URL] [OPTIONS]` prints one line of JSON
for the unharmed run and one for each point: before and after every append, and
inside every window between an intent and its reply. The killed process is a fork
of this one, so that a point costs milliseconds. With a URL the agents are models,
and calls are what the llmock server there received; their tools are programs, which note their
calls as agents do. A call in doubt about which a person is asked is decided by `--doubt CHOICE`;
`--only PREFIX` leaves out the points with other names, and `--every N` all but the first of each N
appends and calls. With a mended machine (`--mended FILE`) the run, which has to stop by itself, is
repaired with it, and so is every killed one. Answers that are posted (`--posted FILE`, one a line
and for each question) are left in the inbox by a person who gives each of them twice; so are the
texts of `--delivered FILE`, a JSON list, by somebody outside.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import threading
import time
import urllib.request
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from loopkit.agents.model import client
from loopkit.app import App, Script
from loopkit.drive.active import ActiveRun
from loopkit.drive.answers import AnswerRefused
from loopkit.drive.repair import AS_IT_IS, Mend
from loopkit.engine.events import (
    Decided,
    Emitted,
    Failed,
    Finished,
    InDoubt,
    Intended,
    Replied,
    Suspended,
    Waiting,
    Worked,
)
from loopkit.engine.macrostep import Engine
from loopkit.engine.payloads import Delivery, HumanAnswer
from loopkit.engine.records import read_record
from loopkit.engine.state import RunState
from loopkit.journal.journal import open_journal
from loopkit.language.load import Loaded, load
from loopkit.machine.inputs import complete_input
from loopkit.scenario.cases import load_scenario
from tests.commits import Row, watched

Moment = Literal["before", "after"]
MAX_RESUMES = 5
ANSWERS_S = (0.5, 5.0, 50.0)
"""How long the server takes where the client is killed while it waits: the next one, where a busy
machine let the answer come first."""


def _asks_agent(row: Row) -> bool:
    """Whether a record says that an agent is about to be asked, and not a tool."""
    return row[4] == "intended" and read_record(Intended, row[5]).asks_agent


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Killer:
    """Counts appends and calls, and ends the process at one of them.

    It ends inside a call, whose intent is `inside`, as soon as that was `received`.
    """

    def __init__(
        self,
        moment: Moment | None = None,
        number: int = 0,
        inside: int = 0,
        received: Callable[[], bool] = bool,
    ) -> None:
        self.appends = 0
        self.intents = 0
        self._moment, self._number, self._inside = moment, number, inside
        self._received = received

    def __call__(self, moment: Moment, rows: Sequence[Row]) -> None:
        if moment == "before":
            self.appends += 1
        if moment == self._moment and self.appends == self._number:
            _kill()
        if moment == "after":
            self.intents += sum(map(_asks_agent, rows))
            if self._inside and self.intents >= self._inside:
                self._inside = 0
                threading.Thread(target=self._kill_inside, daemon=True).start()

    def _kill_inside(self) -> None:
        while not self._received():
            time.sleep(0.01)
        _kill()


class Programs:
    """Agents that are programs: each notes its calls in the folder, and can kill its caller."""

    def prepare(self, folder: Path) -> None:
        """Before a run in this folder."""

    def calls(self, folder: Path) -> int:
        return len(_noted(folder))

    def received(self) -> list[str]:
        """What servers were sent."""
        return []

    def killer_inside(self, folder: Path, call: int) -> Killer:
        return _killed_by_program(folder, call)


def _noted(folder: Path) -> list[str]:
    """The programs that were called, in order."""
    noted = sorted(folder.glob("call_*"), key=lambda path: int(path.name.partition("_")[2]))
    return [path.read_text(encoding="utf-8").strip() for path in noted]


def _killed_by_program(folder: Path, call: int) -> Killer:
    (folder / "kill_at").write_text(f"{call}\n", encoding="utf-8")
    return Killer()


class Models:
    """Agents that are models, behind a server whose first answer is an error."""

    answer_s = ANSWERS_S[0]

    def __init__(self, url: str) -> None:
        self._url = url
        # Before any fork, so that each child has it.
        asyncio.run(client.ready())

    def prepare(self, folder: Path) -> None:
        self._ask("/_llmock/reset", {})
        failure = {
            "type": "fail",
            "status": 500,
            "times": 1,
            "message": "not now",
            "retry_after": 0,
        }
        self._queue(failure)

    def calls(self, folder: Path) -> int:
        count: int = self._ask("/_llmock/requests")["count"]
        return count

    def received(self) -> list[str]:
        bodies: list[str] = self._ask("/_llmock/requests").get("bodies", [])
        return bodies

    def killer_inside(self, folder: Path, call: int) -> Killer:
        # The first answer, an error, comes at once whatever is queued: nobody waits for it.
        call = max(call, 2)
        for seconds, times in ((0, call - 2), (self.answer_s, 1)):
            if times > 0:
                self._queue({"type": "delay", "seconds": seconds, "times": times})
        return Killer(inside=call, received=self._has_taken_all)

    def _has_taken_all(self) -> bool:
        """Whether a request has come for everything that was queued."""
        return not self._ask("/_llmock/scenario")["pending"]

    def _queue(self, behavior: dict[str, Any]) -> None:
        self._ask("/_llmock/scenario", {"behaviors": [behavior]})

    def _ask(self, path: str, data: Any = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        with urllib.request.urlopen(urllib.request.Request(self._url + path, body)) as response:
            return json.load(response)


World = Programs | Models


@dataclass(frozen=True)
class Play:
    """What is run, with what it is repaired, and what a person says; read before any fork."""

    machine: Loaded
    script: Script
    mend: Mend
    posted: tuple[HumanAnswer, ...]
    delivered: tuple[str, ...]
    """What somebody outside delivers, one after the other."""
    doubt: str
    """What becomes of a call in doubt about which a person is asked; empty where nobody is."""

    @classmethod
    def of(
        cls,
        machine: Path,
        scenario: Path,
        mended: Path | None,
        posted: Path | None,
        doubt: str = "",
        delivered: Path | None = None,
    ) -> Play:
        mend = AS_IT_IS if mended is None else Mend(load(mended))
        lines = [] if posted is None else posted.read_text(encoding="utf-8").splitlines()
        said = tuple(read_record(HumanAnswer, line) for line in lines)
        texts = [] if delivered is None else json.loads(delivered.read_text(encoding="utf-8"))
        script = Script(*load_scenario(scenario))
        return cls(load(machine), script, mend, said, tuple(texts), doubt)


_ENGINES: dict[str, Engine] = {}
"""By definition: all runs play the same machines."""


def _app(folder: Path) -> App:
    return App(open_journal(folder / ".loopkit"), folder=folder, engines=_ENGINES)


async def _started(play: Play, folder: Path, killer: Killer) -> None:
    with watched(killer):
        app = _app(folder)
    given = complete_input(play.machine.machine, {"n": 2} if play.machine.machine.input else {})
    state = await _driven(play, app, await app.start(play.machine, given, play.script))
    if play.mend is not AS_IT_IS:
        assert state.status == "suspended"
        await app.drive(await app.resume(state.run, mend=play.mend))
    await app.close()


async def _driven(play: Play, app: App, active: ActiveRun) -> RunState:
    """Drive a run, and answer what it asks."""
    state = await app.drive(active)
    while (play.posted or play.doubt or play.delivered) and state.status == "waiting":
        if state.awaited is not None:
            await _deliver(play, app, state)
        elif play.doubt and state.question is not None and state.question.call is not None:
            await app.post(state.run, HumanAnswer(choice=play.doubt))
        else:
            await _post(play, app, state)
        state = await app.drive(await app.resume(state.run))
    return state


async def _post(play: Play, app: App, state: RunState) -> None:
    """Answer the open question twice, and with the same those before it."""
    events = [stored.event for stored in await app.events(state.run)]
    asked = dict.fromkeys(event.question for event in events if isinstance(event, Waiting))
    *stale, _ = asked
    said = play.posted[len(stale)]
    for question in stale:
        try:
            await app.post(state.run, said, question)
        except AnswerRefused:
            continue
        raise AssertionError(f"`{question}` was answered once more")
    await app.post(state.run, said)
    assert not await app.post(state.run, said)


async def _deliver(play: Play, app: App, state: RunState) -> None:
    """Deliver what is wanted twice, and try the same for the requests before."""
    events = [stored.event for stored in await app.events(state.run)]
    waits = [event for event in events if isinstance(event, Waiting) and event.wanted]
    *stale, now = dict.fromkeys(event.question for event in waits)
    delivery = Delivery(text=play.delivered[len(stale)])
    for question in stale:
        try:
            await app.post(state.run, delivery, question)
        except AnswerRefused:
            continue
        raise AssertionError(f"`{question}` was taken once more")
    await app.post(state.run, delivery, now)
    assert not await app.post(state.run, delivery, now)


async def _say_again(play: Play, app: App, state: RunState) -> None:
    """What a person says who has not heard what became of the answer."""
    if state.status == "waiting":
        await _post(play, app, state)
        return
    for said in state.answers.values():
        assert not await app.post(state.run, said)


async def _resumed(folder: Path, play: Play) -> tuple[RunState | None, dict[str, list[Any]]]:
    """Go on until the run is over, as a person would who calls `resume` again and again.

    The events are those of all runs, by their ids: children have their own.
    """
    async with _app(folder) as app:
        runs = [row.run for row in await app.journal.runs(children=True)]
        if not runs:
            return None, {}
        state = await app.state_of(min(runs, key=len))
        for _ in range(MAX_RESUMES):
            if state.finished is not None:
                break
            if state.awaited is not None:
                await _deliver(play, app, state)
            elif play.posted:
                await _say_again(play, app, state)
            state = await _driven(play, app, await app.resume(state.run, mend=play.mend))
        family = [row.run for row in await app.journal.runs(children=True)]
        return state, {run: [s.event for s in await app.events(run)] for run in sorted(family)}


def _forked(play: Play, folder: Path, killer: Killer) -> int:
    """Run in a child process; the signal that ended it, or 0."""
    child = os.fork()
    if child == 0:
        asyncio.run(_started(play, folder, killer))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _told(world: World, play: Play, ended: int, folder: Path) -> dict[str, Any]:
    state, family = asyncio.run(_resumed(folder, play))
    events = [event for of_one in family.values() for event in of_one]
    told: dict[str, Any] = {"point": folder.name, "ended": ended, "calls": world.calls(folder)}
    told |= {"received": world.received(), "programs": _noted(folder)}
    if state is None:
        return {**told, "outcome": None}
    emitted = [event for event in events if isinstance(event, Emitted)]
    return {
        **told,
        "outcome": state.finished.outcome if state.finished else state.status,
        "result": state.finished.result if state.finished else {},
        "artifacts": {n: [a.text, a.attempt] for n, a in state.artifacts.items()},
        "counters": dict(state.counters),
        "attempts": dict(state.attempts),
        "route": list(state.route),
        "findings": [[(f.id, f.status) for f in r.report.findings] for r in state.rounds],
        "prompts": {
            " with ".join(whom): [e.prompt for e in told]
            for whom, told in state.conversations.items()
        },
        "exchanges": {key: len(task.exchanges) for key, task in state.tasks.items()},
        "replies": sum(isinstance(event, Replied) for event in events),
        "children": {
            run.partition("/")[2]: [e.outcome for e in of_one if isinstance(e, Finished)]
            for run, of_one in family.items()
            if "/" in run
        },
        "answered": _answered(events),
        "feedback": [(f.to, f.text) for e in events if isinstance(e, Decided) for f in e.feedback],
        "choices": [e.answer.choice for e in events if isinstance(e, Worked) and e.answer],
        "failed": sum(isinstance(event, Failed) for event in events),
        "suspensions": sum(isinstance(event, Suspended) for event in events),
        "repairs": state.repairs,
        "in_doubt": sum(isinstance(event, InDoubt) for event in events),
        "programs_in_doubt": _tools_in_doubt(events),
        "emitted": [[e.name, e.attempt, [f.message for f in e.findings]] for e in emitted],
    }


def _tools_in_doubt(events: Sequence[Any]) -> list[str]:
    """The tools of agents that may have been called when the process was killed."""
    tools = {e.key: e.agent for e in events if isinstance(e, Intended) and e.role == "tool"}
    return [tools[e.key] for e in events if isinstance(e, InDoubt) and e.key in tools]


def _answered(events: Sequence[Any]) -> list[str]:
    """The models that gave the replies, in order."""
    asked = {event.key: event.model for event in events if isinstance(event, Intended)}
    return [asked[event.key] for event in events if isinstance(event, Replied)]


def points(play: Play, work: Path, world: World, only: str, every: int) -> Iterator[dict[str, Any]]:
    """The unharmed run, then the points: one of so many, if its name begins so."""
    folder = work / "unharmed"
    _fresh(folder, world)
    killer = Killer()
    asyncio.run(_started(play, folder, killer))
    unharmed = _told(world, play, 0, folder)
    yield {**unharmed, "appends": killer.appends}
    for name, killer_in in _killers(killer.appends, unharmed, world, every):
        if name.startswith(only):
            ended = _killed(play, work / name, world, killer_in)
            yield _told(world, play, ended, work / name)


def _killed(play: Play, folder: Path, world: World, killer_in: Callable[[Path], Killer]) -> int:
    """Run up to a point, inside a call with as much patience as it takes; how it ended."""
    if not isinstance(world, Models) or not folder.name.startswith("inside_call"):
        _fresh(folder, world)
        return _forked(play, folder, killer_in(folder))
    ended = 0
    for world.answer_s in ANSWERS_S:
        _fresh(folder, world)
        ended = _forked(play, folder, killer_in(folder))
        if asyncio.run(_is_inside_a_call(folder)):
            break
    return ended


async def _is_inside_a_call(folder: Path) -> bool:
    async with _app(folder) as app:
        return any([(await app.state_of(row.run)).open_calls for row in await app.journal.runs()])


def _killers(
    appends: int, unharmed: Mapping[str, Any], world: World, every: int
) -> Iterator[tuple[str, Callable[[Path], Killer]]]:
    """One of so many points, and who kills there a run in a folder."""
    moments: tuple[Moment, ...] = ("before", "after")
    for number in range(1, appends + 1, every):
        for moment in moments:
            yield f"{moment}_{number}", lambda _, at=(moment, number): Killer(*at)
    for call in range(1, unharmed["calls"] + 1, every):
        yield f"inside_call_{call}", partial(world.killer_inside, call=call)
    if isinstance(world, Models):
        for call in range(1, len(unharmed["programs"]) + 1):
            yield f"inside_program_{call}", partial(_killed_by_program, call=call)


def _fresh(folder: Path, world: World) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    world.prepare(folder)


if __name__ == "__main__":
    parser = ArgumentParser()
    for argument in ("machine", "scenario", "folder"):
        parser.add_argument(argument, type=Path)
    parser.add_argument("url", nargs="?")
    for option in ("--mended", "--posted", "--delivered"):
        parser.add_argument(option, type=Path)
    for option in ("--doubt", "--only"):
        parser.add_argument(option, default="")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    if not given.url:
        warnings.simplefilter("error")
    called: World = Models(given.url) if given.url else Programs()
    play = Play.of(
        given.machine, given.scenario, given.mended, given.posted, given.doubt, given.delivered
    )
    for told in points(play, given.folder, called, given.only, given.every):
        print(json.dumps(told), flush=True)
