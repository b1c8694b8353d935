"""A server of our own for what no well-meant mock does: cut bodies, hangs, HTML, odd headers."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.providers.server import Received

OLLAMA_FACTS = "/api/show"
"""Where LiteLLM asks Ollama about a model, before or after a call; no answer is taken for it."""


@dataclass(frozen=True)
class Answer:
    """What one request gets."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    hang: bool = False
    """Nothing is sent until the server stops."""
    lost: bytes | None = None
    """The connection is cut after these bytes, the header block included if they hold one."""
    reset: bool = False
    """It is cut hard, so that the client's next read fails instead of ending."""


def json_answer(data: Any, status: int = 200, **headers: str) -> Answer:
    """Data as JSON; `retry_after="3"` becomes the header `retry-after: 3`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(json.dumps(data).encode(), status, named)


def openai_answer(text: str, *, finish_reason: str = "stop", **usage: int) -> Answer:
    """A reply as OpenAI's chat endpoint sends it; usage only where it is given."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish_reason,
    }
    reply = {"id": "reply-1", "object": "chat.completion", "created": 1, "model": "some-model"}
    return json_answer({**reply, "choices": [choice], **({"usage": usage} if usage else {})})


class HostileServer:
    """Speaks OpenAI's protocol where it is not told otherwise."""

    model = "openai/gpt-4o-mini"

    def __init__(self) -> None:
        self.waiting: deque[Answer] = deque()
        self.stopping = threading.Event()
        self._received: list[Received] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def say(self, *texts: str, finish: str = "stop") -> None:
        usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        self.queue(*(openai_answer(text, finish_reason=finish, **usage) for text in texts))

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: int | None = None,
        message: str = "it went wrong",
        code: str = "",
    ) -> None:
        error = {"error": {"message": message, "type": None, "param": None, "code": code or None}}
        wait = {} if retry_after is None else {"retry_after": str(retry_after)}
        self.queue(*[json_answer(error, status, **wait)] * times)

    def requests(self) -> list[Received]:
        return list(self._received)

    def queue(self, *answers: Answer) -> None:
        self.waiting.extend(answers)

    def reset(self) -> None:
        self.waiting.clear()
        self._received.clear()

    def take(self, request: Received) -> Answer:
        self._received.append(request)
        if request.path == OLLAMA_FACTS:
            return json_answer({})
        if self.waiting:
            return self.waiting.popleft()
        return json_answer({"error": {"message": "the test queued no answer"}}, 501)

    def stop(self) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    owner: HostileServer
    # Connections that a client keeps open must not keep the test alive.
    daemon_threads = True
    block_on_close = False


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        answer = self.server.owner.take(Received.of(self.path, raw, self.headers.items()))
        if answer.hang:
            self.server.owner.stopping.wait()
            self.close_connection = True
        elif answer.lost is not None:
            self.wfile.write(answer.lost)
            self.close_connection = True
            if answer.reset:
                # Closed without lingering and without a farewell, a connection is reset.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                os.close(self.connection.detach())
        else:
            self._send(answer)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""
