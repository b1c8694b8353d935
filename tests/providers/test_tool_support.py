"""What is believed of providers' tools, held against LiteLLM, and what tools take at most."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.agents.model.pricing import input_bound, known_model
from loopkit.agents.model.reply import NO_TOOLS, has_tools, takes_schema_too
from loopkit.agents.port import Message, Request, Tool
from loopkit.engine.payloads import ToolCall
from loopkit.language.agents.model import ModelAgent
from tests.providers.tool_talk import FUNCTION

FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {}}},
}


def sent(litellm: Any, model: str, **more: Any) -> str:
    """What LiteLLM makes of the options of a call; empty where it refuses them."""
    tools = [{"type": "function", "function": copy.deepcopy(FUNCTION)}]
    try:
        name, provider, _, _ = litellm.get_llm_provider(model)
        told = litellm.utils.get_optional_params(name, custom_llm_provider=provider, tools=tools,
                                                 **copy.deepcopy(more))  # fmt: skip
    except litellm.BadRequestError:
        return ""
    return json.dumps(told, default=str)


def listed(litellm: Any) -> list[str]:
    """The models of the table by the names that people write."""
    return sorted(
        key for key, entry in litellm.model_cost.items()
        if entry.get("mode") == "chat" and key.startswith(f"{entry['litellm_provider']}/")
    )  # fmt: skip


def test_no_tool_of_litellm_s_own_takes_the_place_of_the_agent_s(litellm: Any) -> None:
    asked = 0
    for model in listed(litellm):
        if takes_schema_too(ModelAgent(model=(model,)), model):
            told = sent(litellm, model, response_format=FORMAT)
            assert "json_tool_call" not in told, model
            asked += "answer" in told or "json" in told
    assert asked > 100


def test_litellm_passes_on_the_tools_of_every_provider_that_is_sent_some(litellm: Any) -> None:
    some: dict[str, str] = {}
    for model in listed(litellm):
        if has_tools(ModelAgent(model=(model,)), model):
            some.setdefault(model.partition("/")[0], model)
    told = {provider: sent(litellm, model) for provider, model in some.items()}
    lost = [p for p, t in told.items() if t and (FUNCTION["name"] not in t or "unsupported" in t)]
    assert lost == []
    assert len([text for text in told.values() if text]) > 40


@pytest.mark.parametrize("provider", sorted(NO_TOOLS))
def test_it_does_not_do_so_for_these(litellm: Any, provider: str) -> None:
    model = next(
        model for model in listed(litellm)
        if model.startswith(f"{provider}/") and (known := known_model(model)) and known.has_tools
    )  # fmt: skip
    assert not has_tools(ModelAgent(model=(model,)), model)
    told = sent(litellm, model)
    assert FUNCTION["name"] not in told or "unsupported" in told


TEXTS = st.text(max_size=200)
SCHEMAS = st.builds(
    lambda names, text: {
        "type": "object",
        "properties": {name: {"type": "string", "description": text} for name in names},
        "required": names,
    },
    st.lists(st.text(min_size=1, max_size=30), max_size=5, unique=True),
    TEXTS,
)
TOOLS = st.lists(
    st.builds(Tool, st.from_regex(r"[a-z][a-z0-9_]{0,60}", fullmatch=True), TEXTS, SCHEMAS),
    min_size=1, max_size=3,
)  # fmt: skip


@given(TOOLS, st.lists(st.tuples(TEXTS, TEXTS), max_size=3), TEXTS)
def test_no_tokenizer_counts_more_than_is_reserved_for_a_round(
    litellm: Any, tools: list[Tool], called: list[tuple[str, str]], said: str
) -> None:
    calls = [
        ToolCall(id=f"call_{number}", name=tools[0].name, arguments=json.dumps({"draft": draft}))
        for number, (draft, _) in enumerate(called)
    ]
    results = [
        Message("tool", given, tool_call_id=call.id)
        for call, (_, given) in zip(calls, called, strict=True)
    ]
    messages = [Message("user", said), Message("assistant", said, tool_calls=calls), *results]
    asked = Request("a", "s", "author", said, messages, tools=tools, model="openai/gpt-4o-mini")
    functions = [
        {"id": call.id, "type": "function",
         "function": {"name": call.name, "arguments": call.arguments}}
        for call in calls
    ]  # fmt: skip
    told = [
        {"role": "user", "content": said},
        {"role": "assistant", "content": said, **({"tool_calls": functions} if calls else {})},
        *({"role": "tool", "content": m.content, "tool_call_id": m.tool_call_id} for m in results),
    ]
    described = [
        {"type": "function", "function": {"name": tool.name, "description": tool.description,
                                          "parameters": tool.schema}}
        for tool in tools
    ]  # fmt: skip
    as_text = litellm.token_counter(model="gpt-4o-mini", text=json.dumps([told, described]))
    assert max(
        litellm.token_counter(model="gpt-4o-mini", messages=told, tools=described),
        as_text - len(told) * 20,
    ) <= input_bound(asked)


def test_each_part_of_a_round_counts() -> None:
    def bound(*messages: Message, tools: list[Tool] | None = None) -> int:
        return input_bound(Request("a", "s", "author", "", messages, tools=tools or []))

    user, big = Message("user", "Plan."), "x" * 5_000
    call = ToolCall(id="a", name="t", arguments="{}")
    least = bound(user)
    assert bound(user, tools=[Tool("t", "", {})]) > least + 1_000
    assert bound(user, tools=[Tool("t", big, {})]) > least + 10_000
    assert bound(user, tools=[Tool("t", "", {"description": big})]) > least + 10_000
    for changed in (
        Message("assistant", "", tool_calls=[call.replace(arguments=big)]),
        Message("assistant", "", tool_calls=[call.replace(id=big)]),
        Message("assistant", "", tool_calls=[call], kept={"thinking_blocks": [{"data": big}]}),
        Message("tool", big, tool_call_id="a"),
    ):
        assert bound(user, changed) > least + 5_000
    # A result may be sent as JSON, in which a line's end takes two characters.
    assert bound(user, Message("tool", "\n" * 5_000, tool_call_id="a")) > least + 10_000
