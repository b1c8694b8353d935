"""The sign of life of this process: a locked row that it touches again and again.

The lock tells at once that a process was killed, and the touch that one stands still. Both are of
one connection, in a thread of its own that goes on only as long as the event loop does. Where the
connection is cut, others may take this process for dead: it gives up its claims before it connects
again, with another name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from loopkit.journal.errors import JournalUnusable
from loopkit.journal.postgres.database import Database
from loopkit.outside.processes import GROUPS

_BEATS = 6
"""The beats in the time after which a process without one counts as dead."""
_BEATS_TO_DEATH = 4
"""The beats that may be missing, before what this process does comes to an end."""
_LIFE_S = 1.0
"""How often the watcher of its programs is shown that it lives."""
_CONNECT_AGAIN_S = 1.0
_MOST_AHEAD_S = 1.0
LOGGER = logging.getLogger("loopkit.journal")


class Presence:
    def __init__(self, database: Database, db: psycopg.Connection[Any]) -> None:
        """It takes over the connection; raises psycopg.Error."""
        self._database = database
        self.ahead = 0.0
        """The seconds by which the database's time is ahead of the one here."""
        self._is_warned = False
        self._stops, self._stop = os.pipe2(os.O_CLOEXEC)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._give_up: Callable[[], None] = lambda: None
        self._loop_thread = 0
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
        self._loop_thread = threading.get_ident()

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
        is_off = abs(self.ahead) > _MOST_AHEAD_S
        if is_off and not self._is_warned:
            told_of = os.uname().nodename, -self.ahead, self._database.place
            LOGGER.warning(
                "the clock of %s is %.1f s off that of the journal %s; set it by NTP", *told_of
            )
        self._is_warned = is_off

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
        next_beat, is_told = time.monotonic(), False
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
                    self._beaten, is_told = time.monotonic(), False
                elif not is_told and self._loop is not None:
                    is_told = True
                    self._tell_what_blocks(self._loop, interval)
            # After the beat: whose programs were killed is overdue.
            GROUPS.show_life(self._database.ttl * _BEATS_TO_DEATH / _BEATS)

    def _tell_what_blocks(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        task = asyncio.current_task(loop)
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - it has no other name
        code = frame and frame.f_code
        LOGGER.warning(
            "%s has blocked the event loop for %.1f s, in %s (%s:%s); after %.0f s this process "
            "counts as dead, and others take its runs over",
            task.get_name() if task else "something", seconds, code and code.co_qualname,
            code and code.co_filename, frame and frame.f_lineno, self._database.ttl,
        )  # fmt: skip

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
