"""The database of a journal: its URL, its statements, and connections that outlive an outage.

A request is attempted until it has an answer, each time from the beginning and within a deadline,
because behind a proxy that stops forwarding a connection would be silent for ever. Nothing is kept
in a session, so that a pooler may stand before the database.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg

from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    JournalUnusable,
    MessageWaits,
    NoTables,
    NotInInbox,
    RunExists,
    SequenceConflict,
    TakenOver,
    unfit,
    unusable,
)
from loopkit.journal.files import Job, parse_queries
from loopkit.journal.records import CLAIMED, FORMAT, Change, owner_of
from loopkit.outside.processes import GROUPS

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]
Work = Callable[[Connection, int], Awaitable[T]]
"""A request on a connection; with the number of earlier attempts, of which one may have worked."""
_QUERIES = parse_queries(Path(__file__).with_name("queries.sql"))
VERSION = sum(name.startswith("migration_") for name in _QUERIES)
_OLDEST = 150000
"""PostgreSQL 15, of whose rules on names and privileges nothing here depends on older ones."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OWN = ("schema", "ttl", "prepare")
_CONNECT_S = 10
_LIMITS = (
    "SET LOCAL statement_timeout = 60000; SET LOCAL idle_in_transaction_session_timeout = 30000"
)
"""A client that is lost must not keep its locks."""
CHANGE = f"BEGIN ISOLATION LEVEL READ COMMITTED; {_LIMITS}"
_DO_AGAIN = ("23505", "40001", "40P01", "55P03")
"""What another transaction that was under way has caused: an earlier attempt, or a deadlock."""
_MOST_REPEATED = 20
_MOST_CONNECTIONS = 4
_CHARACTERS_A_SECOND = 500_000
"""By what a busy database gets even through a slow network; records may have 50 MB."""


class Patience(NamedTuple):
    attempt_s: float = 20.0
    pause_s: float = 1.0
    longest_s: float = 600.0


@dataclass(frozen=True)
class Database:
    """Where a journal is, and what its statements are there."""

    url: str
    """Without the parameters that only loopkit knows; it may hold a password."""
    direct: str
    """For the connection that shows that this process lives, past any pooler."""
    schema: str
    place: str
    """What is named in messages."""
    ttl: float
    is_prepared: bool

    @classmethod
    def of(cls, url: str) -> Database:
        """Raises JournalUnusable."""
        try:
            parts = urlsplit(url)
            given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
            _ = parts.port
        except ValueError as error:
            raise JournalUnusable(f"the URL of the journal cannot be read: {error}") from None
        own = {name: text for name, text in given if name in _OWN}
        schema, ttl = own.get("schema", "loopkit"), own.get("ttl", "30")
        host = parts.hostname or dict(given).get("host", "")
        port = f":{parts.port}" if parts.port else ""
        place = f"postgresql://{host}{port}{parts.path}?schema={schema}"
        if not _SCHEMA.fullmatch(schema):
            raise JournalUnusable(
                f"the schema {schema!r} of the journal is no name; give one of lower-case letters, "
                "digits and underscores"
            )
        if not re.fullmatch(r"\d{1,5}(\.\d+)?", ttl) or not 1 <= float(ttl) <= 86_400:
            raise JournalUnusable(f"the `ttl` of the journal is {ttl!r}; give seconds, 1 to 86,400")
        if (prepare := own.get("prepare", "yes")) not in ("yes", "no"):
            raise JournalUnusable(f"`prepare` of the journal is {prepare!r}; give `yes` or `no`")
        direct = _libpq(os.environ.get("LOOPKIT_JOURNAL_DIRECT") or url)
        return cls(_libpq(url), direct, schema, place, float(ttl), prepare == "yes")

    def __getitem__(self, name: str) -> str:
        return _statement(name, self.schema)

    def ask(
        self, db: psycopg.Connection[Any], name: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        cursor = db.execute(self[name].encode(), values)
        return cursor.fetchall() if cursor.description else []

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of its own, past any pooler; raises JournalUnusable."""
        try:
            return self.open(self.direct)
        except psycopg.Error as error:
            raise unusable(error, self.place) from error

    @staticmethod
    def open(url: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            url, autocommit=True, connect_timeout=_CONNECT_S, prepare_threshold=None
        )

    def require(self, db: psycopg.Connection[Any]) -> None:
        """Raise JournalUnusable if there is no journal of this version."""
        try:
            if db.info.server_version < _OLDEST:
                raise JournalUnusable(
                    f"the journal {self.place} is in PostgreSQL {db.info.server_version // 10000}; "
                    f"{_OLDEST // 10000} or newer is needed"
                )
            version = self.version(db)
        except psycopg.Error as error:
            raise unusable(error, self.place) from error
        if version is None:
            raise NoTables(self.place)
        if version > VERSION:
            raise JournalUnusable(
                f"the journal {self.place} was written by a newer loopkit (tables of version "
                f"{version}, this one knows {VERSION}); upgrade loopkit"
            )
        if version < VERSION:
            raise JournalUnusable(
                f"the journal {self.place} has tables of version {version}, and this loopkit needs "
                f"those of version {VERSION}; run `loopkit journal migrate`"
            )

    def refuse_pooler(self, db: psycopg.Connection[Any]) -> None:
        """Raise JournalUnusable where a lock of this connection would be somebody else's."""
        if db.execute("SELECT pg_backend_pid()").fetchone() != (db.info.backend_pid,):
            raise JournalUnusable(
                f"a pooler stands before the journal {self.place}, and the lock that shows that "
                "this process lives cannot be held through it; set `LOOPKIT_JOURNAL_DIRECT` to the "
                "URL of the database itself"
            )

    def version(self, db: psycopg.Connection[Any]) -> int | None:
        """The version of the journal's tables; raises JournalUnusable for those of others."""
        names = "SELECT tablename::text FROM pg_tables WHERE schemaname = %s"
        tables = {name for (name,) in db.execute(names, (self.schema,))}
        if not tables:
            return None
        if not tables >= {"journal", "runs", "records"}:
            raise JournalUnusable(
                f"the journal {self.place} is a schema of another program; choose another one by "
                "`?schema=NAME`"
            )
        found = db.execute(self["version"]).fetchone()
        return int(found[0]) if found else 0


def _libpq(url: str) -> str:
    """A URL without the parameters that only loopkit knows."""
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in _OWN]
    return urlunsplit(parts._replace(query=urlencode(kept)))


def _statement(name: str, schema: str) -> str:
    found = _STATEMENTS.get((name, schema))
    if found is None:
        text = _QUERIES[name].replace("@DUE", _QUERIES["due"])
        text = text.replace("@ALIVE", _QUERIES["alive"]).replace("@FORMAT", str(FORMAT))
        found = _STATEMENTS[name, schema] = re.sub(r"@(\w+)", rf'"{schema}".\1', text)
    return found


_STATEMENTS: dict[tuple[str, str], str] = {}


class Connections:
    """At most four connections, on each of which one request is under way."""

    def __init__(self, database: Database, patience: Patience = Patience()) -> None:  # noqa: B008
        self._database = database
        self._patience = patience
        self._idle: list[Connection] = []
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)
        self.closed = False

    async def ask(self, work: Work[T], begin: str = "", size: int = 0) -> T:
        """What `work` gives, in a transaction that begins with `begin`; see the module.

        It is done again where its answer was lost. `size` are the characters to send. Raises
        JournalUnusable, and what `work` raises.
        """
        seconds = self._patience.attempt_s + size / _CHARACTERS_A_SECOND
        until = time.monotonic() + self._patience.longest_s
        attempt = repeated = 0
        async with self._free:
            while True:
                try:
                    return await self._attempt(work, begin, attempt, seconds)
                except UnicodeEncodeError as error:
                    raise unfit(error) from error
                except psycopg.Error as error:
                    if isinstance(error, psycopg.DataError) and not error.sqlstate:
                        raise unfit(error) from error
                    attempt += 1
                    if error.sqlstate in _DO_AGAIN and repeated < _MOST_REPEATED:
                        repeated += 1
                        await asyncio.sleep(0.01 * repeated)
                        continue
                    is_away = not error.sqlstate or error.sqlstate[:2] in ("08", "57", "53")
                    if not is_away or error.sqlstate in ("57014", "53100"):
                        raise unusable(error, self._database.place) from error
                    if self.closed or time.monotonic() > until:
                        raise unusable(error, self._database.place) from error
                # The others that were open before are cut off as well.
                await self._drop_idle()
                if attempt > 1:
                    await asyncio.sleep(self._patience.pause_s)

    async def _attempt(self, work: Work[T], begin: str, attempt: int, seconds: float) -> T:
        connection = self._idle.pop() if self._idle else await self._connect()
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(seconds, cut, connection)
        is_sound = False
        try:
            if begin:
                await connection.execute(begin.encode())
            result = await work(connection, attempt)
            if begin:
                await connection.execute(b"COMMIT")
            is_sound = True
        except (psycopg.Error, JournalError):
            with suppress(psycopg.Error):
                if begin:
                    await connection.execute(b"ROLLBACK")
                is_sound = not connection.closed
            raise
        finally:
            deadline.cancel()
            if is_sound:
                self._idle.append(connection)
            else:
                await connection.close()
        return result

    async def _connect(self) -> Connection:
        return await psycopg.AsyncConnection.connect(
            self._database.url,
            autocommit=True,
            connect_timeout=_CONNECT_S,
            prepare_threshold=5 if self._database.is_prepared else None,
        )

    async def _drop_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def close(self) -> None:
        self.closed = True
        await self._drop_idle()


def cut(connection: Connection | psycopg.Connection[Any]) -> None:
    """End what a connection waits for: it fails as if the other side had closed it."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.fileno())) as its_socket,
    ):
        its_socket.shutdown(socket.SHUT_RDWR)


async def rows(
    db: Connection, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()
) -> list[tuple[Any, ...]]:
    cursor = await db.execute(statement.encode(), values)
    return await cursor.fetchall() if cursor.description else []


_BEATS = 6
"""The beats in the time after which a process without one counts as dead."""
_BEATS_TO_DEATH = 4
"""The beats that may be missing, before what this process does comes to an end."""
_LIFE_S = 1.0
"""How often the watcher of its programs is shown that it lives."""
_CONNECT_AGAIN_S = 1.0


class Presence:
    """The sign of life of this process: a locked row that it touches again and again.

    The lock tells at once that a process was killed, and the touch that one stands still. Both are
    of one connection, in a thread that goes on only as long as the event loop does. Where that is
    cut, it gives up its claims before it connects again, with another name.
    """

    def __init__(self, database: Database, db: psycopg.Connection[Any]) -> None:
        """It takes over the connection; raises psycopg.Error."""
        self._database = database
        self.ahead = 0.0
        """The seconds by which the database's time is ahead of the one here."""
        self._stops, self._stop = os.pipe2(os.O_CLOEXEC)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._give_up: Callable[[], None] = lambda: None
        self._ticked = threading.Event()
        self._ticked.set()
        self._row = 0
        self._beaten = time.monotonic()
        self.name = ""
        """The name under which this process is known; empty while it is cut off."""
        self._appear(db)
        self._thread = threading.Thread(target=self._live, args=(db,), daemon=True)
        self._thread.start()

    @property
    def is_overdue(self) -> bool:
        """Whether it stood still for so long that its programs were killed."""
        return time.monotonic() > self._overdue_at

    @property
    def _overdue_at(self) -> float:
        return self._beaten + self._database.ttl * _BEATS_TO_DEATH / _BEATS

    def follow(self, give_up: Callable[[], None]) -> None:
        """Beat as long as the running event loop does; `give_up` is called in it after a cut."""
        self._loop, self._give_up = asyncio.get_running_loop(), give_up

    def close(self) -> None:
        """Be dead from now on."""
        os.close(self._stop)
        self._thread.join()

    def _appear(self, db: psycopg.Connection[Any]) -> None:
        host = os.uname().nodename
        name = f"{host}-{os.getpid()}-{os.urandom(8).hex()}"
        with db.transaction():
            db.execute(self._database["forget_dead"].encode())
            values, asked = (name, os.getpid(), host, self._database.ttl), time.time()
            found = db.execute(self._database["appear"].encode(), values).fetchall()
            [(self._row, key, told)] = found
            self._compare(asked, told)
            db.execute("SELECT pg_advisory_lock(%s)", (key,))
        self._beaten = time.monotonic()
        self.name = name

    def _compare(self, asked: float, told: float) -> None:
        """Take the offset of the clock from a time of the database, asked for at `asked`.

        One that agrees with it, as far as the answer took, is kept, so that time does not jump.
        """
        now = time.time()
        ahead = told - (asked + now) / 2
        if abs(ahead - self.ahead) > (now - asked) / 2:
            self.ahead = ahead

    def _live(self, db: psycopg.Connection[Any] | None) -> None:
        while db is not None:
            is_over = self._beat_until_cut(db)
            with suppress(psycopg.Error):
                if is_over:
                    db.execute(self._database["vanish"].encode(), (self._row,))
            db.close()
            db = None if is_over else self._connect_again()
        GROUPS.show_life(0)
        os.close(self._stops)

    def _beat_until_cut(self, db: psycopg.Connection[Any]) -> bool:
        """Whether it ends because it was closed."""
        interval = self._database.ttl / _BEATS
        next_beat = time.monotonic()
        while True:
            wait = min(max(next_beat - time.monotonic(), 0.0), _LIFE_S)
            ready, _, _ = select.select([db.fileno(), self._stops], [], [], wait)
            if self._stops in ready:
                return True
            if ready:
                try:
                    # Nothing was asked: it is a notice, or the end.
                    db.pgconn.consume_input()
                    continue
                except psycopg.Error:
                    return False
            if self.is_overdue:
                return False
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + interval
                if self._loop_goes_on():
                    if not self._beat(db):
                        return False
                    self._beaten = time.monotonic()
            # After the beat: whose programs were killed is overdue.
            GROUPS.show_life(self._database.ttl * _BEATS_TO_DEATH / _BEATS)

    def _loop_goes_on(self) -> bool:
        """Whether the event loop has had a turn since the last beat; it is asked for another."""
        if self._loop is None:
            return True
        if not self._ticked.is_set():
            return False
        self._ticked.clear()
        try:
            self._loop.call_soon_threadsafe(self._ticked.set)
        except RuntimeError:
            return False
        return True

    def _beat(self, db: psycopg.Connection[Any]) -> bool:
        """Touch the row; false where there is no answer in time: the database may be slow."""
        statement = self._database["beat"] % self._row
        asked = time.time()
        try:
            db.pgconn.send_query(statement.encode())
            while db.pgconn.flush() or db.pgconn.is_busy():
                wait = max(self._overdue_at - time.monotonic(), 0.0)
                if select.select([db.fileno(), self._stops], [], [], wait)[0] != [db.fileno()]:
                    return False
                db.pgconn.consume_input()
            told = None
            while (result := db.pgconn.get_result()) is not None:
                told = result.get_value(0, 0) if result.ntuples == 1 else None
        except psycopg.Error:
            return False
        if told is not None:
            self._compare(asked, float(told))
        return told is not None

    def _connect_again(self) -> psycopg.Connection[Any] | None:
        """A new connection with a new name, once the claims are given up; None at the end."""
        self.name = ""
        gave_up = threading.Event()

        def give_up() -> None:
            try:
                self._give_up()
            finally:
                gave_up.set()

        try:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(give_up)
            else:
                gave_up.set()
        except RuntimeError:
            # There is no event loop any more whose claims could be given up.
            select.select([self._stops], [], [])
            return None
        while not select.select([self._stops], [], [], _CONNECT_AGAIN_S)[0]:
            if not gave_up.is_set():
                continue
            with suppress(psycopg.Error, JournalUnusable):
                db = self._database.connect()
                try:
                    self._appear(db)
                except psycopg.Error:
                    db.close()
                    raise
                self._ticked.set()
                return db
        return None


_MOST_IN_GROUP = 500
LOOP_ENDED = "the event loop ended in the middle of a request; whether it was done is not known"
_MOST_CHARACTERS = 50_000_000
"""Of records in a request; the last one may exceed them. PostgreSQL takes a gigabyte at most."""
_MOST_GROUPS = 3
"""Of four connections: one is left to those who read."""


class Groups:
    """Changes of runs by their owners, of which all that wait share a transaction.

    Rows are locked first, in one order, by statements of their own: a statement that waited for a
    row sees other tables as they were before the wait. What is refused is left out.
    """

    def __init__(self, database: Database, connections: Connections) -> None:
        self._database = database
        self._connections = connections
        self._waiting: list[Change] = []
        self._working = set[asyncio.Task[None]]()

    def ask(self, change: Change) -> Job[int]:
        """The job of a change, which is done when it is durable."""
        change.texts = [record.text for record in change.records]
        change.job = job = Job[int](lambda _: 0, writes=True)
        if not self._waiting:
            # In the next turn, so that others can join.
            job.get_loop().call_soon(self._go_on)
        self._waiting.append(change)
        return job

    async def finish(self) -> None:
        while self._waiting or self._working:
            self._go_on()
            await asyncio.wait(self._working)

    def _go_on(self, _: object = None) -> None:
        if self._waiting and len(self._working) < _MOST_GROUPS:
            group = self._waiting[:_MOST_IN_GROUP]
            del self._waiting[:_MOST_IN_GROUP]
            task = asyncio.create_task(self._settle(group))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
            task.add_done_callback(self._go_on)

    async def _settle(self, group: list[Change]) -> None:
        try:
            work = Attempt(self._database, group).make
            size = sum(len(text) for change in group for text in change.texts)
            results: Sequence[Any] = await self._connections.ask(work, CHANGE, size)
        except Exception as error:  # noqa: BLE001 - a lost outcome would hang its caller
            state: str = getattr(error.__cause__, "sqlstate", None) or ""
            # The database has refused the data of one change.
            if len(group) > 1 and state[:2] in ("22", "23", "54"):
                for change in group:
                    await self._settle([change])
                return
            results = [error] * len(group)
        except asyncio.CancelledError:
            for change in group:
                change.job.settle(JournalError(LOOP_ENDED))
            raise
        for change, result in zip(group, results, strict=True):
            change.job.settle(result)


class Head(NamedTuple):
    epoch: int
    seq: int
    own_seq: int
    """The last record that the claim itself has written."""


Inbox = dict[str, tuple[str, int | None]]
"""The kind of each message, and the record with which it was consumed."""


class Attempt:
    """Attempts to make the changes of a group in a transaction."""

    def __init__(self, database: Database, group: Sequence[Change]) -> None:
        self._sql = database
        self._group = group

    async def make(self, db: Connection, attempt: int) -> list[int | JournalError]:
        """The row or the refusal of each change; after an earlier attempt it may be done already.

        Rows are locked before anything is written, so that `(tx, id)` keeps the order of each run.
        """
        old = [change for change in self._group if change.row]
        whole = {c.row for c in old if c.consumes or c.unless or c.releases or c.due is not None}
        shared = {change.row for change in old} - whole
        for name, locked in (("lock_whole", whole), ("lock_shared", shared)):
            if locked:
                await rows(db, self._sql[name], ([*locked],))
        heads, inboxes = await self._heads(db, old), await self._inboxes(db, old, whole)
        results: dict[Change, int | JournalError] = {}
        written: list[Change] = []
        for change in old:
            head, inbox = heads.get(change.row), inboxes.get(change.row, {})
            if attempt and head and _is_done(change, head, inbox):
                results[change] = change.row
            elif (refusal := await self._refusal(db, change, head, inbox)) is not None:
                results[change] = refusal
            else:
                results[change] = change.row
                written.append(change)
        if len(old) < len(self._group):
            await self._begin(db, attempt, results, written)
        await self._write(db, written)
        return [results[change] for change in self._group]

    async def _heads(self, db: Connection, changes: Sequence[Change]) -> dict[int, Head]:
        if not changes:
            return {}
        wanted = [c.row for c in changes], [c.epoch for c in changes]
        found = await rows(db, self._sql["heads"], wanted)
        return {row: Head(epoch, seq or 0, own or 0) for row, epoch, seq, own in found}

    async def _inboxes(
        self, db: Connection, changes: Sequence[Change], whole: set[int]
    ) -> dict[int, Inbox]:
        inboxes: dict[int, Inbox] = {}
        consumed = [message for change in changes for message in change.consumes]
        if whole and (consumed or any(change.unless for change in changes)):
            for row, name, kind, seq in await rows(db, self._sql["waiting"], ([*whole], consumed)):
                inboxes.setdefault(row, {})[name] = kind, seq
        return inboxes

    async def _refusal(
        self, db: Connection, change: Change, head: Head | None, inbox: Inbox
    ) -> JournalError | None:
        if head is None or head.epoch != change.epoch:
            # A release of what is lost changes nothing.
            is_release = change.releases and not (change.records or change.consumes)
            return None if is_release else await self._lost(db, change, head)
        if head.seq != change.seq:
            return SequenceConflict(change.run, expected=change.seq, found=head.seq)
        waiting = {name: kind for name, (kind, seq) in inbox.items() if seq is None}
        for message in change.consumes:
            if waiting.pop(message, None) is None:
                return NotInInbox(change.run, message)
        return MessageWaits(change.run) if {*waiting.values()} & {*change.unless} else None

    async def _lost(self, db: Connection, change: Change, head: Head | None) -> JournalError:
        if head is None:
            return ClaimLost(f"run {change.run!r} was removed; this claim on it has ended")
        claims = await rows(db, self._sql["newest_claim"], (change.row, CLAIMED))
        return TakenOver(change.run, owner_of(*claims), epoch=change.epoch, now=head.epoch)

    async def _begin(
        self,
        db: Connection,
        attempt: int,
        results: dict[Change, int | JournalError],
        written: list[Change],
    ) -> None:
        """Make the new runs, by their names in order, so that no two groups block each other."""
        changes = sorted((c for c in self._group if not c.row), key=lambda change: change.run)
        needs = [None if one.needs is None else json.dumps([*one.needs]) for one in changes]
        values = (
            changes[0].owner, [one.run for one in changes], [one.machine for one in changes],
            [one.definition for one in changes], [one.created_at for one in changes], needs,
        )  # fmt: skip
        made = dict(await rows(db, self._sql["insert_runs"], values))
        for change in changes:
            if (row := made.pop(change.run, None)) is not None:
                results[change] = change.row = row
                written.append(change)
            else:
                known = await self._begun(db, change) if attempt else None
                results[change] = RunExists(change.run) if known is None else known

    async def _begun(self, db: Connection, change: Change) -> int | None:
        """The row of a run that an earlier attempt has made with the same records."""
        found = await rows(db, self._sql["beginning"], (change.run, change.end))
        told = [(r.at, r.type, text) for r, text in zip(change.records, change.texts, strict=True)]
        return found[0][0] if [row[1:] for row in found] == told else None

    async def _write(self, db: Connection, changes: Sequence[Change]) -> None:
        records = [
            (change.row, seq, change.epoch, record.at, record.type, text)
            for change in changes
            for seq, (record, text) in enumerate(
                zip(change.records, change.texts, strict=True), change.seq + 1
            )
        ]
        for values in portions(records):
            await rows(db, self._sql["insert_records"], values)
        consumed = [(c.row, message, c.end) for c in changes for message in c.consumes]
        released = [(c.row, c.epoch, c.due) for c in changes if c.releases]
        named = [(c.row, c.due) for c in changes if c.due is not None and not c.releases]
        settled = [settlement for change in changes for settlement in change.settles]
        for name, listed in (
            ("consume", consumed), ("disown", released), ("set_due", named), ("settle", settled),
        ):  # fmt: skip
            if listed:
                await rows(db, self._sql[name], _columns(listed))


def portions(records: Iterable[Sequence[Any]]) -> Iterator[list[list[Any]]]:
    """The values of the statements that write records, in order."""
    portion, size = list[Any](), 0
    for record in records:
        portion.append(record)
        size += len(record[-1])
        if size > _MOST_CHARACTERS:
            yield _columns(portion)
            portion, size = [], 0
    if portion:
        yield _columns(portion)


def _columns(listed: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [[*column] for column in zip(*listed, strict=True)]


def _is_done(change: Change, head: Head, inbox: Inbox) -> bool:
    if change.records:
        return head.own_seq >= change.end
    taken = [inbox.get(message, ("", None))[1] for message in change.consumes]
    return bool(taken) and all(seq == change.end for seq in taken)
