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
"""Providers that LiteLLM passes no tools to, whatever the model can: it leaves them out, or puts
them into the prompt and has every answer be JSON. Ollama takes them under `ollama_chat/`."""
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
"""Providers of which LiteLLM has some models call a tool with the answer, and no other one, where
the request has a schema."""


def offered_tools(agent: ModelAgent, request: Request) -> Sequence[Tool]:
    """The tools that a request offers; none where the model can't call any."""
    return request.tools if has_tools(agent, request.model) else ()


def has_tools(agent: ModelAgent, model: str) -> bool:
    """Whether a model can call tools; one that is in no list is taken to."""
    if agent.tool_use == "runner" or provider_of(model) in NO_TOOLS:
        return False
    known = known_model(model)
    return agent.tool_use == "native" or known is None or known.has_tools


def takes_schema_too(agent: ModelAgent, model: str) -> bool:
    """Whether a schema can be asked for by the provider's own means beside tools."""
    provider, known = provider_of(model), known_model(model)
    if known is not None and known.native_schema:
        gemini = _GEMINI.search(model) if provider in ("gemini", "vertex_ai") else None
        if provider in TAKE_BOTH or (gemini and int(gemini[1]) >= _FIRST_GEMINI):
            return True
    return agent.structured == "native" and provider not in SCHEMA_AS_TOOL


def tool_arguments(agent: ModelAgent, request: Request) -> dict[str, Any]:
    """What of the arguments of a LiteLLM call is about tools."""
    tools = offered_tools(agent, request)
    is_silent = not request.may_call_tools and provider_of(request.model) in NO_CHOICE
    if not tools or is_silent:
        return {}
    told: dict[str, Any] = {"tools": [_function(tool) for tool in tools]}
    if not request.may_call_tools:
        told["tool_choice"] = "none"
    return told


def _function(tool: Tool) -> Mapping[str, Any]:
    # A copy: LiteLLM takes words out of schemas that a provider does not know.
    schema = json.loads(json.dumps(tool.schema))
    described = {"description": tool.description} if tool.description else {}
    return {
        "type": "function",
        "function": {"name": tool.name, **described, "parameters": schema},
    }
