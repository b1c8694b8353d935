"""The price list: every model that LiteLLM prices has its price under each name that it takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from loopkit.agents.model.pricing import Rates, known_entry, known_model

OUTPUT = "output_cost_per_token"
MODES = frozenset({"chat", "responses", "completion"})
SPELLED = {"amazon-nova": "amazon_nova"}
"""Prefixes of keys that LiteLLM's documentation spells otherwise."""


def listed(litellm: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, entry in litellm.model_cost.items():
        if entry.get("mode") in MODES:
            yield key, entry


def written(litellm: Any, key: str, provider: str) -> str:
    """A key as people write it: with the prefix by which LiteLLM finds the provider."""
    prefix, slash, rest = key.partition("/")
    if slash and prefix in SPELLED:
        return f"{SPELLED[prefix]}/{rest}"
    if slash and provider.partition("-")[0] in (prefix, f"{prefix}_text", f"{prefix}_mantle"):
        return key
    try:
        found = litellm.get_llm_provider(key)[1]
    except litellm.exceptions.BadRequestError:
        found = provider
    return key if slash and prefix == found else f"{found}/{key}"


def is_rated(entry: Mapping[str, Any]) -> bool:
    """Whether the table says what a token costs, in the tier that everybody gets."""
    tiers = [entry, *(entry.get("tiered_pricing") or ())]
    return any(tier.get("output_cost_per_token") is not None for tier in tiers)


def test_no_model_that_litellm_prices_is_unpriced(litellm: Any) -> None:
    rated = {key: entry for key, entry in listed(litellm) if is_rated(entry)}
    names = [(key, written(litellm, key, rated[key]["litellm_provider"])) for key in rated]
    unpriced = [
        name
        for pair in names
        for name in pair
        if (known := known_model(name)) is None or known.highest() is None
    ]
    assert unpriced == []
    assert len(rated) > 3_000


def test_what_has_no_rate_in_the_table_is_not_taken_for_free(litellm: Any) -> None:
    for key, entry in listed(litellm):
        if not is_rated(entry):
            known = known_model(key)
            assert known is not None
            assert known.highest() is None, key


def test_each_model_has_the_rates_that_litellm_says(litellm: Any) -> None:
    differing, compared = [], 0
    for key, entry in listed(litellm):
        name = written(litellm, key, entry["litellm_provider"])
        try:
            info = litellm.get_model_info(name)
        except (litellm.BadRequestError, litellm.exceptions.ModelNotMappedError):
            continue  # LiteLLM doesn't find its own entry
        if entry.get("tiered_pricing") or not is_rated(info) or not is_rated(entry):
            continue
        compared += 1
        said = [
            (info[rate] or 0.0, info.get(other) or 0.0)
            for rate, other in (
                ("input_cost_per_token", "cache_creation_input_token_cost"),
                ("output_cost_per_token", "output_cost_per_reasoning_token"),
            )
        ]
        known = known_model(name)
        highest = known and known.highest(sent=1)
        own = {} if known is None else known.entry
        factor = max((own[part] for part in own if part.startswith("regional_")), default=1)
        expected = [max(pair) * factor for pair in said]
        if highest is None or [highest.input, highest.output] != expected:
            differing.append((name, highest, said))
    assert differing == []
    assert compared > 3_000


UNKNOWN_TO_LITELLM = frozenset(
    {
        "vertex_ai/gemini-2.5-flash-001",
        "vertex_ai_beta/gemini-2.5-pro",
        "ai21/jamba-mini-1.7",
        "azure_text/gpt-35-turbo-instruct",
        "amazon_nova/nova-pro-v1",
        "openai/gpt-4o-mini-2031-01-31",
        "openai/ft:gpt-4o-mini-2024-07-18:acme::a1b2c3",
        "openai/responses/gpt-5-codex",
        "watsonx_text/ibm/granite-3-8b-instruct",
        "sagemaker_chat/meta-textgeneration-llama-2-7b-f",
        "ollama_chat/llama3",
    }
)
"""Names that its documentation has people write, and whose price it doesn't find itself."""


@pytest.mark.parametrize(
    "name",
    [
        "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock/invoke/anthropic.claude-haiku-4-5-20251001-v1:0",
        "bedrock/eu-west-3/mistral.mistral-large-2402-v1:0",
        "bedrock/sa-east-1/amazon.nova-pro-v1:0",
        "bedrock/amazon.nova-lite-v1:0:24k",
        "bedrock/arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-pro-v1:0",
        "vertex_ai/gemini-2.5-pro",
        "vertex_ai/gemini-2.5-flash-001",
        "vertex_ai/claude-sonnet-4-5@20250929",
        "vertex_ai/mistral-large-2411",
        "vertex_ai_beta/gemini-2.5-pro",
        "gemini/gemini-2.5-flash-002",
        "cohere/command-a-03-2025",
        "cohere_chat/command-r7b-12-2024",
        "ai21/jamba-mini-1.7",
        "azure/gpt-4o",
        "azure/eu/gpt-4o-2024-08-06",
        "azure_ai/gpt-4o",
        "azure_text/gpt-35-turbo-instruct",
        "amazon_nova/nova-pro-v1",
        "openai/gpt-4o-mini-2031-01-31",
        "openai/ft:gpt-4o-mini-2024-07-18:acme::a1b2c3",
        "openai/responses/gpt-5-codex",
        "openai/GPT-4o-Mini",
        "text-completion-openai/gpt-3.5-turbo-instruct",
        "github/gpt-4o",
        "deepseek/deepseek-chat",
        "fireworks_ai/deepseek-v3p1",
        "volcengine/glm-4-7-251222",
        "watsonx_text/ibm/granite-3-8b-instruct",
        "sagemaker_chat/meta-textgeneration-llama-2-7b-f",
        "ollama_chat/llama3",
        "gpt-4o-mini",
        "claude-haiku-4-5",
    ],
)
def test_names_of_the_documentation_are_priced(litellm: Any, name: str) -> None:
    known = known_model(name)
    assert known is not None
    if name not in UNKNOWN_TO_LITELLM:
        assert known.entry[OUTPUT] == litellm.get_model_info(name)[OUTPUT]
    assert known.highest() is not None


@pytest.mark.parametrize(
    "name",
    [
        "azure/claude-sonnet-4-5",
        "openai/claude-sonnet-4-5",
        "litellm_proxy/gpt-4o",
        "openrouter/gpt-4o",
        "bedrock/gpt-4o",
        "openai/some-model-of-our-own",
        "azure/my-deployment",
        "nobody/gpt-4o",
        "openai/",
        "/gpt-4o",
        "",
    ],
)
def test_a_model_of_one_provider_is_not_taken_for_that_of_another(name: str) -> None:
    assert known_model(name) is None


def by_rates(litellm: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """One model of each provider for each set of rates that the table can have of one."""
    found = {}
    for key, entry in listed(litellm):
        rates = frozenset(name for name in entry if "_cost" in name or "pricing" in name)
        found.setdefault((entry["litellm_provider"], rates), (key, entry))
    yield from found.values()


ASKS_FOR_A_KEY = frozenset({"github_copilot", "chatgpt"})


@pytest.mark.parametrize(
    ("sent", "back", "cached", "put"),
    [(2_000, 500, 0, 0), (150_000, 3_000, 100_000, 0), (300_000, 3_000, 0, 200_000)],
)
def test_a_call_costs_no_more_than_the_highest_rates(
    litellm: Any, sent: int, back: int, cached: int, put: int
) -> None:
    outside, compared = [], 0
    usage = litellm.Usage(
        prompt_tokens=sent,
        completion_tokens=back,
        total_tokens=sent + back,
        prompt_tokens_details={"cached_tokens": cached, "cache_creation_tokens": put},
        cache_read_input_tokens=cached,
        cache_creation_input_tokens=put,
    )
    for key, entry in by_rates(litellm):
        known = known_model(key)
        most = known and known.highest(sent=sent)
        provider = entry["litellm_provider"]
        if most is None or provider in ASKS_FOR_A_KEY:
            continue
        try:
            charged = litellm.cost_per_token(written(litellm, key, provider), usage_object=usage)
        except (litellm.BadRequestError, litellm.exceptions.ModelNotMappedError):
            continue  # LiteLLM doesn't find its own entry
        compared += 1
        ceiling = sent * most.input + back * most.output + most.call
        if sum(charged) > ceiling * 1.000_001:
            outside.append((key, sum(charged), ceiling))
    assert outside == []
    assert compared > 300


def highest(name: str, sent: int | None = 1, **options: Any) -> tuple[float, float]:
    known = known_model(name)
    assert known is not None
    rates = known.highest(options, sent)
    assert rates is not None
    return rates.input, rates.output


def test_a_rate_that_is_not_asked_for_does_not_count(litellm: Any) -> None:
    name = "anthropic/claude-sonnet-4-5"
    entry = litellm.model_cost["claude-sonnet-4-5"]
    assert highest(name)[0] == entry["cache_creation_input_token_cost"]
    hour = {"cache_control_injection_points": [{"control": {"type": "ephemeral", "ttl": "1h"}}]}
    assert highest(name, **hour)[0] == entry["cache_creation_input_token_cost_above_1hr"]


def test_rates_for_long_prompts_count_from_their_length_on(litellm: Any) -> None:
    entry = litellm.model_cost["gemini/gemini-2.5-pro"]
    short = (entry["input_cost_per_token"], entry["output_cost_per_token"])
    long = tuple(
        entry[f"{key}_above_200k_tokens"]
        for key in ("input_cost_per_token", "output_cost_per_token")
    )
    name = "gemini/gemini-2.5-pro"
    assert highest(name, 199_999) == short
    assert highest(name, 200_001) == long
    assert highest(name, None) == long
    steps = litellm.model_cost["dashscope/qwen-flash"]["tiered_pricing"]
    for step, sent in ((steps[0], 1_000), (steps[1], 300_000)):
        rates = (step["input_cost_per_token"], step["output_cost_per_token"])
        assert highest("dashscope/qwen-flash", sent) == rates


def test_rates_of_the_service_tier_that_is_asked_for_count(litellm: Any) -> None:
    entry = litellm.model_cost["gpt-5"]
    ordinary, priority = entry["input_cost_per_token"], entry["input_cost_per_token_priority"]
    assert ordinary < priority
    for tier, rate in [
        (None, ordinary),
        ("priority", priority),
        ("auto", priority),
    ]:
        asked = {} if tier is None else {"service_tier": tier}
        assert highest("openai/gpt-5", **asked)[0] == rate


def test_speed_and_a_region_multiply_what_they_are_asked_for(litellm: Any) -> None:
    name = "anthropic/claude-opus-5"
    plain = highest(name)
    factors = litellm.model_cost["claude-opus-5"]["provider_specific_entry"]
    fast = highest(name, speed="fast", inference_geo="us")
    assert fast == pytest.approx([rate * factors["fast"] * factors["us"] for rate in plain])


def test_a_model_that_always_searches_costs_a_search_more() -> None:
    known = known_model("perplexity/sonar-pro")
    assert known is not None
    rates = known.highest()
    assert rates is not None
    assert rates.call == 0.014


def test_a_part_of_an_entry_that_nobody_knows_yet_is_passed_over() -> None:
    strange: dict[str, Any] = {
        "input_cost_per_token": 1e-6,
        "output_cost_per_token": 2e-6,
        "output_cost_per_token_above_2m_tokens": 9e-6,
        "tiered_pricing": ["new", {"range": []}, {"output_cost_per_token": 5e-6}],
        "search_context_cost_per_query": 3,
        "provider_specific_entry": ["fast"],
    }
    assert known_entry(strange).highest() == Rates(1e-6, 2e-6)


def test_the_list_is_read_without_importing_litellm() -> None:
    code = (
        "import sys\n"
        "from loopkit.agents.model.pricing import known_model\n"
        "assert known_model('bedrock/amazon.nova-pro-v1:0').highest()\n"
        "assert 'litellm' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
