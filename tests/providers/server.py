"""What the test servers have in common: what they are told to say, and what they were sent."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import Any, Protocol

from tests.waiting import LONG_S, until

TRIES = 5
PORTS = range(10_000, 32_000)
"""Which a system gives to nobody who names none, as clients do all the time."""


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    path: str
    body: Any
    """The parsed JSON."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case; empty where the server keeps none."""

    @classmethod
    def of(cls, path: str, raw: bytes, headers: Iterable[tuple[str, str]]) -> Received:
        named = {name.lower(): value for name, value in headers}
        return cls(path, json.loads(raw or b"null"), named)

    @property
    def prompt(self) -> str:
        """The text that was sent last."""
        return self.texts[-1]

    @property
    def texts(self) -> list[str]:
        """The text of each message."""
        contents = (message["content"] for message in self.body["messages"])
        return [c if isinstance(c, str) else "".join(part["text"] for part in c) for c in contents]


class ModelServer(Protocol):
    """A server that plays a provider: what is queued first is answered first."""

    model: str
    """A LiteLLM model string that speaks its protocol."""

    @property
    def base_url(self) -> str:
        """What a machine's `base_url` is set to."""
        ...

    def say(self, *texts: str, finish: str = "stop") -> None:
        """Queue a reply for each text; `finish` is OpenAI's finish reason."""
        ...

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: int | None = None,
        message: str = "it went wrong",
        code: str = "",
    ) -> None:
        """Queue this many errors in the provider's own form."""
        ...

    def requests(self) -> list[Received]:
        """Everything that was really received since the last reset, in order."""
        ...

    def reset(self) -> None:
        """Forget what is queued and what was received."""
        ...


class Process:
    """A server in a process of its own on a free port, spoken to over HTTP."""

    def __init__(self, command: Sequence[str], health: str) -> None:
        # Until the server has its port, somebody else may take it.
        for _ in range(TRIES):
            if self._has_started(command, health):
                return
        self._output.seek(0)
        raise AssertionError(f"the server did not start: {self._output.read()[-2000:]!r}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, data: Any = None) -> Any:
        """The JSON at a path, posted to where there is data; 4xx raises."""
        body = None if data is None else json.dumps(data).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body)) as response:
            return json.load(response)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(LONG_S)
        self._output.close()

    def _has_started(self, command: Sequence[str], health: str) -> bool:
        self.port = _free_port()
        # A file, because a pipe that nobody reads would stop the server once it is full.
        self._output = TemporaryFile()  # noqa: SIM115 - closed by `stop`
        self._process = subprocess.Popen(
            [part.replace("PORT", str(self.port)) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )
        until(lambda: self._process.poll() is not None or self._answers(health), "its start")
        return self._process.poll() is None

    def _answers(self, health: str) -> bool:
        try:
            self.ask(health)
        except (urllib.error.URLError, ConnectionError):
            return False
        return True


def _free_port() -> int:
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
