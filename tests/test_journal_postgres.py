"""What a journal in PostgreSQL does about networks, other machines and other transactions."""

# ruff: noqa: ASYNC251 - an event loop that stands still is what is tested
from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

import loopkit
from loopkit.app import App
from loopkit.cli.machine import load_checked
from loopkit.journal.errors import (
    ClaimLost,
    JournalUnusable,
    RunBusy,
    RunDamaged,
    RunExists,
    UnknownRun,
)
from loopkit.journal.journal import Claim, Journal, open_journal
from loopkit.journal.postgres.database import Database, Patience
from loopkit.journal.postgres.migration import migrate
from loopkit.journal.postgres.store import open_postgres
from loopkit.journal.records import NewRecord, Place
from tests.created import created
from tests.support import CommandLine
from tests.support_postgres import Beside, Proxy, server, told, url_of, url_without_tables
from tests.waiting import is_alive, until_so

HASTE = Patience(attempt_s=1.0, pause_s=0.1, longest_s=30.0)
TTL = 4.0


def worked(number: int = 0) -> NewRecord:
    return NewRecord("worked", 1.0, str(number))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path)


@pytest.fixture
def brief(tmp_path: Path) -> str:
    """The URL of a journal whose owners count as dead soon, in a server that is older than that."""
    url = url_of(tmp_path, ttl=TTL)
    with psycopg.connect(server()) as db:
        [age] = db.execute(
            "SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8"
        ).fetchone() or (0.0,)
    time.sleep(max(0.0, TTL + 0.1 - age))
    return url


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy()
    yield proxy
    proxy.close()


@asynccontextmanager
async def opened(url: str, patience: Patience = HASTE) -> AsyncIterator[Journal]:
    journal = open_postgres(url, time.time, patience=patience)
    try:
        yield journal
    finally:
        await journal.close()


async def test_changes_of_all_runs_of_a_process_share_transactions(url: str) -> None:
    count = "SELECT count(DISTINCT tx) FROM @records"
    async with opened(url) as journal:
        claims = await asyncio.gather(*(created(journal, f"r{n}") for n in range(60)))
        assert told(url, count)[0][0] <= 3
        await asyncio.gather(*(claim.append([worked()]) for claim in claims))
        assert told(url, count)[0][0] <= 6
        before = told(url, "SELECT pg_current_xact_id()::text::bigint")[0][0]
        await asyncio.gather(*(claim.release() for claim in claims))
        assert told(url, "SELECT pg_current_xact_id()::text::bigint")[0][0] - before <= 5
        assert not any(row.is_driven for row in await journal.runs())


async def test_a_release_that_meets_a_post_leaves_the_run_due(url: str) -> None:
    async with opened(url) as journal:
        claim = await created(journal)
        await journal.submit("r")
        with Beside(url) as beside:
            [(row,)] = beside.ask("SELECT id FROM @runs FOR KEY SHARE")
            beside.ask(
                "INSERT INTO @inbox (run_id, message_id, kind, data, at) "
                "VALUES (%s, 'a', 'b', '', 1)",
                row,
            )
            release = asyncio.create_task(claim.release())
            await asyncio.sleep(0.3)
            assert not release.done()
            beside.db.commit()
        assert await release
        assert [one.run for one in await journal.due()] == ["r"]


@pytest.mark.parametrize("races", [40, pytest.param(600, marks=pytest.mark.long)])
async def test_no_message_is_left_with_nobody_whenever_it_is_posted(url: str, races: int) -> None:
    async with opened(url) as owner, opened(url) as other:
        await (await created(owner)).release()
        await owner.submit("r")
        for number in range(races):
            claim = await owner.claim("r")
            await asyncio.gather(
                claim.release(unless=["cancel"]), other.post("r", "answer", f"{number}", "", 1.0)
            )
            assert [one.run for one in await other.due()] == ["r"]


async def test_who_waits_for_a_run_to_claim_it_has_written_nothing(url: str) -> None:
    """Else its record would come before those of the owner that it waits for."""
    async with opened(url) as journal:
        await (await created(journal)).release()
        with Beside(url) as beside:
            beside.ask("SELECT id FROM @runs FOR SHARE")
            claim = asyncio.create_task(journal.claim("r"))
            await asyncio.sleep(0.3)
            waiting = told(
                url,
                "SELECT backend_xid FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND query LIKE %s",
                f"%{Database.of(url).schema}%",
            )
            assert waiting == [(None,)]
            beside.db.commit()
        await claim


async def test_a_follower_waits_for_what_may_still_come_before(url: str) -> None:
    async with opened(url) as journal:
        claim = await created(journal, "late")
        await created(journal, "quick")
        place = await journal.newest()
        with Beside(url) as beside:
            beside.ask(
                "INSERT INTO @records (run_id, seq, epoch, at, type, data) "
                "SELECT id, 2, 1, 1, 'worked', '' FROM @runs WHERE run = 'late'"
            )
            await (await created(journal, "other")).release()
            assert await journal.records_after(place) == []
            assert await journal.newest() == place
            beside.db.commit()
        found = await journal.records_after(place)
        assert [one.run for one in found] == ["late", "other"]
        assert claim.seq == 1


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("writers", "records", "at_once"),
    [(4, 300, 2), pytest.param(8, 100_000, 20, marks=pytest.mark.long)],
)
async def test_a_follower_of_many_writers_misses_nothing(
    url: str, writers: int, records: int, at_once: int
) -> None:
    """Each run goes from one process to the next, with a follower beside them."""
    written = count()

    async def write(journal: Journal, name: str) -> None:
        while (number := next(written)) * at_once < records:
            run = f"r{number % (2 * writers)}"
            try:
                claim = await journal.claim(run)
            except RunBusy:
                continue
            except UnknownRun:
                claim = journal.begin(run, machine=name, definition="d")
            with suppress(RunExists):
                await claim.append([worked()] * at_once, releases=True)

    async with AsyncExitStack() as stack:
        journals = [await stack.enter_async_context(opened(url)) for _ in range(writers + 1)]
        follower = journals.pop()
        place, seen = Place(), dict[str, list[int]]()
        writing = asyncio.gather(*(write(one, str(n)) for n, one in enumerate(journals)))
        while True:
            is_last = writing.done()
            found = await follower.records_after(place)
            for one in found:
                place = one.place
                seen.setdefault(one.run, []).append(one.record.seq)
            if is_last and not found:
                break
        await writing
        rows = await follower.runs()
        assert seen == {row.run: [*range(1, row.seq + 1)] for row in rows}
        assert sum(map(len, seen.values())) > records * 0.9


@pytest.mark.parametrize("lost", [1, 3])
async def test_a_change_whose_answer_is_lost_is_made_once(
    url: str, proxy: Proxy, lost: int
) -> None:
    async with opened(proxy.url(url)) as journal, opened(url) as other:
        proxy.answers_lost = lost
        claim = await created(journal, "r", worked(1))
        proxy.answers_lost = lost
        assert await claim.append([worked(2)]) == 3
        await journal.post("r", "answer", "a", "1", 1.0)
        proxy.answers_lost = lost
        assert await claim.append([], ["a"]) == 3
        proxy.answers_lost = lost
        assert await journal.post("r", "answer", "b", "1", 1.0) is None
        proxy.answers_lost = lost
        assert await claim.append([worked(3)], ["b"], releases=True) == 4
        proxy.answers_lost = lost
        again = await journal.claim("r")
        proxy.answers_lost = lost
        assert await again.release()
        assert proxy.answers_lost == 0
        assert [r.data for r in await other.read("r") if r.type == "worked"] == ["1", "2", "3"]
        await other.claim("r")


async def test_a_request_goes_on_where_a_connection_is_silent(url: str, proxy: Proxy) -> None:
    async with opened(proxy.url(url)) as journal:
        claim = await created(journal)
        proxy.hang()
        began = time.monotonic()
        assert await claim.append([worked()]) == 2
        assert 0.9 < time.monotonic() - began < 10
        assert len(await journal.read("r")) == 2


async def test_a_request_goes_on_when_the_database_is_back(url: str, proxy: Proxy) -> None:
    async with opened(url) as other:
        journal = open_postgres(proxy.url(url), time.time, patience=HASTE)
        claim = await created(journal)
        await claim.release()
        proxy.is_away = True
        proxy.cut()
        reading = asyncio.create_task(journal.read("r"))
        await asyncio.sleep(0.5)
        assert not reading.done()
        proxy.is_away = False
        assert len(await reading) == 1
        proxy.is_away = True
        proxy.cut()
        await journal.close()
        assert len(await other.read("r")) == 1


def test_an_event_loop_can_end_in_the_middle_of_requests(url: str, proxy: Proxy) -> None:
    journal = open_postgres(proxy.url(url), time.time, patience=HASTE)
    asked = list[asyncio.Task[Any]]()

    async def scenario() -> None:
        claim = await created(journal)
        proxy.hang()
        asked.append(asyncio.create_task(claim.append([worked()])))
        await asyncio.sleep(0.1)

    asyncio.run(scenario())
    assert asked[0].cancelled()
    asyncio.run(journal.close())


OWNER = """
import asyncio, sys, time
from loopkit.journal.journal import open_journal

async def own():
    journal = open_journal(sys.argv[1])
    claim = journal.begin("r", machine="m", definition="d")
    await claim.append([])
    print("owns", flush=True)
    await asyncio.sleep(600)

asyncio.run(own())
"""


@pytest.fixture
def owner(brief: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns run `r`."""
    argv = [sys.executable, "-c", OWNER, brief]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owns\n"
        yield process
        process.kill()


async def test_the_run_of_a_killed_process_is_free_a_second_later(
    brief: str, owner: subprocess.Popen[str]
) -> None:
    async with opened(brief) as journal:
        with pytest.raises(RunBusy, match=f"process {owner.pid} on"):
            await journal.claim("r")
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        began = time.monotonic()
        claim = await until_claimed(journal)
        assert time.monotonic() - began < TTL - 1
        assert claim.epoch == 2


async def test_the_run_of_a_process_that_stands_still_is_free_after_some_time(
    brief: str, owner: subprocess.Popen[str]
) -> None:
    async with opened(brief) as journal:
        owner.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        await until_claimed(journal)
        assert 0.5 < time.monotonic() - began < TTL + 5


async def until_claimed(journal: Journal) -> Claim:
    async with asyncio.timeout(20):
        while True:
            try:
                return await journal.claim("r")
            except RunBusy:
                await asyncio.sleep(0.1)


async def test_a_process_beats_only_while_its_event_loop_goes_on(
    brief: str, tmp_path: Path
) -> None:
    async def stand_still(_: str, __: Any) -> str:
        time.sleep(TTL * 1.5)
        return ""

    machine = tmp_path / "machine.yaml"
    machine.write_text(
        "loopkit: 1\nagents: {slow: {command: [slow]}}\nstates:\n"
        "  go: {agent: slow, prompt: Go., next: done, on_error: {content: done}}\n"
        "  done: {final: success}\n",
        encoding="utf-8",
    )
    async with opened(brief) as journal:
        claim = await created(journal)
        before = journal.owner
        app = App(journal, folder=tmp_path, functions={"slow": stand_still})
        with pytest.raises(ClaimLost):
            await app.drive(await app.start(load_checked(machine), {}, run="s"))
        told(brief, "SELECT 1")
        async with opened(brief) as other:
            await other.claim("r")
            with pytest.raises(ClaimLost):
                await claim.append([worked()])
        await until_present(journal, before)


async def test_a_slow_database_ends_no_claim(brief: str) -> None:
    async with opened(brief) as journal:
        claim, before = await created(journal), journal.owner
        with Beside(brief) as beside:
            beside.ask("SELECT id FROM @presences FOR UPDATE")
            await asyncio.sleep(TTL / 2)
        await asyncio.sleep(TTL / 6)
        await claim.append([worked()])
        assert journal.owner == before


async def test_a_process_that_is_cut_off_gives_up_its_runs_before_it_connects_again(
    brief: str,
) -> None:
    async with opened(brief) as journal, opened(brief) as other:
        claim, before = await created(journal), journal.owner
        cut_off(brief, journal)
        began = time.monotonic()
        taken = await other.claim("r")
        assert time.monotonic() - began > 0.9
        with pytest.raises(ClaimLost, match=r"was cut|was taken over"):
            await claim.append([worked()])
        await taken.release()
        await until_present(journal, before)
        assert (await journal.claim("r")).epoch == 3


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_claim_that_a_cut_overtakes_is_lost(brief: str, is_new: bool) -> None:
    async with opened(brief) as journal, opened(brief) as other:
        await (await created(other)).release()
        with Beside(brief) as beside:
            beside.ask("SELECT id FROM @runs FOR UPDATE")
            beside.ask(
                "INSERT INTO @runs (run, machine, definition, created_at, format, epoch) "
                "VALUES ('new', 'm', 'd', 1, 1, 1)"
            )
            before = journal.owner
            asking = asyncio.create_task(created(journal, "new") if is_new else journal.claim("r"))
            await asyncio.sleep(0.3)
            cut_off(brief, journal)
            await until_present(journal, before)
            beside.db.rollback()
        claim = await asking
        with pytest.raises(ClaimLost, match="was cut; resume the run"):
            await claim.append([worked()])
        assert (await other.claim(claim.run)).epoch > claim.epoch


async def test_all_runs_of_a_killed_process_are_free_a_second_later(brief: str) -> None:
    async with opened(brief) as journal, opened(brief) as other:
        for number in range(5):
            await created(other, f"r{number}")
        cut_off(brief, other)
        began = time.monotonic()
        for number in range(5):
            await journal.claim(f"r{number}")
        assert 0.9 < time.monotonic() - began < 3


async def test_the_programs_of_a_run_end_where_its_process_is_cut_off(
    brief: str, tmp_path: Path
) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(
        "loopkit: 1\nstates:\n"
        "  go: {run: [sh, -c, 'echo $$ > pid; exec sleep 600'], next: done}\n"
        "  done: {final: success}\n",
        encoding="utf-8",
    )
    journal = open_postgres(brief, time.time, patience=HASTE)
    async with App(journal, folder=tmp_path) as app:
        active = await app.start(load_checked(machine), {})
        driving = asyncio.create_task(app.drive(active))
        pid = tmp_path / "pid"
        await until_so(lambda: pid.exists() and pid.read_text(encoding="utf-8") != "")
        cut_off(brief, journal)
        with pytest.raises(ClaimLost, match="was cut; resume the run"):
            await asyncio.wait_for(driving, 10)
        assert not is_alive(pid.read_text(encoding="utf-8").strip())


async def until_present(journal: Journal, before: str) -> None:
    await until_so(lambda: journal.owner not in ("", before))


def cut_off(url: str, journal: Journal) -> None:
    """End the connection by which a process shows that it lives."""
    [ended] = told(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = "
        "(SELECT id FROM @presences WHERE name = %s) AND "
        "classid = (SELECT tableoid FROM @presences LIMIT 1)",
        journal.owner,
    )
    assert ended == (True,)


@pytest.mark.parametrize("seconds", [0.5, 80_000])
async def test_nobody_counts_as_dead_just_after_a_start_of_the_database(
    brief: str, seconds: float
) -> None:
    async with opened(brief) as journal:
        await (await created(journal)).release()
        told(
            brief,
            "INSERT INTO @presences (name, pid, host, ttl, seen_at) "
            "VALUES ('gone', 1, 'h', %s, now() - interval '1 minute')",
            seconds,
        )
        told(brief, "UPDATE @runs SET owner = 'gone'")
        if seconds < 1:
            await journal.claim("r")
        else:
            with pytest.raises(RunBusy):
                await journal.claim("r")


async def test_rows_of_the_dead_are_removed(brief: str) -> None:
    dead = "INSERT INTO @presences (name, pid, host, ttl, seen_at) VALUES (%s, 1, 'h', 4, now() - "
    async with opened(brief.replace("ttl=", "ttl=6")) as journal, opened(brief) as other:
        for name, minutes in (("old", 11), ("new", 9)):
            told(brief, f"{dead} make_interval(mins => %s))", name, minutes)
        told(brief, "UPDATE @presences SET ttl = 80000 WHERE name = %s", journal.owner)
        told(brief, "UPDATE @presences SET seen_at = now() - interval '1 h' WHERE ttl = 80000")
        await (await created(other)).release()
        told(brief, "UPDATE @runs SET owner = 'old'")
        async with opened(brief) as third:
            names = {"new", journal.owner, other.owner, third.owner}
            assert {name for (name,) in told(brief, "SELECT name FROM @presences")} == names
            await third.claim("r")


async def test_times_of_records_are_those_of_the_database(
    brief: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, ahead = time.time, -100.0
    monkeypatch.setattr(time, "time", lambda: real() + ahead)
    async with opened(brief) as journal:
        await (await created(journal)).release()
        app = App(journal, folder=tmp_path)
        [claimed] = await journal.read("r")
        for at in (claimed.at, app.clock.now()):
            assert abs(at - real()) < 30
        ahead = 0.0
        await until_so(lambda: abs(journal.now() - real()) < 30)
        kept = journal.now() - real()
        await asyncio.sleep(TTL / 2)
        assert abs(journal.now() - real() - kept) < 1


async def test_large_runs_are_read_in_parts(url: str, proxy: Proxy) -> None:
    """Else several hundred megabytes would have to come within the time of one request."""
    large = [NewRecord("worked", 1.0, f"{number}" * 3_000_000) for number in range(6)]
    async with opened(proxy.url(url)) as journal:
        await created(journal, "r", *large)
        await created(journal, "small")
        records = await journal.read("r")
        assert [record.data for record in records[1:]] == [record.data for record in large]
        assert await journal.read("r", 2, 3) == records[2:5]
        small, history = await journal.histories()
        assert (len(small.records), history.records) == (1, records)
        assert 3_000_000 < proxy.most_at_once < 9_000_000


async def test_nothing_is_kept_in_a_session(url: str) -> None:
    """So that a pooler may give each transaction another one."""
    async with opened(f"{url}&prepare=no&options=-csearch_path%3Dnowhere") as journal:
        for number in range(10):
            await (await created(journal, f"r{number}")).append([worked()])
        shown = "SELECT current_setting('search_path'), current_setting('statement_timeout')"

        async def look(db: Any, _: int) -> list[Any]:
            cursor = await db.execute(shown.encode())
            kept = await db.execute(b"SELECT name FROM pg_prepared_statements")
            return [*await cursor.fetchall(), *await kept.fetchall()]

        assert await journal._ask(look) == [("nowhere", "0")]  # type: ignore[attr-defined]


async def test_the_sign_of_life_goes_past_a_pooler(
    url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.is_pooler = True
    assert "set `LOOPKIT_JOURNAL_DIRECT`" in refusal(proxy.url(url))
    await open_journal(proxy.url(url), readonly=True).close()
    monkeypatch.setenv("LOOPKIT_JOURNAL_DIRECT", server())
    async with opened(proxy.url(url)) as journal:
        await created(journal)
        assert [row.is_driven for row in await journal.runs()] == [True]
        proxy.cut()
        assert await journal.has("r")
        assert journal.owner


def test_eight_first_starts_at_once_make_the_tables_once(tmp_path: Path) -> None:
    url = url_without_tables(tmp_path)
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(migrate, [url] * 8))
    assert sorted(before for _, before, _ in made)[:2] == [0, 1]
    assert told(url, "SELECT count(*), max(version) FROM @journal") == [(1, 1)]


def test_each_file_of_the_queue_is_applied_once(url: str) -> None:
    noted = "SELECT name FROM public.loopkit_queue_files ORDER BY name DESC"
    function = "procrastinate_trigger_function_status_events_update_v1"
    [(newest,), *_] = before = told(url, noted)
    assert len(before) > 20
    told(url, f"DROP FUNCTION public.{function} CASCADE")
    migrate(url)
    assert told(url, f"SELECT to_regproc('public.{function}')::text") == [(None,)]
    told(url, "DELETE FROM public.loopkit_queue_files WHERE name = %s", newest)
    migrate(url)
    assert told(url, f"SELECT to_regproc('public.{function}')::text") != [(None,)]
    assert told(url, noted) == before


def test_a_queue_that_another_program_has_made_is_left_alone(url: str) -> None:
    told(url, "ALTER TABLE public.loopkit_queue_files RENAME TO hidden")
    try:
        with pytest.raises(JournalUnusable, match=r"Procrastinate .* choose another database"):
            migrate(url)
    finally:
        told(url, "ALTER TABLE public.hidden RENAME TO loopkit_queue_files")


def test_only_the_command_makes_tables(tmp_path: Path, cli: CommandLine) -> None:
    url = url_without_tables(tmp_path)
    assert "run `loopkit journal migrate`" in refusal(url)
    assert cli(0, "--journal", url, "runs", "ls").err == "no runs yet\n"
    assert told(url, "SELECT to_regnamespace(%s)::text", Database.of(url).schema) == [(None,)]
    made = cli(0, "--journal", url, "journal", "migrate").out
    assert made.endswith(f"?schema={Database.of(url).schema} has the tables of version 1 now\n")
    assert "already" in cli(0, "--journal", url, "journal", "migrate").out


def refusal(url: str) -> str:
    with pytest.raises(JournalUnusable) as refused:
        open_journal(url)
    return str(refused.value)


def changed(statement: str) -> Callable[[str], str]:
    def change(url: str) -> str:
        told(url, statement)
        return url

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("UPDATE @journal SET version = 99"), "by a newer loopkit .* upgrade loopkit"),
        (changed("UPDATE @journal SET version = 0"), "version 0, .* run `loopkit journal migrate`"),
        (
            changed("DROP TABLE @records"),
            "of another program; choose another one by `.schema=NAME`",
        ),
        (
            lambda url: f"{url}&options=-cdefault_transaction_read_only%3Don",
            "only be read.*primary",
        ),
        (
            lambda url: url.replace("/postgres?", "/nowhere?"),
            "refuses the connection .*nowhere.* check the URL",
        ),
        (lambda _: "postgresql://u:secret@127.0.0.1:1/d", "it is away .*; start it again"),
        (lambda _: "postgresql://h/d?schema=A-B", "schema 'A-B' of the journal is no name"),
        (lambda _: "postgresql://h/d?ttl=0", "`ttl` of the journal is '0'; give seconds"),
        (lambda _: "postgresql://h/d?prepare=x", "give `yes` or `no`"),
        (lambda _: "postgresql://h:x/d", "cannot be read"),
    ],
)
def test_a_journal_that_cannot_be_used_is_refused_with_the_remedy(
    url: str, change: Callable[[str], str], message: str
) -> None:
    said = refusal(change(url))
    assert re.search(message, said)
    assert "secret" not in said


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("53100", "the disk of the database is full .*; free some space"),
        ("25006", "it can only be read, as a replica can"),
        ("42501", "this role may not use it .*; grant it"),
        ("42P05", "a pooler before it keeps no prepared statements .*; add `prepare=no`"),
    ],
)
async def test_a_fault_of_the_database_is_told_with_its_remedy(
    url: str, code: str, message: str
) -> None:
    async with opened(url) as journal:
        claim = await created(journal)
        told(
            url,
            "CREATE FUNCTION @fail() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$BEGIN RAISE 'broken' USING ERRCODE = '{code}'; END$$",
        )
        told(url, "CREATE TRIGGER f BEFORE INSERT ON @records EXECUTE FUNCTION @fail()")
        with pytest.raises(JournalUnusable, match=message):
            await claim.append([worked()])
        told(url, "DROP TRIGGER f ON @records")
        assert await claim.append([worked()]) == 2


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("DELETE FROM @records WHERE seq = 2", "record 2 is missing"),
        ("DELETE FROM @records", "it has no records"),
    ],
)
async def test_damage_of_one_run_keeps_nobody_from_the_others(
    url: str, harm: str, message: str
) -> None:
    async with opened(url) as journal:
        await (await created(journal, "r", worked(), worked())).release()
        told(url, harm)
        await created(journal, "sound")
        with pytest.raises(RunDamaged, match=message):
            await journal.read("r")
        assert [row.run for row in await journal.runs()] == ["sound", "r"]
        assert len((await journal.histories())[0].records) == 1


async def test_who_only_reads_sees_what_others_write_and_is_not_seen(url: str) -> None:
    view = open_journal(url, readonly=True)
    async with opened(url) as journal:
        claim = await created(journal)
        assert [row.is_driven for row in await view.runs()] == [True]
        assert [one.run for one in await view.records_after(Place())] == ["r"]
        await claim.release()
        assert told(url, "SELECT name FROM @presences") == [(journal.owner,)]
        for change in (view.claim("r"), view.remove("r"), view.post("r", "cancel", "x", "", 1.0)):
            with pytest.raises(JournalUnusable, match="opened only to be read"):
                await change
    await view.close()
    assert told(url, "SELECT name FROM @presences") == []


async def test_a_release_that_is_done_again_takes_no_time_from_the_run(
    url: str, proxy: Proxy
) -> None:
    """Somebody may have submitted it since."""
    async with opened(proxy.url(url)) as journal, opened(url) as other:
        claim = await created(journal)
        proxy.answers_lost = 1
        proxy.when_lost = lambda: told(
            url, "UPDATE @runs SET submitted = true, due_at = now() WHERE owner IS NULL"
        )
        await claim.release()
        assert [one.run for one in await other.due()] == ["r"]


async def test_a_journal_that_was_restored_is_another_one(url: str) -> None:
    """Until then, and also before its first record is read, it is the same."""
    async with opened(url) as journal:
        era = journal.era
        await created(journal)
        assert await journal.records_after(Place())
        assert journal.era == era
        told(url, "UPDATE @journal SET era = gen_random_uuid()")
        await journal.records_after(Place())
        assert journal.era != era


async def test_nothing_is_claimed_while_the_sign_of_life_is_away(url: str, proxy: Proxy) -> None:
    await (await created(other := open_journal(url))).release()
    await other.close()
    async with opened(proxy.url(url), Patience(1.0, 0.1, 0.5)) as journal:
        assert await journal.has("r")
        proxy.is_away = True
        proxy.cut()
        await until_so(lambda: not journal.owner)
        for change in (journal.claim("r"), created(journal, "new")):
            with pytest.raises(JournalUnusable, match="it is away; start it again"):
                await change


async def test_a_place_that_another_store_has_made_is_the_beginning(url: str) -> None:
    async with opened(url) as journal:
        assert journal.place_in("17") == Place()


MACHINE = """
loopkit: 1
name: m
states:
  write: {render: A note., output: note, next: ask}
  ask:
    human: Go on?
    choices: [yes, again]
    transitions:
      - {guard: choice == "yes", target: done}
      - {revise: write, feedback: "{{ comment }}"}
  done: {final: success}
"""


def test_every_command_works_on_the_journal_in_the_database(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(MACHINE, encoding="utf-8")
    run = loopkit.run("m.yaml", state=url).run
    monkeypatch.setenv("LOOPKIT_JOURNAL", url)
    assert f"{run}  waiting  ask" in cli(0, "runs", "ls").out
    replica = f"{url}&options=-cdefault_transaction_read_only%3Don"
    assert run in cli(0, "--journal", replica, "runs", "ls").out
    assert "to ask" not in cli(0, "stats").out
    for command in (
        ("runs", "show"), ("runs", "logs"), ("diagram", "--run"), ("report", "-o", "page.html"),
    ):  # fmt: skip
        assert cli(0, *command, run).err == ""
    cli(5, "answer", run, "again", "--comment", "More.")
    assert "done (success)" in cli(0, "answer", run, "yes").err
    cli(0, "runs", "record", run, "m.scenario.yaml")
    cli(5, "run", "m.yaml")
    other = cli(0, "runs", "ls").out.splitlines()[1].split()[0]
    cli(0, "runs", "diff", run)
    cli(0, "cancel", other)
    cli(0, "runs", "rm", other)
    assert [name for (name,) in told(url, "SELECT run FROM @runs")] == [run]
    made = {"m.yaml", "m.scenario.yaml", "page.html"}
    assert {path.name for path in tmp_path.iterdir()} == made
