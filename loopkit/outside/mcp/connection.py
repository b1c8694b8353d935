"""A connection to an MCP server, from this side of its worker, which is asked line by line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from loopkit import DISTRIBUTION
from loopkit.outside.processes import GROUPS, worker_command, worker_environment
from loopkit.plugins import CALL

_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What the environment says of the network; a server that is a program is not told."""
_START_S = 10.0
"""The time that a worker may take to start, before its time to connect begins."""
_SPARE_S = 1.0
"""The delay after its time limit with which a worker may still answer."""
_GRACE_S = 4.0
"""The time that a worker may take to close its connections."""
_NO_ANSWER = "its worker ended and gave no answer"
MISSING = f"the package `mcp` is not installed; install it with: pip install '{DISTRIBUTION}[mcp]'"


Address: TypeAlias = Mapping[str, Any]
"""What a worker is told to connect with a server."""


def program(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Address:
    """A server that is started, and spoken with over its stdin and stdout, with no other `env`."""
    # Its worker may work elsewhere.
    return {"program": {"command": command, "env": env, "folder": str(folder.absolute())}}


def website(url: str, headers: Mapping[str, str]) -> Address:
    """A server that is reached over streamable HTTP, with the variables of the network."""
    names = (*_NETWORK, *map(str.lower, _NETWORK))
    network = {name: os.environ[name] for name in names if name in os.environ}
    return {"website": {"url": url, "headers": headers, "network": network}}


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """`sha256:` of its name, its description and its schema."""
    fault: str = ""
    """Why it can't be offered to a model; such a tool has nothing but its name."""


@dataclass(frozen=True, slots=True)
class ToolText:
    text: str
    """At most the first 200,000 characters."""
    left_out: int
    """How many characters were cut off."""
    is_error: bool


class ServerFailed(Exception):
    """A server failed.

    A transient fault may be gone at the next try, which starts the connection anew.
    """

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.message = message
        self.transient = transient


@dataclass(eq=False, repr=False)
class Connection:
    """One server, connected when it is first used, and again after it was lost.

    One thing is asked at a time; others wait for their turn. A call that is cancelled, or takes
    too long, ends the connection and the server's program, which may be in any state.
    """

    _name: str
    _address: Address
    _timeout_s: float
    """How long it may take to connect, and to say what it offers."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _dialogue: Dialogue | None = None

    async def tools(self, names: Sequence[str] | None = None) -> dict[str, OfferedTool]:
        """The tools of these names, as they are now; without names all, also malformed ones.

        Raises ServerFailed, also where one of these names is missing or malformed.
        """
        offered = await self._ask({"list": names}, self._timeout_s)
        return {tool["name"]: OfferedTool(**tool) for tool in offered["tools"]}

    async def call(
        self, tool: str, arguments: Mapping[str, Any], digest: str, timeout_s: float
    ) -> ToolText:
        """The result of a tool, which may be an error that the tool reports.

        Raises ServerFailed, also where the tool is no longer the one with this digest.
        """
        asked = {"call": tool, "arguments": arguments, "digest": digest, "key": CALL.get()}
        return ToolText(**await self._ask(asked, timeout_s))

    async def close(self, grace_s: float = _GRACE_S) -> None:
        """End the connection and, where it is a program, the server.

        Without grace, a worker that may not respond any more is killed, and nobody waits for it.
        """
        dialogue, self._dialogue = self._dialogue, None
        if dialogue is not None:
            await dialogue.end(grace_s)

    async def _ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        async with self._turn:
            try:
                if self._dialogue is None:
                    await self._connect()
                return await self._answer({**request, "timeout_s": timeout_s}, timeout_s)
            except ServerFailed as failed:
                if failed.transient:
                    await self.close(grace_s=0)
                raise
            except asyncio.CancelledError:
                await self.close(grace_s=0)
                raise

    async def _connect(self) -> None:
        if find_spec("mcp") is None:
            raise self._failure(MISSING, transient=False)
        try:
            async with asyncio.timeout(_START_S):
                self._dialogue = await Dialogue.start()
        except (Ended, OSError) as error:
            late = f"it took longer than {_START_S:g} s"
            reason = late if isinstance(error, TimeoutError) else str(error) or "it ended"
            raise self._failure(f"its worker did not start: {reason}", transient=True) from error
        try:
            await self._answer({**self._address, "timeout_s": self._timeout_s}, self._timeout_s)
        except ServerFailed:
            await self.close(grace_s=0)
            raise

    async def _answer(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        dialogue = self._dialogue
        if dialogue is None:
            raise self._failure("the connection was closed", transient=True)
        text = json.dumps(request, default=str)
        try:
            async with asyncio.timeout(timeout_s + _SPARE_S):
                answer: dict[str, Any] = json.loads(await dialogue.ask(text))
        except TimeoutError as error:
            raise self._failure(f"no answer within {timeout_s:g} s", transient=True) from error
        except (Ended, ValueError) as error:
            raise self._failure(_NO_ANSWER, transient=True) from error
        if (fault := answer.get("fault")) is not None:
            raise self._failure(fault, transient=answer["transient"])
        return answer

    def _failure(self, reason: str, *, transient: bool) -> ServerFailed:
        return ServerFailed(f"MCP server `{self._name}`: {reason}", transient=transient)


COMMAND = worker_command("loopkit.outside.mcp.session")
LONGEST_LINE = 16_000_000
"""Bytes of an answer."""


class Ended(Exception):
    """The worker ended, or closed its side."""


@dataclass(frozen=True)
class Dialogue:
    """One worker, which answers each line with a line."""

    _worker: subprocess.Popen[bytes]
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    @classmethod
    async def start(cls) -> Dialogue:
        """Start a worker; raises OSError, or Ended.

        It leads a session of its own. Where this process is killed, all of that is killed too.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            reader, writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
            try:
                started = cls(_start_worker(theirs), reader, writer)
            except OSError:
                writer.close()
                raise
        try:
            await started._receive()
        except BaseException:
            await started.end(grace_s=0)
            raise
        return started

    async def ask(self, line: str) -> str:
        """The answer to one line; raises Ended."""
        try:
            self._writer.write(f"{line}\n".encode())
            await self._writer.drain()
        except OSError as error:
            raise Ended from error
        return await self._receive()

    async def _receive(self) -> str:
        try:
            line = await self._reader.readline()
        except (OSError, ValueError) as error:
            raise Ended from error
        if not line.endswith(b"\n"):
            raise Ended
        return line.decode()

    async def end(self, grace_s: float) -> None:
        """Give the worker `grace_s` seconds to close its connections, then kill its group."""
        try:
            if grace_s:
                with suppress(TimeoutError, OSError):
                    self._writer.write_eof()
                    async with asyncio.timeout(grace_s):
                        await self._reader.read()
        finally:
            self._kill()
            self._writer.close()

    def _kill(self) -> None:
        # Its leader is not reaped yet, so the number of the group belongs to nobody else.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._worker.pid, signal.SIGKILL)
        GROUPS.remove(self._worker.pid)
        threading.Thread(target=self._worker.wait, name="loopkit-reap", daemon=True).start()


def _start_worker(asked: socket.socket) -> subprocess.Popen[bytes]:
    with GROUPS.start() as add:
        worker = subprocess.Popen(  # noqa: S603 - a module of our own
            COMMAND,
            env=worker_environment(),
            stdin=asked.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        add(worker.pid)
    return worker
