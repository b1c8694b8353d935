"""A model on loopback that answers as a list of steps says, in the four ways that programs ask."""

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SAYS = {
    401: "Incorrect API key provided.",
    429: "Rate limit reached. Please try again later.",
    500: "Internal server error.",
}
NOTE = "first line\nsecond line\n"
WRITERS: dict[str, Callable[[str], Json]] = {
    "Write": lambda path: {"file_path": path, "content": NOTE},
    "write_file": lambda path: {"file_path": path, "content": NOTE},
    "write": lambda path: {"filePath": path, "content": NOTE},
    "create": lambda path: {"path": path, "file_text": NOTE},
    "exec_command": lambda path: {"cmd": f"printf %s {shlex.quote(NOTE)} > {shlex.quote(path)}"},
}
"""The tools with which the programs write a file, and their arguments."""


@dataclass(frozen=True)
class Step:
    """What the model does with one request."""

    text: str = ""
    writes: bool = False
    """Whether it has the note written, instead of saying something."""
    status: int = 200
    retry_after: int | None = None
    cut: bool = False
    """Whether the connection ends in the middle of the answer."""
    pause_s: float = 0.0
    """The time between two pieces of the answer."""
    tokens: tuple[int, int] = (1000, 10)


@dataclass
class Model:
    """Takes one step for each request that offers tools; the last is repeated."""

    steps: Sequence[Step]
    note: Path
    asked: list[str] = field(default_factory=list)
    """The bodies of these requests."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Json) -> Answer:
        tools = list(tools_of(request))
        if not tools:  # it looks for a title, or for the best model
            return Answer(Step("ok", tokens=(0, 0)), None)
        with self.lock:
            step = self.steps[min(len(self.asked), len(self.steps) - 1)]
            self.asked.append(json.dumps(request))
        name = next((name for name in tools if name in WRITERS), "")
        return Answer(step, (name, WRITERS[name](str(self.note))) if step.writes else None)


@dataclass(frozen=True)
class Answer:
    step: Step
    call: tuple[str, Json] | None
    """The tool that is called, and with what."""

    @property
    def pieces(self) -> list[str]:
        words = self.step.text.split()
        return [f"{word} " for word in words[:-1]] + words[-1:]

    @property
    def total(self) -> int:
        return sum(self.step.tokens)


def tools_of(request: Json) -> Iterator[str]:
    for offered in request.get("tools") or ():
        for tool in offered.get("functionDeclarations") or [offered]:
            yield tool.get("function", tool).get("name", "")


def chat(answer: Answer) -> Iterator[Json]:
    """OpenAI's chat completions: copilot, opencode and qwen."""
    ends = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**ends, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in answer.pieces:
        yield chunk({"content": piece})
    if answer.call:
        name, given = answer.call
        function = {"name": name, "arguments": json.dumps(given)}
        call = {"index": 0, "id": f"call_{id(answer)}", "type": "function", "function": function}
        yield chunk({"tool_calls": [call]})
    yield chunk({}, "tool_calls" if answer.call else "stop")
    sent, received = answer.step.tokens
    usage = {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": answer.total}
    yield {**ends, "choices": [], "usage": usage}


def responses(answer: Answer) -> Iterator[Json]:
    """OpenAI's responses: codex."""
    content = [{"type": "output_text", "text": answer.step.text, "annotations": []}]
    item: Json = {"type": "message", "id": "m-1", "role": "assistant", "content": content}
    if answer.call:
        name, given = answer.call
        item = {"type": "function_call", "id": "f-1", "call_id": f"call_{id(answer)}"}
        item |= {"name": name, "arguments": json.dumps(given)}
    begun = {"id": "r-1", "object": "response", "created_at": 1, "status": "in_progress"}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
    for piece in answer.pieces:
        delta = {"output_index": 0, "item_id": "m-1", "content_index": 0, "delta": piece}
        yield {"type": "response.output_text.delta", **delta}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    sent, received = answer.step.tokens
    usage = {"input_tokens": sent, "output_tokens": received, "total_tokens": answer.total}
    ended = {**begun, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": ended}


def message(answer: Answer) -> Json:
    """Anthropic's messages, at once: claude, where a stream was cut."""
    content: list[Json] = [{"type": "text", "text": answer.step.text}]
    if answer.call:
        name, given = answer.call
        call = {"type": "tool_use", "id": f"toolu_{id(answer)}", "name": name, "input": given}
        content = [call]
    sent, received = answer.step.tokens
    return {
        "id": f"msg_{id(answer)}", "type": "message", "role": "assistant", "model": "test-model",
        "content": content, "stop_reason": "tool_use" if answer.call else "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": sent, "output_tokens": received},
    }  # fmt: skip


def messages(answer: Answer) -> Iterator[Json]:
    """Anthropic's messages: claude."""
    whole = message(answer)
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        is_text = block["type"] == "text"
        empty = {**block, **({"text": ""} if is_text else {"input": {}})}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
        if not is_text:
            given = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": given}]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def contents(answer: Answer) -> Iterator[Json]:
    """Google's contents: gemini."""
    sent, received = answer.step.tokens
    usage = {"promptTokenCount": sent, "candidatesTokenCount": received}
    usage |= {"totalTokenCount": answer.total}
    parts: list[Json] = [{"text": piece} for piece in answer.pieces]
    if answer.call:
        parts = [{"functionCall": dict(zip(("name", "args"), answer.call, strict=True))}]
    for number, part in enumerate(parts, 1):
        one: Json = {"index": 0, "content": {"role": "model", "parts": [part]}}
        one |= {"finishReason": "STOP"} if number == len(parts) else {}
        yield {"candidates": [one], "usageMetadata": usage, "modelVersion": "test-model"}


FORMS: tuple[tuple[str, Callable[[Answer], Iterator[Json]]], ...] = (
    ("/chat/completions", chat),
    ("/responses", responses),
    ("/messages", messages),
    ("GenerateContent", contents),
)


def refusal(path: str, step: Step) -> Json:
    error: Json = {"type": "error", "message": SAYS[step.status]}
    error |= {"code": step.status, "status": "FAILED"} if path.endswith("GenerateContent") else {}
    return {"type": "error", "error": error, "retry_after": step.retry_after}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        path = self.path.partition("?")[0]
        form = next((form for end, form in FORMS if path.endswith(end)), None)
        if form is None:
            self._send(404, {"error": {"type": "not_found_error", "message": "not here"}})
            return
        answer = self.model.answer(request)
        if answer.step.status in SAYS:
            self._send(answer.step.status, refusal(path, answer.step))
        elif form is messages and not request.get("stream"):
            self._send(200, message(answer))
        else:
            with suppress(OSError):  # a program that was ended hangs up
                self._stream(form(answer), answer.step)

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "test-model", "object": "model"}]})

    def _stream(self, events: Iterator[Json], step: Step) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        if step.cut:
            self.send_header("content-length", "1000000")
        self.end_headers()
        self.close_connection = True
        listed = list(events)
        for event in listed[: len(listed) // 2] if step.cut else listed:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            time.sleep(step.pause_s)

    def _send(self, status: int, body: Json) -> None:
        written = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(written)))
        if wait := body.get("retry_after"):
            self.send_header("retry-after", str(wait))
        self.end_headers()
        self.wfile.write(written)


def serve(model: Model) -> ThreadingHTTPServer:
    """A server that plays the model in the background."""
    handler = type("Playing", (Handler,), {"model": model})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
