"""Tool support: the tools that a model is offered, and a schema beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopkit.agents.model.catalogue import known_model, provider_of
from loopkit.language import ModelAgent

if TYPE_CHECKING:
    from loopkit.agents.port import Request, Tool

NO_TOOLS = frozenset({"ollama", "replicate"})
"""Providers to which LiteLLM passes no tools, whatever the model can: it leaves them out, or puts
them into the prompt and makes every answer JSON. Ollama takes them under `ollama_chat/`."""
NO_CHOICE = frozenset({"ollama_chat"})
"""Providers that call whatever tool they are sent, because they know no `tool_choice`."""
TAKE_BOTH = frozenset({"anthropic", "azure", "mistral", "openai"})
"""Providers that take a JSON Schema beside tools, of the models that take one at all."""
_GEMINI = re.compile(r"\bgemini-(\d+)")
_FIRST_GEMINI = 3
"""The first Gemini that takes both; those before it refuse the request."""
SCHEMA_AS_TOOL = frozenset({
    "anthropic", "azure", "bedrock", "bedrock_converse", "bedrock_mantle", "databricks", "groq",
    "vertex_ai", "vertex_ai_beta",
})  # fmt: skip
"""Providers for which LiteLLM turns a schema into a tool that some models have to call with the
answer, so that they call no other."""


def offered_tools(agent: ModelAgent, request: Request) -> Sequence[Tool]:
    """The tools that a request offers; none where the model can't call any."""
    return request.tools if has_tools(agent, request.model) else ()


def has_tools(agent: ModelAgent, model: str) -> bool:
    """Whether a model can call tools; an unlisted one is assumed to."""
    if agent.tool_use == "runner" or provider_of(model) in NO_TOOLS:
        return False
    known = known_model(model)
    return agent.tool_use == "native" or known is None or known.has_tools


def takes_schema_too(agent: ModelAgent, model: str) -> bool:
    """Whether the provider takes a JSON Schema beside tools."""
    provider, known = provider_of(model), known_model(model)
    if known is not None and known.native_schema:
        gemini = _GEMINI.search(model) if provider in ("gemini", "vertex_ai") else None
        if provider in TAKE_BOTH or (gemini and int(gemini[1]) >= _FIRST_GEMINI):
            return True
    return agent.structured == "native" and provider not in SCHEMA_AS_TOOL


def tool_arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    """The arguments of a LiteLLM call that concern tools."""
    tools = offered_tools(agent, request)
    is_silent = not request.may_call_tools and provider_of(request.model) in NO_CHOICE
    if not tools or is_silent:
        return {}
    keywords: dict[str, Any] = {"tools": [_function(tool) for tool in tools]}
    if not request.may_call_tools:
        keywords["tool_choice"] = "none"
    return keywords


def _function(tool: Tool) -> Mapping[str, Any]:
    # A copy: LiteLLM removes the words from a schema that a provider does not know.
    schema = json.loads(json.dumps(tool.schema))
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **described, "parameters": schema},
    }
