"""What is sent to a model, what a call can cost at most, and what it did cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loopkit.agents.model.agent import arguments, closed_form, form_of, is_closed
from loopkit.agents.model.pricing import (
    ROLE_TOKENS,
    TABLE,
    cost,
    dearest_call,
    input_bound,
    is_priced,
    known_model,
    listed_cost,
    missing_bounds,
    quote,
)
from loopkit.agents.model.reply import read_reply
from loopkit.agents.port import AgentError, Message, Request
from loopkit.engine.payloads import TokenUse
from loopkit.language.agents import is_listed, known_providers
from loopkit.language.agents.model import ModelAgent
from loopkit.language.datatypes.notation import parse_fields

MINI = "openai/gpt-4o-mini"
CLAUDE = "anthropic/claude-sonnet-4-5"
UNKNOWN = "openai/some-model-of-our-own"
USED = TokenUse(input=1_000, output=100)


def agent(**fields: Any) -> ModelAgent:
    return ModelAgent.model_validate({"model": MINI, **fields})


def request(*messages: tuple[str, str], model: str = MINI, schema: Any = None) -> Request:
    told = [Message(role, text) for role, text in messages or [("user", "Write.")]]
    return Request("a", "s", "author", told[-1].content, told, model=model, schema=schema)


@given(st.lists(st.text(max_size=300), min_size=1, max_size=4))
def test_no_tokenizer_counts_more_tokens_than_are_reserved(litellm: Any, texts: list[str]) -> None:
    asked = request(*[("user", text) for text in texts])
    messages = [{"role": "user", "content": text} for text in texts]
    assert litellm.token_counter(model="gpt-4o-mini", messages=messages) <= input_bound(asked)


QWEN = "system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.\nuser\n"
HARMONY = """system
You are ChatGPT, a large language model trained by OpenAI.
Knowledge cutoff: 2024-06
Current date: 2026-11-29

Reasoning: medium

# Valid channels: analysis, commentary, final. Channel must be included for every message.
user
"""


@pytest.mark.parametrize("added", [QWEN, HARMONY])
def test_what_a_chat_format_says_by_itself_is_reserved_too(litellm: Any, added: str) -> None:
    counted = litellm.token_counter(model="gpt-4o-mini", text=f"{added}Hi.")
    assert len("Hi.") + ROLE_TOKENS < counted < input_bound(request(("user", "Hi.")))


@given(st.integers(1, 100_000), st.integers(1, 20_000))
def test_a_quote_is_never_below_what_litellm_charges(litellm: Any, sent: int, back: int) -> None:
    asked = request(("user", "x" * sent))
    most = quote(agent(params={"max_tokens": back}), asked)
    usage = litellm.Usage(prompt_tokens=sent, completion_tokens=back, total_tokens=sent + back)
    charged = litellm.completion_cost(
        completion_response=litellm.ModelResponse(model="gpt-4o-mini", usage=usage)
    )
    assert most.cost_usd is not None
    assert charged <= most.cost_usd


def test_a_quote_counts_the_longest_answer_that_the_params_allow() -> None:
    short = quote(agent(params={"max_tokens": 10}), request())
    long = quote(agent(params={"max_completion_tokens": 1_000}), request())
    assert long.tokens - short.tokens == 990
    assert (long.cost_usd or 0) - (short.cost_usd or 0) == pytest.approx(990 * 6e-07)


def test_no_call_reserves_more_than_the_dearest_one_costs() -> None:
    made, known = agent(params={"max_tokens": 10}), known_model(MINI)
    assert known is not None
    assert known.max_input is not None
    asked = request(("user", "x" * 448_000))
    most = quote(made, asked)
    assert input_bound(asked) > known.max_input
    assert most.tokens == known.max_input + 10
    assert most.cost_usd == dearest_call(made)
    short = quote(made, request())
    assert (short.cost_usd or 0) < (dearest_call(made) or 0)


def test_where_headers_can_widen_the_window_all_that_is_sent_is_reserved() -> None:
    wide = agent(params={"max_tokens": 10, "extra_headers": {"anthropic-beta": "context-1m"}})
    asked = request(("user", "x" * 448_000))
    assert quote(wide, asked).tokens == input_bound(asked) + 10
    assert (dearest_call(wide), [*missing_bounds(wide)]) == (None, ["limits.tokens"])
    assert (dearest_call(wide, tokens=500_000) or 0) > (quote(wide, asked).cost_usd or 0)


def test_the_longest_answer_is_not_taken_for_the_window(tmp_path: Path) -> None:
    # Tables of older versions know `max_tokens` alone of some models, which may mean either.
    silent = {"litellm_provider": "gemini", "mode": "chat", "max_tokens": 8_192}
    package = tmp_path / "litellm"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / TABLE).write_text(json.dumps({"gemini/silent": silent}), encoding="utf-8")
    program = """
from loopkit.agents.model.pricing import known_model
from loopkit.agents.model.pricing import dearest_call
from loopkit.language.agents.model import ModelAgent
agent = ModelAgent(model=("gemini/silent",), price=1)
print(known_model("gemini/silent").max_output, dearest_call(agent))
print(dearest_call(agent, tokens=1_000_000))
"""
    told = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ).stdout.split()  # fmt: skip
    assert told[:2] == ["8192", "None"]
    assert float(told[2]) == pytest.approx(1.008192)


def test_a_quote_of_a_model_without_a_price_is_unknown_and_not_free() -> None:
    asked = request(model=UNKNOWN)
    assert quote(agent(params={"max_tokens": 10}), asked).cost_usd is None
    assert not is_priced(agent(params={"max_tokens": 10}), UNKNOWN)


def test_a_price_of_the_agent_goes_before_the_list_price() -> None:
    free, dear = agent(price=0), agent(price={"input": 1, "output": 4}, params={"max_tokens": 10})
    assert quote(free, request()).cost_usd == 0
    bound = input_bound(request())
    assert quote(dear, request()).cost_usd == pytest.approx((bound + 40) / 1e6)


def test_cached_tokens_cost_what_the_price_of_the_agent_says() -> None:
    used = TokenUse(input=1_000, output=100, cached=800)
    price = {"input": 10, "output": 20}
    assert cost(agent(price={**price, "cached": 1}), MINI, used, None) == pytest.approx(
        (200 * 10 + 800 * 1 + 100 * 20) / 1e6
    )
    assert cost(agent(price=price), MINI, used, None) == pytest.approx(12_000 / 1e6)


def test_tokens_put_into_a_cache_cost_what_the_price_of_the_agent_says(litellm: Any) -> None:
    written = response()
    written.usage = litellm.Usage(
        prompt_tokens=1_000,
        completion_tokens=100,
        total_tokens=1_100,
        cache_creation_input_tokens=500,
        cache_read_input_tokens=300,
    )
    made = agent(price={"input": 10, "output": 20, "cached": 1, "cache_write": 12.5})
    told = read_reply(made, request(), written).cost_usd
    assert told == pytest.approx((200 * 10 + 300 * 1 + 500 * 12.5 + 100 * 20) / 1e6)
    plain = agent(price={"input": 10, "output": 20})
    assert read_reply(plain, request(), written).cost_usd == pytest.approx(12_000 / 1e6)


def test_a_call_may_put_all_that_it_sends_into_a_cache() -> None:
    price = {"input": 10, "output": 20, "cache_write": 12.5}
    asked = agent(price=price, params={"max_tokens": 100})
    bound = input_bound(request())
    assert quote(asked, request()).cost_usd == pytest.approx((bound * 12.5 + 100 * 20) / 1e6)


def test_what_litellm_lists_but_does_not_find_costs_its_list_price(litellm: Any) -> None:
    name = "amazon_nova/nova-pro-v1"
    entry = litellm.model_cost["amazon-nova/nova-pro-v1"]
    listed = 1_000 * entry["input_cost_per_token"] + 100 * entry["output_cost_per_token"]
    assert cost(agent(model=name), name, USED, None) == pytest.approx(listed)
    assert cost(agent(), UNKNOWN, USED, None) is None


LOCAL_MODELS = ["ollama/qwen9", "ollama_chat/qwen9", "lm_studio/any", "hosted_vllm/own/model"]


@pytest.mark.parametrize("model", LOCAL_MODELS)
def test_a_local_model_without_a_key_costs_nothing(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"{model.partition('/')[0].removesuffix('_chat').upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    local = agent(model=model)
    assert is_priced(local, model)
    assert dearest_call(local) == 0
    assert quote(local, request(model=model)).cost_usd == 0
    assert cost(local, model, USED, None) == 0
    assert not is_priced(agent(model=model, api_key_env="OURS"), model)
    monkeypatch.setenv(variable, "sk-somebody-bills")
    assert not is_priced(local, model)
    assert cost(local, model, USED, None) is None


def test_a_declared_price_and_a_cap_are_all_that_a_gateway_s_model_needs() -> None:
    gateway = agent(model="litellm_proxy/ours", price=3, params={"max_tokens": 100})
    assert is_priced(gateway, "litellm_proxy/ours")
    bound = input_bound(request(model="litellm_proxy/ours"))
    assert quote(gateway, request(model="litellm_proxy/ours")).cost_usd == pytest.approx(
        (bound + 100) * 3 / 1e6
    )


def test_cached_tokens_cost_what_litellm_lists(litellm: Any) -> None:
    entry = litellm.model_cost["gpt-4o-mini"]
    usage = litellm.Usage(
        prompt_tokens=1_000,
        completion_tokens=100,
        total_tokens=1_100,
        prompt_tokens_details={"cached_tokens": 800},
    )
    charged = litellm.completion_cost(
        completion_response=litellm.ModelResponse(model="gpt-4o-mini", usage=usage)
    )
    assert charged == pytest.approx(
        200 * entry["input_cost_per_token"]
        + 800 * entry["cache_read_input_token_cost"]
        + 100 * entry["output_cost_per_token"]
    )
    assert listed_cost(MINI, charged) == charged


def test_the_rate_for_long_prompts_is_reserved_for_long_prompts_alone(litellm: Any) -> None:
    name = "gemini/gemini-2.5-pro"
    entry, asked = litellm.model_cost[name], agent(model=name, params={"max_tokens": 10})
    short, long = (request(("user", "x" * length), model=name) for length in (10_000, 300_000))
    for sent, end in ((short, ""), (long, "_above_200k_tokens")):
        into, out = (entry[f"{kind}_cost_per_token{end}"] for kind in ("input", "output"))
        reserved = quote(asked, sent).cost_usd
        assert reserved == pytest.approx(input_bound(sent) * into + 10 * out)


def test_a_cost_of_zero_is_believed_of_a_free_model_only() -> None:
    assert listed_cost("ollama/llama3", 0.0) == 0
    assert listed_cost(MINI, 0.0) is None
    assert listed_cost(UNKNOWN, None) is None


def response(text: str | None = "Hello", **parts: Any) -> Any:
    message = SimpleNamespace(content=text, refusal=parts.pop("refusal", None))
    finish = parts.pop("finish_reason", "stop")
    choices = [SimpleNamespace(message=message, finish_reason=finish)]
    usage = SimpleNamespace(prompt_tokens=10, completion_tokens=5, prompt_tokens_details=None)
    return SimpleNamespace(choices=choices, usage=usage, model="m", _hidden_params={}, **parts)


def test_a_reply_whose_provider_counts_nothing_stays_at_its_reservation() -> None:
    silent = response()
    silent.usage = None
    made, asked = agent(params={"max_tokens": 400}, price=1), request()
    reply = read_reply(made, asked, silent)
    assert reply.tokens == 400 + input_bound(asked)
    assert reply.cost_usd == pytest.approx(reply.tokens / 1e6)
    assert reply.held


def test_no_choices_are_an_empty_reply() -> None:
    empty = response()
    empty.choices = []
    assert read_reply(agent(), request(), empty).text == ""


def test_parts_of_a_message_are_put_together() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "image"}, {"type": "text", "text": "lo"}]
    assert read_reply(agent(), request(), response(parts)).text == "Hello"


@pytest.mark.parametrize("said", [{"refusal": "I won't."}, {"finish_reason": "content_filter"}])
def test_a_refusal_is_fatal_and_is_paid(said: Any) -> None:
    with pytest.raises(AgentError) as raised:
        read_reply(agent(price=1), request(), response(**said))
    assert raised.value.error_class == "fatal"
    assert raised.value.cost_usd == pytest.approx(15 / 1e6)
    assert raised.value.tokens == 15


OLLAMA = "ollama_chat/llama3"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("192.168.0.7", "http://192.168.0.7:11434"),
        ("box:8080", "http://box:8080"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        (' "http://box/" ', "http://box:80"),
        ("https://box/ollama/", "https://box:443/ollama"),
        ("https://box:11434", "https://box:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::]:9", "http://[::1]:9"),
        ("box:much", "http://box:11434"),
        ("", None),
    ],
)
def test_ollama_is_asked_where_its_own_client_would_ask(
    host: str, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked_at(model: str = OLLAMA, **fields: Any) -> Any:
        return arguments(agent(model=model, **fields), request(model=model)).get("base_url")

    monkeypatch.setenv("OLLAMA_HOST", host)
    assert asked_at() == address
    assert asked_at(MINI) is None
    assert asked_at(base_url="http://other") == "http://other"
    monkeypatch.setenv("OLLAMA_API_BASE", "http://third")
    assert asked_at() is None


LONG = "One more word, and no more. - " * 200


@pytest.mark.parametrize(
    ("model", "prompt", "counts", "told"),
    [
        (OLLAMA, LONG, (1199, {}), "has read 1,199 tokens of a prompt with 1,200 words"),
        (OLLAMA, LONG, (1199, {}), "it needs `params: {num_ctx: 4096}`, or a shorter prompt"),
        (MINI, LONG, (5, {}), "it needs a longer context of the server, or a shorter prompt"),
        (OLLAMA, LONG, (1200, {}), ""),
        (OLLAMA, LONG, (9, {"cached_tokens": 1191}), ""),
        (OLLAMA, LONG, (None, {}), ""),
        (OLLAMA, LONG[:900], (5, {}), ""),
    ],
)
def test_a_prompt_that_the_server_cut_is_noticed_by_its_count(
    model: str, prompt: str, counts: tuple[int | None, dict[str, int]], told: str
) -> None:
    read, details = counts
    said, asked = response(), request(("user", prompt), model=model)
    said.usage.prompt_tokens = read
    said.usage.prompt_tokens_details = SimpleNamespace(**details)
    cut = read_reply(agent(model=model), asked, said).prompt_cut
    assert told in cut
    assert bool(cut) == bool(told)


SCHEMA = parse_fields({"name": "str", "tags": ["str"]}).schema


def test_a_schema_goes_by_the_means_of_the_provider_where_the_model_has_them() -> None:
    told = arguments(agent(), request(schema=SCHEMA))
    form = {"name": "answer", "schema": {**SCHEMA, "additionalProperties": False}, "strict": True}
    assert told["response_format"]["json_schema"] == form
    assert told["messages"] == [{"role": "user", "content": "Write."}]


@pytest.mark.parametrize(
    "made",
    [agent(model=UNKNOWN), agent(structured="text")],
    ids=["unknown model", "asked for"],
)
def test_a_schema_is_put_in_words_elsewhere(made: ModelAgent) -> None:
    asked = request(("system", "Be brief."), ("user", "Write."), model=made.model[0], schema=SCHEMA)
    told = arguments(made, asked)
    assert "response_format" not in told
    assert told["messages"][0]["content"].startswith("Be brief.\n\n")
    assert json.dumps(SCHEMA) in told["messages"][0]["content"]
    assert told["messages"][1:] == [{"role": "user", "content": "Write."}]
    asked.is_described = True
    assert arguments(made, asked)["messages"][0]["content"] == "Be brief."


def test_an_unknown_model_can_be_told_to_have_the_means() -> None:
    made = agent(model=UNKNOWN, structured="native")
    assert "response_format" in arguments(made, request(model=UNKNOWN, schema=SCHEMA))


def test_a_schema_is_strict_only_where_every_field_is_required_and_there_are_no_others() -> None:
    strict = parse_fields({"a": {"properties": "int", "default": "str"}, "c": ["str"]}).schema
    assert is_closed(closed_form(strict))
    assert not is_closed(strict)
    for notation in ({"a": {"b": "optional int"}}, {"a": "any"}, {"a": "str", "...": "any"}, {}):
        assert not is_closed(closed_form(parse_fields(notation).schema))


def test_a_schema_of_joined_parts_stays_open_because_each_would_refuse_the_fields_of_the_other():
    parts = [{"type": "object", "properties": {name: {"type": "string"}}} for name in "ab"]
    assert closed_form(schema := {"type": "object", "allOf": parts}) is schema
    assert closed_form(schema := {**parts[0], "anyOf": parts}) is schema
    assert closed_form({"anyOf": parts})["anyOf"][0]["additionalProperties"] is False


class Tree(BaseModel):
    kids: list[Tree]


def test_the_root_of_a_schema_is_an_object_where_the_provider_is_asked() -> None:
    schema = parse_fields(Tree.model_json_schema()).schema
    told = arguments(agent(), request(schema=schema))
    form = told["response_format"]["json_schema"]
    tree = {**schema["$defs"]["Tree"], "additionalProperties": False}
    assert form["schema"] == {**tree, "$defs": {"Tree": tree}}
    assert form["strict"]


NAME = {"type": "string", "pattern": "^[A-Z]"}
REFERRING = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$ref": "#/$defs/Root",
    "$defs": {
        "Root": {
            "type": "object",
            "properties": {
                "name": {"$ref": "#/$defs/Name", "description": "In full."},
                "others": {
                    "type": "array",
                    "items": {"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]},
                },
            },
            "required": ["name", "others"],
        },
        "Name": NAME,
    },
}


@pytest.mark.parametrize("model", [MINI, CLAUDE, "gemini/gemini-2.5-flash"])
def test_no_reference_is_sent_that_a_provider_would_refuse(model: str) -> None:
    told = arguments(agent(model=model), request(model=model, schema=REFERRING))
    sent = told["response_format"]["json_schema"]["schema"]
    assert sent.keys() == {"type", "properties", "required", "additionalProperties"}
    assert "$ref" not in json.dumps(sent)
    assert sent["properties"]["name"] == {**NAME, "description": "In full."}
    assert sent["properties"]["others"]["items"] == {"anyOf": [NAME, {"type": "null"}]}
    assert told["messages"] == [{"role": "user", "content": "Write."}]


LEAD_ON = {f"D{n}": {"properties": {x: {"$ref": f"#/$defs/D{n + 1}"} for x in "ab"}}
           for n in range(12)}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "notation", "why"),
    [
        (MINI, {"type": "array", "items": {"type": "string"}}, "not that of an object"),
        (MINI, {"tree": Tree.model_json_schema()}, "refers to itself"),
        (CLAUDE, Tree.model_json_schema(), "refers to itself"),
        (CLAUDE, {"type": "object", "properties": {"inner": {"$ref": "#"}}}, "refers to itself"),
        (CLAUDE, {"$ref": "#/$defs/D0", "$defs": {**LEAD_ON, "D12": True}}, "replaced by its"),
        (CLAUDE, {"$ref": "#/$defs/D0", "$defs": {**LEAD_ON, "D12": NAME}}, "too long"),
        (
            CLAUDE,
            {**REFERRING, "properties": {"more": NAME}},
            "a reference that can't be replaced by its target",
        ),
        (CLAUDE, {"type": "object", "properties": {"a": {"$anchor": "a"}}}, "`$anchor`"),
    ],
)
def test_a_schema_that_providers_refuse_is_asked_for_in_words(
    model: str, notation: dict[str, Any], why: str
) -> None:
    schema = parse_fields(notation).schema if "$ref" not in notation else notation
    asked = request(model=model, schema=schema)
    told = arguments(agent(model=model), asked)
    assert "response_format" not in told
    assert why in form_of(agent(model=model), asked)[1]
    assert json.dumps(schema, ensure_ascii=False) in told["messages"][0]["content"]


@pytest.mark.parametrize(
    ("fields", "is_sent"),
    [({"names": "str"}, True), ({"names": {"...": "str"}}, False), ({"names": "any"}, True)],
)
def test_a_mapping_is_asked_for_in_words_where_a_claude_that_thinks_would_leave_it_empty(
    fields: dict[str, Any], *, is_sent: bool
) -> None:
    schema = parse_fields(fields).schema
    thinks = agent(model=CLAUDE, params={"reasoning_effort": "low"})
    told = arguments(thinks, request(model=CLAUDE, schema=schema))
    assert ("response_format" in told) is is_sent
    told = arguments(agent(model=CLAUDE), request(model=CLAUDE, schema=schema))
    assert "response_format" in told


def test_params_are_passed_on_and_the_address_and_the_key_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_KEY", "secret-123")
    made = agent(
        params={"temperature": 0.2}, base_url="http://127.0.0.1:1/v1", api_key_env="OUR_KEY"
    )
    told = arguments(made, request())
    assert told["temperature"] == 0.2
    assert told["base_url"] == "http://127.0.0.1:1/v1"
    assert told["api_key"] == "secret-123"


TURNS = (("system", "S"), ("user", "one"), ("assistant", ""), ("user", "two"))


SOLD = [
    CLAUDE, "claude-sonnet-4-5", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "bedrock/converse/anthropic.claude-3-haiku-20240307-v1:0", "vertex_ai/claude-sonnet-4-5",
    "openrouter/anthropic/claude-sonnet-4.5",
]  # fmt: skip


@pytest.mark.parametrize("model", SOLD)
def test_a_conversation_is_cached_wherever_claude_is_sold(model: str) -> None:
    asked = request(*TURNS, model=model)
    asked.is_sent_again = True
    points = arguments(agent(model=model), asked)["cache_control_injection_points"]
    assert points == [
        {"location": "message", "role": "system"},
        {"location": "message", "index": -1},
    ]
    asked.is_sent_again = False
    assert "cache_control_injection_points" not in arguments(agent(model=model), asked)


@pytest.mark.parametrize("model", [MINI, "bedrock/amazon.nova-pro-v1:0", "deepseek/claude-like"])
def test_no_other_model_is_sent_marks(model: str) -> None:
    asked = request(*TURNS, model=model)
    asked.is_sent_again = True
    assert "cache_control_injection_points" not in arguments(agent(model=model), asked)


def test_an_empty_reply_of_a_kept_session_is_sent_as_words() -> None:
    told = arguments(agent(), request(*TURNS))
    assert told["messages"][2] == {"role": "assistant", "content": "(no answer)"}


def test_the_providers_are_those_of_litellm(litellm: Any) -> None:
    names = {getattr(provider, "value", provider) for provider in litellm.provider_list}
    assert names <= known_providers()
    for model in ("groq/x", "ollama_chat/x", "publicai/x", "gpt-4o-mini", "claude-sonnet-4-5"):
        assert litellm.get_llm_provider(model)
        assert model.partition("/")[0] in known_providers() or is_listed(model)
    for model in ("acme-cloud/x", "OpenAI/gpt-5", "gpt-9", "m"):
        with pytest.raises(litellm.BadRequestError):
            litellm.get_llm_provider(model)
        assert model.partition("/")[0] not in known_providers()
        assert not is_listed(model)
