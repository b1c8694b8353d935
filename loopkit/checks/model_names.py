"""Checks of models by name: their providers, options and addresses.

`unknown-provider`, `unknown-model`, `unknown-option`, `bad-address`. LiteLLM is not imported,
because that takes seconds.
"""

from __future__ import annotations

import re

from loopkit.checks.references import RESERVED, asked_models, models_of
from loopkit.checks.subject import Found, Subject, of_machine
from loopkit.document.problems import closest
from loopkit.language.agents import listed_provider, similar_model

_OPTIONS = """
allowed_openai_params api_version audio betas cache_control cached_content caching
context_management data_sources dimensions drop_params enable_thinking extra_body extra_headers
extra_query frequency_penalty guardrails headers include input_cost_per_token keep_alive logit_bias
logprobs max_completion_tokens max_output_tokens max_tokens mcp_servers metadata min_p mirostat
mirostat_eta mirostat_tau modalities num_ctx num_gpu num_predict num_thread organization
output_config output_cost_per_token parallel_tool_calls plugins prediction presence_penalty project
prompt_cache_key prompt_cache_retention provider reasoning reasoning_effort reasoning_summary
repeat_penalty repetition_penalty route safe_prompt safety_identifier safety_settings seed
service_tier speed stop stop_sequences store system_instruction temperature tfs_z thinking
thinking_budget thinking_level top_a top_k top_logprobs top_p transforms truncation typical_p user
verbosity vertex_credentials vertex_location vertex_project web_search_options
"""
OPTIONS = frozenset(_OPTIONS.split())
"""The options that providers take, as they and LiteLLM document them."""
BESIDE = "delete it, or pass it on in `extra_body`"
STRICT = ("openai", "anthropic", "gemini", "mistral", "deepseek", "xai")
"""Providers that refuse, or never see, an option that is none of these."""


@of_machine()
def check_options(subject: Subject) -> Found:
    for path, asked in asked_models(subject.machine):
        for option in sorted((asked.params or {}).keys() - OPTIONS - RESERVED.keys()):
            plain = re.sub(r"(?<=[a-z])[A-Z]", lambda found: f"_{found[0]}", option)
            near = closest(plain.replace("-", "_").lower(), sorted(OPTIONS), 0.75)
            is_strict = asked.base_url is None and all(
                model.partition("/")[0] in STRICT for model in asked.model
            )
            if near or is_strict:
                message = f"no provider is known to take the option `{option}`"
                remedy = f"did you mean `{near}`?" if near else BESIDE
                yield subject.problem((*path, "params", option), "unknown-option", message, remedy)


@of_machine()
def check_names(subject: Subject) -> Found:
    """A model has a provider, and its name is not nearly that of another one."""
    own = [asked for _, asked in asked_models(subject.machine) if asked.base_url is not None]
    at_own_address = {model for asked in own for model in asked.model}
    for path, model in models_of(subject.machine):
        if "/" not in model and (provider := listed_provider(model)):
            message, remedy = f"`{model}` has no provider", f"write `{provider}/{model}`"
            yield subject.problem(path, "unknown-provider", message, remedy, severity="warning")
        elif model not in at_own_address and (near := similar_model(model, STRICT)):
            message = f"LiteLLM lists no model `{model}`"
            yield subject.problem(path, "unknown-model", message, f"did you mean `{near}`?")


@of_machine()
def check_addresses(subject: Subject) -> Found:
    for path, asked in asked_models(subject.machine):
        address = asked.base_url
        if address is None or "$" in address or re.match(r"https?://[^/\s]", address):
            continue
        rest = re.sub(r"^\w*:?/+", "", address)
        local = re.match(r"(localhost|\d|[\w-]+:|[\w-]+\.local\b)", rest)
        example = f"{'http' if local else 'https'}://{rest or 'localhost:8000'}"
        message = f"`{address}` is no address: it does not begin with `http://` or `https://`"
        remedy = f"write `{example}`"
        yield subject.problem((*path, "base_url"), "bad-address", message, remedy)
