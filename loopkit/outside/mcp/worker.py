"""One connection to an MCP server, in a process of its own: a fork of the fork server, which is
`python -m loopkit.outside.mcp.worker`.

On its socket a worker first writes its process number. Then it is asked in lines of JSON and
answers each with one: first where the server is, then what it offers or a call of a tool. An answer
has what was asked for, or a `fault` and whether that is `transient`. The end of the input closes
the connection.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn

from loopkit.outside.mcp.fork_server import LENGTH
from loopkit.outside.mcp.session import Fault, Session

CLOSING_S = 3.0
"""How long the server may take to end by itself."""


async def answer_requests(sock: socket.socket) -> None:
    """Answer requests until the input ends."""
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=100_000_000)
    session = Session()
    try:
        while line := await reader.readline():
            answer = await _answer(session, line)
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await session.close()


async def _answer(session: Session, line: bytes) -> Mapping[str, Any]:
    try:
        request = json.loads(line)
        if "list" in request:
            return await session.list_tools(request["list"], request["timeout_s"])
        if "call" in request:
            return await session.call(**request)
        return await session.connect(request)
    except Fault as fault:
        return {"fault": fault.message, "transient": fault.transient}
    except Exception as error:  # noqa: BLE001 - a server may make the client raise anything
        return {"fault": f"{type(error).__name__}: {error}"[:1000], "transient": True}


def main() -> None:
    """Start workers until stdin, which is a socket, is closed."""
    # The answers contain what the client would log about a server.
    logging.disable(logging.CRITICAL)
    # No worker looks for garbage in what was imported, which it would have to copy.
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as forking:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        _start_workers(forking)
    os._exit(0)


def _start_workers(forking: socket.socket) -> None:
    """Fork where a message has a socket, and reap where it has the number of a worker."""
    killed: set[int] = set()
    while True:
        message, passed, _, _ = socket.recv_fds(forking, LENGTH, 1)
        if not message:
            return
        if number := int.from_bytes(message, "big"):
            killed.add(number)
        for descriptor in passed:
            with socket.socket(fileno=descriptor) as asked, suppress(OSError):
                if not os.fork():
                    _work(forking, asked)
        killed = {worker for worker in killed if not _is_reaped(worker)}


def _is_reaped(worker: int) -> bool:
    try:
        return os.waitpid(worker, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True  # it was a fork of the server before this one


def _work(forking: socket.socket, asked: socket.socket) -> NoReturn:
    """Be a worker, which leads a session, and leave nothing to wait for."""
    try:
        forking.close()
        os.setsid()
        asked.sendall(b"%d\n" % os.getpid())
        asyncio.run(answer_requests(asked))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
