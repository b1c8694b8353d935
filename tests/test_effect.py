"""The benchmark that asks a real model, here played by a server that says what is written here."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

RIGHT = "An old lamp hung over the door."
WRONG = "A lantern gives light to those who walk at night."
MISTAKE = "The word 'light' stands in it."


def answer(asked: dict[str, Any]) -> str:
    """A model that heeds what it is told only where its answer does not stand in front of it."""
    whole = json.dumps(asked["messages"])
    return RIGHT if MISTAKE in whole and WRONG not in whole else WRONG


@pytest.fixture
def model() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            message = {"role": "assistant", "content": answer(asked)}
            usage = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            said = {"id": "1", "object": "chat.completion", "created": 1, "model": "local"}
            body = json.dumps({**said, "choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_a_revision_is_as_good_as_what_the_model_is_told(model: str, tmp_path: Path) -> None:
    strategies = "loopkit,show,hand,again,avoid"
    command = [sys.executable, "benchmarks/effect/run.py", "--out", str(tmp_path), "--kinds", "C"]
    command += ["--tasks", "1", "--seeds", "1", "--strategies", strategies]

    def run(*more: str) -> str:
        done = subprocess.run(
            [*command, *more], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run("--server", model)
    tries = [json.loads(line) for line in (tmp_path / "tries.jsonl").read_text().splitlines()]
    assert {row["strategy"]: (row["solved"], row["calls"]) for row in tries} == {
        "loopkit": (True, 2),
        "avoid": (True, 2),
        "show": (True, 3),
        "hand": (False, 4),
        "again": (False, 4),
    }, [row["error"] for row in tries]
    # What is measured is not measured again, and the table needs no server.
    assert run() == first
    assert "| C | `hand` | 1 | 0 % | 0 % | +100 (1) |" in first
