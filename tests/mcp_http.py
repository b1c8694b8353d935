"""A real server of tools over streamable HTTP on a free port, and clients that have its token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from socket import SO_SNDBUF, SOL_SOCKET, create_server
from typing import Any, Literal

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from loopkit.serving.access import Access, origins_of
from loopkit.serving.mcp import PATH, StreamableServer
from loopkit.serving.tools.arguments import Toolbox
from tests.http_site import TOKEN

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
"""Of the protocol: without a handshake, and with one."""
NEWEST = "2026-07-28"
MACHINES = ("mcp", "machines", "--http")
"""The command that serves machines over HTTP."""
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ACCEPTED = {"Accept": "application/json, text/event-stream"}


@dataclass
class ServedTools:
    """A server, and what it has said to whoever runs it."""

    server: StreamableServer
    url: str
    said: list[str]

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].partition("/")[0])

    def client(self) -> httpx.AsyncClient:
        """One that sends what it is told to, and has the token."""
        return httpx.AsyncClient(headers={**BEARER, **ACCEPTED}, timeout=60, verify=False)


@asynccontextmanager
async def tools_over_http(
    toolbox: Toolbox, *, buffer_bytes: int = 0, **options: Any
) -> AsyncIterator[ServedTools]:
    """A server of the tools until it is stopped; `buffer_bytes` wait for a client at most."""
    said: list[str] = []
    with create_server(("127.0.0.1", 0)) as listening:
        if buffer_bytes:
            listening.setsockopt(SOL_SOCKET, SO_SNDBUF, buffer_bytes)
        port = listening.getsockname()[1]
        access = Access(TOKEN, origins_of("127.0.0.1", port), has_pages=False)
        server = StreamableServer(toolbox, access, said.append, lambda: None, **options)
        serving = asyncio.create_task(server.serve_on(listening))
        try:
            yield ServedTools(server, f"http://127.0.0.1:{port}{PATH}", said)
        finally:
            server.stop()
            await serving


@asynccontextmanager
async def client_of(url: str, mode: Mode = "auto", **more: Any) -> AsyncIterator[Client]:
    """The client of the `mcp` package, which speaks one of the two protocols."""
    async with (
        httpx2.AsyncClient(headers=BEARER, timeout=None, verify=False) as web,
        Client(streamable_http_client(url, http_client=web), mode=mode, **more) as client,
    ):
        yield client


def message(method: str, **params: Any) -> dict[str, Any]:
    """A message of the newer protocol, which stands for itself."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


def headers_of(sent: Mapping[str, Any]) -> dict[str, str]:
    """The headers that go with a message of the newer protocol."""
    name = sent["params"].get("name")
    named = {} if name is None else {"Mcp-Name": name}
    return {"MCP-Protocol-Version": NEWEST, "Mcp-Method": sent["method"], **named}


def written(served: ServedTools, sent: Mapping[str, Any]) -> bytes:
    """A message of the newer protocol as a whole request."""
    body = json.dumps(sent).encode()
    headers = {
        "Host": f"127.0.0.1:{served.port}",
        "Content-Type": "application/json",
        "Content-Length": len(body),
        **BEARER,
        **ACCEPTED,
        **headers_of(sent),
    }
    lines = ["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
