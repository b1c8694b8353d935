"""Single faults, each by itself, and how long it takes until the runs go on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from chaos_counts import runs_in
from chaos_part import HERE, Part, Plan
from chaos_server import Network, Server

from loopkit.app import App
from loopkit.journal.errors import JournalError
from loopkit.journal.journal import open_journal
from loopkit.journal.postgres.database import Database
from loopkit.journal.postgres.migration import migrate
from loopkit.journal.records import NOW, NewRecord
from loopkit.language.load import load

Result = dict[str, Any]
Show = Callable[[Path, str, Server], Awaitable[Result]]
QUESTION = HERE / "chaos_question.yaml"
OUTAGE_S = 60.0
WAITING = 10_000
LOOPKIT = [sys.executable, "-m", "loopkit"]


def p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)] if times else 0.0


def judged(violated: dict[str, bool], **told: Any) -> Result:
    return {"violated": [what for what, is_so in violated.items() if is_so], **told}


def journal_url(server_url: str, schema: str, ttl: float = 6) -> str:
    return f"{server_url}&schema={schema}&ttl={ttl}"


async def _part(folder: Path, schema: str, server: Server, plan: Plan) -> Result:
    return await Part(folder, schema, plan, server).play()


async def takeover(folder: Path, schema: str, server: Server) -> Result:
    """kill -9 of one worker of three at a time: the advisory lock frees its runs."""
    plan = Plan(
        18, 50, 0, 0, workers=3, in_flight=18, seconds=2.0, rounds=25, is_network_sound=True,
        pause_s=4.0,
    )  # fmt: skip
    found = await _part(folder, schema, server, plan)
    late = p95(found["takeovers"]["kill"])
    return {**judged({f"takeover: p95 is {late:.1f} s, not 5": late > 5}), **found}


async def stopped(folder: Path, schema: str, server: Server) -> Result:
    """SIGSTOP: the lock is held, and only the beat tells that a worker stands still."""
    plan = Plan(20, 0, 0, 8, workers=3, in_flight=12, seconds=3.0, is_network_sound=True)
    found = await _part(folder, schema, server, plan)
    times = found["takeovers"]["stop"]
    late = p95(times)
    most = plan.ttl + 5
    return {**judged({f"takeover: p95 is {late:.1f} s, not {most:g}": late > most}), **found}


async def outage(_: Path, schema: str, server: Server) -> Result:
    """A minute without the journal, without all of the database, and without its machine."""
    migrate(journal_url(server.url, schema))
    found: dict[str, float] = {}
    async with Network(server.behind) as network:
        os.environ["LOOPKIT_JOURNAL_DIRECT"] = server.url
        journal = await asyncio.to_thread(open_journal, journal_url(network.url, schema))
        claim = journal.begin("claimed", machine="m", definition="d")
        await claim.append([])
        found["the same claim, with its beat past the network"] = await _late(
            network, claim.append([_record()])
        )
        await journal.close()
        del os.environ["LOOPKIT_JOURNAL_DIRECT"]
        journal = await asyncio.to_thread(open_journal, journal_url(network.url, schema))
        claim = journal.begin("cut off", machine="m", definition="d")
        await claim.append([])
        found["a new claim, with the beat cut too"] = await _late(
            network, _again(journal, "cut off")
        )
        await asyncio.to_thread(server.kill)
        asking = asyncio.create_task(_begun(journal, "new"))
        await asyncio.sleep(OUTAGE_S)
        await server.start()
        began = time.monotonic()
        await asking
        found["a new run, with the database killed"] = time.monotonic() - began
        await _again(journal, "cut off")
        found["a run of before the database was killed (TTL 6 s)"] = time.monotonic() - began
        await journal.close()
    most = {what: 6 + 5 if "TTL" in what else 3 for what in found}
    late = {f"{what}: {s:.1f} s": s > most[what] for what, s in found.items()}
    return judged(late, seconds_until_the_next_append=found)


async def _late(network: Network, asked: Any) -> float:
    """The seconds from the end of an outage until a request that was made in it is answered."""
    network.is_away = True
    network.cut()
    asking = asyncio.create_task(asked)
    await asyncio.sleep(OUTAGE_S)
    network.is_away = False
    began = time.monotonic()
    await asking
    return time.monotonic() - began


async def _again(journal: Any, run: str) -> None:
    while True:
        try:
            claim = await journal.claim(run)
            await claim.append([_record()])
        except JournalError:
            await asyncio.sleep(0.2)
        else:
            return


async def _begun(journal: Any, run: str) -> None:
    await journal.begin(run, machine="m", definition="d").append([_record()])


def _record() -> NewRecord:
    return NewRecord("worked", time.time(), "{}")


async def waiting(_: Path, schema: str, server: Server) -> Result:
    """10,000 runs that wait for a person: what they take, and what a look for due ones does."""
    url = journal_url(server.url, schema, 600)
    migrate(url)
    loaded = load(QUESTION)
    began = time.monotonic()
    async with App.open(url) as app:
        for number in range(0, WAITING, 200):
            await asyncio.gather(
                *(_asked(app, loaded, f"w{number + each:05}") for each in range(200))
            )
        made_s = time.monotonic() - began
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(f'VACUUM ANALYZE "{schema}".runs'.encode())
        size = db.execute(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relkind = 'r'",
            (schema,),
        ).fetchone()
        statement = Database.of(url)["due"].encode()
        times = []
        for _ in range(300):
            told = db.execute(
                b"EXPLAIN (ANALYZE, FORMAT JSON) " + statement,
                {"every": False, "labels": [], "limit": 100},
            ).fetchone()
            assert told is not None
            times.append(told[0][0]["Execution Time"])
        rows = db.execute(
            f'SELECT count(*), count(owner), count(due_at) FROM "{schema}".runs'.encode()
        ).fetchone()
    each = int(size[0]) / WAITING if size else 0.0
    sweep_ms = statistics.median(times)
    return judged(
        {
            f"{each / 1000:.1f} kB a run": each > 10_000,
            f"a sweep takes {sweep_ms:.2f} ms": sweep_ms > 1,
            f"rows: {rows}": rows != (WAITING, 0, 0),
        },
        kB_a_run=round(each / 1000, 2), sweep_ms=round(sweep_ms, 3), seconds=round(made_s, 1),
    )  # fmt: skip


async def _asked(app: App, loaded: Any, run: str) -> None:
    active = await app.start(loaded, {"topic": "tea"}, run=run)
    await active.append()
    await app.drive(active)
    await app.journal.submit(run)
    # It is due once, until somebody has seen that it waits.
    await app.drive(await app.resume(run))


async def pooler(folder: Path, schema: str, server: Server) -> Result:
    """60 runs through PgBouncer in transaction mode, with three connections to the server."""
    port = _free_port()
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        f"[databases]\npostgres = host={Path(server.behind).parent} user=postgres\n[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\nunix_socket_dir =\n"
        "pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n"
        "ignore_startup_parameters = extra_float_digits\n",
        encoding="utf-8",
    )
    os.chmod(folder, 0o755)  # noqa: PTH101 - as PgBouncer is another user
    user: dict[str, Any] = {"user": "pgserver"} if os.geteuid() == 0 else {}
    with (folder / "pgbouncer.log").open("w") as log:
        bouncer = subprocess.Popen(  # noqa: ASYNC220
            ["pgbouncer", ini], stdout=log, stderr=log, cwd="/", **user
        )
    try:
        await asyncio.sleep(2)
        base = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&prepare=no"
        plan = Plan(60, 0, 0, 0, workers=3, in_flight=60, seconds=0.3, rounds=3, base=base)
        return await _part(folder / "runs", schema, server, plan)
    finally:
        bouncer.terminate()
        bouncer.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


LOSES = (
    "CREATE TRIGGER chaos BEFORE INSERT ON procrastinate_jobs FOR EACH ROW EXECUTE FUNCTION {}()"
)
FAULTS = {
    "as they are": "RETURN NEW;",
    "lost": "RETURN NULL;",
    "doubled": (
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
        "SELECT NEW.queue_name, NEW.task_name, NEW.args WHERE pg_trigger_depth() < 2; RETURN NEW;"
    ),
    "left in doing": "NEW.status := 'doing'; RETURN NEW;",
}


async def drain(folder: Path, schema: str, server: Server) -> Result:
    """SIGTERM for a worker while its database is away: there is nothing to wait for."""
    url = journal_url(server.url, schema, 30)
    migrate(url)
    async with _process(folder, "works", url, ["worker", "--drain", "5s"]) as worker:
        async with App.open(url) as app:
            await _submitted(app, load(QUESTION), "first")
            await _until(server, schema, "first", "waiting")
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(3)
        os.killpg(worker.pid, signal.SIGTERM)
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(worker.wait, 90)
        took_s = time.monotonic() - began
        await server.start()
    return judged({f"it took {took_s:.0f} s to end": took_s > 20}, seconds=round(took_s, 1))


async def hints(folder: Path, schema: str, server: Server) -> Result:
    """How long a submitted run waits for a driver, whatever becomes of the hint."""
    url = journal_url(server.url, schema, 30)
    migrate(url)
    found: dict[str, list[float]] = {}
    loaded = load(QUESTION)
    with psycopg.connect(server.url, autocommit=True) as db:
        async with _process(folder, "works", url, ["worker"]), App.open(url) as app:
            await _submitted(app, loaded, "first")
            await _until(server, schema, "first", "waiting")
            for number, (fault, body) in enumerate(FAULTS.items()):
                db.execute(
                    "CREATE OR REPLACE FUNCTION chaos() RETURNS trigger LANGUAGE plpgsql AS "
                    f"$$BEGIN {body} END$$".encode()
                )
                if not number:
                    db.execute(LOSES.format("chaos").encode())
                for each in range(10):
                    await asyncio.sleep(0.37)
                    run = f"r{number}{each}"
                    await _submitted(app, loaded, run)
                    began = time.monotonic()
                    await _until(server, schema, run, "waiting")
                    found.setdefault(fault, []).append(time.monotonic() - began)
        db.execute(b"DROP FUNCTION chaos CASCADE")
        db.execute(b"DELETE FROM procrastinate_jobs")
        claims = db.execute(
            f"SELECT run_id FROM \"{schema}\".records WHERE type = 'entered' "
            "GROUP BY run_id HAVING count(*) > 2".encode()
        ).fetchall()
    middle, longest = statistics.median(found["as they are"]), max(found["as they are"])
    late = {
        f"a hint {fault}: {max(times):.1f} s": max(times) > 1 + longest
        for fault, times in found.items()
        if fault != "as they are"
    }
    told = {fault: [round(statistics.median(t), 2), round(max(t), 2)] for fault, t in found.items()}
    return judged(
        {**late, f"{len(claims)} runs were driven twice": bool(claims)},
        seconds_p50_and_longest=told, median=round(middle, 2),
    )  # fmt: skip


async def _submitted(app: App, loaded: Any, run: str) -> None:
    active = await app.start(loaded, {"topic": "tea"}, run=run)
    await active.append()
    await active.claim.release(due=NOW)
    await app.journal.submit(run)


async def question(folder: Path, schema: str, server: Server) -> Result:
    """Asked by one worker, answered through `serve` of another host, continued by a third."""
    url = journal_url(server.url, schema, 30)
    migrate(url)
    async with _process(folder, "asks", url, ["worker"]) as asks:
        submitted = await _output(folder, url, "submit", str(QUESTION), "--set", "topic=tea")
        run = submitted.split()[-1]
        await _until(server, schema, run, "waiting")
        asks.send_signal(signal.SIGTERM)
        await asyncio.to_thread(asks.wait, 60)
    port = _free_port()
    token = "a-token-of-the-chaos-benchmark"
    serve = ["serve", "--answer", "--port", str(port)]
    env = {"LOOPKIT_TOKEN": token}
    async with (
        _process(folder, "serves", url, serve, **env),
        _process(folder, "goes-on", url, ["worker"]),
    ):
        await _posted(f"http://127.0.0.1:{port}/api/runs/{run}/answer", token)
        began = time.monotonic()
        await _until(server, schema, run, "finished")
        took_s = time.monotonic() - began
    with psycopg.connect(server.url) as db:
        records = runs_in(db, schema)[run].records
    hosts = [data["host"] for *_, kind, data in records if kind == "claimed"]
    return judged(
        {f"it was driven by {hosts}": "goes-on" not in hosts[1:]}, hosts=hosts,
        seconds=round(took_s, 2),
    )  # fmt: skip


@asynccontextmanager
async def _process(
    folder: Path, host: str, url: str, argv: list[str], **env: str
) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A command of loopkit on a host of this name."""
    place = folder / host
    place.mkdir()
    named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host]
    with (place / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: ASYNC220
            [*named, *LOOPKIT, *argv], cwd=place, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, **env, "LOOPKIT_JOURNAL": url},
        )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, 60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


async def _output(folder: Path, url: str, *argv: str) -> str:
    env = {**os.environ, "LOOPKIT_JOURNAL": url}
    done = await asyncio.to_thread(
        subprocess.run, [*LOOPKIT, *argv], cwd=folder, env=env, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout


async def _until(server: Server, schema: str, run: str, kind: str, most_s: float = 300) -> None:
    query = (
        f'SELECT FROM "{schema}".records JOIN "{schema}".runs ON runs.id = run_id '
        "WHERE run = %s AND type = %s"
    )
    until = time.monotonic() + most_s
    with psycopg.connect(server.url, autocommit=True) as db:
        while not db.execute(query.encode(), (run, kind)).fetchall():
            if time.monotonic() > until:
                raise TimeoutError(f"{run} has no record `{kind}`")
            await asyncio.sleep(0.1)


async def _posted(url: str, token: str) -> None:
    request = urllib.request.Request(
        url, data=json.dumps({"choice": "accept", "by": "ann"}).encode(), method="POST",
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )  # fmt: skip
    until = time.monotonic() + 180
    while True:
        try:
            await asyncio.to_thread(lambda: urllib.request.urlopen(request, timeout=30).read())
        except OSError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.5)
        else:
            return


SHOWS: dict[str, Show] = {
    "takeover": takeover,
    "stopped": stopped,
    "outage": outage,
    "waiting": waiting,
    "pooler": pooler,
    "question": question,
    "hints": hints,
    "drain": drain,
}
