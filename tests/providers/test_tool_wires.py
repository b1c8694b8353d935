"""Tools on the wire: what each provider receives in the first round and in the second."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.agents.port import Reply
from tests.providers.hostile import HostileServer, json_answer
from tests.providers.tool_talk import (
    BAD,
    DRAFT,
    FUNCTION,
    GOOD,
    OPEN_DRAFT,
    TOOL,
    Talk,
    answered,
    anthropic_answer,
    openai_calls,
    openai_message,
)

pytestmark = pytest.mark.usefixtures("provider_key")

CALLED = {"name": TOOL.name, "arguments": BAD}
SAID = "Let me see."


def assert_called(reply: Reply, *arguments: str, text: str = "") -> None:
    calls = [(call.name, call.arguments) for call in reply.tool_calls]
    assert calls == [(TOOL.name, told) for told in arguments]
    assert (reply.text, reply.cut_off, reply.has_no_tools) == (text, False, False)
    assert (reply.tokens, reply.held) == (30, False)


def test_openai(hostile: HostileServer) -> None:
    talk = Talk(hostile)
    hostile.queue(openai_calls(BAD, GOOD, content=SAID))
    reply = talk.ask()
    assert_called(reply, BAD, GOOD, text=SAID)
    assert talk.sent["tools"] == [{"type": "function", "function": FUNCTION}]
    assert "tool_choice" not in talk.sent
    hostile.say("A plan")
    last = talk.ask(answered(reply, "It is bad.", "It is good."))
    assert (last.text, last.tool_calls, last.kept) == ("A plan", (), {})
    assert talk.sent["tools"] == [{"type": "function", "function": FUNCTION}]
    assert talk.sent["messages"][2:] == [
        {
            "role": "assistant",
            "content": SAID,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": CALLED},
                {"id": "call_2", "type": "function", "function": {**CALLED, "arguments": GOOD}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "It is bad."},
        {"role": "tool", "tool_call_id": "call_2", "content": "It is good."},
    ]


RESPONDED = {"object": "response", "created_at": 1, "status": "completed", "model": "m"}
RESPONSES_USAGE = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}


def responses(*output: Any) -> Any:
    return json_answer({"id": "resp_1", **RESPONDED, "usage": RESPONSES_USAGE, "output": output})


@pytest.mark.parametrize("model", ["openai/responses/gpt-5-mini", "openai/gpt-5.5-pro"])
@pytest.mark.parametrize("seal", ["sealed==", None])
def test_openai_s_responses(hostile: HostileServer, model: str, seal: str | None) -> None:
    talk = Talk(hostile, model)
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": TOOL.name,
            "arguments": BAD, "status": "completed"}  # fmt: skip
    hostile.queue(responses(thought, call))
    reply = talk.ask()
    assert_called(reply, BAD)
    assert hostile.requests()[-1].path.endswith("/responses")
    (tool,) = talk.sent["tools"]
    assert {name: tool[name] for name in ("type", *FUNCTION)} == {"type": "function", **FUNCTION}
    part = {"type": "output_text", "text": "A plan", "annotations": []}
    message = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
    hostile.queue(responses({**message, "content": [part]}))
    assert talk.ask(answered(reply, "It is bad."), may_call_tools=False).text == "A plan"
    *earlier, called, given = talk.sent["input"]
    thoughts = [sent for sent in earlier if sent["type"] == "reasoning"]
    # What is not sealed would be looked for where OpenAI keeps it, if it keeps it.
    assert [sent["encrypted_content"] for sent in thoughts] == [seal] * (seal is not None)
    assert called == {
        "type": "function_call", "call_id": called["call_id"], "name": TOOL.name, "arguments": BAD,
    }  # fmt: skip
    assert given == {
        "type": "function_call_output",
        "call_id": called["call_id"],
        "output": [{"type": "input_text", "text": "It is bad."}],
    }
    assert talk.sent["tool_choice"] == "none"


THOUGHTS = [
    {"type": "thinking", "thinking": "Hm.", "signature": "signed=="},
    {"type": "redacted_thinking", "data": "sealed=="},
]
USES = [
    {"type": "tool_use", "id": "toolu_1", "name": TOOL.name, "input": {"draft": "a bad one"}},
    {"type": "tool_use", "id": "toolu_2", "name": TOOL.name, "input": {"draft": "a good one"}},
]
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}


def test_anthropic_gets_its_signed_thoughts_back(hostile: HostileServer) -> None:
    talk = Talk(hostile, "anthropic/claude-sonnet-4-5", params=THINKS)
    hostile.queue(anthropic_answer(*THOUGHTS, {"type": "text", "text": SAID}, *USES))
    reply = talk.ask()
    assert_called(reply, BAD, GOOD, text=SAID)
    (tool,) = talk.sent["tools"]
    assert (tool["name"], tool["input_schema"]) == (TOOL.name, DRAFT)
    assert "tool_choice" not in talk.sent
    hostile.queue(anthropic_answer({"type": "text", "text": "A plan"}, stop="end_turn"))
    last = talk.ask(answered(reply, "It is bad.", " "), may_call_tools=False)
    assert last.text == "A plan"
    said, given = talk.sent["messages"][1:]
    assert said["content"] == [*THOUGHTS, {"type": "text", "text": SAID}, *USES]
    assert [(part["tool_use_id"], part["content"]) for part in given["content"]] == [
        ("toolu_1", "It is bad."),
        ("toolu_2", "(no output)"),
    ]
    assert talk.sent["tool_choice"] == {"type": "none"}
    assert [tool["name"] for tool in talk.sent["tools"]] == [TOOL.name]


def test_the_last_result_is_marked_where_it_will_be_sent_again(hostile: HostileServer) -> None:
    talk = Talk(hostile, "anthropic/claude-sonnet-4-5", params=THINKS)
    hostile.queue(anthropic_answer(*USES[:1]))
    reply = talk.ask(is_sent_again=True)
    hostile.queue(anthropic_answer({"type": "text", "text": "A plan"}, stop="end_turn"))
    talk.ask(answered(reply, "It is bad."), is_sent_again=True)
    (given,) = talk.sent["messages"][-1]["content"]
    assert (given["type"], given["cache_control"]) == ("tool_result", {"type": "ephemeral"})


def gemini(*parts: Any) -> Any:
    counted = {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 30}
    content = {"role": "model", "parts": list(parts)}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    return json_answer({"candidates": [candidate], "usageMetadata": counted, "modelVersion": "g"})


def test_gemini_gets_its_signatures_back(hostile: HostileServer) -> None:
    talk = Talk(hostile, "gemini/gemini-2.5-flash")
    call = {"name": TOOL.name, "args": {"draft": "a bad one"}}
    other = {"name": TOOL.name, "args": {"draft": "a good one"}}
    signed = {"functionCall": call, "thoughtSignature": "AbC+/d=="}
    hostile.queue(gemini({"text": "Hm.", "thought": True}, signed, {"functionCall": other}))
    reply = talk.ask()
    assert_called(reply, BAD, GOOD)
    (declared,) = talk.sent["tools"][0]["function_declarations"]
    assert declared == {**FUNCTION, "parameters": OPEN_DRAFT}
    hostile.queue(gemini({"text": "A plan"}))
    assert talk.ask(answered(reply, "Bad.", "Good."), may_call_tools=False).text == "A plan"
    called, given = talk.sent["contents"][1:]
    # What it thought is not signed: it would take that for our own words.
    assert called["parts"] == [
        {"function_call": call, "thoughtSignature": "AbC+/d=="},
        {"function_call": other},
    ]
    results = [part["function_response"] for part in given["parts"]]
    assert results == [
        {"name": TOOL.name, "response": {"content": "Bad."}},
        {"name": TOOL.name, "response": {"content": "Good."}},
    ]
    assert talk.sent["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    # LiteLLM takes words out of the schema that Gemini does not know, but not out of ours.
    assert TOOL.schema["additionalProperties"] is False


def test_gemini_gets_one_result_for_calls_that_say_the_same(hostile: HostileServer) -> None:
    """LiteLLM sends it one call for them, and it refuses more results than calls."""
    talk = Talk(hostile, "gemini/gemini-2.5-flash")
    call = {"functionCall": {"name": TOOL.name, "args": {"draft": "a bad one"}}}
    hostile.queue(gemini(call, call, call))
    reply = talk.ask()
    assert_called(reply, BAD, BAD, BAD)
    hostile.queue(gemini({"text": "A plan"}))
    talk.ask(answered(reply, "It is bad.", "It is bad.", "No call is left."))
    called, given = talk.sent["contents"][1:]
    assert [part["function_call"]["args"] for part in called["parts"]] == [{"draft": "a bad one"}]
    (result,) = given["parts"]
    said = {"content": "It is bad.\n\nNo call is left."}
    assert result["function_response"] == {"name": TOOL.name, "response": said}


def bedrock(*content: Any, stop: str = "tool_use") -> Any:
    counted = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30}
    message = {"role": "assistant", "content": list(content)}
    return json_answer({"output": {"message": message}, "stopReason": stop, "usage": counted})


@pytest.mark.usefixtures("aws")
def test_bedrock_is_not_told_to_call_nothing_because_it_can_not_be(hostile: HostileServer) -> None:
    talk = Talk(hostile, "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", params=THINKS)
    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "signed=="}}}
    use = {"toolUseId": "tooluse_1", "name": TOOL.name, "input": {"draft": "a bad one"}}
    hostile.queue(bedrock(thought, {"text": SAID}, {"toolUse": use}))
    reply = talk.ask()
    assert_called(reply, BAD, text=SAID)
    (tool,) = talk.sent["toolConfig"]["tools"]
    assert tool["toolSpec"]["inputSchema"] == {"json": DRAFT}
    hostile.queue(bedrock({"text": "A plan"}, stop="end_turn"))
    last = talk.ask(answered(reply, "It is bad."), may_call_tools=False)
    assert last.text == "A plan"
    called, given = talk.sent["messages"][1:]
    assert called["content"] == [thought, {"text": SAID}, {"toolUse": use}]
    assert given["content"] == [
        {"toolResult": {"toolUseId": "tooluse_1", "content": [{"text": "It is bad."}]}}
    ]
    # Its history can't be read without the tools.
    assert list(talk.sent["toolConfig"]) == ["tools"]
    assert len(hostile.requests()) == 2


def ollama(**message: Any) -> Any:
    counted = {"prompt_eval_count": 20, "eval_count": 10, "done": True, "done_reason": "stop"}
    said = {"role": "assistant", "content": "", **message}
    return json_answer({"model": "qwen3", "message": said, **counted})


def chats(server: HostileServer) -> list[Any]:
    return [request.body for request in server.requests() if request.path == "/api/chat"]


def test_ollama_is_sent_no_tools_where_it_may_call_none(hostile: HostileServer) -> None:
    talk = Talk(hostile, "ollama_chat/qwen3")
    call = {"function": {"name": TOOL.name, "arguments": {"draft": "a bad one"}}}
    hostile.queue(ollama(thinking="Hm.", tool_calls=[call]))
    reply = talk.ask()
    assert_called(reply, BAD)
    assert chats(hostile)[0]["tools"] == [{"type": "function", "function": FUNCTION}]
    hostile.queue(ollama(content="A plan"))
    assert talk.ask(answered(reply, "It is bad."), may_call_tools=False).text == "A plan"
    sent = chats(hostile)[1]
    called, given = sent["messages"][2:]
    functions = [{"function": sent["function"]} for sent in called["tool_calls"]]
    assert (functions, called["thinking"]) == ([call], "Hm.")
    assert (given["role"], given["content"]) == ("tool", "It is bad.")
    # It would call them whatever it is told.
    assert "tools" not in sent


@pytest.mark.parametrize(
    ("model", "thought", "sent"),
    [
        ("deepseek/deepseek-chat", {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        ("moonshot/kimi-k2-thinking", {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        ("zai/glm-4.7", {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
        ("groq/openai/gpt-oss-20b", {"reasoning": "Hm."}, {}),
        ("openai/a-model-of-our-own", {"reasoning_content": "Hm."}, {}),
        (
            "openrouter/google/gemini-3-pro-preview",
            {"reasoning": "Hm.", "reasoning_details": [{"type": "x", "data": "sealed=="}]},
            {"reasoning_details": [{"type": "x", "data": "sealed=="}]},
        ),
    ],
)
def test_thoughts_go_back_to_who_wants_them(
    hostile: HostileServer, model: str, thought: Any, sent: Any
) -> None:
    talk = Talk(hostile, model)
    hostile.queue(openai_calls(BAD, **thought))
    reply = talk.ask()
    assert_called(reply, BAD)
    hostile.say("A plan")
    assert talk.ask(answered(reply, "It is bad.")).text == "A plan"
    said = talk.sent["messages"][2]
    call = {"id": "call_1", "type": "function", "function": CALLED}
    assert {k: v for k, v in said.items() if v is not None} == {
        "role": "assistant", "tool_calls": [call], **sent,
    }  # fmt: skip


def test_groq_s_calls_are_read_where_litellm_fails_on_its_answer(hostile: HostileServer) -> None:
    """It does so without `service_tier`."""
    talk = Talk(hostile, "groq/openai/gpt-oss-20b")
    call = {"id": "fc_1", "type": "function", "function": CALLED, "index": 0}
    broken: list[Any] = [5, {"id": "x"}, {"function": {"name": 5, "arguments": "{}"}}]
    hostile.queue(openai_message("tool_calls", tool_calls=[call, *broken], content=SAID))
    reply = talk.ask()
    assert_called(reply, BAD, text=SAID)
    assert [call.id for call in reply.tool_calls] == ["fc_1"]
    assert len(hostile.requests()) == 1


def test_mistral_keeps_its_short_ids(hostile: HostileServer) -> None:
    talk = Talk(hostile, "mistral/mistral-large-latest")
    hostile.queue(
        openai_message("tool_calls", tool_calls=[{"id": "Ab3dEf9hI", "function": CALLED}])
    )
    reply = talk.ask()
    hostile.say("A plan")
    talk.ask(answered(reply, "It is bad."))
    said, given = talk.sent["messages"][2:]
    assert [call["id"] for call in said["tool_calls"]] == [given["tool_call_id"]] == ["Ab3dEf9hI"]


MESSAGE = {"type": "message", "id": "m", "status": "completed", "role": "assistant"}
PART = {"type": "output_text", "text": "A plan", "annotations": []}
USE = {"toolUseId": "tooluse_1", "name": TOOL.name, "input": {"draft": "a bad one"}}
CALL = {"name": TOOL.name, "args": {"draft": "a bad one"}}
OWN_CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", **CALLED}
ROUNDS: dict[str, tuple[Any, Any]] = {
    "openai/gpt-4o-mini": (openai_calls(BAD), openai_message(content="A plan")),
    "openai/responses/gpt-5-mini": (
        responses({**OWN_CALL, "status": "completed"}),
        responses({**MESSAGE, "content": [PART]}),
    ),
    "anthropic/claude-sonnet-4-5": (
        anthropic_answer(USES[0]),
        anthropic_answer({"type": "text", "text": "A plan"}, stop="end_turn"),
    ),
    "gemini/gemini-2.5-flash": (gemini({"functionCall": CALL}), gemini({"text": "A plan"})),
    "bedrock/us.amazon.nova-pro-v1:0": (
        bedrock({"toolUse": USE}),
        bedrock({"text": "A plan"}, stop="end_turn"),
    ),
    "ollama_chat/qwen3": (
        ollama(tool_calls=[{"function": {"name": TOOL.name, "arguments": CALL["args"]}}]),
        ollama(content="A plan"),
    ),
    "mistral/mistral-large-latest": (openai_calls(BAD), openai_message(content="A plan")),
}
"""By model: an answer that calls the tool, and one that is the plan."""
BROKEN = ['{"draft": "half a', "[1]", "null", '"x"', "", '{"draft": NaN}', '\ufeff{"draft": "x"}']


@pytest.mark.parametrize("model", ROUNDS)
@pytest.mark.usefixtures("aws")
def test_broken_arguments_reach_no_provider(hostile: HostileServer, model: str) -> None:
    """Anthropic and Gemini refuse them, or LiteLLM raises."""
    talk = Talk(hostile, model)
    called, plan = ROUNDS[model]
    hostile.queue(called)
    reply = talk.ask()
    for text in BROKEN:
        calls = [call.replace(arguments=text) for call in reply.tool_calls]
        hostile.queue(plan)
        last = talk.ask(answered(reply.replace(tool_calls=tuple(calls)), "That is no JSON."))
        assert last.text == "A plan"
        sent = json.dumps(talk.sent, ensure_ascii=False)
        assert sent.count("That is no JSON.") == 1
        assert "a bad one" not in sent
        assert not any(broken in sent for broken in ("half a", "[1]", "NaN"))
        assert "\ufeff" not in sent
