"""The gate of a server, request by request as bytes: names, origins, tokens, paths and methods."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest

from loopkit.serving.access import MOST_SESSIONS, Access, origins_of
from tests.http_site import ASKING, TOKEN, Served, ask, served, waiting_run

STATE = Path(".loopkit")
BEARER = f"Authorization: Bearer {TOKEN}"
JSON = "Content-Type: application/json"
ANSWER = '{"choice": "send"}'


@pytest.fixture(autouse=True)
def run(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """A run that waits for an answer."""
    Path("letter.yaml").write_text(ASKING, encoding="utf-8")
    return waiting_run(capsys)


@dataclass
class Door:
    """A server that may answer, and what it says to bytes."""

    site: Served
    port: int
    cookie: str
    """The header of a browser that has signed in."""

    @property
    def host(self) -> str:
        return f"Host: 127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"Origin: http://127.0.0.1:{self.port}"

    async def ask(self, request: str, *lines: str, body: str = "", host: str | None = None) -> int:
        """The status of an answer; 0 where the server only lets go of the connection."""
        return int((await self.answer(request, *lines, body=body, host=host))[9:12] or 0)

    async def answer(
        self, request: str, *lines: str, body: str = "", host: str | None = None
    ) -> bytes:
        """All that the server sends."""
        length = [f"Content-Length: {len(body)}"] if body else []
        first = [f"{request} HTTP/1.1", self.host if host is None else host]
        head = [line for line in (*first, *lines, *length, "Connection: close") if line]
        return await self.sent("\r\n".join([*head, "", body]))

    async def sent(self, text: str) -> bytes:
        return await asyncio.to_thread(ask, self.port, text.encode("latin-1"))


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with served(STATE, Path("letter.yaml"), may_answer=True) as site:
        port = int(site.url.rpartition(":")[2])
        session = site.site.access.sign_in()
        yield Door(site, port, f"Cookie: loopkit_{port}={session}")


async def test_a_name_of_the_server_is_taken_to_the_letter_and_once(door: Door) -> None:
    port = door.port
    for name, status in {
        f"127.0.0.1:{port}": 200, f"localhost:{port}": 200, f"LOCALHOST:{port}": 200,
        f"[::1]:{port}": 200,
        "127.0.0.1": 421, "localhost": 421, "[::1]": 421, "::1": 421, f"::1:{port}": 421,
        f"localhost.:{port}": 421, f"localhost:{port}.": 421, f"localhost:0{port}": 421,
        f"127.0.0.2:{port}": 421, f"127.1:{port}": 421, f"2130706433:{port}": 421,
        f"[0:0:0:0:0:0:0:1]:{port}": 421, f"evil.example:{port}": 421, "evil.example": 421,
        f"localhost:{port}@evil.example": 421, f"x.localhost:{port}": 421, "localhost:1": 421,
        f"127.0.0.1.evil.example:{port}": 421, f"user@localhost:{port}": 421, "": 421,
    }.items():  # fmt: skip
        assert await door.ask("GET /api/runs", BEARER, host=f"Host: {name}") == status, name
        # What is open to everybody is not open under another name, either.
        opened = await door.ask("GET /login", host=f"Host: {name}")
        assert opened == status, name
    assert await door.ask("GET /api/runs", BEARER, host="") == 400
    assert await door.ask("GET /api/runs", BEARER, door.host) == 400
    assert await door.ask("GET /api/runs", BEARER, "Host: evil.example") == 400
    old = await door.sent(f"GET /api/runs HTTP/1.0\r\n{BEARER}\r\n\r\n")
    assert old.startswith(b"HTTP/1.1 421")


async def test_a_name_that_a_proxy_forwards_counts_for_nothing(door: Door) -> None:
    for line in (
        f"X-Forwarded-Host: 127.0.0.1:{door.port}", f"Forwarded: host=127.0.0.1:{door.port}",
        "X-Original-URL: /login", "X-Rewrite-URL: /login", "X-Forwarded-For: 127.0.0.1",
        "X-HTTP-Method-Override: GET",
    ):  # fmt: skip
        assert await door.ask("GET /api/runs", BEARER, line, host="Host: evil.example") == 421
        assert await door.ask("GET /api/runs", line) == 401
        assert await door.ask("POST /logout", line, door.cookie) == 403


async def test_an_origin_is_compared_whole_on_whatever_changes_something(
    door: Door, run: str
) -> None:
    port, path = door.port, f"POST /api/runs/{run}/answer"
    for origin in (
        None, "", "null", "http://127.0.0.1", "http://localhost", f"https://127.0.0.1:{port}",
        f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}0", f"http://127.0.0.1:{port}x",
        f"http://127.0.0.1:{port}.evil.example", "http://127.0.0.1:80",
        f"HTTP://127.0.0.1:{port}", f"127.0.0.1:{port}", f"http://user@127.0.0.1:{port}",
        f"http://evil.example:{port}", f"http://[::1]:{port}0", "file://", "chrome-extension://x",
        f"http://evil.example http://127.0.0.1:{port}",
    ):  # fmt: skip
        lines = [door.cookie, JSON, *([] if origin is None else [f"Origin: {origin}"])]
        assert await door.ask(path, *lines, body=ANSWER) == 403, origin
        for other in (
            "POST /logout", "POST /login", "DELETE /api/runs", "PUT /", "PATCH /api",
            "POST /api/runs", f"POST /api/runs/{run}/cancel", "POST /start/letter",
            *(f"POST /runs/{run}/{form}" for form in ("answer", "deliver", "resume", "cancel")),
        ):  # fmt: skip
            assert await door.ask(other, *lines) == 403, (other, origin)
    # Two of them are none.
    assert await door.ask(path, door.cookie, JSON, door.origin, door.origin, body=ANSWER) == 400
    assert await door.ask(path, door.cookie, JSON, f"Referer: http://127.0.0.1:{port}/") == 403
    # The right one without the cookie is nobody.
    assert await door.ask(path, JSON, door.origin, body=ANSWER) == 401
    assert (await door.site.get(f"/api/runs/{run}"))["questions"]
    assert await door.ask(path, door.cookie, JSON, door.origin, body=ANSWER) == 200


async def test_what_only_reads_needs_no_origin_and_a_program_with_the_token_none_at_all(
    door: Door, run: str
) -> None:
    assert await door.ask("GET /api/runs", door.cookie) == 200
    assert await door.ask("GET /api/runs", door.cookie, "Origin: http://evil.example") == 200
    path = f"POST /api/runs/{run}/answer"
    assert await door.ask(path, BEARER, JSON, "Origin: null", body=ANSWER) == 200


async def test_a_token_is_named_in_one_way(door: Door) -> None:
    for line, status in {
        BEARER: 200, f"authorization: bearer {TOKEN}": 200,
        f"Authorization: BEARER   {TOKEN} ": 200,
        f"Authorization: Bearer {TOKEN.upper()}": 401, f"Authorization: Bearer {TOKEN}x": 401,
        f"Authorization: Bearer {TOKEN[:-1]}": 401, "Authorization: Bearer ": 401,
        "Authorization: Bearer": 401, f"Authorization: {TOKEN}": 401,
        f"Authorization: Basic {TOKEN}": 401, f"Authorization: Bearer{TOKEN}": 401,
        f"Authorization: Bearer {TOKEN},{TOKEN}": 401, "Authorization: Bearer \xfc\xff": 401,
        f"Proxy-Authorization: Bearer {TOKEN}": 401, f"X-Api-Key: {TOKEN}": 401,
        f"Cookie: loopkit_{door.port}={TOKEN}": 401,
    }.items():  # fmt: skip
        assert await door.ask("GET /api/runs", line) == status, line
    # What is none is not made good by a cookie, and two are refused.
    for line in (f"Authorization: Basic {TOKEN}", f"Authorization: {TOKEN}"):
        assert await door.ask("GET /api/runs", line, door.cookie) == 401
    assert await door.ask("GET /api/runs", "Authorization: Bearer wrong", door.cookie) == 401
    assert await door.ask("GET /api/runs", "Authorization: Bearer wrong", BEARER) == 400
    for query in (f"token={TOKEN}", f"access_token={TOKEN}", f"authorization=Bearer%20{TOKEN}"):
        assert await door.ask(f"GET /api/runs?{query}") == 401


async def test_a_cookie_is_the_servers_own_and_ends_when_somebody_signs_out(door: Door) -> None:
    name, _, value = door.cookie.removeprefix("Cookie: ").partition("=")
    for line, status in {
        door.cookie: 200, f"Cookie: a=b; {name}={value}; c=d": 200,
        f"Cookie: {name}={value}x": 401, f"Cookie: {name}=": 401, f"Cookie: {name}": 401,
        f"Cookie: {name}x={value}": 401, f"Cookie: loopkit={value}": 401,
        f"Cookie: {name.upper()}={value}": 401, f"Cookie: {value}": 401, "Cookie: ;;=;": 401,
    }.items():  # fmt: skip
        assert await door.ask("GET /api/runs", line) == status, line
    assert await door.ask("POST /logout", door.cookie, door.origin) == 303
    assert await door.ask("GET /api/runs", door.cookie) == 401


async def test_the_cookie_has_every_attribute_that_keeps_others_off(door: Door) -> None:
    form = "Content-Type: application/x-www-form-urlencoded"
    answer = await door.answer("POST /login", form, door.origin, body=f"token={TOKEN}")
    [line] = [one for one in answer.decode().split("\r\n") if one.startswith("set-cookie:")]
    pair, *attributes = line.removeprefix("set-cookie: ").split("; ")
    assert pair.startswith(f"loopkit_{door.port}=")
    assert len(pair.partition("=")[2]) >= 40
    assert set(attributes) == {"HttpOnly", "Path=/", "SameSite=strict"}
    other = await door.answer("POST /login", form, door.origin, body=f"token={TOKEN}")
    assert pair not in other.decode()
    assert TOKEN not in answer.decode()


def test_as_many_browsers_as_there_may_be_are_signed_in_and_the_first_goes() -> None:
    access = Access(TOKEN, origins_of("127.0.0.1", 1))
    sessions = [access.sign_in() for _ in range(MOST_SESSIONS + 1)]
    assert not access.is_signed_in(f"loopkit={sessions[0]}")
    assert all(access.is_signed_in(f"loopkit={one}") for one in sessions[1:])


async def test_a_link_is_used_up_by_who_follows_it_and_by_nobody_who_only_looks(door: Door) -> None:
    link = door.site.site.access.new_link()
    assert await door.ask(f"HEAD {link}") == 200
    assert await door.ask(f"POST {link}", door.origin) == 405
    assert await door.ask(f"GET {link}x") == 401
    assert await door.ask(f"GET {link}", host="Host: evil.example") == 421
    assert TOKEN not in link
    followed = await door.answer(f"GET {link}")
    assert followed.startswith(b"HTTP/1.1 303")
    [cookie] = re.findall(r"set-cookie: ([^;]+);", followed.decode())
    # Browsers ask twice for what they load ahead.
    for path, status in (("/api/runs", 200), (link, 303)):
        assert await door.ask(f"GET {path}", f"Cookie: {cookie}") == status
    again = await door.answer(f"GET {link}")
    assert again.startswith(b"HTTP/1.1 401")
    assert b"set-cookie" not in again


async def test_what_is_open_to_everybody_opens_nothing_else(door: Door, run: str) -> None:
    for path in (
        "/api/runs", "//api/runs", "/api//runs", "/./api/runs", "/login/../api/runs",
        "/login/%2e%2e/api/runs", "/login/..%2fapi%2fruns", "/login//api/runs", "/login/api/runs",
        "/login%2f..%2fapi/runs", "/LOGIN/../api/runs", "/loginx", "/assets/../api/runs",
        "/assets/%2e%2e/api/runs", "/assets/..%2f..%2f.loopkit%2fjournal.db",
        "/assets/../../.loopkit/journal.db", "/assets//etc/passwd", "/assets/%00", "/assetsx",
        f"/login/..;/api/runs/{run}", "/login\\..\\api\\runs", "/login/%252e%252e/api/runs",
        "/api/runs;/login/", "/api/runs?/login/", "/api/runs#/login/",
        f"http://127.0.0.1:{door.port}/api/runs", "http://evil.example/login/", "*",
    ):  # fmt: skip
        answer = await door.answer(f"GET {path}")
        # Behind the doors that are open there is nothing of that name; all others are closed.
        is_open = unquote(path).startswith(("/login/", "/assets/"))
        allowed = (b"401", b"404") if is_open else (b"400", b"401")
        assert answer[9:12] in allowed, (path, answer[:80])
        assert run.encode() not in answer.partition(b"\r\n\r\n")[2]
        assert b"SQLite" not in answer
        assert b"root:" not in answer
    assert door.site.said == []


async def test_methods_that_nobody_needs_do_nothing(door: Door, run: str) -> None:
    for method in ("OPTIONS", "TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND", "get"):
        for path in ("/api/runs", f"/api/runs/{run}", "/login", "/"):
            assert await door.ask(f"{method} {path}") in (400, 401, 403), method
            assert await door.ask(f"{method} {path}", door.cookie) in (400, 403), method
            answer = await door.answer(f"{method} {path}", BEARER, "X-Secret: sent-back")
            assert answer[9:12] in (b"400", b"404", b"405"), (method, path)
            assert b"sent-back" not in answer
            assert b"access-control" not in answer.lower()
    assert await door.ask("HEAD /api/runs") == 401
    head = await door.answer("HEAD /api/runs", BEARER)
    assert head.startswith(b"HTTP/1.1 200")
    assert head.endswith(b"\r\n\r\n")
    assert (await door.site.get(f"/api/runs/{run}"))["questions"]


async def test_a_request_that_two_readers_could_take_for_two_is_refused(
    door: Door, run: str
) -> None:
    hidden = f"POST /api/runs/{run}/cancel HTTP/1.1\r\n{door.host}\r\n{BEARER}\r\n{JSON}\r\n"
    hidden += "Content-Length: 2\r\n\r\n{}"
    chunked = "Transfer-Encoding: chunked"
    for lines in (
        [f"Content-Length: {5 + len(hidden)}", chunked],
        [chunked, f"Content-Length: {5 + len(hidden)}"],
        ["Transfer-Encoding: chunked, identity", "Content-Length: 0"],
        ["Transfer-Encoding:\x0bchunked", "Content-Length: 0"],
        ["Transfer-Encoding : chunked"], [" Content-Length: 0"],
        ["Content-Length: 0", f"Content-Length: {len(hidden)}"],
        ["Content-Length: +0"], ["Content-Length: 0x0"], ["Content-Length: 0, 0x1"],
    ):  # fmt: skip
        head = "\r\n".join(["GET /api/runs HTTP/1.1", door.host, BEARER, *lines, "", ""])
        answer = await door.sent(f"{head}0\r\n\r\n{hidden}")
        assert answer.count(b"HTTP/1.1 ") <= 1, lines
        assert answer[9:10] in (b"4", b"5"), (lines, answer[:60])
    # Lines that end in a bare line feed end no header for anybody else.
    assert await door.ask("GET /api/runs", f"X: y\n{BEARER}\n") in (200, 400)
    assert (await door.site.get(f"/api/runs/{run}"))["questions"]


async def test_every_answer_says_what_a_browser_may_do_with_it_refusals_included(
    door: Door,
) -> None:
    for request, lines in (
        ("GET /api/runs", []), ("GET /api/runs", [BEARER]), ("GET /nowhere", [BEARER]),
        ("POST /logout", [door.cookie]), ("GET /login", []), ("GET /", ["Accept: text/html"]),
        ("GET /api/runs", [BEARER, BEARER]),
    ):  # fmt: skip
        head = (await door.answer(request, *lines)).partition(b"\r\n\r\n")[0].decode().lower()
        for needed in (
            "content-security-policy: default-src 'none'", "frame-ancestors 'none'",
            "x-content-type-options: nosniff", "x-frame-options: deny", "cache-control: no-store",
            "referrer-policy: same-origin", "cross-origin-resource-policy: same-origin",
            "cross-origin-opener-policy: same-origin", "permissions-policy:",
        ):  # fmt: skip
            assert needed in head, (request, needed)
        assert "server:" not in head
        assert "access-control-allow-origin" not in head
        assert "unsafe" not in head


async def test_what_is_refused_is_not_read_any_further(door: Door) -> None:
    for lines in ([], ["Authorization: Bearer wrong"], [door.cookie]):
        answer = await door.answer("POST /api/runs", JSON, *lines, body="{" * 1_000_000)
        assert answer[9:12] in (b"401", b"403", b"")
        assert b"connection: close" in answer.lower() or not answer
