"""Streams of `loopkit serve`: every event once and in order, whoever drives the run and reads."""

# ruff: noqa: ASYNC110, ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import httpx
import pytest

from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.records import NewRecord, Place
from loopkit.serving.http.answers import Follower, stream
from tests.created import created
from tests.http_site import ASKING, TOKEN, Message, all_of, folder_with, seqs, served, watching
from tests.test_followed_logs import STEPS
from tests.warm import Process

STATE = Path(".loopkit")

_folder = folder_with(letter=ASKING, steps=STEPS)


@pytest.fixture
async def journal() -> AsyncIterator[Journal]:
    journal = open_journal(STATE)
    yield journal
    await journal.close()


def event(number: int, size: int = 0) -> NewRecord:
    data = {"name": f"n{number}", "state": "s", "attempt": 1, "reason": "x" * size}
    return NewRecord("emitted", 1.0, json.dumps(data))


def finished() -> NewRecord:
    return NewRecord("finished", 1.0, json.dumps({"outcome": "done", "success": True}))


async def test_a_client_that_is_cut_off_and_comes_back_has_every_event_once() -> None:
    await open_journal(STATE).close()
    process = Process(["-m", "loopkit", "run", "steps.yaml", "--output", "quiet"])
    async with served(STATE) as site:
        while not (runs := (await site.get("/api/runs"))["runs"]):
            await asyncio.sleep(0.02)
        path = f"/api/runs/{runs[0]['run']}/events"
        seen: list[Message] = []
        is_over = False
        while not is_over:
            async with watching(site.client, path, seen[-1].id if seen else "") as events:
                taken = 0
                async for message in events:
                    is_over = message.name == "end"
                    if message.name:
                        continue
                    seen.append(message)
                    taken += 1
                    # What the run waits for: it can't have ended before somebody has watched it.
                    Path("go").touch()
                    if taken == 3:
                        break
        listed = (await site.get(path))["events"]
        assert process.wait(60) == 1
    assert [message.data for message in seen] == listed
    assert seqs(seen) == list(range(1, len(listed) + 1))
    assert len(listed) > 20


async def test_the_stream_of_a_run_that_is_over_ends_and_says_so_once(
    journal: Journal,
) -> None:
    claim = await created(journal, "r", started("r"))
    await claim.append([event(1), finished()], releases=True)
    async with served(STATE) as site:
        events = await all_of(site.client, "/api/runs/r/events")
        assert [message.name for message in events] == ["", "", "", "", "end"]
        assert seqs(events) == [1, 2, 3, 4]
        # Of what was cut off between the last event and the end, the end comes again.
        assert [
            one.name for one in await all_of(site.client, "/api/runs/r/events", events[-2].id)
        ] == ["end"]
        # Browsers come back until they are told not to.
        done = await site.client.get(
            "/api/runs/r/events",
            headers={"Accept": "text/event-stream", "Last-Event-ID": events[-1].id},
        )
        assert done.status_code == 204


def started(run: str) -> NewRecord:
    data = {"run": run, "machine": "m", "definition": "d", "folder": "/", "input": {}}
    return NewRecord("started", 1.0, json.dumps(data))


async def test_many_clients_watch_one_run_and_each_has_every_event(
    journal: Journal, at_once: int
) -> None:
    claim = await created(journal, "r", started("r"))
    async with served(STATE) as site:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=site.url, headers=dict(site.client.headers), limits=limits, timeout=120,
            trust_env=False,
        ) as client:  # fmt: skip
            ready = asyncio.Semaphore(0)

            async def watch() -> list[int]:
                numbers: list[int] = []
                async with watching(client, "/api/runs/r/events") as events:
                    async for message in events:
                        if message.name == "ready":
                            ready.release()
                        elif not message.name:
                            numbers.append(message.data["seq"])
                return numbers

            clients = [asyncio.create_task(watch()) for _ in range(2 * at_once)]
            for _ in clients:
                await ready.acquire()
            for number in range(50):
                await claim.append([event(number)])
                await asyncio.sleep(0)
            await claim.append([finished()], releases=True)
            seen = await asyncio.gather(*clients)
    assert seen == [list(range(1, 54))] * len(clients)


async def test_a_client_that_does_not_read_is_cut_off_and_costs_nobody_anything(
    journal: Journal,
) -> None:
    claim = await created(journal, "r", started("r"))
    async with served(STATE, longest_send_s=0.3) as site:
        port = int(site.url.rpartition(":")[2])
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(
                f"GET /api/runs/r/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Authorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n\r\n".encode()
            )
            async with watching(site.client, "/api/runs/r/events") as events:
                seen = [await anext(events)]
                for number in range(40):
                    await claim.append([event(number, 200_000)])
                    while len(seen) < number + 4:
                        seen.append(await anext(events))
                # The one that reads has had all of it; now there is only it.
                async with asyncio.timeout(30):
                    while site.site.follower.followers > 1:
                        await asyncio.sleep(0.02)
            slow.settimeout(30)
            received = await asyncio.to_thread(_all_of, slow)
        assert received.startswith(b"HTTP/1.1 200")
        assert 0 < len(received) < 8_000_000
        # It comes back with the last place that it has seen whole.
        whole = received[: received.rindex(b"\r\n\r\n")].decode(errors="replace")
        last = [line for line in whole.split("\r\n") if line.startswith("id: ")][-1]
        await claim.append([finished()], releases=True)
        rest = await all_of(site.client, "/api/runs/r/events", last.removeprefix("id: "))
        first = rest[0].data["seq"]
        assert seqs(rest) == list(range(first, 44))
        assert first > 2
        assert site.said == []


def _all_of(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


async def test_one_stream_tells_of_a_family_and_one_of_everything(journal: Journal) -> None:
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        async with watching(site.client, "/api/events") as events:
            assert (await anext(events)).name == "ready"
            for run in ("r", "r/each.1", "other"):
                claim = await created(journal, run, started(run))
                await claim.append([event(1)], releases=True)
            found = [await anext(events) for _ in range(9)]
        assert [(one.data["run"], one.data["seq"]) for one in found] == [
            (run, seq) for run in ("r", "r/each.1", "other") for seq in (1, 2, 3)
        ]
        # Cut off behind the fourth, and back.
        async with watching(site.client, "/api/events", found[3].id) as events:
            assert (await anext(events)).id == found[3].id
            assert [await anext(events) for _ in range(5)] == found[4:]
        async with watching(site.client, "/api/runs/r/events") as events:
            await anext(events)
            family = [await anext(events) for _ in range(6)]
        assert family == found[:6]


async def test_an_event_that_cannot_be_read_is_told_as_such_and_stops_no_stream(
    journal: Journal,
) -> None:
    claim = await created(journal, "r", started("r"))
    strange = [NewRecord("of_the_future", 1.0, "{}"), NewRecord("emitted", 1.0, "{")]
    await claim.append([*strange, event(1)], releases=True)
    async with served(STATE) as site:
        async with watching(site.client, "/api/events?from=0") as events:
            found = [await anext(events) for _ in range(6)]
        assert ["unreadable" in one.data for one in found[1:]] == [False, False, True, True, False]
        assert found[3].data["type"] == "of_the_future"
        # A list of them has no place for that.
        assert (await site.client.get("/api/runs/r/events")).status_code == 500


async def test_what_models_write_stays_inside_its_event(journal: Journal) -> None:
    claim = await created(journal, "r", started("r"))
    hostile = 'a\r\nid: 9.9\r\nevent: end\n\ndata: {"seq": 99}\r\x85\u2028\u2029\x1b[2J</script>'
    data = {"name": hostile, "state": "s", "attempt": 1}
    await claim.append([NewRecord("emitted", 1.0, json.dumps(data)), finished()], releases=True)
    async with served(STATE) as site:
        events = await all_of(site.client, "/api/runs/r/events")
    assert seqs(events) == [1, 2, 3, 4]
    assert events[2].data["name"] == hostile


async def test_a_stream_ends_when_the_server_does_and_goes_on_at_the_next_one(
    journal: Journal,
) -> None:
    claim = await created(journal, "r", started("r"))
    seen: list[Message] = []
    async with served(STATE) as site, watching(site.client, "/api/runs/r/events") as events:
        seen += [await anext(events) for _ in range(3)]
        site.server.stop()
        assert [message async for message in events] == []
    await claim.append([event(1), finished()], releases=True)
    async with served(STATE) as site:
        seen += await all_of(site.client, "/api/runs/r/events", seen[-1].id)
    assert seqs([one for one in seen if not one.name]) == [1, 2, 3, 4]


async def test_a_stream_says_why_the_journal_cannot_be_read(journal: Journal) -> None:
    follower = Follower(journal)
    await journal.close()
    async with aclosing(stream(follower, Place(), None)) as events:
        texts = [piece.decode() async for piece in events]
    assert ["event: ready" in text for text in texts] == [True, False]
    assert "event: fault" in texts[1]
    assert "is closed" in texts[1]


async def test_a_run_that_the_server_drives_goes_on_when_its_client_is_gone() -> None:
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        run = (await site.post("/api/runs", machine="letter")).json()["run"]
        async with watching(site.client, f"/api/runs/{run}/events") as events:
            await anext(events)
        await site.until(run, lambda run: bool(run["questions"]))
        await site.post(f"/api/runs/{run}/answer", choice="send")
        events = await all_of(site.client, f"/api/runs/{run}/events")
        assert events[-2].data["type"] == "finished"
