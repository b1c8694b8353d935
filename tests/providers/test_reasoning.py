"""An answer whose tokens all went into thinking: what the run says, and how often it asks."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Failed, Intended, Replied, Suspended
from tests.providers.anthropic_mock import AnthropicMock
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer, json_answer
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
limits: {revisions: 2}
agents:
  writer: {model: MODEL, base_url: URL, api_key_env: VARIABLE, params: {CAP: 4000}, price: 1}
states:
  write: {agent: writer, prompt: Write a line., output: line, next: check}
  check:
    validate: line
    by: [RULE]
    transitions: [{guard: valid, target: done}, {revise: write}, {target: failed}]
  done: {final: success, result: line}
  failed: {final: failure}
"""
SPENT = {"prompt_tokens": 20, "completion_tokens": 4_000, "total_tokens": 4_020}

THOUGHT = (
    "all 4,000 tokens went into reasoning, none into the answer; "
    "raise `CAP`, in `params:` or by `--param writer.CAP=N` when you resume"
)


def play(
    desk: Desk, model: str, url: str, cap: str = "max_tokens", rule: str = "", key: bool = True
) -> Played:
    parts = {"MODEL": model, "URL": url, "VARIABLE": KEY_VARIABLE, "CAP": cap}
    text = MACHINE.replace("RULE", rule or "{max_chars: 20}")
    text = text if key else text.replace("api_key_env: VARIABLE, ", "")
    for name, value in parts.items():
        text = text.replace(name, value)
    return desk.play(text)


def openai(text: str | None, usage: dict[str, Any] | None = None, **message: Any) -> Any:
    """An answer that was cut off at the longest that it may be."""
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": said, "finish_reason": "length"}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "m"}
    counted = {"usage": usage} if usage else {}
    return json_answer({**reply, "choices": [choice], **counted})


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("openai/o3", "/v1"),
        ("anthropic/claude-sonnet-4-5", ""),
        ("gemini/gemini-2.5-flash", "/v1beta"),
        ("deepseek/deepseek-reasoner", "/v1"),
    ],
)
def test_it_suspends_the_run_and_names_the_remedy(
    anthropic_server: AnthropicMock, desk: Desk, model: str, path: str
) -> None:
    thought = {"content": "\n", "reasoning": "Let me think. " * 50, "finishReason": "length"}
    anthropic_server.queue({**thought, "usage": SPENT})
    played = play(desk, model, anthropic_server.base_url + path)
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "fatal"
    assert suspended.message == THOUGHT.replace("CAP", "max_tokens")
    assert len(anthropic_server.requests()) == 1
    (failed,) = played.of(Failed)
    assert (failed.usage.tokens, failed.usage.cost_usd) == (4_020, pytest.approx(4_020 / 1e6))


@pytest.mark.parametrize(
    "answer",
    [
        openai("", SPENT | {"completion_tokens_details": {"reasoning_tokens": 4_000}}),
        openai(None, SPENT),
        openai("\n\n", SPENT, reasoning_content="Let me think"),
        openai("<think>\nThe user wants a line. A", SPENT),
        openai("\n<thinking>\nThe user wants a <think> line</think>. A", SPENT),
        openai("[THINK]The user wants a line. A", SPENT),
        openai(None, SPENT, reasoning="Let me", reasoning_details=[{"type": "reasoning.text"}]),
    ],
    ids=[
        "counted apart",
        "not shown",
        "beside blank lines",
        "in the text",
        "in another tag",
        "in Mistral's tag",
        "as OpenRouter has it",
    ],
)
def test_it_is_known_however_the_provider_shows_it(
    hostile: HostileServer, desk: Desk, answer: Any
) -> None:
    hostile.queue(answer)
    played = play(desk, hostile.model, hostile.base_url, "max_completion_tokens")
    (suspended,) = played.of(Suspended)
    assert suspended.message == THOUGHT.replace("CAP", "max_completion_tokens")
    assert len(hostile.requests()) == 1


def test_a_local_model_that_only_thought_says_so(hostile: HostileServer, desk: Desk) -> None:
    said = {"role": "assistant", "content": "", "thinking": "Let me think"}
    counted = {"prompt_eval_count": 20, "eval_count": 4_000, "done": True, "done_reason": "length"}
    hostile.queue(json_answer({"model": "qwen3", "message": said, **counted}))
    played = play(desk, "ollama_chat/qwen3", hostile.base_url)
    assert [e.message for e in played.of(Suspended)] == [THOUGHT.replace("CAP", "max_tokens")]
    assert [r.path for r in hostile.requests()].count("/api/chat") == 1


LIMITED = {"promptTokenCount": 20, "totalTokenCount": 4_020, "thoughtsTokenCount": 4_000}
THINKING = {"reasoningContent": {"reasoningText": {"text": "Let me think", "signature": "s"}}}
AS_THEY_SEND_IT: list[tuple[str, dict[str, Any]]] = [
    (
        "gemini/gemini-2.5-flash",
        {"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}],
         "usageMetadata": LIMITED, "modelVersion": "g"},
    ),
    (
        "gemini/gemini-2.5-flash",
        {"candidates": [{"finishReason": "MAX_TOKENS", "index": 0}], "usageMetadata": LIMITED},
    ),
    *(
        (
            "anthropic/claude-sonnet-4-5",
            {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content,
             "stop_reason": "max_tokens", "usage": {"input_tokens": 20, "output_tokens": 4_000}},
        )
        for content in (
            [{"type": "thinking", "thinking": "Let me think", "signature": "s"}],
            [{"type": "redacted_thinking", "data": "x"}],
            [],
        )
    ),
    (
        "bedrock/anthropic.claude-3-7-sonnet-20250219-v1:0",
        {"output": {"message": {"role": "assistant", "content": [THINKING]}},
         "stopReason": "max_tokens",
         "usage": {"inputTokens": 20, "outputTokens": 4_000, "totalTokens": 4_020}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("model", "answer"), AS_THEY_SEND_IT)
def test_it_is_known_in_each_provider_s_own_form(
    hostile: HostileServer,
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    answer: dict[str, Any],
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up-for-a-test")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    hostile.queue(json_answer(answer))
    played = play(desk, model, hostile.base_url, key=not model.startswith("bedrock/"))
    assert [e.message for e in played.of(Suspended)] == [THOUGHT.replace("CAP", "max_tokens")]
    assert len(hostile.requests()) == 1
    assert played.of(Failed)[0].usage.tokens == 4_020


def test_where_nobody_counted_no_number_is_told(hostile: HostileServer, desk: Desk) -> None:
    hostile.queue(openai("", reasoning_content="Let me think"))
    (suspended,) = play(desk, hostile.model, hostile.base_url).of(Suspended)
    assert suspended.message.startswith("all tokens went into reasoning")


@pytest.mark.parametrize(
    "answer",
    [
        openai("A short", SPENT, reasoning_content="Let me think"),
        openai("<think>A line.</think>A sho", SPENT),
        openai("[THINK]A line.[/THINK]A sho", SPENT),
        openai(" \n " * 9, SPENT),
        openai("", {"prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 20}),
    ],
    ids=[
        "a word",
        "a word after the thought",
        "and after Mistral's",
        "blanks without an end",
        "no tokens at all",
    ],
)
def test_any_other_answer_that_was_cut_off_is_judged(
    hostile: HostileServer, desk: Desk, answer: Any
) -> None:
    hostile.queue(answer)
    hostile.say("A short line")
    played = play(desk, hostile.model, hostile.base_url)
    assert (played.outcome, len(hostile.requests())) == ("done", 2)


def test_a_judge_that_only_thought_is_not_asked_again(hostile: HostileServer, desk: Desk) -> None:
    hostile.say("A short line")
    hostile.queue(openai(None, SPENT))
    rule = "{judge: writer, rubric: [It is short.], reask: 3}"
    played = play(desk, hostile.model, hostile.base_url, rule=rule)
    (suspended,) = played.of(Suspended)
    assert (suspended.state, suspended.reason) == ("check", "fatal")
    assert THOUGHT.replace("CAP", "max_tokens") in suspended.message
    assert len(hostile.requests()) == 2


def test_after_a_resume_the_same_work_is_asked_for_again(
    hostile: HostileServer, durable: Desk
) -> None:
    hostile.queue(openai(None, SPENT))
    hostile.say("A short line")
    played = play(durable, hostile.model, hostile.base_url)
    again = durable.resume(played.state.run)
    assert (again.outcome, len(hostile.requests())) == ("done", 2)
    assert len(again.of(Intended)) == 2


@pytest.mark.parametrize(
    ("keys", "line", "thoughts"),
    [
        ("", "A line.", "Let me think."),
        (", thoughts: keep", "<think>Let me think.</think>A line.", ""),
        (', thoughts: ["<think>", "</think>"]', "A line.", "Let me think."),
    ],
)
def test_a_thought_that_litellm_takes_out_by_itself_is_stored_or_kept(
    hostile: HostileServer, desk: Desk, keys: str, line: str, thoughts: str
) -> None:
    hostile.say("<think>Let me think.</think>A line.")
    parts = {"MODEL": hostile.model, "URL": hostile.base_url, "VARIABLE": KEY_VARIABLE}
    text = MACHINE.replace("CAP", "max_tokens").replace("RULE", "{min_chars: 1}")
    for name, value in (parts | {", price: 1": f", price: 1{keys}"}).items():
        text = text.replace(name, value)
    played = desk.play(text)
    assert played.result == {"line": line}
    assert played.of(Replied)[0].thoughts == thoughts


def test_nulls_that_the_form_of_a_schema_added_go_behind_a_thought_as_well(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.say('[THINK]No age?[/THINK]{"name": "Bo", "age": null}')
    agent = f"model: {hostile.model}, base_url: {hostile.base_url}, api_key_env: {KEY_VARIABLE}"
    fields = "properties: {name: {type: string}, age: {type: integer}}, required: [name]"
    schema = f"structured: native, schema: {{type: object, {fields}}}"
    played = desk.play(f"""
loopkit: 1
agents: {{writer: {{{agent}, {schema}}}}}
states:
  write: {{agent: writer, prompt: Who?, output: who, on_error: {{content: failed}}, next: done}}
  done: {{final: success, result: who}}
  failed: {{final: failure}}
""")
    assert played.result == {"who": {"name": "Bo"}}
    assert played.of(Replied)[0].thoughts == "No age?"
