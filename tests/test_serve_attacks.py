"""Clients that mean no good, time, full disks and kills: a server goes on, and loses nothing."""

# ruff: noqa: ASYNC110 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx

from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.records import NewRecord
from tests.created import created
from tests.http_site import ASKING, TOKEN, Serving, ask, folder_with, served, serving, silent
from tests.warm import ran_loopkit

STATE = Path(".loopkit")
LONGEST_S = 60

_folder = folder_with(letter=ASKING)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@contextmanager
def held(port: int, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    """So many connections at once, each of which has sent so much."""
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            # A server that is full may have let go of it.
            try:
                one.sendall(sent)
            except OSError:
                continue
            connections.append(one)
        yield connections


def is_cut_off(connection: socket.socket) -> bool:
    """Whether the server has let go of a connection, once it sends nothing more."""
    connection.settimeout(LONGEST_S)
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    return True


def head(url: str, path: str = "/api/runs", *more: str) -> bytes:
    """A whole request without its last line."""
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port_of(url)}",
             f"Authorization: Bearer {TOKEN}", *more]  # fmt: skip
    return "\r\n".join([*lines, ""]).encode()


def answers(client: httpx.Client) -> bool:
    return client.get("/api/runs").status_code == 200


async def test_where_every_connection_is_being_answered_a_new_one_is_told_to_come_later() -> None:
    async with served(STATE, most=2) as site:
        with ExitStack() as stack:
            for _ in range(2):
                one = stack.enter_context(silent(site.url, "/api/events"))
                assert (await asyncio.to_thread(one.recv, 65_536)).startswith(b"HTTP/1.1 200")
            with held(port_of(site.url), 1, head(site.url) + b"\r\n") as [late]:
                assert (await asyncio.to_thread(late.recv, 65_536)).startswith(b"HTTP/1.1 503")
                assert await asyncio.to_thread(is_cut_off, late)
        async with asyncio.timeout(LONGEST_S):
            while site.site.follower.followers:
                await asyncio.sleep(0.02)
        assert (await site.get("/api/runs"))["runs"] == []


async def write(journal: Journal, run: str, events: int, size: int) -> None:
    """A run with so many events of a size, which is over."""
    data = {"run": run, "machine": "m", "definition": "d", "folder": "/", "input": {}}
    emitted = json.dumps({"name": "n", "state": "s", "attempt": 1, "reason": "x" * size})
    end = NewRecord("finished", 1.0, json.dumps({"outcome": "done", "success": True}))
    claim = await created(journal, run, NewRecord("started", 1.0, json.dumps(data)))
    for _ in range(0, events, 20):
        await claim.append([NewRecord("emitted", 1.0, emitted)] * 20)
    await claim.append([end], releases=True)


async def test_giant_and_broken_heads_are_refused_and_harm_nobody() -> None:
    async with served(STATE) as site:
        port = port_of(site.url)
        for sent in (
            head(site.url, "/api/runs", "X: " + "x" * 5_000_000) + b"\r\n",
            head(site.url, "/api/runs", *(f"X-{n}: {n}" for n in range(100_000))) + b"\r\n",
            head(site.url, "/" + "x" * 5_000_000) + b"\r\n",
            b"G" * 5_000_000,
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
            head(site.url, "/api/runs", "Content-Length: -1") + b"\r\n",
            head(site.url, "/api/runs", "Content-Length: 1", "Content-Length: 2") + b"\r\n",
            head(site.url, "/api/runs", "Transfer-Encoding: nonsense") + b"\r\n",
            head(site.url, "/api/runs", "Bad Name: x") + b"\r\n",
            head(site.url, "/api/runs", "Host: evil.example") + b"\r\n",
        ):
            answer = await asyncio.to_thread(ask, port, sent)
            assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421",
                                                       b"HTTP/1.1 501")), sent[:80]  # fmt: skip
        for sent in (b"", b"GET", head(site.url)):
            with held(port, 1, sent):
                pass
        assert (await site.get("/api/runs"))["runs"] == []
        assert site.said == []


async def test_requests_that_are_sent_at_once_are_answered_in_their_order() -> None:
    journal = open_journal(STATE)
    await write(journal, "r", 20, 10)
    await journal.close()
    async with served(STATE) as site:
        requests = [head(site.url, f"/api/runs/r/events?after={n}&limit=1") for n in range(20)]
        last = head(site.url, "/api/runs/r/events?after=20&limit=1", "Connection: close")
        answer = await asyncio.to_thread(
            ask, port_of(site.url), b"\r\n".join([*requests, last]) + b"\r\n"
        )
        bodies = [part.partition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK\r\n")]
        seqs = [json.loads(body)["events"][0]["seq"] for body in bodies[1:]]
        assert seqs == list(range(1, 22))


def memory_kib(server: Serving) -> int:
    """The memory of a server, in KiB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_ten_thousand_events_for_clients_that_never_read_take_bounded_memory() -> None:
    async def fill() -> None:
        journal = open_journal(STATE)
        await write(journal, "r", 10_000, 1_000)
        await journal.close()

    with serving() as server, server.client() as client, ExitStack() as stack:
        assert answers(client)
        before = memory_kib(server)
        for path in ["/api/events"] * 30:
            one = stack.enter_context(silent(server.url, path))
            assert one.recv(64).startswith(b"HTTP/1.1 200")
        asyncio.run(fill())
        for path in ["/api/runs/r/events"] * 30:
            one = stack.enter_context(silent(server.url, path))
            assert one.recv(64).startswith(b"HTTP/1.1 200")
        seen = 0
        with client.stream("GET", "/api/runs/r/events",
                           headers={"Accept": "text/event-stream"}) as events:  # fmt: skip
            for line in events.iter_lines():
                seen += line.startswith("data: {")
        # `ready` and `end` beside those of the run.
        assert seen == 10_005
        # Each of the sixty would take 12 MB of its own.
        assert memory_kib(server) - before < 150_000


def test_a_full_disk_refuses_what_is_to_be_stored_and_shows_the_rest() -> None:
    limit = ("sh", "-c", 'ulimit -f 4000; exec "$@"', "sh")
    Path("letter.yaml").write_text(
        ASKING.replace("default: tea", f"default: {'tea' * 100_000}"), encoding="utf-8"
    )
    with serving("letter.yaml", "--answer", under=limit) as server, server.client() as client:
        runs = []
        for _ in range(50):
            answer = client.post("/api/runs", json={"machine": "letter"})
            if answer.status_code != 201:
                break
            runs.append(answer.json()["run"])
        assert answer.status_code == 503
        message = answer.json()["error"]["message"]
        assert "free some space" in message or "free space" in message
        assert runs
        shown = {run["run"] for run in client.get("/api/runs?limit=200").json()["runs"]}
        assert set(runs) <= shown
        assert "Traceback" not in server.log.read_text()


def test_a_locked_journal_is_read_and_an_answer_is_told_that_it_was_not_taken() -> None:
    with serving("letter.yaml", "--answer") as server, server.client() as client:
        run = client.post("/api/runs", json={"machine": "letter"}).json()["run"]
        server.until(client, run, "waiting")
        with closing(sqlite3.connect(STATE / "journal.db", isolation_level=None)) as locked:
            locked.execute("BEGIN IMMEDIATE")
            refused = client.post(f"/api/runs/{run}/answer", json={"choice": "send"})
            assert refused.status_code == 503
            assert "another process keeps it locked" in refused.json()["error"]["message"]
            assert client.get(f"/api/runs/{run}").json()["questions"]
        assert client.post(f"/api/runs/{run}/answer", json={"choice": "send"}).is_success
        server.until(client, run, "finished")


def test_a_server_that_is_killed_within_an_answer_has_it_or_takes_it_again() -> None:
    run = ""
    for after_s in (0, 0.001, 0.005, 0.01, 0.02, 0.1):
        started = ran_loopkit("run", "letter.yaml", "--output", "jsonl")
        run = json.loads(started.stdout.splitlines()[-1])["run"]
        body = json.dumps({"choice": "send", "by": "ann", "question": "ask:1"})
        with serving("--answer") as server:
            lines = (
                f"POST /api/runs/{run}/answer HTTP/1.1", f"Host: 127.0.0.1:{port_of(server.url)}",
                f"Authorization: Bearer {TOKEN}", "Content-Type: application/json",
                f"Content-Length: {len(body)}", "", body,
            )  # fmt: skip
            with held(port_of(server.url), 1, "\r\n".join(lines).encode()):
                # At whatever instant it is killed, what follows is the same.
                time.sleep(after_s)
                server.process.send_signal(signal.SIGKILL)
                server.process.wait(LONGEST_S)
        with serving("--answer") as server, server.client() as client:
            again = client.post(f"/api/runs/{run}/answer", json=json.loads(body))
            assert again.status_code == 200, again.text
            told = server.until(client, run, "finished")
            assert told["summary"]["outcome"] == "sent"
            events = client.get(f"/api/runs/{run}/events").json()["events"]
            assert sum(event["type"] == "worked" and bool(event["answer"]) for event in events) == 1
