"""`@copilotkit/aimock` of npm as a server that speaks Anthropic's protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.providers.server import Process, Received
from tests.support_node import node_folder

PROGRAM = "node_modules/@copilotkit/aimock/dist/cli.js"
TYPES = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}


class AnthropicMock:
    """aimock; it answers the n-th request with the n-th thing that was queued."""

    model = "anthropic/claude-sonnet-4-5"

    def __init__(self, folder: Path) -> None:
        empty = folder / "nothing.json"
        empty.write_text('{"fixtures": []}', encoding="utf-8")
        program = str(node_folder() / PROGRAM)
        arguments = ("--port", "PORT", "--fixtures", str(empty), "--log-level", "silent")
        self._process = Process(("node", program, *arguments), "/health")
        self._queued = 0
        self.stop = self._process.stop

    @property
    def base_url(self) -> str:
        return self._process.url

    def say(self, *texts: str, finish: str = "stop") -> None:
        usage = {"prompt_tokens": 20, "completion_tokens": 10}
        self.queue(*({"content": text, "finishReason": finish, "usage": usage} for text in texts))

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: int | None = None,
        message: str = "it went wrong",
        code: str = "",
    ) -> None:
        error = {"message": message, "type": code or TYPES.get(status, "api_error")}
        wait = {} if retry_after is None else {"retryAfter": retry_after}
        self.queue(*[{"error": error, "status": status, **wait}] * times)

    def queue(self, *responses: dict[str, Any]) -> None:
        """Responses in aimock's own words."""
        # aimock counts for each fixture the matches since that fixture was added.
        answered = sum(entry["response"]["fixture"] is not None for entry in self._log())
        numbered = enumerate(responses, start=self._queued - answered)
        fixtures = [
            {"match": {"endpoint": "chat", "sequenceIndex": index}, "response": response}
            for index, response in numbered
        ]
        self._process.ask("/__aimock/fixtures", {"fixtures": fixtures})
        self._queued += len(fixtures)

    def requests(self) -> list[Received]:
        """aimock tells the body in OpenAI's form, and no key."""
        return [Received(entry["path"], entry["body"], entry["headers"]) for entry in self._log()]

    def reset(self) -> None:
        self._process.ask("/__aimock/reset", {})
        self._queued = 0

    def _log(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._process.ask("/v1/_requests")
        return entries
