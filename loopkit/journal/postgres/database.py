"""The database of a journal: its URL, its statements, and connections that outlive an outage.

A request is attempted until it has an answer, each time from the beginning and within a deadline,
because behind a proxy that stops forwarding a connection would be silent for ever. Nothing is kept
in a session, so that a pooler may stand before the database.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg

from loopkit.journal.errors import JournalError, JournalUnusable, NoTables, unusable
from loopkit.journal.files import parse_queries
from loopkit.journal.records import FORMAT

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
LOOK = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {_LIMITS}"
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

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of its own, past any pooler; raises JournalUnusable."""
        try:
            return self._connect(self.direct)
        except psycopg.Error as error:
            raise unusable(error, self.place) from error

    def connect_pooled(self) -> psycopg.Connection[Any]:
        """A connection that may be a pooler's; raises psycopg.Error."""
        return self._connect(self.url)

    @staticmethod
    def _connect(url: str) -> psycopg.Connection[Any]:
        return psycopg.connect(
            url, autocommit=True, connect_timeout=_CONNECT_S, prepare_threshold=None
        )

    def check(self, db: psycopg.Connection[Any]) -> bool:
        """Whether there is a journal; raises JournalUnusable for one of no use to this loopkit."""
        try:
            if db.info.server_version < _OLDEST:
                raise JournalUnusable(
                    f"the journal {self.place} is in PostgreSQL {db.info.server_version // 10000}; "
                    f"{_OLDEST // 10000} or newer is needed"
                )
            if (version := self.version(db)) is None:
                return False
        except psycopg.Error as error:
            raise unusable(error, self.place) from error
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
        return True

    def refuse_pooler(self, db: psycopg.Connection[Any]) -> None:
        """Raise JournalUnusable where a lock of this connection would be somebody else's."""
        if db.execute("SELECT pg_backend_pid()").fetchone() != (db.info.backend_pid,):
            raise JournalUnusable(
                f"a pooler stands before the journal {self.place}, and the lock that shows that "
                "this process lives cannot be held through it; set `LOOPKIT_JOURNAL_DIRECT` to the "
                "URL of the database itself"
            )

    def require(self, db: psycopg.Connection[Any]) -> None:
        """Raise JournalUnusable if there is no journal of this version."""
        if not self.check(db):
            raise NoTables(self.place)

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
                except psycopg.Error as error:
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
