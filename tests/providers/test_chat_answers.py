"""Answers that LiteLLM fails on, and that are read all the same, because they are paid."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.agents.model.pricing import known_model
from loopkit.agents.model.reply import chat_answer
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from loopkit.engine.payloads import TokenUse
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, json_answer
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

GROQ, MINI, ROUTED = "groq/openai/gpt-oss-20b", "openai/gpt-4o-mini", "openrouter/openai/gpt-4o"
PRICE = 1000
MACHINE = """
loopkit: 1
agents:
  writer:
    model: {model}
    base_url: {url}
    api_key_env: {key}
    params: {{max_tokens: 50}}
    retry: {{attempts: 5, backoff: 10ms}}
    {more}
states:
  write:
    {{agent: writer, prompt: Write it., output: line, on_error: {{content: no_line}}, next: done}}
  done: {{final: success, result: line}}
  no_line: {{final: failure}}
"""


def answer(choice: Any = (), *, message: Any = (), **parts: Any) -> dict[str, Any]:
    """What Groq sends, without its `service_tier`."""
    said = {"role": "assistant", "content": "A line", **dict(message)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1752662061,
        "model": "openai/gpt-oss-20b",
        "choices": [{"index": 0, "message": said, "logprobs": None, "finish_reason": "stop"}
                    | dict(choice)],
        "usage": {"queue_time": 0.09, "prompt_tokens": 20, "prompt_time": 0.0001,
                  "completion_tokens": 10, "completion_time": 0.12, "total_tokens": 30},
        "x_groq": {"id": "req_1"},
        **parts,
    }  # fmt: skip


def play(
    desk: Desk,
    server: HostileServer,
    *answers: Any,
    model: str = GROQ,
    more: str = f"price: {PRICE}",
) -> Played:
    server.queue(*(a if isinstance(a, Answer) else json_answer(a) for a in answers))
    known = {"model": model, "url": server.base_url, "key": KEY_VARIABLE}
    return desk.play(MACHINE.format(**known, more=more))


def assert_used(played: Played, server: HostileServer, text: str = "A line") -> Replied:
    """It was asked for once, and taken."""
    assert [failed.message for failed in played.of(Failed)] == []
    assert (played.outcome, len(server.requests())) == ("done", 1)
    assert played.result["line"] == text
    (replied,) = played.of(Replied)
    return replied


def test_groq_is_asked_once_where_its_answer_names_no_tier(
    hostile: HostileServer, desk: Desk
) -> None:
    replied = assert_used(play(desk, hostile, answer()), hostile)
    assert hostile.requests()[0].path.endswith("/chat/completions")
    assert (replied.usage.tokens, replied.usage.held_tokens) == (30, 0)
    assert replied.usage.cost_usd == pytest.approx(30 * PRICE / 1e6)
    assert replied.model == "openai/gpt-oss-20b"


def test_it_costs_as_much_as_one_that_litellm_reads(hostile: HostileServer, desk: Desk) -> None:
    counted = answer()["usage"] | {"prompt_tokens_details": {"cached_tokens": 15}}
    costs = []
    for text in ("A line", [{"type": "text", "text": "A line"}]):
        hostile.reset()
        told = answer(message={"content": text}, usage=counted)
        replied = assert_used(play(desk, hostile, told, model=MINI, more=""), hostile)
        costs.append(replied.usage.cost_usd)
        assert replied.counted == TokenUse(input=20, output=10, cached=15)
    known = known_model(MINI)
    assert known is not None
    kinds = ["input_cost_per_token", "cache_read_input_token_cost", "output_cost_per_token"]
    new, cached, out = (known.entry[kind] for kind in kinds)
    expected = 5 * new + 15 * cached + 10 * out
    assert costs == [pytest.approx(expected)] * 2


@pytest.mark.parametrize("model", [GROQ, MINI, ROUTED])
@pytest.mark.parametrize(
    "parts",
    [
        {"message": {"content": [{"type": "text", "text": "A "}, {"text": "line"}, {"x": 1}, 5]}},
        {"message": {"role": "bot"}},
        {"message": {"reasoning_content": 5}},
        {"message": {"annotations": "x"}},
        {"message": {"tool_calls": "x"}},
        {"message": {"tool_calls": [{"x": 1}]}},
        {"message": {"function_call": "x", "audio": "x"}},
        {"choice": {"index": "zero", "logprobs": "x"}},
        {"created": "now", "system_fingerprint": 5, "id": 5, "object": 5},
    ],
    ids=["parts", "role", "thoughts", "notes", "calls", "a call", "sound", "choice", "rest"],
)  # fmt: skip
def test_what_nobody_reads_may_be_anything(
    hostile: HostileServer, desk: Desk, model: str, parts: Any
) -> None:
    replied = assert_used(play(desk, hostile, answer(**parts), model=model), hostile)
    assert replied.usage.cost_usd == pytest.approx(30 * PRICE / 1e6)


@pytest.mark.parametrize("model", [GROQ, MINI])
@pytest.mark.parametrize(
    "counted",
    [
        None,
        [1],
        "x",
        {"prompt_tokens": "many", "completion_tokens": 10},
        {"prompt_tokens": 20.5, "completion_tokens": 10},
        {"prompt_tokens": 20, "completion_tokens": -1, "total_tokens": 19},
        {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": 20, "prompt_tokens_details": "x"},
        {"prompt_tokens": 0, "completion_tokens": 10, "total_tokens": 10},
        {"prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 20},
        {"prompt_tokens": 20, "completion_tokens": -10, "total_tokens": 10},
        {"prompt_tokens": -20, "completion_tokens": 10, "total_tokens": 30},
        {"prompt_tokens": 10**400, "completion_tokens": 10, "total_tokens": 10},
        {"prompt_tokens": 20, "completion_tokens": 25_000_000, "total_tokens": 25_000_020},
    ],
)
def test_where_the_count_is_no_use_what_was_reserved_is_held(
    hostile: HostileServer, desk: Desk, model: str, counted: Any
) -> None:
    played = play(desk, hostile, answer(usage=counted), model=model)
    replied = assert_used(played, hostile)
    reserved = played.of(Intended)[0].reserved
    assert (replied.usage.held_tokens, replied.usage.held_usd) == (
        reserved.tokens, reserved.cost_usd,
    )  # fmt: skip


def test_what_it_thought_is_no_part_of_its_text(hostile: HostileServer, desk: Desk) -> None:
    told = answer(message={"content": "<think>\nHm.\n</think>\n\nA line"})
    played = play(desk, hostile, told)
    assert played.result["line"].strip() == "A line"
    assert len(hostile.requests()) == 1


def test_thoughts_that_took_all_tokens_are_told(hostile: HostileServer, desk: Desk) -> None:
    told = answer({"finish_reason": "length"}, message={"content": None, "reasoning": "Hm"})
    (failed,) = play(desk, hostile, told).of(Failed)
    assert failed.message.startswith("all 10 tokens went into reasoning, none into the answer")
    assert (failed.error_class, failed.usage.tokens) == ("fatal", 30)


def test_a_refusal_is_told(hostile: HostileServer, desk: Desk) -> None:
    told = answer(message={"content": None, "refusal": "I would rather not."})
    (failed,) = play(desk, hostile, told).of(Failed)
    assert failed.message == "the model refused to answer: I would rather not."
    assert failed.error_class == "fatal"
    assert (failed.usage.tokens, failed.usage.held_tokens) == (30, 0)


@pytest.mark.parametrize("place", [0, 1])
def test_a_refusal_of_the_responses_api_is_told_as_that_of_a_chat(
    hostile: HostileServer, desk: Desk, place: int
) -> None:
    parts: list[Any] = [{"type": "output_text", "text": "Well", "annotations": []}]
    parts.insert(place, {"type": "refusal", "refusal": "I would rather not."})
    said = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
    told = {
        "id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "x",
        "output": [{"type": "reasoning", "id": "t", "summary": []}, {**said, "content": parts}],
        "usage": {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30},
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
    }  # fmt: skip
    (failed,) = play(desk, hostile, told, model="openai/responses/x").of(Failed)
    assert failed.message == "the model refused to answer: I would rather not."
    assert (failed.error_class, failed.usage.tokens) == ("fatal", 30)


def test_an_answer_that_broke_off_is_asked_for_again(hostile: HostileServer, desk: Desk) -> None:
    broken = {"finish_reason": "error", "error": {"code": 502, "message": "Upstream broke"}}
    tier = {"service_tier": "on_demand"}
    played = play(desk, hostile, answer(broken), answer(**tier))
    assert (played.outcome, len(hostile.requests())) == ("done", 2)
    (failed,) = played.of(Failed)
    assert failed.message == "the provider failed (502): Upstream broke"
    assert failed.usage.tokens == 30


def test_an_answer_as_the_call_of_a_tool_is_read(hostile: HostileServer, desk: Desk) -> None:
    call = {"name": "json_tool_call", "arguments": '{"a": 1}'}
    calls = [{"id": "1", "type": "function", "function": call}]
    told = answer({"finish_reason": "tool_calls"}, message={"content": None, "tool_calls": calls})
    played = play(
        desk, hostile, told,
        model="groq/llama-3.3-70b-versatile",
        more="structured: native\n    schema: {type: object, required: [a]}",
    )  # fmt: skip
    assert (played.outcome, len(hostile.requests())) == ("done", 1)
    assert played.result["line"] == {"a": 1}


def test_what_is_told_to_another_tool_is_no_answer(hostile: HostileServer, desk: Desk) -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "shell", "arguments": "{}"}}]
    told = answer({"finish_reason": "tool_calls"}, message={"content": None, "tool_calls": calls})
    played = play(desk, hostile, told, told)
    assert (played.of(Replied), len(hostile.requests())) == ([], 2)


@pytest.mark.parametrize(
    "unread",
    [
        answer(choices="x"),
        answer(choices=[None]),
        answer({"message": None}),
        answer(message={"content": 5}),
        answer(message={"content": {"text": "A line"}}),
        answer(message={"content": [{"type": "image"}]}),
        answer(message={"content": "", "tool_calls": "x"}),
        [answer()],
        "A line",
        None,
        Answer(json.dumps(answer()).encode()[:-1]),
    ],
)
def test_what_has_no_text_is_asked_for_once_more(
    hostile: HostileServer, desk: Desk, unread: Any
) -> None:
    played = play(desk, hostile, *[unread] * 5, model=MINI)
    assert len(hostile.requests()) == 2
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "transient"
    counts = isinstance(unread, dict)
    assert [f.usage.tokens for f in played.of(Failed) if not f.usage.held_tokens] == [
        30,
        30,
    ] * counts


@pytest.mark.parametrize("status", [400, 404, 429, 500, 503])
def test_an_answer_with_the_status_of_an_error_is_none(
    hostile: HostileServer, desk: Desk, status: int
) -> None:
    played = play(desk, hostile, *[json_answer(answer(), status)] * 5)
    assert played.outcome is None
    assert played.of(Replied) == []


def test_an_error_beside_an_answer_counts(hostile: HostileServer, desk: Desk) -> None:
    told = answer(error={"code": 400, "message": "Broken"})
    (suspended,) = play(desk, hostile, told).of(Suspended)
    assert suspended.message.startswith("the provider refused the request (400): Broken")


def test_an_answer_is_read_in_one_step_however_deep_it_is() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = {"prompt_tokens_details": deep}
    read = chat_answer(answer(usage=deep, message={"tool_calls": deep}))
    assert read is not None
    assert read["choices"][0]["message"]["content"] == "A line"
