"""One file, several processes: what a journal survives, who owns a run, what is reported."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    RunBusy,
    RunExists,
    SequenceConflict,
    unusable,
)
from loopkit.journal.files import SQL, ProcessLock, connect
from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.records import CLAIMED, NewRecord
from tests.commits import Row, types_of, watched
from tests.created import created
from tests.test_journal import NOW, ROOT, data_of, opened, worked
from tests.waiting import LONG_S

# The file, its folder and its neighbours


async def test_the_state_folder_is_private_and_ignores_itself(folder: Path) -> None:
    async with opened(folder) as journal:
        await created(journal)
        assert (folder / ".gitignore").read_text() == "*\n"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = {path.name: path for path in folder.glob("journal.db*")}
        assert set(files) >= {"journal.db", "journal.db-wal"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o600}
        assert [path.name for path in folder.iterdir() if path.name.startswith(".gitignore.")] == []


async def test_a_gitignore_that_somebody_wrote_is_left_alone(folder: Path) -> None:
    folder.mkdir()
    (folder / ".gitignore").write_text("locks\n")
    async with opened(folder):
        assert (folder / ".gitignore").read_text() == "locks\n"


async def test_everything_is_there_after_closing_and_opening_again(folder: Path) -> None:
    async with opened(folder) as journal:
        await created(journal, "r", worked(1))
        await journal.store_definition("d", "text")
        await journal.post("r", "answer", "a", "1", NOW)
    async with opened(folder) as journal:
        assert await data_of(journal) == ['{"number": 1}']
        assert await journal.definition("d") == "text"
        assert len(await (await journal.claim("r")).inbox()) == 1


async def test_closing_finishes_what_was_asked_for(folder: Path) -> None:
    async with opened(folder) as journal:
        claims = [await created(journal, f"r{n}") for n in range(50)]
        appends = [asyncio.create_task(claim.append([worked()])) for claim in claims]
        await asyncio.sleep(0)
    assert await asyncio.gather(*appends) == [2] * 50
    async with opened(folder) as journal:
        assert {row.seq for row in await journal.runs()} == {2}
    assert list((folder / "locks").iterdir()) == []


async def test_two_journals_on_one_file_see_each_others_claims(folder: Path) -> None:
    async with opened(folder) as one, opened(folder) as two:
        claim = await created(one)
        with pytest.raises(RunBusy):
            await two.claim("r")
        await claim.release()
        assert (await two.claim("r")).epoch == 2
        with pytest.raises(RunBusy):
            await one.claim("r")


async def test_a_change_of_the_working_folder_hides_no_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(Path("state")) as one, opened(Path("state")) as two:
        await created(two)
        monkeypatch.chdir("/")
        with pytest.raises(RunBusy):
            await one.claim("r")


def test_journals_that_open_at_the_same_moment_do_not_disturb_each_other(tmp_path: Path) -> None:
    for n in range(20):
        with ThreadPoolExecutor(8) as pool:
            folders = [tmp_path / str(n)] * 8
            journals = list(pool.map(open_journal, folders))
        assert len(list((tmp_path / str(n) / "locks").iterdir())) == 8
        for journal in journals:
            asyncio.run(journal.close())


def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "x.db", "here")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)


@pytest.mark.parametrize("appends", [0, 2])
async def test_an_owner_that_was_replaced_can_write_no_more(folder: Path, appends: int) -> None:
    async with opened(folder) as one, opened(folder) as two:
        zombie = await created(one)
        for number in range(appends):
            await zombie.append([worked(number)])
        for lock in (folder / "locks").iterdir():
            lock.unlink()
        with pytest.raises(RunBusy):
            await one.claim("r")
        owner = await two.claim("r")
        await two.post("r", "answer", "a", "1", NOW)
        lost = pytest.raises(ClaimLost, match=r"taken over by process .* \(epoch 1, now 2\)")
        with lost:
            await zombie.append([worked(7)])
        with lost:
            await zombie.append([], consumes=["a"])
        await zombie.release()
        assert await owner.append([worked(8)], consumes=["a"]) == appends + 3
        assert (await data_of(two))[appends:] == ['{"number": 8}']


HARM = {
    "stands at record 4 and not at 3": "INSERT INTO records VALUES (1, 4, 1, 0, 'worked', '{}')",
    "stands at record 2 and not at 3": "DELETE FROM records WHERE seq = 3",
}


@pytest.mark.parametrize("conflict", HARM)
async def test_a_writer_whose_records_are_not_the_last_is_stopped(
    folder: Path, conflict: str
) -> None:
    async with opened(folder) as journal:
        claim = await created(journal)
        for number in range(2):
            await claim.append([worked(number)])
        with database(folder) as db:
            db.execute(HARM[conflict])
        stored = len(await journal.read("r"))
        for _ in range(2):
            with pytest.raises(SequenceConflict, match=conflict):
                await claim.append([worked(7)])
        assert len(await journal.read("r")) == stored


@contextmanager
def database(folder: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(folder / "journal.db", timeout=5)) as db, db:
        yield db


async def test_an_append_is_inserted_and_committed_at_once(folder: Path) -> None:
    seen: list[tuple[str, list[str], int]] = []

    def observe(moment: str, rows: Sequence[Row]) -> None:
        with database(folder) as db:
            stored = db.execute("SELECT count(*) FROM records").fetchone()[0]
        seen.append((moment, types_of(rows), stored))

    with watched(observe):
        async with opened(folder) as journal:
            claim = await created(journal, "r", worked())
            await claim.append([worked(1), worked(2)])
            with pytest.raises(JournalError):
                await claim.append([worked(3)], consumes=["ghost"])
    assert seen == [
        ("before", [CLAIMED, "worked"], 0),
        ("after", [CLAIMED, "worked"], 2),
        ("before", ["worked", "worked"], 2),
        ("after", ["worked", "worked"], 4),
        ("before", ["worked"], 4),
    ]


async def test_runs_of_one_turn_share_a_commit_and_a_failing_one_touches_no_other(
    folder: Path,
) -> None:
    seen: list[str] = []
    async with opened(folder) as journal:
        await created(journal, "bad")
    with watched(lambda moment, _: seen.append(moment)):
        async with opened(folder) as journal:
            claims = await asyncio.gather(
                *(created(journal, run) for run in ("one", "bad", "two")), return_exceptions=True
            )
            assert isinstance(claims[1], RunExists)
            assert {row.run for row in await journal.runs()} == {"one", "bad", "two"}
    # The first one was undone together with the refused one, and made again.
    assert seen == ["before", "before", "before", "after", "after"]


async def take_turns(turns: list[int]) -> None:
    while True:
        turns.append(len(turns))
        await asyncio.sleep(0)


async def test_a_run_alone_waits_for_no_turn_of_the_event_loop_and_yet_lets_it_go_on(
    folder: Path,
) -> None:
    turns: list[int] = []
    async with opened(folder) as journal:
        for run in ("earlier", "another"):
            await (await created(journal, run)).release()
        claim = await created(journal)
        others = asyncio.ensure_future(take_turns(turns))
        during: list[int] = []
        async with asyncio.timeout(LONG_S):
            while 0 not in during or sum(during) <= 5:
                before = len(turns)
                await claim.append([worked()])
                during.append(len(turns) - before)
        others.cancel()


async def test_how_long_a_commit_takes_does_not_change_when_the_next_one_is_made(
    folder: Path,
) -> None:
    turns: list[int] = []
    with watched(lambda _moment, _rows: time.sleep(0.02)):
        async with opened(folder) as journal:
            claim = await created(journal)
            others = asyncio.ensure_future(take_turns(turns))
            await asyncio.sleep(0)
            before = len(turns)
            for number in range(5):
                await claim.append([worked(number)])
            assert len(turns) == before
            others.cancel()


async def test_while_another_process_writes_the_event_loop_goes_on(folder: Path) -> None:
    turns = 0
    async with opened(folder) as journal:
        claim = await created(journal)
        with database(folder) as other:
            other.execute("BEGIN IMMEDIATE")
            task = asyncio.ensure_future(claim.append([worked()]))
            while turns < 20:
                await asyncio.sleep(0.005)
                turns += 1
            assert not task.done()
            assert await data_of(journal) == []
            other.execute("COMMIT")
        assert await task == 2


async def test_an_append_that_was_cancelled_after_it_began_is_written(folder: Path) -> None:
    async with opened(folder) as journal:
        # Alone it would be written before anybody could cancel it.
        claim, _other = await created(journal), await created(journal, "other")
        task = asyncio.create_task(claim.append([worked()]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert claim.seq == 2
        assert await data_of(journal) == ['{"number": 0}']


async def test_a_run_whose_claimant_was_cancelled_is_free(folder: Path) -> None:
    async with opened(folder) as journal:
        _others = [await created(journal, "one"), await created(journal, "two")]
        await (await created(journal)).release()
        for _ in range(2):
            task = asyncio.ensure_future(journal.claim("r"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (await journal.claim("r")).epoch == 4


def test_a_journal_can_be_used_from_one_loop_after_another(folder: Path) -> None:
    journal = open_journal(folder)
    asyncio.run(created(journal, "r", worked()))
    assert asyncio.run(data_of(journal)) == ['{"number": 0}']
    asyncio.run(journal.close())


# Processes that die, wait for each other, or run out of something

PRELUDE = """
import asyncio, json, os, signal, sys, time
from pathlib import Path
from loopkit.journal.errors import *
from loopkit.journal.journal import open_journal
from loopkit.journal.records import NewRecord
from tests.commits import watched
from tests.created import created
folder = Path(sys.argv[1])
def worked(n, size=0):
    return NewRecord("worked", float(n), json.dumps({"number": n, "pad": "x" * size}))
def say(*words): print(*words, flush=True)
"""


@contextmanager
def process(program: str, folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PRELUDE + program, str(folder), *args]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as child:
        try:
            yield child
        finally:
            child.kill()


def lines(child: subprocess.Popen[str]) -> Iterator[str]:
    assert child.stdout is not None
    # A process that is killed may leave half a line, which says nothing.
    return (line.rstrip("\n") for line in child.stdout if line.endswith("\n"))


APPEND_FOR_EVER = """
async def drive(journal, run):
    claim = await created(journal, run)
    for n in range(10**9):
        await claim.append([worked(n), worked(n)])
        say(run, n)
async def main():
    journal = open_journal(folder)
    await asyncio.gather(*(drive(journal, f"r{n}") for n in range(5)))
asyncio.run(main())
"""


@pytest.mark.parametrize("acknowledged", [1, 40, 300])
async def test_what_was_acknowledged_is_there_after_kill_9(folder: Path, acknowledged: int) -> None:
    with process(APPEND_FOR_EVER, folder) as child:
        output = lines(child)
        heard = [next(output) for _ in range(acknowledged)]
        child.kill()
        heard += [line for line in output if line]
    last = {run: int(n) for run, n in (line.split() for line in heard)}
    async with opened(folder) as journal:
        for run, number in last.items():
            numbers = [json.loads(text)["number"] for text in await data_of(journal, run)]
            # In pairs, so half an append would show.
            assert numbers == [n for n in range(len(numbers) // 2) for _ in range(2)]
            assert numbers[-1] >= number
            assert (await journal.claim(run)).epoch == 2


DIE_AT = """
def die(moment, rows):
    if moment == sys.argv[2] and any(json.loads(row[5]).get("number") == 1 for row in rows):
        os.kill(os.getpid(), signal.SIGKILL)
async def main():
    with watched(die):
        journal = open_journal(folder)
    claim = await created(journal)
    await claim.append([worked(0)])
    await claim.append([worked(1), worked(2)])
asyncio.run(main())
"""


@pytest.mark.parametrize(("moment", "numbers"), [("before", [0]), ("after", [0, 1, 2])])
async def test_an_append_is_there_from_its_commit_on(
    folder: Path, moment: str, numbers: list[int]
) -> None:
    with process(DIE_AT, folder, moment) as child:
        assert child.wait() == -signal.SIGKILL
    async with opened(folder) as journal:
        assert [json.loads(text)["number"] for text in await data_of(journal)] == numbers


HOLD = """
async def main():
    journal = open_journal(folder)
    await created(journal)
    say(os.getpid())
    time.sleep(60)
asyncio.run(main())
"""


async def test_a_run_that_another_process_drives_is_busy_until_that_is_killed(folder: Path) -> None:
    with process(HOLD, folder) as child:
        assert next(lines(child)) == str(child.pid)
        async with opened(folder) as journal:
            begun = time.perf_counter()
            with pytest.raises(RunBusy, match=f"driven by process {child.pid} on") as busy:
                await journal.claim("r")
            assert busy.value.owner.name.startswith(f"{child.pid}-")
            await journal.submit("r")
            assert await journal.due() == []
            assert abs(busy.value.owner.since - time.time()) < 60
            child.kill()
            child.wait()
            assert [one.run for one in await journal.due()] == ["r"]
            assert (await journal.claim("r")).epoch == 2
            assert time.perf_counter() - begun < 30


async def test_the_lock_of_a_killed_process_is_swept_away(folder: Path) -> None:
    with process(HOLD, folder) as child:
        next(lines(child))
    assert len(list((folder / "locks").iterdir())) == 1
    async with opened(folder):
        assert len(list((folder / "locks").iterdir())) == 1
    assert list((folder / "locks").iterdir()) == []


def test_an_owners_name_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    lock = ProcessLock.take(tmp_path / "state")
    assert lock.is_alive(lock.name)
    for name in ("", "..", "../locks", "1-0123456789abcdef.lock", "a\0b", f"./{lock.name}"):
        assert not lock.is_alive(name)
    lock.release()
    assert not lock.is_alive(lock.name)


def test_a_process_that_withdraws_lets_go_of_its_lock(tmp_path: Path) -> None:
    lock = ProcessLock.take(tmp_path)
    second_name = "1-0123456789abcdef.lock"
    (tmp_path / "locks" / second_name).hardlink_to(tmp_path / "locks" / lock.name)
    assert lock.is_alive(second_name)
    lock.release()
    assert not lock.is_alive(second_name)


RUN_OUT_OF_DISK = """
import resource
async def main():
    journal = open_journal(folder)
    one, two = await created(journal, "one"), await created(journal, "two")
    await one.append([worked(0)])
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    full = await asyncio.gather(
        one.append([worked(1, 300_000), worked(2, 300_000)]), two.append([worked(1)]),
        return_exceptions=True)
    say(json.dumps([type(full[0]).__name__, str(full[0])]))
    found = [len(await journal.read(run)) for run in ("one", "two")]
    say(json.dumps([one.seq, two.seq, *found]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say(await one.append([worked(3, 300_000), worked(4, 300_000)]))
    await journal.close()
asyncio.run(main())
"""


async def test_a_full_disk_fails_the_append_whole_and_room_makes_the_journal_usable(
    folder: Path,
) -> None:
    with process(RUN_OUT_OF_DISK, folder) as child:
        output = lines(child)
        kind, message = json.loads(next(output))
        assert kind == "JournalUnusable"
        assert "free space" in message
        one_seq, two_seq, one_found, two_found = json.loads(next(output))
        assert one_seq == one_found == 2
        assert two_seq == two_found
        assert next(output) == "4"
        assert child.wait() == 0
    async with opened(folder) as journal:
        assert [json.loads(text)["number"] for text in await data_of(journal, "one")] == [0, 3, 4]


FORBIDDEN = """
import urllib.parse  # while the files of the interpreter can be read
if os.geteuid() == 0:
    os.setegid(65534), os.seteuid(65534)
try:
    open_journal(folder)
except JournalError as error:
    say(type(error).__name__, error)
"""


def test_a_folder_that_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with process(FORBIDDEN, tmp_path / "state") as child:
        message = next(lines(child))
    tmp_path.chmod(0o755)
    assert message.startswith(f"JournalUnusable the journal {tmp_path / 'state'} cannot be used")
    assert "check who owns it and its permissions" in message


def unusable_message(folder: Path) -> str:
    with pytest.raises(JournalUnusable) as fault:
        open_journal(folder)
    assert str(folder) in str(fault.value) or repr(str(folder)) in str(fault.value)
    return str(fault.value)


def test_a_path_that_cannot_be_one_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    told = unusable_message(tmp_path / "file/state")
    assert "there is a file where a folder is needed" in told
    assert "cannot be a folder" in unusable_message(Path("a\0b"))


async def test_a_damaged_file_is_reported_and_never_a_traceback(tmp_path: Path) -> None:
    refused = []
    for seed in range(12):
        folder = tmp_path / str(seed)
        async with opened(folder) as journal:
            large = NewRecord("worked", NOW, "x" * 3000)
            await asyncio.gather(*(created(journal, f"r{n}", large) for n in range(20)))
            await asyncio.gather(
                *(journal.post(f"r{n}", "answer", "a", "{}", NOW) for n in range(20))
            )
        damage(folder / "journal.db", random.Random(seed))
        refused += [error for error in await everything(folder) if error is not None]
    assert [error for error in refused if not isinstance(error, JournalError)] == []
    assert len(refused) > 12


def damage(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([5, 50, 500])):
        at = chance.randrange(100, len(content) - 64)
        content[at : at + 64] = chance.randbytes(64)
    path.write_bytes(content[: chance.choice([len(content), len(content) // 2])])


async def everything(folder: Path) -> list[Exception | None]:
    """What each request to the journal raised."""
    try:
        journal = open_journal(folder)
    except JournalError as error:
        return [error]
    raised = []
    for n in range(20):
        for request in (journal.read(f"r{n}"), _work_on(journal, f"r{n}")):
            raised.append(await _raised(request))
    raised.append(await _raised(journal.runs()))
    await journal.close()
    return raised


async def _raised(request: Awaitable[object]) -> Exception | None:
    try:
        await request
    except Exception as error:  # noqa: BLE001 - the test says which are allowed
        return error
    return None


async def _work_on(journal: Journal, run: str) -> None:
    await journal.post(run, "answer", "b", "{}", NOW)
    claim = await journal.claim(run)
    await claim.append([worked()], consumes=[m.message_id for m in await claim.inbox()])
    await claim.release()


async def test_a_claim_that_cannot_be_read_is_reported(folder: Path) -> None:
    async with opened(folder) as journal:
        await created(journal)
        for data in ("nonsense", "[]", "{}", "7", '{"pid": "x", "host": "h"}'):
            with database(folder) as db:
                db.execute("UPDATE records SET data = ?", [data])
            with pytest.raises(JournalUnusable, match="a claim in the journal cannot be read"):
                await journal.claim("r")


def _busy(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as one:
        one.execute("BEGIN IMMEDIATE")
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as two:
            two.execute("BEGIN IMMEDIATE")


def _missing(path: Path) -> None:
    with closing(sqlite3.connect(path / "nowhere" / "x.db")) as db:
        db.execute("SELECT 1")


@pytest.mark.parametrize(
    ("fail", "cause"),
    [
        (_busy, "another process keeps it locked .*; wait for that process, or stop it"),
        (_missing, "the file cannot be opened .*; check that it is a file"),
    ],
)
def test_each_failure_of_sqlite_comes_with_cause_and_remedy(
    tmp_path: Path, fail: Any, cause: str
) -> None:
    with pytest.raises(sqlite3.Error) as error:
        fail(tmp_path / "x.db")
    fault = unusable(error.value, "here")
    assert fault.__cause__ is error.value
    with pytest.raises(JournalUnusable, match=f"the journal here cannot be used: {cause}"):
        raise fault


class Anything(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


@pytest.mark.parametrize("name", sorted(SQL.keys() - {"tables"}))
async def test_every_query_fits_the_tables(folder: Path, name: str) -> None:
    async with opened(folder):
        pass
    with database(folder) as db:
        values: Any = (None,) * SQL[name].count("?") or Anything()
        db.execute(f"EXPLAIN {SQL[name]}", values)
