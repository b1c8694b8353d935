"""Answers that come and that nobody can read: how often they are asked for, and booked at what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.agents.model.failure_cause import MOST_KEPT_BYTES, Received, tokens_in
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from loopkit.views.amounts import usage_text
from tests.providers.conftest import KEY, KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, json_answer
from tests.support import Desk, Played, scenario

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
agents:
  writer:
    model: MODEL
    base_url: URL
    api_key_env: VARIABLE
    params: {max_tokens: 50}
    price: 1000
    retry: {attempts: 5, backoff: 10ms, max_backoff: 2s}
states:
  write:
    {agent: writer, prompt: Write a line., output: line, on_error: {content: no_line}, next: done}
  done: {final: success, result: line}
  no_line: {final: failure}
"""
CLAUDE = "anthropic/claude-sonnet-4-5"
COUNTED = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 35}
BROKEN = Answer(b'{"choices": [{"mess')


def openai(**parts: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "A line"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": COUNTED}
    return {**reply, "choices": [choice], **parts}


def play(desk: Desk, server: HostileServer, model: str = HostileServer.model) -> Played:
    parts = {"MODEL": model, "URL": server.base_url, "VARIABLE": KEY_VARIABLE}
    text = MACHINE
    for name, value in parts.items():
        text = text.replace(name, value)
    return desk.play(text)


def test_it_is_asked_for_once_more_and_not_again(hostile: HostileServer, desk: Desk) -> None:
    hostile.queue(*[BROKEN] * 5)
    played = play(desk, hostile)
    assert len(hostile.requests()) == 2
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "transient"
    assert suspended.message.startswith("the answer is not JSON")
    assert suspended.message.endswith("(2 tries)")


def test_a_server_that_is_down_in_between_does_not_make_it_more(
    hostile: HostileServer, desk: Desk
) -> None:
    down = json_answer({"error": {"message": "busy"}}, 503)
    hostile.queue(down, BROKEN, down, BROKEN, BROKEN)
    assert play(desk, hostile).outcome is None
    assert len(hostile.requests()) == 4


def test_a_better_answer_to_the_second_try_is_used(hostile: HostileServer, desk: Desk) -> None:
    hostile.queue(BROKEN)
    hostile.say("A line")
    played = play(desk, hostile)
    assert (played.outcome, len(hostile.requests())) == ("done", 2)


def test_a_run_that_is_resumed_asks_twice_again(hostile: HostileServer, durable: Desk) -> None:
    hostile.queue(*[BROKEN] * 9)
    played = play(durable, hostile)
    durable.resume(played.state.run)
    assert len(hostile.requests()) == 4


@pytest.mark.parametrize(
    ("model", "answer", "tokens"),
    [
        (HostileServer.model, openai(choices="x"), 35),
        ("groq/llama-3.3-70b-versatile", openai(choices="x"), 35),
        ("mistral/mistral-small-latest", openai(choices="x"), 35),
        (CLAUDE, {"content": "x", "usage": {
            "input_tokens": 20, "output_tokens": 10, "cache_read_input_tokens": 5}}, 35),
        ("ollama_chat/llama3", {"message": "x", "prompt_eval_count": 25, "eval_count": 10}, 35),
    ],
    ids=["OpenAI", "Groq", "Mistral", "Anthropic", "Ollama"],
)  # fmt: skip
def test_what_the_provider_counted_is_what_it_costs(
    hostile: HostileServer, desk: Desk, model: str, answer: Any, tokens: int
) -> None:
    hostile.queue(*[json_answer(answer)] * 5)
    played = play(desk, hostile, model)
    chats = [r for r in hostile.requests() if r.path != "/api/show"]
    assert len(chats) == len(played.of(Failed)) == 2
    for failed in played.of(Failed):
        assert (failed.usage.tokens, failed.usage.held_tokens) == (tokens, 0)
        assert failed.usage.cost_usd == pytest.approx(tokens * 1000 / 1e6)
        assert failed.usage.held_usd == 0
    assert usage_text(played.state.usage) == "2 calls · 70 tokens · $0.0700"


def test_what_nobody_counted_is_held_and_not_shown_as_spent(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.queue(BROKEN)
    hostile.say("A line")
    played = play(desk, hostile)
    (failed,), (replied,), (intended, _) = (
        played.of(Failed), played.of(Replied), played.of(Intended),
    )  # fmt: skip
    assert failed.usage.held_usd == failed.usage.cost_usd == intended.reserved.cost_usd
    assert failed.usage.held_tokens == intended.reserved.tokens
    assert (replied.usage.tokens, replied.usage.held_usd) == (30, 0)
    held = intended.reserved.cost_usd
    assert (
        usage_text(played.state.usage) == f"2 calls · 30 tokens · $0.0300 · up to ${held:.4f} held"
    )


def test_what_is_held_leaves_no_room_and_is_told_apart_at_the_limit(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.queue(BROKEN)
    held = 338
    limited = MACHINE.replace("agents:", "limits: {tokens: 400}\nagents:", 1)
    parts = {"MODEL": HostileServer.model, "URL": hostile.base_url, "VARIABLE": KEY_VARIABLE}
    for name, value in parts.items():
        limited = limited.replace(name, value)
    played = desk.play(limited)
    (intended,) = played.of(Intended)
    assert intended.reserved.tokens <= held
    (suspended,) = played.of(Suspended)
    assert suspended.message.startswith(
        "the limit `tokens` leaves no room: 0 of 400 used, "
        f"up to {intended.reserved.tokens} held, and the next call can"
    )
    assert len(hostile.requests()) == 1


class TestAnErrorInsideOfASuccess:
    def test_that_of_openrouter_is_read(self, hostile: HostileServer, desk: Desk) -> None:
        raw = json.dumps({"error": {"message": "No more than 5 images"}})
        told = {"code": 400, "message": "Provider returned error", "metadata": {"raw": raw}}
        hostile.queue(json_answer({"error": told, "user_id": "u"}))
        played = play(desk, hostile, "openrouter/openai/gpt-4o")
        (suspended,) = played.of(Suspended)
        assert suspended.reason == "fatal"
        assert suspended.message.startswith(
            "the provider refused the request (400): "
            "Provider returned error: No more than 5 images; "
        )
        assert len(hostile.requests()) == 1
        assert played.state.usage.cost_usd == 0

    @pytest.mark.parametrize("model", [HostileServer.model, CLAUDE, "openrouter/openai/gpt-4o"])
    @pytest.mark.parametrize("code", [None, 429, "502", "server_error"])
    def test_a_provider_that_is_down_is_asked_again_and_costs_nothing(
        self, hostile: HostileServer, desk: Desk, model: str, code: Any
    ) -> None:
        error = {"type": "overloaded_error", "message": f"Overloaded {KEY}", "code": code}
        hostile.queue(*[json_answer({"type": "error", "error": error})] * 5)
        played = play(desk, hostile, model)
        assert len(hostile.requests()) == 5
        status = {429: 429, "502": 502}.get(code, 500)
        for failed in played.of(Failed):
            assert (failed.error_class, failed.usage.tokens) == ("transient", 0)
            assert f"({status}): Overloaded [" in failed.message
            assert KEY not in failed.message

    @pytest.mark.parametrize(
        ("error", "told"),
        [
            ({"error": {"code": 502, "message": "Upstream broke"}}, "(502): Upstream broke"),
            ({}, "(500): the answer ended in an error"),
        ],
    )
    def test_an_answer_that_ends_in_an_error_is_none(
        self, hostile: HostileServer, desk: Desk, error: dict[str, Any], told: str
    ) -> None:
        said = {"role": "assistant", "content": "A li"}
        choice = {"index": 0, "message": said, "finish_reason": "error", **error}
        hostile.queue(json_answer(openai(choices=[choice])))
        hostile.say("A line")
        played = play(desk, hostile, "openrouter/openai/gpt-4o")
        assert (played.outcome, played.result["line"]) == ("done", "A line")
        (failed,) = played.of(Failed)
        assert failed.message == f"the provider failed {told}"
        assert (failed.error_class, failed.usage.tokens) == ("transient", 35)

    @pytest.mark.parametrize(
        "body",
        [
            b': WAITING\n\n{"error": {"code": 401, "message": "User not found"}}',
            b': WAITING\n\ndata: {"id": "1", "choices": []}\n\n'
            b'data: {"id": "1", "error": {"code": 401, "message": "No"}}\n\ndata: [DONE]\n\n',
        ],
        ids=["behind a comment", "in a stream"],
    )
    def test_what_a_gateway_sends_around_it_is_passed_over(
        self, hostile: HostileServer, desk: Desk, body: bytes
    ) -> None:
        hostile.queue(Answer(body, content_type="text/event-stream"))
        played = play(desk, hostile, "openrouter/openai/gpt-4o")
        (suspended,) = played.of(Suspended)
        assert suspended.message.startswith("the API key was refused (401)")
        assert len(hostile.requests()) == 1

    def test_an_error_that_is_null_is_none(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.queue(json_answer(openai(error=None)))
        played = play(desk, hostile, "openrouter/openai/gpt-4o")
        assert (played.outcome, len(hostile.requests())) == ("done", 1)


def test_a_scenario_plays_it(desk: Desk) -> None:
    calls = [{"fault": "unreadable"}, {"fault": "unreadable"}]
    played = desk.play(MACHINE, scenario(agents={"writer": [calls]}))
    assert [failed.unreadable for failed in played.of(Failed)] == [True, True]
    assert [s.message for s in played.of(Suspended)] == ["the answer could not be read (2 tries)"]


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"usage": None},
        {"usage": {"prompt_tokens": -5, "completion_tokens": 10}},
        {"usage": {"prompt_tokens": True, "completion_tokens": 10}},
        {"usage": {"prompt_tokens": 10**12}},
        {"usage": {"prompt_tokens": 20, "completion_tokens": 10**12}},
        {"usage": {"prompt_tokens": 20, "completion_tokens": -10, "total_tokens": 10}},
        {"usage": {"prompt_tokens": 20}},
        {"usage": {"prompt_tokens": "20", "completion_tokens": 10}},
    ],
)
def test_numbers_that_can_not_be_are_not_believed(record: Any) -> None:
    assert tokens_in(record) is None


def test_what_gemini_thought_is_an_answer_too() -> None:
    counted = {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 95}
    used = tokens_in({"usageMetadata": counted})
    assert used is not None
    assert (used.input, used.output) == (20, 75)


def test_of_an_answer_that_is_too_long_nothing_is_kept() -> None:
    received = Received()
    received.begin(200, {})
    for _ in range(3):
        received.add(b" " * (MOST_KEPT_BYTES // 2))
    received.add(b'{"usage": {"prompt_tokens": 20}}')
    assert (received.record, len(received.body)) == ({}, 0)
