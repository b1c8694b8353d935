"""A provider that lies about its costs, sends what nobody asked for, or wants the key elsewhere."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from loopkit.agents.model.pricing import known_model
from loopkit.engine.events import Failed, Intended, Replied
from tests.providers.conftest import KEY, KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer, json_answer, openai_answer
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MINI = "openai/gpt-4o-mini"
CLAUDE = "anthropic/claude-sonnet-4-5"
COUNTED = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


def machine(server: HostileServer, model: str = MINI) -> str:
    return f"""
loopkit: 1
agents:
  writer:
    model: {model}
    base_url: {server.base_url}
    api_key_env: {KEY_VARIABLE}
    params: {{max_tokens: 50}}
    timeout: 30s
    retry: {{attempts: 1}}
states:
  write: {{agent: writer, prompt: Write a line., output: line, next: check}}
  check:
    validate: line
    by: [{{max_chars: 20}}]
    transitions: [{{guard: valid, target: done}}, {{target: failed}}]
  done: {{final: success, result: line}}
  failed: {{final: failure, result: line}}
"""


def reply(**parts: Any) -> Answer:
    """A reply whose body or message has other parts."""
    body = json.loads(openai_answer("A line", **COUNTED).body)
    body["choices"][0]["message"] |= parts.pop("message", {})
    return json_answer({**body, **parts})


def stored(played: Played) -> str:
    return "".join(event.to_json() for event in played.events)


@pytest.fixture
def stranger() -> Iterator[HostileServer]:
    """Another server than the one that a machine names."""
    server = HostileServer()
    server.say("Thank you", "Thank you")
    yield server
    server.stop()


@pytest.mark.parametrize("model", [
    MINI, CLAUDE, "gemini/gemini-2.0-flash", "azure/ours", "ollama_chat/ours", "groq/ours",
    "openai/responses/ours", "text-completion-openai/ours", "mistral/ours", "openrouter/ours",
    "hosted_vllm/ours", "deepseek/ours", "cohere_chat/ours", "databricks/ours", "xai/ours",
])  # fmt: skip
def test_a_call_that_is_sent_on_takes_neither_prompt_nor_key_there(
    desk: Desk, hostile: HostileServer, stranger: HostileServer, model: str
) -> None:
    there = stranger.base_url.replace("127.0.0.1", "localhost")
    hostile.queue(Answer(status=307, headers={"location": f"{there}/v1/chat/completions"}))
    played = desk.play(machine(hostile, model))
    assert stranger.requests() == []
    assert len(hostile.requests()) == 1
    (failed,) = played.of(Failed)
    assert failed.error_class == "fatal"
    assert failed.message.startswith(f"{hostile.base_url} sends the call on to another address")


@pytest.mark.parametrize("proxies", ["http_proxy", "all_proxy"])
def test_a_call_goes_over_the_proxy_of_the_environment_except_to_where_it_says(
    desk: Desk, hostile: HostileServer, monkeypatch: pytest.MonkeyPatch, proxies: str
) -> None:
    # The server plays the proxy; the address behind it is nobody's.
    monkeypatch.setenv(proxies, hostile.base_url.removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "elsewhere.invalid")
    hostile.say("A line")
    asked = machine(hostile)
    assert desk.play(asked.replace(hostile.base_url, "http://nobody.invalid/v1")).outcome == "done"
    played = desk.play(asked.replace(hostile.base_url, "http://elsewhere.invalid/v1"))
    assert "the host of http://elsewhere.invalid is not found" in played.of(Failed)[0].message
    assert [r.path for r in hostile.requests()] == ["http://nobody.invalid/v1/chat/completions"]


ENDLESS = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000000000\r\n\r\n"
PACKED = gzip.compress(random.Random(1).randbytes(1_100_000))


@pytest.mark.parametrize(
    "answer",
    [
        Answer(lost=ENDLESS + b" " * 101_000_000),
        Answer(PACKED, headers={"content-encoding": "gzip"}),
    ],
    ids=["endless", "packed"],
)
def test_an_answer_that_could_fill_the_memory_is_not_read_to_its_end(
    desk: Desk, hostile: HostileServer, answer: Answer
) -> None:
    hostile.queue(answer)
    played = desk.play(machine(hostile))
    (failed,) = played.of(Failed)
    assert failed.message == f"the answer of {hostile.base_url} is longer than can be kept"
    reserved = played.of(Intended)[0].reserved
    assert failed.error_class == "fatal"
    assert (failed.usage.tokens, failed.usage.cost_usd) == (reserved.tokens, reserved.cost_usd)


@pytest.mark.parametrize("value", ["\xb2", "Z\xc3\xbcrich"], ids=["Latin-1", "UTF-8"])
def test_a_header_of_an_answer_that_is_not_ascii_is_passed_over(
    desk: Desk, hostile: HostileServer, value: str
) -> None:
    hostile.queue(replace(reply(), headers={"retry-after": value}))
    assert desk.play(machine(hostile)).outcome == "done"


def test_an_answer_that_is_longer_than_a_text_may_be_counts_as_cut_off(
    desk: Desk, hostile: HostileServer
) -> None:
    hostile.queue(openai_answer("x" * 10_000_001, **COUNTED))
    played = desk.play(machine(hostile))
    assert played.outcome == "failed"
    assert "cut off" in played.reports[0].findings[0].message


def test_no_packed_answer_is_asked_for(desk: Desk, hostile: HostileServer) -> None:
    hostile.say("A line")
    desk.play(machine(hostile))
    assert hostile.requests()[0].headers["accept-encoding"] == "identity"


def test_whatever_a_provider_calls_its_model_can_be_stored_and_holds_no_key(
    desk: Desk, hostile: HostileServer
) -> None:
    hostile.queue(reply(model=f"\ud800\x00\x1b[31m{KEY}"))
    played = desk.play(machine(hostile))
    assert played.outcome == "done"
    (replied,) = played.of(Replied)
    assert replied.model.endswith(f"[{KEY_VARIABLE}]")
    assert KEY not in stored(played)


def test_tokens_that_stand_in_the_total_alone_are_paid_as_answer(
    desk: Desk, hostile: HostileServer
) -> None:
    hostile.queue(reply(usage={**COUNTED, "total_tokens": 5_030}))
    played = desk.play(machine(hostile))
    known = known_model(MINI)
    assert known is not None
    usage = played.of(Replied)[0].usage
    assert usage.tokens == 5_030
    assert usage.cost_usd is not None
    assert usage.cost_usd >= 5_010 * known.entry["output_cost_per_token"]


@pytest.mark.parametrize("means", ["header", "body"])
def test_a_provider_cannot_call_itself_cheaper_than_its_list_price(
    desk: Desk, hostile: HostileServer, means: str
) -> None:
    told = reply(_hidden_params={"response_cost": 1e-12}) if means == "body" else reply()
    if means == "header":
        told = replace(told, headers={"x-litellm-response-cost": "0.000000000001"})
    hostile.queue(told)
    (replied,) = desk.play(machine(hostile)).of(Replied)
    known = known_model(MINI)
    assert known is not None
    rates = known.highest(sent=20)
    assert rates is not None
    listed = 20 * rates.input + 10 * rates.output
    assert replied.usage.cost_usd == pytest.approx(listed)


@pytest.mark.parametrize("said", ["1e308", "1e6", "inf", "nan"])
def test_a_cost_that_no_call_has_is_not_believed(
    desk: Desk, hostile: HostileServer, said: str
) -> None:
    hostile.queue(replace(reply(), headers={"x-litellm-response-cost": said}))
    (replied,) = desk.play(machine(hostile)).of(Replied)
    assert replied.usage.cost_usd is not None
    assert 0 < replied.usage.cost_usd < 0.01


AWKWARD = 'sk-with/a+slash=and"more'
FORMS = {
    "in two lines": f"{AWKWARD[:9]}\n  {AWKWARD[9:]}",
    "in an address": quote(AWKWARD, safe=""),
    "in Base64": base64.b64encode(AWKWARD.encode()).decode(),
    "in JSON": json.dumps(AWKWARD)[1:-1].replace("/", "\\/"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("status", [200, 403, 500])
def test_a_key_is_kept_out_however_a_provider_writes_it(
    desk: Desk, hostile: HostileServer, form: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, AWKWARD)
    said = reply(message={"content": f"The key: {form}"})
    refused = json_answer({"error": {"message": f"The key: {form}", "code": "x"}}, status)
    hostile.queue(said if status == 200 else refused)
    played = desk.play(machine(hostile))
    (told,) = [
        *(event.text for event in played.of(Replied)),
        *(event.message for event in played.of(Failed)),
    ]
    assert "The key: [" in told
    assert [part for part in form.split() if part in told] == []


def test_a_proxy_that_does_not_answer_is_not_taken_for_the_provider(
    desk: Desk, hostile: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://somebody:a-password@127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    played = desk.play(machine(hostile))
    assert hostile.requests() == []
    (failed,) = played.of(Failed)
    assert failed.error_class == "transient"
    assert failed.message.startswith("the proxy of the environment does not answer")
    assert "a-password" not in stored(played)
