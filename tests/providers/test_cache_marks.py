"""What is marked for a provider's cache, on the wire: a conversation that will be sent again."""

from __future__ import annotations

import json

import pytest

from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, json_answer, openai_answer
from tests.support import Desk

pytestmark = pytest.mark.usefixtures("provider_key", "aws")

MACHINE = """
loopkit: 1
limits: {revisions: 2}
agents:
  writer: {model: MODEL, base_url: URL, KEY, system: Be brief., session: SESSION, price: 1}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: check}
  check:
    validate: line
    by: [{max_chars: 5}]
    transitions: [{guard: valid, target: done}, {revise: write}, {target: failed}]
  done: {final: success, result: line}
  failed: {final: failure}
"""
LONG = "A line that is too long"
CLAUDES = ["anthropic/claude-sonnet-4-5", "openrouter/anthropic/claude-sonnet-4.5",
           "bedrock/anthropic.claude-3-7-sonnet-20250219-v1:0"]  # fmt: skip


def said(model: str, text: str) -> Answer:
    """A reply as the provider sends it."""
    if model.startswith("anthropic/"):
        usage = {"input_tokens": 20, "output_tokens": 10}
        told = {"id": "1", "type": "message", "role": "assistant", "model": "m", "usage": usage,
                "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}  # fmt: skip
        return json_answer(told)
    if model.startswith("bedrock/"):
        usage = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30}
        message = {"role": "assistant", "content": [{"text": text}]}
        told = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
        return json_answer(told)
    return openai_answer(text, prompt_tokens=20, completion_tokens=10, total_tokens=30)


def marks(desk: Desk, server: HostileServer, model: str, session: str) -> list[int]:
    """How many marks each request had."""
    server.queue(*[said(model, LONG)] * 3)
    key = "on_in_doubt: retry" if model.startswith("bedrock/") else f"api_key_env: {KEY_VARIABLE}"
    parts = {"MODEL": model, "URL": server.base_url, "KEY": key, "SESSION": session}
    text = MACHINE
    for name, value in parts.items():
        text = text.replace(name, value)
    desk.play(text)
    bodies = [json.dumps(request.body) for request in server.requests()]
    return [body.count('"cache_control"') + body.count('"cachePoint"') for body in bodies]


CACHING_BY_THEMSELVES = ("openai/gpt-4o-mini", "openrouter/openai/gpt-4o")


@pytest.mark.parametrize(
    ("model", "session", "marked"),
    [
        *((model, "keep", [2, 2, 0]) for model in CLAUDES),
        *((model, "fresh", [0, 0, 0]) for model in CLAUDES),
        *((model, "keep", [0, 0, 0]) for model in CACHING_BY_THEMSELVES),
        (CLAUDES[0], "{keep: 1}", [2, 0, 0]),
    ],
)
def test_what_is_sent_again_is_marked_where_nobody_caches_by_himself(
    desk: Desk, hostile: HostileServer, model: str, session: str, marked: list[int]
) -> None:
    assert marks(desk, hostile, model, session) == marked
