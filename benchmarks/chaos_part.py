"""One part of the chaos: runs on workers that are killed and stopped, over a database that is."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from chaos_counts import Found, count, runs_in, waits
from chaos_server import Network, Server

from loopkit.app import App
from loopkit.journal.postgres.migration import migrate
from loopkit.journal.records import NOW
from loopkit.language.load import load

HERE = Path(__file__).resolve().parent
MACHINE = HERE / "chaos.yaml"
LONGEST_S = 900.0
"""How long the last runs may take once nothing fails any more."""


@dataclass(frozen=True)
class Plan:
    """What a part consists of."""

    runs: int
    kills: int
    database_kills: int
    stops: int
    workers: int = 4
    ttl: float = 6.0
    in_flight: int = 24
    seconds: float = 3.0
    """How long a call takes on average."""
    rounds: int = 6
    """How many calls a run makes on average."""
    worker: tuple[str, ...] = ("loopkit", "worker", "--parallel", "24")
    beats_directly: bool = True
    """Whether only the journal of a worker is behind a faulty network, and not its beat."""
    is_network_sound: bool = False
    between_s: float = 10.0
    """How long a worker lives at least."""
    pause_s: float = 0.0
    """The least time between any two kills."""
    base: str = ""
    """The URL at which workers ask, past which they beat."""


@dataclass
class Worker:
    number: int
    url: str
    direct: str
    pid: int = 0
    born: float = 0.0
    killed: float = 0.0
    stopped: bool = False
    pause_s: float = 0.5
    spared_s: float = 0.0
    """How long it lives at least, so that workers do not die in step."""


@dataclass
class Part:
    folder: Path
    schema: str
    plan: Plan
    server: Server
    told: list[dict[str, Any]] = field(default_factory=list)
    """Every fault, as it happened."""

    def __post_init__(self) -> None:
        self.logs = self.folder / "calls"
        self.workers: list[Worker] = []
        self._begun: list[str] = []
        self._done = set[str]()
        self._nursery: asyncio.subprocess.Process | None = None
        self._births = asyncio.Lock()
        self.over = asyncio.Event()
        self._db: psycopg.Connection[Any] | None = None

    def url(self, base: str = "") -> str:
        base = base or self.server.url
        return f"{base}&schema={self.schema}&ttl={self.plan.ttl}"

    async def play(self) -> dict[str, Any]:
        """What was found, in the end."""
        began = time.time()
        self.logs.mkdir(parents=True)
        migrate(self.url())
        async with AsyncExitStack() as stack:
            await self._bear(stack)
            await self._employ(stack)
            app = App.open(self.url())
            stack.push_async_callback(app.close)
            jobs = [self._submit(app), self._kill(), self._kill_database(), self._stop()]
            supervising = [asyncio.create_task(self._supervise(each)) for each in self.workers]
            networking = [asyncio.create_task(self._hang())]
            try:
                await asyncio.gather(*jobs)
                is_over = await self._wait_for_ends()
                self.over.set()
                await self._dismiss()
            finally:
                self.over.set()
                for one in supervising + networking:
                    one.cancel()
                await asyncio.gather(*supervising, *networking, return_exceptions=True)
                self._kill_all()
        return self._count(began, is_over)

    async def _bear(self, stack: AsyncExitStack) -> None:
        self._nursery = await asyncio.create_subprocess_exec(
            sys.executable, str(HERE / "chaos_nursery.py"),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        stack.callback(lambda: self._nursery and self._nursery.kill())
        assert self._nursery.stdout is not None
        if await self._nursery.stdout.readline() != b"ready\n":
            raise RuntimeError("the workers cannot be loaded")

    async def _employ(self, stack: AsyncExitStack) -> None:
        """The last two are behind a network that loses answers, and one that withholds them."""
        self.losing = await stack.enter_async_context(Network(self.server.behind, lost=0.2))
        self.hanging = await stack.enter_async_context(Network(self.server.behind))
        urls = [self.plan.base or self.server.url] * self.plan.workers
        if self.plan.workers > 2 and not self.plan.is_network_sound and not self.plan.base:
            urls[-2:] = self.losing.url, self.hanging.url
        for number, base in enumerate(urls):
            is_past = self.plan.beats_directly or self.plan.base
            direct = self.server.url if is_past else base
            self.workers.append(Worker(number, self.url(base), direct))

    async def _start(self, worker: Worker) -> None:
        assert self._nursery
        assert self._nursery.stdin
        assert self._nursery.stdout
        place = self.folder / f"worker-{worker.number}"
        place.mkdir(exist_ok=True)
        order = {
            "argv": self.plan.worker,
            "cwd": str(place),
            "env": {"LOOPKIT_JOURNAL": worker.url, "LOOPKIT_JOURNAL_DIRECT": worker.direct},
            "log": str(place / "log"),
        }
        async with self._births:
            self._nursery.stdin.write((json.dumps(order) + "\n").encode())
            worker.pid = int(await self._nursery.stdout.readline())
        worker.born = time.monotonic()
        worker.spared_s = random.uniform(1.0, 1.4) * self.plan.between_s

    async def _supervise(self, worker: Worker) -> None:
        """Start it again when it has died, after a pause that grows while it dies young."""
        while not self.over.is_set():
            await self._start(worker)
            while _lives(worker.pid):  # noqa: ASYNC110 - it is no child of ours
                await asyncio.sleep(0.2)
            if self.over.is_set():
                return
            was_killed, lived_s = worker.killed > worker.born, time.monotonic() - worker.born
            if not was_killed:
                self._tell("death", worker=worker.number, lived_s=lived_s)
            is_young = lived_s < self.plan.between_s
            worker.pause_s = min(worker.pause_s * 2, 10.0) if is_young else 0.5
            await asyncio.sleep(worker.pause_s)

    async def _submit(self, app: App) -> None:
        """Keep as many runs in flight as planned, until all are begun."""
        loaded = load(MACHINE)
        while len(self._begun) < self.plan.runs:
            await self._look()
            while len(self._begun) < self.plan.runs and self._in_flight < self.plan.in_flight:
                name = f"run{len(self._begun):04}"
                rounds = random.randint(1, 2 * self.plan.rounds - 1)
                seconds = random.uniform(0.02, 2 * self.plan.seconds)
                given = {
                    "name": name, "rounds": rounds, "python": sys.executable,
                    "program": str(HERE / "chaos_program.py"), "log": str(self.logs),
                    "seconds": round(seconds, 2),
                }  # fmt: skip
                active = await app.start(loaded, given, run=name)
                await active.append()
                await active.claim.release(due=NOW)
                await app.journal.submit(name)
                self._begun.append(name)
            await asyncio.sleep(1)

    @property
    def _in_flight(self) -> int:
        return len(self._begun) - len(self._done)

    async def _look(self) -> None:
        """Note which runs have ended since."""
        open_ones = [name for name in self._begun if name not in self._done]
        query = (
            f'SELECT run FROM "{self.schema}".runs AS runs WHERE run = ANY(%s) AND EXISTS '
            f"(SELECT FROM \"{self.schema}\".records WHERE run_id = runs.id AND type = 'finished')"
        )
        self._done |= {name for (name,) in await self._ask(query, (open_ones,))}

    async def _ask(self, query: str, values: Any = ()) -> list[tuple[Any, ...]]:
        """The rows of a query; none while the database is away."""

        def ask() -> list[tuple[Any, ...]]:
            if self._db is None or self._db.closed:
                self._db = psycopg.connect(self.server.url, autocommit=True, connect_timeout=5)
            return self._db.execute(query.encode(), values).fetchall()

        try:
            return await asyncio.to_thread(ask)
        except psycopg.OperationalError:
            if self._db is not None:
                self._db.close()
            self._db = None
            return []

    async def _owned(self, worker: Worker) -> list[str]:
        query = (
            f'SELECT run FROM "{self.schema}".runs JOIN "{self.schema}".presences '
            "ON name = owner WHERE pid = %s"
        )
        return [run for (run,) in await self._ask(query, (worker.pid,))]

    def _tell(self, what: str, **more: Any) -> None:
        self.told.append({"at": time.time(), "what": what, **more})
        with (self.folder / "faults.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.told[-1]) + "\n")

    def _made(self, what: str) -> int:
        return sum(fault["what"] == what for fault in self.told)

    def _is_alone(self) -> bool:
        """Whether all runs are over, so that no fault would hit anything."""
        return len(self._begun) >= self.plan.runs and not self._in_flight

    async def _kill(self) -> None:
        while self._made("kill") < self.plan.kills and not self._is_alone():
            await asyncio.sleep(0.3)
            await self._look()
            now = time.monotonic()
            ripe = [
                each for each in self.workers
                if not each.stopped and each.pid and each.killed <= each.born
                and now - each.born > each.spared_s and _lives(each.pid)
            ]  # fmt: skip
            for worker in ripe:
                owned = await self._owned(worker)
                is_left = self._made("kill") < self.plan.kills
                if owned and is_left and _lives(worker.pid) and not worker.stopped:
                    worker.killed = time.monotonic()
                    os.kill(worker.pid, signal.SIGKILL)
                    self._tell("kill", worker=worker.number, runs=owned)
                    if self.plan.pause_s:
                        await asyncio.sleep(self.plan.pause_s)
                        break
            if self._made("kill") % 10 == 0:
                await self._look()

    async def _kill_database(self) -> None:
        """All its processes, and every third time one of those that serve a client."""
        for number in range(self.plan.database_kills):
            await self._pause_until_share("kill", number, self.plan.database_kills)
            if self._is_alone():
                return
            if number % 3 == 2 and self.server.kill_one():
                self._tell("database", whole=False)
                continue
            await asyncio.to_thread(self.server.kill)
            self._tell("database", whole=True)
            await asyncio.sleep(random.choice((0, 1, 3)))
            await self.server.start()

    async def _stop(self) -> None:
        """SIGSTOP for one and a half times the time after which a worker counts as dead."""
        for number in range(self.plan.stops):
            await self._pause_until_share("kill", number, self.plan.stops)
            while not self._is_alone():
                await asyncio.sleep(0.3)
                await self._look()
                free = [w for w in self.workers if w.pid and w.killed <= w.born and _lives(w.pid)]
                worker = random.choice(free) if free else None
                if worker is None or not (owned := await self._owned(worker)):
                    continue
                worker.stopped = True
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGSTOP)
                self._tell("stop", worker=worker.number, runs=owned)
                await asyncio.sleep(1.5 * self.plan.ttl)
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, signal.SIGCONT)
                await asyncio.sleep(2)
                worker.stopped = False
                break

    async def _pause_until_share(self, what: str, number: int, of: int) -> None:
        """Wait until as large a part of the kills is made, or of the runs where none is planned."""
        share = (number + random.random()) / of
        while not self._is_alone():
            await self._look()
            kills = self._made(what) / self.plan.kills if self.plan.kills else 1.0
            runs = len(self._done) / self.plan.runs
            if max(kills if self.plan.kills else 0.0, runs) >= share:
                return
            await asyncio.sleep(0.5)

    async def _hang(self) -> None:
        while not (self.over.is_set() or self.plan.is_network_sound or self.plan.base):
            await asyncio.sleep(random.uniform(20, 60))
            self.hanging.hang(30)
            self._tell("hang")

    async def _wait_for_ends(self) -> bool:
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until:
            await self._look()
            if not self._in_flight:
                return True
            await asyncio.sleep(1)
        return False

    async def _dismiss(self) -> None:
        """End the workers as an operator does."""
        for worker in self.workers:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
        until = time.monotonic() + 120
        while any(_lives(w.pid) for w in self.workers) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.2)
        for worker in self.workers:
            if _lives(worker.pid):
                self._tell("not dismissed", worker=worker.number)

    def _kill_all(self) -> None:
        for worker in self.workers:
            if worker.pid and _lives(worker.pid):
                os.kill(worker.pid, signal.SIGKILL)

    def _is_calm(self, at: float) -> bool:
        """Whether another worker could take over: no other fault was near."""
        long = self.plan.ttl + self.plan.between_s
        for fault in self.told:
            since = at - fault["at"]
            if fault["what"] == "kill":
                if since and abs(since) < 2:
                    return False
            elif fault["what"] != "hang" and -self.plan.between_s < since < long:
                return False
        return True

    def _count(self, began: float, is_over: bool) -> dict[str, Any]:
        with psycopg.connect(self.server.url) as db:
            runs = runs_in(db, self.schema)
        found: Found = count(runs.values(), self.logs)
        for name in set(self._begun) - set(runs):
            found.add("runs that did not end", f"{name}: not in the journal")
        logs = [self.folder / f"worker-{w.number}" / "log" for w in self.workers]
        texts = [log.read_text(errors="replace") for log in logs if log.exists()]
        faults = {what: self._made(what) for what in ("kill", "database", "stop", "hang", "death")}
        kills = [fault for fault in self.told if fault["what"] == "kill"]
        calm = [fault for fault in kills if self._is_calm(fault["at"])]
        beside = [fault for fault in kills if fault not in calm]
        stops = [fault for fault in self.told if fault["what"] == "stop"]
        return {
            "seconds": round(time.time() - began, 1),
            "all ended": is_over,
            "faults": {**faults, "answers lost": self.losing.cuts, "hung": self.hanging.cuts},
            "not dismissed": self._made("not dismissed"),
            "claims lost": sum(text.count("was taken over by") for text in texts),
            "claims given up": sum(text.count("has ended, because") for text in texts),
            "tracebacks": sum(text.count("Traceback") for text in texts),
            "counts": found.counts,
            "examples": found.examples,
            "takeovers": {
                "kill": waits(runs, calm),
                "kill, beside another fault": waits(runs, beside),
                "stop": waits(runs, stops),
            },
        }


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
