"""`llmock` of PyPI as an OpenAI-compatible server that nobody here wrote."""

from __future__ import annotations

import sys
from typing import Any

from tests.providers.server import Process, Received

START = (sys.executable, "-m", "llmock.cli", "serve", "--port", "PORT", "--log-level", "error")


class OpenAIMock:
    """llmock; its verdict says what it thinks of the client."""

    model = "openai/gpt-4o-mini"

    def __init__(self, *options: str) -> None:
        """`options` are those of `llmock serve`."""
        self._process = Process((*START, *options), "/health")
        self.stop = self._process.stop

    @property
    def base_url(self) -> str:
        return f"{self._process.url}/v1"

    def say(self, *texts: str, finish: str = "stop") -> None:
        self.queue(*({"type": "reply", "text": text, "finish_reason": finish} for text in texts))

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: float | None = None,
        message: str = "it went wrong",
        code: str = "",
    ) -> None:
        """As every server fails; without `retry_after` llmock asks for one second by itself."""
        failure = {"status": status, "times": times, "retry_after": retry_after}
        self.queue({"type": "fail", **failure, "message": message, "code": code or None})

    def queue(self, *behaviors: dict[str, Any]) -> None:
        """Behaviours in llmock's own words, such as `{"type": "delay", "seconds": 2}`.

        Each request takes the first one of every type, but a failure alone.
        """
        self._process.ask("/_llmock/scenario", {"behaviors": list(behaviors)})

    def requests(self) -> list[Received]:
        """llmock keeps no headers."""
        return [Received(record["path"], record["body"]) for record in self.records()]

    def records(self) -> list[dict[str, Any]]:
        """llmock's own records: `status`, `started_at` and `ended_at` in seconds, `retry_after`."""
        records: list[dict[str, Any]] = self._process.ask("/_llmock/requests")["requests"]
        return records

    def verdict(self) -> dict[str, Any]:
        """How the client behaved: `passed`, `calls`, `attempts` and `findings`."""
        verdict: dict[str, Any] = self._process.ask("/_llmock/verdict")
        return verdict

    def reset(self) -> None:
        self._process.ask("/_llmock/reset", {})
