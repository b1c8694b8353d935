"""A gate between the strategies and the model server, the same for all of them.

The model that a request names is the try that it belongs to. The n-th request of a try gets the
temperature and the seed of (kind, task, seed, n), and its tokens are counted. Answers are kept:
strategies that begin with the same prompt begin with the same answer, and pay for it each.
"""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import httpx

TEMPERATURE = 0.8


class Call(NamedTuple):
    text: str
    tokens_in: int
    tokens_out: int
    is_cut: bool


class Try:
    """The calls of one strategy at one task with one seed."""

    def __init__(self, pair: str, max_tokens: int, most_calls: int) -> None:
        self.pair = pair
        self.most_calls = most_calls
        self.max_tokens = max_tokens
        self.calls: list[Call] = []


class Gate:
    def __init__(self, servers: list[str], kept: Path) -> None:
        self._servers = servers
        self._kept = kept
        self._answers: dict[str, dict[str, Any]] = {}
        self._locks = [threading.Semaphore(4) for _ in servers]
        self._lock = threading.Lock()
        self._client = httpx.Client(timeout=1_200, trust_env=False)
        self.tries: dict[str, Try] = {}
        if kept.exists():
            for line in kept.read_text(encoding="utf-8").splitlines():
                row = json.loads(line)
                self._answers[row["key"]] = row["answer"]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        gate = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                status, answer = gate.answer(json.loads(self.rfile.read(size)))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Print nothing for a request."""

        return Handler

    def answer(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer a request of a try: the status, and the body."""
        now = self.tries[asked["model"]]
        if len(now.calls) == now.most_calls:
            return 400, {"error": {"message": "all calls of this try are used", "code": "used"}}
        seed = zlib.crc32(f"{now.pair} {len(now.calls)}".encode())
        request = {
            "model": "local",
            "messages": asked["messages"],
            "temperature": TEMPERATURE,
            "max_tokens": now.max_tokens,
            "seed": seed,
        }
        if form := asked.get("response_format"):
            request["response_format"] = form
        key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        known = self._answers.get(key)
        if known is None:
            known = self._ask(request, int(key, 16) % len(self._servers))
            with self._lock, self._kept.open("a", encoding="utf-8") as file:
                self._answers[key] = known
                file.write(json.dumps({"key": key, "request": request, "answer": known}) + "\n")
        [choice], usage = known["choices"], known["usage"]
        text, is_cut = choice["message"].get("content") or "", choice["finish_reason"] == "length"
        now.calls.append(Call(text, usage["prompt_tokens"], usage["completion_tokens"], is_cut))
        return 200, known

    def _ask(self, request: dict[str, Any], place: int) -> dict[str, Any]:
        url = f"{self._servers[place]}/chat/completions"
        with self._locks[place]:
            try:
                response = self._client.post(url, json=request)
            except httpx.RemoteProtocolError:
                # The server closed a connection that was kept just as this was sent.
                response = self._client.post(url, json=request)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer

    def close(self) -> None:
        self._server.shutdown()
        self._client.close()
