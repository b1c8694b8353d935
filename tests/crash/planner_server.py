"""A model that calls tools, behind OpenAI's protocol: what it says follows from what it is sent.

So every request that is made again has the same answer, however often its asker was killed. What
it receives is counted and kept, and llmock's own words (`/_llmock/…`) make it slow or fail.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
BAD, FIRST, SECOND = "A title.", "Plan one.", "Plan two."
CALLS: tuple[tuple[Sequence[tuple[str, str]], ...], ...] = (
    ((("note", "a"), ("check", BAD)), (("send", "b"),), (("check", FIRST),)),
    ((("send", "c"), ("check", SECOND), ("nothing", "d")),),
)
"""By revision, round for round: the tools that it calls, and with what; then it answers."""


def said(messages: Sequence[Message]) -> Message:
    """The next message of the model."""
    prompts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    rounds = CALLS[min(len(prompts), len(CALLS)) - 1]
    made = sum(message["role"] == "assistant" for message in messages[prompts[-1] :])
    if made >= len(rounds):
        return {"role": "assistant", "content": (FIRST, SECOND)[len(prompts) - 1]}
    calls = [
        {"id": f"call_{len(messages)}_{number}", "type": "function", "function": function}
        for number, function in enumerate(map(_function, rounds[made]))
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _function(call: tuple[str, str]) -> dict[str, str]:
    name, word = call
    arguments = {"draft" if name == "check" else "word": word}
    return {"name": name, "arguments": json.dumps(arguments)}


class PlannerServer:
    """The model, and what it has received."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.behaviors: list[dict[str, Any]] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, kind: str) -> dict[str, Any] | None:
        """What is to happen to the next request, if it is of this kind."""
        for behavior in self.behaviors:
            if behavior["type"] == kind and behavior["times"] > 0:
                behavior["times"] -= 1
                return behavior
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: PlannerServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever is killed while he waits hears no answer."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        model = self.server.owner
        pending = [behavior for behavior in model.behaviors if behavior["times"] > 0]
        told: dict[str, Any] = {"count": len(model.bodies), "bodies": model.bodies}
        self._send({"pending": pending} if self.path == "/_llmock/scenario" else told)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        model = self.server.owner
        match self.path:
            case "/_llmock/reset":
                model.bodies, model.behaviors = [], []
                self._send({})
            case "/_llmock/scenario":
                model.behaviors += json.loads(body)["behaviors"]
                self._send({})
            case _:
                model.bodies.append(body)
                self._answer(json.loads(body)["messages"])

    def _answer(self, messages: Sequence[Message]) -> None:
        model = self.server.owner
        if (failure := model.take("fail")) is not None:
            self._send({"error": {"message": failure["message"]}}, failure["status"])
            return
        if (delay := model.take("delay")) is not None:
            time.sleep(delay["seconds"])
        message = said(messages)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        reply = {"id": "reply", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
        self._send({**reply, "choices": [choice], "usage": usage})

    def _send(self, data: object, status: int = 200) -> None:
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
