"""Hints for workers that runs are due: jobs of Procrastinate, in one set of tables for a database.

Nothing depends on them. A hint says no more than that it is worth asking the journal what is due,
and one that is lost, made twice or kept by a worker that has died delays a run until it is asked
anyway. So a job is not retried, locks nothing and has no time of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Any

import psycopg

from loopkit.journal.errors import JournalUnusable
from loopkit.journal.postgres.database import Connection, Database

_TASK = "loopkit.hint"
_ANEW_S = 300.0
"""After so long the queue is opened anew: its worker may wait for an answer that never comes."""
_END_S = 5.0
_AGAIN_S = 1.0
_LONGEST_NAME = 40
"""With what Procrastinate puts before it, PostgreSQL takes no longer one for a channel."""
_HINT = """
SELECT public.procrastinate_defer_jobs_v1(ARRAY[
    ROW(%(queue)s, %(task)s, 0, NULL, %(lock)s, '{}', NULL)::public.procrastinate_job_to_defer_v1
]) WHERE NOT EXISTS (
    SELECT FROM public.procrastinate_jobs WHERE queueing_lock = %(lock)s AND status = 'todo'
)
"""
_AWAY = ("", "08", "57")
"""What the classes of errors begin with after which a request is made again."""


def _queue_of(schema: str) -> str:
    """The name of the queue of a journal: others may share the database."""
    if len(schema) <= _LONGEST_NAME:
        return schema
    return hashlib.sha256(schema.encode()).hexdigest()[:_LONGEST_NAME]


async def hint(db: Connection, database: Database, row: int) -> None:
    """Hint that the run of a row is due, unless that was hinted already; it may be in vain."""
    queue = _queue_of(database.schema)
    values = {"queue": queue, "task": _TASK, "lock": f"{queue}/{row}"}
    try:
        await db.execute(_HINT.encode(), values)
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] in _AWAY:
            raise


async def heed_hints(database: Database, heed: Callable[[], Awaitable[None]]) -> None:
    """Call `heed` for each hint, one after the other, until this is cancelled."""
    # What it says of jobs means nothing to a reader of logs of runs.
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    while True:
        work = asyncio.create_task(_work(database, heed))
        try:
            await asyncio.wait([work], timeout=_ANEW_S)
        finally:
            work.cancel()
            # It may have to say goodbye through a connection that hangs.
            await asyncio.wait([work], timeout=_END_S)
        if not work.cancelled():
            work.exception()
        await asyncio.sleep(_AGAIN_S)


async def _work(database: Database, heed: Callable[[], Awaitable[None]]) -> None:
    import procrastinate  # noqa: PLC0415 - it takes a quarter of a second

    settings = {"options": "-c search_path=public", "prepare_threshold": None}
    connector = procrastinate.PsycopgConnector(
        conninfo=database.direct, min_size=1, max_size=2, timeout=_END_S, kwargs=settings
    )
    app, queue = procrastinate.App(connector=connector), _queue_of(database.schema)
    app.task(name=_TASK)(heed)
    async with app.open_async():
        for job in await app.job_manager.get_stalled_jobs(queue=queue):
            # Another worker may delete it as well.
            with suppress(procrastinate.exceptions.ConnectorException):
                await app.job_manager.finish_job_by_id_async(
                    job_id=job.id or 0, status=procrastinate.jobs.Status.FAILED, delete_job=True
                )
        await app.run_worker_async(
            queues=[queue],
            delete_jobs="always",
            install_signal_handlers=False,
            shutdown_graceful_timeout=0,
        )


def migrate_queue(db: psycopg.Connection[Any], place: str) -> None:
    """Make its tables, or apply those of its files that were not applied yet, in a transaction.

    Procrastinate notes nowhere which ones were; its statements name no schema. Raises
    JournalUnusable for tables that somebody else has made.
    """
    sql = files("procrastinate.sql")
    known = {file.name: file for file in (sql / "migrations").iterdir() if file.name[-4:] == ".sql"}
    db.execute("SET LOCAL search_path = public")
    made, noted = _exists(db, "procrastinate_jobs"), _exists(db, "loopkit_queue_files")
    if made and not noted:
        raise JournalUnusable(
            f"the database of the journal {place} has tables of Procrastinate in its schema "
            "`public` that another program has made; choose another database"
        )
    if not noted:
        db.execute("CREATE TABLE loopkit_queue_files (name text PRIMARY KEY)")
    applied = {name for (name,) in db.execute("SELECT name FROM loopkit_queue_files")}
    if not made:
        # It holds what all of them lead to.
        db.execute((sql / "schema.sql").read_bytes())
    for name in sorted(known.keys() - applied):
        if made:
            db.execute(known[name].read_bytes())
        db.execute("INSERT INTO loopkit_queue_files (name) VALUES (%s)", (name,))


def _exists(db: psycopg.Connection[Any], table: str) -> bool:
    return db.execute("SELECT to_regclass(%s)", (f"public.{table}",)).fetchone() != (None,)
