"""Tools over streamable HTTP: who may use them, and messages and clients that mean no good."""

# ruff: noqa: ASYNC110 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx
import pytest

from loopkit.serving.mcp import MOST_SESSIONS
from loopkit.serving.tools.arguments import Caller, ServedTool
from tests.http_site import TOKEN
from tests.mcp_http import (
    ACCEPTED,
    MODES,
    NEWEST,
    Mode,
    ServedTools,
    client_of,
    headers_of,
    message,
    tools_over_http,
    written,
)

LIST = message("tools/list")
CALL = message("tools/call", name="repeat", arguments={"text": "tea"})
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}


class Repeating:
    """A toolbox whose tool repeats what it is told, once it may."""

    instructions = "Say something."

    def __init__(self) -> None:
        self.calls: list[Mapping[str, Any]] = []
        self.may_answer = asyncio.Event()

    @property
    def offered(self) -> Sequence[ServedTool]:
        return [ServedTool("repeat", "Repeats.", {"type": "object"})]

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        self.calls.append(arguments)
        if arguments.get("wait"):
            await self.may_answer.wait()
        if arguments.get("fail"):
            raise RuntimeError("the secret of the house")
        return {"text": arguments.get("text", "")}


@pytest.fixture
async def toolbox() -> Repeating:
    return Repeating()


@pytest.fixture
async def served(toolbox: Repeating) -> AsyncIterator[ServedTools]:
    async with tools_over_http(toolbox) as tools:
        yield tools


@pytest.fixture
async def web(served: ServedTools) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


@pytest.fixture
async def stranger(served: ServedTools) -> AsyncIterator[httpx.AsyncClient]:
    """A client that knows nothing but the address."""
    async with httpx.AsyncClient(headers=ACCEPTED, timeout=60, trust_env=False) as client:
        yield client


async def works(served: ServedTools) -> bool:
    async with client_of(served.url) as client:
        answer = await client.call_tool("repeat", {"text": "tea"})
        return answer.structured_content == {"text": "tea"}


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_either_protocol_lists_and_calls_the_tools(
    served: ServedTools, mode: Mode
) -> None:
    async with client_of(served.url, mode) as client:
        assert (client.protocol_version == NEWEST) is (mode == "auto")
        assert client.instructions == "Say something."
        assert [tool.name for tool in (await client.list_tools()).tools] == ["repeat"]
        answer = await client.call_tool("repeat", {"text": "Grüße, 你好 <&>"})
        assert answer.structured_content == {"text": "Grüße, 你好 <&>"}


async def test_nothing_is_answered_without_the_token(
    served: ServedTools, stranger: httpx.AsyncClient, toolbox: Repeating
) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong-token-wrong-token"},
        {"Cookie": f"loopkit={TOKEN}"},
    ):
        for sent in (LIST, CALL):
            answer = await stranger.post(
                served.url, json=sent, headers={**headers_of(sent), **headers}
            )
            assert answer.status_code == 401, headers
            assert answer.headers["www-authenticate"] == "Bearer"
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/login"), ("GET", "/login")):
            answer = await stranger.request(method, f"{served.url}{path}", headers=headers)
            assert answer.status_code == 401, (method, path)
    root = served.url.removesuffix("/mcp")
    for path in ("/login", "/login/x", "/", "/.well-known/oauth-protected-resource"):
        assert (await stranger.get(f"{root}{path}")).status_code == 401
    assert toolbox.calls == []


async def test_pages_of_other_origins_are_refused_even_with_the_token(
    served: ServedTools, web: httpx.AsyncClient, toolbox: Repeating
) -> None:
    port = served.port
    for origin in (
        "null", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:1", "",
        f"http://localhost:{port}1", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}/",
        f"http://127.0.0.1:{port} http://evil.example", f"http://evil.example:{port}",
    ):  # fmt: skip
        headers = {**headers_of(CALL), "Origin": origin}
        answer = await web.post(served.url, json=CALL, headers=headers)
        assert answer.status_code == 403, origin
        assert "origin" in answer.json()["error"]["message"]
        assert (await web.get(served.url, headers={"Origin": origin})).status_code == 403
    assert toolbox.calls == []
    headers = {**headers_of(CALL), "Origin": f"http://localhost:{port}"}
    assert (await web.post(served.url, json=CALL, headers=headers)).status_code == 200


BODIES: Sequence[tuple[bytes, int]] = [
    (b"{", 400),
    (b"\xff\xfe", 400),
    (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
    (b'{"a": "\\ud800"}', 400),
    (b'{"a": "' + b"x" * 10_000_000 + b'"}', 413),
]


async def test_a_body_that_means_no_good_is_refused(
    served: ServedTools, web: httpx.AsyncClient, toolbox: Repeating
) -> None:
    for content, status in BODIES:
        for headers in ({}, {"MCP-Protocol-Version": NEWEST}):
            answer = await web.post(
                served.url, content=content, headers={**headers, "Content-Type": "application/json"}
            )
            assert answer.status_code == status, content[:100]
    assert toolbox.calls == []
    assert await works(served)


async def test_what_is_json_and_no_message_is_refused(
    served: ServedTools, web: httpx.AsyncClient, toolbox: Repeating
) -> None:
    for body in ([], [CALL, CALL], {}, 7, "tools/call", {**CALL, "method": 7}, {**CALL, "id": []}):
        for headers in ({}, {"MCP-Protocol-Version": NEWEST}):
            answer = await web.post(served.url, json=body, headers=headers)
            assert answer.status_code in (202, 400), body
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {**headers_of(CALL), "Content-Type": kind}
        answer = await web.post(served.url, content=json.dumps(CALL), headers=headers)
        assert answer.status_code == 400
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE"):
        assert (await web.request(method, served.url)).status_code == 405
    for path in ("x", "/..%2flogin", "/../api/runs", "?x=1/../../login"):
        assert (await web.get(f"{served.url}{path}")).status_code in (400, 404), path
    for method in ("GET", "POST", "DELETE"):
        lost = await web.request(method, served.url.removesuffix("mcp"))
        assert lost.status_code == 404
        assert "MCP is spoken at /mcp" in lost.json()["error"]["message"]
    assert toolbox.calls == []
    assert served.said == []
    assert await works(served)


async def hello(served: ServedTools, web: httpx.AsyncClient) -> str:
    """The id of a session by the older protocol."""
    answer = await web.post(served.url, json=HELLO)
    assert answer.status_code == 200
    return str(answer.headers["mcp-session-id"])


async def test_a_session_can_be_neither_made_up_nor_used_after_its_end(
    served: ServedTools, web: httpx.AsyncClient, toolbox: Repeating
) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "repeat"}}
    session = await hello(served, web)
    forged = ["x", "0" * 32, session[:-1], session.upper() + "0", f"{session} ", "\x7f", "a" * 5000]
    for made_up in forged:
        if made_up.strip() == session:
            continue
        headers = {"Mcp-Session-Id": made_up}
        assert (await web.post(served.url, json=call, headers=headers)).status_code == 404
        assert (await web.get(served.url, headers=headers)).status_code == 404
        assert (await web.delete(served.url, headers=headers)).status_code == 404
    assert (await web.post(served.url, json=call)).status_code == 400
    headers = {"Mcp-Session-Id": session}
    assert toolbox.calls == []
    assert (await web.post(served.url, json=call, headers=headers)).status_code == 200
    assert (await web.delete(served.url, headers=headers)).status_code == 200
    assert (await web.post(served.url, json=call, headers=headers)).status_code == 404
    assert len(toolbox.calls) == 1


async def test_a_session_that_asks_nothing_is_forgotten(toolbox: Repeating) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "repeat"}}
    async with (
        tools_over_http(toolbox, session_lasts_s=0.05) as served,
        served.client() as web,
    ):
        headers = {"Mcp-Session-Id": await hello(served, web)}
        # The event loop wakes the server first, however late it is.
        await asyncio.sleep(0.5)
        assert (await web.post(served.url, json=call, headers=headers)).status_code == 404
    assert toolbox.calls == []


async def test_many_clients_at_once_are_all_answered(
    served: ServedTools, toolbox: Repeating, at_once: int
) -> None:
    async def call(number: int) -> None:
        async with client_of(served.url, MODES[number % 2]) as client:
            answer = await client.call_tool("repeat", {"text": str(number), "wait": True})
            assert answer.structured_content == {"text": str(number)}

    calling = asyncio.gather(*(call(number) for number in range(at_once)))
    async with asyncio.timeout(120):
        while len(toolbox.calls) < at_once:
            await asyncio.sleep(0.02)
    toolbox.may_answer.set()
    await calling


async def test_clients_that_vanish_in_the_middle_harm_nobody(
    served: ServedTools, toolbox: Repeating
) -> None:
    whole = written(served, message("tools/call", name="repeat", arguments={"wait": True}))
    for parts in (whole[:20], whole[:-30], whole, whole):
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(connection, parts)
            before = len(toolbox.calls)
            if parts == whole:
                async with asyncio.timeout(60):
                    while len(toolbox.calls) == before:
                        await asyncio.sleep(0.02)
    assert len(toolbox.calls) == 2
    assert await works(served)
    assert served.said == []


async def test_a_server_ends_while_clients_wait_and_read_nothing(toolbox: Repeating) -> None:
    loop = asyncio.get_running_loop()
    call = message("tools/call", name="repeat", arguments={"wait": True})
    asked = {**call, "method": "subscriptions/listen", "params": {**call["params"]}}
    del asked["params"]["name"], asked["params"]["arguments"]
    with socket.socket() as waiting, socket.socket() as listening:
        async with asyncio.timeout(120), tools_over_http(toolbox) as served, served.client() as web:
            for client, sent in ((waiting, call), (listening, asked)):
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", served.port))
                await loop.sock_sendall(client, written(served, sent))
            headers = {"Mcp-Session-Id": await hello(served, web)}
            async with web.stream("GET", served.url, headers=headers) as stream:
                assert stream.status_code == 200
                old = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                       "params": {"name": "repeat", "arguments": {"wait": True}}}  # fmt: skip
                async with web.stream("POST", served.url, json=old, headers=headers) as other:
                    assert other.status_code == 200
                    while len(toolbox.calls) < 2:
                        await asyncio.sleep(0.02)
                    served.server.stop()
                    while served.server.server_state.connections:
                        await asyncio.sleep(0.02)
    assert len(toolbox.calls) == 2


async def test_a_bug_is_told_to_who_runs_the_server_and_not_to_a_client(
    served: ServedTools, capsys: pytest.CaptureFixture[str]
) -> None:
    async with client_of(served.url) as client:
        answer = await client.call_tool("repeat", {"fail": True})
    assert answer.is_error
    assert "secret" not in str(answer.content)
    assert "the secret of the house" in capsys.readouterr().err
    assert await works(served)


async def test_more_sessions_than_there_is_room_for_are_refused_and_the_others_go_on(
    served: ServedTools, web: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    first = await hello(served, web)
    for _ in range(MOST_SESSIONS - 1):
        last = await hello(served, web)
    assert (await web.post(served.url, json=HELLO)).status_code == 503
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "repeat"}}
    headers = {"Mcp-Session-Id": first}
    assert (await web.post(served.url, json=call, headers=headers)).status_code == 200
    # Who needs no session is answered, and room that somebody leaves is there for the next one.
    assert (await web.post(served.url, json=CALL, headers=headers_of(CALL))).status_code == 200
    assert (await web.delete(served.url, headers={"Mcp-Session-Id": last})).status_code == 200
    await hello(served, web)
    # What the library has to say about it would fill the log of whoever runs the server.
    assert [one for one in caplog.records if one.name.startswith("mcp")] == []
