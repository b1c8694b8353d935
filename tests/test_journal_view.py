"""What a server that only shows runs shows where there is no journal yet, or another one by now."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from loopkit.cli import invoke
from loopkit.journal.errors import JournalUnusable, OnlyRead, UnknownRun
from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.records import NewRecord, Place
from tests.created import created
from tests.http_site import ASKING, served, serving, watching
from tests.test_journal_read_only import FORBIDDEN, usable
from tests.warm import ran_loopkit

STATE = Path(".loopkit")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOOPKIT_TOKEN", raising=False)
    Path("letter.yaml").write_text(ASKING, encoding="utf-8")


async def write(run: str, events: int, *, ends: bool = False) -> None:
    """Write a run with so many events, from a journal of its own."""
    journal = open_journal(STATE)
    data = {"run": run, "machine": "m", "definition": "d", "folder": "/", "input": {}}
    emitted = json.dumps({"name": "n", "state": "s", "attempt": 1})
    end = NewRecord("finished", 1.0, json.dumps({"outcome": "done", "success": True}))
    start = NewRecord("started", 1.0, json.dumps(data))
    emits = [NewRecord("emitted", 1.0, emitted)] * events
    claim = await created(journal, run, start, *emits, *[end] * ends)
    await claim.release()
    await journal.close()


async def runs_of(view: Journal) -> list[str]:
    return [row.run for row in await view.runs()]


async def test_before_the_first_run_there_are_no_runs_and_then_there_are() -> None:
    view = open_journal(STATE, readonly=True)
    assert await runs_of(view) == []
    assert not await view.has("a")
    assert (str(await view.newest()), await view.records_after(Place())) == ("0", [])
    with pytest.raises(UnknownRun):
        await view.read("a")
    assert not STATE.exists()
    await write("a", 1)
    assert await runs_of(view) == ["a"]
    assert [placed.record.seq for placed in await view.records_after(Place())] == [1, 2, 3]
    await view.close()


async def test_a_journal_that_is_being_made_is_one_without_runs() -> None:
    STATE.mkdir()
    (STATE / "journal.db").touch()
    view = open_journal(STATE, readonly=True)
    assert await runs_of(view) == []
    with closing(sqlite3.connect(STATE / "journal.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        assert await runs_of(view) == []
    await write("a", 1)
    assert await runs_of(view) == ["a"]
    await view.close()


async def test_a_view_writes_nothing_whether_there_is_a_journal_or_not() -> None:
    view = open_journal(STATE, readonly=True)
    for before in ([], ["a"]):
        for change in (
            created(view, "b"),
            view.claim("a"),
            view.remove("a"),
            view.store_definition("d", "text"),
            view.post("a", "cancel", "x", "", 1.0),
        ):
            with pytest.raises(OnlyRead, match="opened only to be read"):
                await change
        assert await runs_of(view) == before
        if not before:
            await write("a", 1)
    await view.close()


async def test_a_journal_that_is_put_away_or_replaced_is_noticed() -> None:
    await write("a", 1)
    view = open_journal(STATE, readonly=True)
    assert await runs_of(view) == ["a"]
    STATE.rename("away")
    assert await runs_of(view) == []
    era = view.era
    await write("b", 5)
    assert await runs_of(view) == ["b"]
    # Another one is put in its place with nothing in between.
    shutil.rmtree(STATE)
    Path("away").rename(STATE)
    assert await runs_of(view) == ["a"]
    assert view.era != era
    await view.close()


async def test_many_who_ask_at_once_see_the_same_new_journal() -> None:
    await write("a", 1)
    view = open_journal(STATE, readonly=True)
    shutil.rmtree(STATE)
    await write("b", 1)
    assert await asyncio.gather(*(runs_of(view) for _ in range(50))) == [["b"]] * 50
    await view.close()


async def test_a_journal_that_cannot_be_read_is_told_until_it_can_be() -> None:
    view = open_journal(STATE, readonly=True)
    STATE.mkdir()
    (STATE / "journal.db").write_bytes(b"no database at all, but long enough" * 100)
    for _ in range(2):
        with pytest.raises(JournalUnusable, match="cannot be read"):
            await view.runs()
    shutil.rmtree(STATE)
    await write("a", 1)
    assert await runs_of(view) == ["a"]
    await view.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="who writes where nobody else may is root")
def test_a_journal_where_nothing_can_be_written_is_read_as_it_is_until_somebody_writes() -> None:
    usable(FORBIDDEN)
    asyncio.run(write("a", 1))
    paths = [STATE, *STATE.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)

    def shown(client: httpx.Client) -> list[str]:
        return [run["run"] for run in client.get("/api/runs").json()["runs"]]

    with (
        serving(under=tuple(FORBIDDEN)) as server,
        server.client() as client,
        client.stream(
            "GET", "/api/events?from=0", headers={"Accept": "text/event-stream"}
        ) as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "id: 0"
        assert shown(client) == ["a"]
        # Somebody who may write comes and goes between two looks; and then comes and stays.
        asyncio.run(write("b", 1))
        assert shown(client) == ["b", "a"]
        with asyncio.Runner() as runner:
            journal = runner.run(opened())
            claim = runner.run(created(journal, "c"))
            assert shown(client) == ["c", "b", "a"]
            runner.run(claim.release())
            runner.run(journal.close())
        asyncio.run(write("d", 1))
        assert shown(client) == ["d", "c", "b", "a"]
        # Who follows is told of all of it, each once.
        heard: list[tuple[str, int]] = []
        while ("d", 3) not in heard:
            line = next(lines)
            if line.startswith('data: {"'):
                event = json.loads(line.removeprefix("data: "))
                heard.append((event["run"], event["seq"]))
        every = {"a": 3, "b": 3, "c": 1, "d": 3}
        assert heard == [(run, seq + 1) for run, count in every.items() for seq in range(count)]


async def opened() -> Journal:
    return open_journal(STATE)


async def test_a_view_leaves_no_file_open_of_journals_that_are_gone() -> None:
    await write("a", 1)
    view = open_journal(STATE, readonly=True)
    for name in ("b", "c", "d"):
        shutil.rmtree(STATE)
        await write(name, 1)
        assert await runs_of(view) == [name]
    opened = [str(path.resolve()) for path in Path("/proc/self/fd").iterdir()]
    here = [path for path in opened if path.startswith(os.fspath(Path.cwd()))]
    assert not [path for path in here if "(deleted)" in path]
    await view.close()


@pytest.mark.parametrize("may_answer", [False, True])
async def test_a_server_before_the_first_run_shows_that_there_is_none(may_answer: bool) -> None:
    async with served(STATE, may_answer=may_answer) as site:
        assert (await site.get("/api/runs"))["runs"] == []
        assert (await site.get("/api/questions"))["questions"] == []
        assert (await site.client.get("/api/runs/a")).status_code == 404
        async with watching(site.client, "/api/events") as events:
            assert (await anext(events)).name == "ready"
            await write("a", 1)
            assert [(await anext(events)).data["seq"] for _ in range(3)] == [1, 2, 3]
        assert [run["run"] for run in (await site.get("/api/runs"))["runs"]] == ["a"]


def test_the_command_serves_before_the_first_run_and_shows_it_when_it_comes() -> None:
    with serving() as server, server.client() as client:
        assert client.get("/api/runs").json()["runs"] == []
        assert not STATE.exists()
        assert ran_loopkit("run", "letter.yaml", "--output", "quiet").returncode == 5
        [run] = client.get("/api/runs").json()["runs"]
        assert run["status"] == "waiting"
        assert client.post(f"/api/runs/{run['run']}/cancel", json={}).status_code == 403
    assert invoke(["cancel", run["run"]]) == 0
