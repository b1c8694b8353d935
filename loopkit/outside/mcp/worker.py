"""One connection to an MCP server, in a process of its own:
`python -m loopkit.outside.mcp.worker`, whose stdin is a socket.

On it a worker first writes an empty line, when it can be asked. Then it is asked in lines of JSON
and answers each with one: first where the server is, then what it offers or a call of a tool. An
answer has what was asked for, or a `fault` and whether that is `transient`. The end of the input
closes the connection.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from loopkit.outside.mcp.connection import ServerFailed
from loopkit.outside.mcp.session import Session

CLOSING_S = 3.0
"""How long the server may take to end by itself."""


async def answer_requests(sock: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=100_000_000)
    session = Session()
    try:
        writer.write(b"\n")
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
    except ServerFailed as fault:
        return {"fault": fault.message, "transient": fault.transient}
    except Exception as error:  # noqa: BLE001 - a server may make the client raise anything
        return {"fault": f"{type(error).__name__}: {error}"[:1000], "transient": True}


def main() -> None:
    """Answer requests on stdin until it is closed, and leave nothing to wait for."""
    # The answers contain what the client would log about a server.
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(answer_requests(socket.socket(fileno=0)))
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
