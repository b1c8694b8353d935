"""Real servers of runs on free ports of the loopback, here or as processes, and their clients."""

# ruff: noqa: ASYNC110 - nothing else runs in these tests' event loops

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from loopkit.cli import invoke
from loopkit.language.load import load
from loopkit.serving.access import Access, origins_of
from loopkit.serving.http.server import Site
from loopkit.serving.http.site_server import SiteServer
from loopkit.serving.pages import page_routes
from tests.warm import Process

TOKEN = "a-token-for-tests-only"


def folder_with(**machines: str) -> Any:
    """A fixture: each test of a module is in a folder of its own, with machines by their names."""

    @pytest.fixture(autouse=True)
    def written(own_folder: Path) -> None:
        for name, text in machines.items():
            Path(f"{name}.yaml").write_text(text, encoding="utf-8")

    return written


ASKING = """
loopkit: 1
name: letter
input: {topic: {type: str, default: tea}}
states:
  draft: {render: "About {{ input.topic }}. <script>alert(1)</script>", output: letter, next: ask}
  ask:
    human: Send it?
    show: [letter]
    form: {stamps: {type: int, default: 1}}
    choices: [send, again, drop]
    transitions:
      - {guard: choice == "send", target: sent}
      - {guard: choice == "again", revise: draft, max: 3, feedback: "{{ comment }}"}
      - {target: dropped}
  sent: {final: success, result: letter}
  dropped: {final: failure}
"""
LETTERS = """
loopkit: 1
name: letters
input: {topics: {type: [str], default: [tea, cake]}}
states:
  each: {each: input.topics, as: topic, key: topic, max_items: 5, machine: letter.yaml,
         input: {topic: "{{ topic }}"}, next: done}
  done: {final: success}
"""
SLOW = """
loopkit: 1
name: slow
agents:
  writer:
    command: [sh, -c, "cat; touch begun; until test -e go; do sleep 0.01; done"]
    on_in_doubt: retry
states:
  write: {agent: writer, prompt: "Write.", output: note, next: again, on_error: {content: failed}}
  again:
    agent: writer
    prompt: "Write again."
    output: note
    next: done
    on_error: {content: failed}
  done: {final: success, result: note}
  failed: {final: failure}
"""
"""Works until the file `go` is there, and again after a resume."""
ASKED_IN_DOUBT = SLOW.replace("    on_in_doubt: retry\n", "")
"""The same, where a person decides about a call in doubt."""


@dataclass
class Served:
    """A server, and a client of it."""

    site: Site
    server: SiteServer
    url: str
    client: httpx.AsyncClient
    said: list[str]
    """What the server has said to whoever runs it."""

    async def get(self, path: str, **more: Any) -> Any:
        """The data that a path gives."""
        answer = await self.client.get(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, **body: Any) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def until(self, run: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What is told of a run, once it is so."""
        async with asyncio.timeout(60):
            while not is_so(found := await self.get(f"/api/runs/{run}")):
                await asyncio.sleep(0.02)
        return dict(found)


@asynccontextmanager
async def served(
    state: Path, *machines: Path, may_answer: bool = False, **parts: Any
) -> AsyncIterator[Served]:
    """A server over the journal of a state folder until it is stopped."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        access = Access(TOKEN, origins_of("127.0.0.1", port), cookie=f"loopkit_{port}")
        loaded = [load(path) for path in machines]
        site = Site.open(state, access, said.append, loaded, may_answer=may_answer)
        for name, value in parts.items():
            setattr(site, name, value)
        url = f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with site:
            server = SiteServer(site, page_routes(site))
            serving = asyncio.create_task(server.serve_on(listening))
            try:
                async with httpx.AsyncClient(
                    base_url=url, headers=headers, timeout=60, trust_env=False, verify=False
                ) as client:
                    yield Served(site, server, url, client, said)
            finally:
                server.stop()
                await serving


@dataclass(frozen=True)
class Message:
    """One event of a stream, as a browser reads it."""

    id: str
    name: str
    data: Any


async def messages(lines: AsyncIterator[str]) -> AsyncIterator[Message]:
    """The events of a stream."""
    fields: dict[str, str] = {}
    async for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif not line and "data" in fields:
            yield Message(fields["id"], fields.get("event", ""), json.loads(fields["data"]))
            fields = {}


@asynccontextmanager
async def watching(
    client: httpx.AsyncClient, path: str, last: str = ""
) -> AsyncIterator[AsyncIterator[Message]]:
    """A stream, from behind the last event that was seen."""
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield messages(answer.aiter_lines())


async def all_of(client: httpx.AsyncClient, path: str, last: str = "") -> list[Message]:
    """The events of a stream up to its end, without `ready`."""
    async with watching(client, path, last) as stream:
        return [message async for message in stream if message.name != "ready"]


def seqs(events: Sequence[Message]) -> list[int]:
    """The numbers of events of a run."""
    return [event.data["seq"] for event in events if not event.name]


class Serving:
    """A server in a process of its own."""

    def __init__(self, process: Process, log: Path) -> None:
        self.process = process
        self.log = log
        self.url = self.found(r"serving at (\S+)")

    def found(self, pattern: str) -> str:
        """The group of a pattern in a line that the server has written, or will write soon."""
        until = time.monotonic() + 60
        while (found := re.search(f"{pattern}\n", self.log.read_text())) is None:
            assert time.monotonic() < until
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)
        return found[1]

    def client(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return httpx.Client(
            base_url=self.url, headers=headers, trust_env=False, verify=False, timeout=60
        )

    def until(self, client: httpx.Client, run: str, status: str) -> dict[str, Any]:
        until = time.monotonic() + 60
        while (told := client.get(f"/api/runs/{run}").json())["summary"]["status"] != status:
            assert time.monotonic() < until, told
            time.sleep(0.02)
        return dict(told)


@contextmanager
def serving(
    *argv: str,
    command: Sequence[str] = ("serve",),
    under: tuple[str, ...] = (),
    token: str = TOKEN,
) -> Iterator[Serving]:
    """A server in this folder until it is killed."""
    log = Path("log")
    env = {**os.environ, **({"LOOPKIT_TOKEN": token} if token else {})}
    with Path(os.devnull).open("rb") as nothing, log.open("wb") as told:
        streams = [nothing.fileno(), told.fileno(), told.fileno()]
        line = ["-m", "loopkit", *command, "--port", "0", *argv]
        process = Process(line, streams, env=env, under=under)
    try:
        yield Serving(process, log)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)


def ask(port: int, sent: bytes) -> bytes:
    """What a server sends back until it lets go of the connection; nothing where it only does."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        parts: list[bytes] = []
        try:
            connection.sendall(sent)
            while part := connection.recv(65_536):
                parts.append(part)
        except (ConnectionResetError, BrokenPipeError):
            pass
        return b"".join(parts)


def waiting_run(capsys: pytest.CaptureFixture[str]) -> str:
    """A new run of `letter.yaml` in this folder, which waits for an answer."""
    assert invoke(["run", "letter.yaml", "--output", "jsonl"]) == 5
    return str(json.loads(capsys.readouterr().out.splitlines()[-1])["run"])


def silent(url: str, path: str) -> socket.socket:
    """A client that asks for a stream and reads nothing of it."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    return connection
