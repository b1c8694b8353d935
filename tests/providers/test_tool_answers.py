"""Answers that call tools: read as what they are, whatever is beside them or wrong with them."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.agents.port import AgentError, AnswerCaps, Message, Tool
from tests.providers.hostile import Answer, HostileServer, json_answer
from tests.providers.tool_talk import (
    BAD,
    GOOD,
    TASK,
    TOOL,
    Talk,
    answered,
    anthropic_answer,
    openai_calls,
    openai_message,
)

pytestmark = pytest.mark.usefixtures("provider_key")

SCHEMA = {
    "type": "object",
    "properties": {"steps": {"type": "string"}, "note": {"type": "string"}},
    "required": ["steps"],
    "additionalProperties": False,
}
PLAN = '{"steps": "one"}'


def function(name: object = TOOL.name, arguments: object = BAD) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call", None])
def test_calls_alone_are_an_answer_whatever_ended_it(hostile: HostileServer, finish: Any) -> None:
    hostile.queue(openai_message(finish, tool_calls=[{"id": "a", **function()}]))
    reply = Talk(hostile).ask()
    assert [call.arguments for call in reply.tool_calls] == [BAD]
    assert (reply.text, reply.cut_off, reply.tokens, reply.cost_usd) == ("", False, 30, 30 / 1e6)


def test_calls_that_were_not_counted_are_held_at_what_was_reserved(
    hostile: HostileServer,
) -> None:
    counted = {"prompt_tokens": 20, "completion_tokens": 0, "total_tokens": 20}
    for usage in ({}, {"usage": counted}):
        calls = [{"id": "a", **function()}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        hostile.queue(json_answer({"id": "1", "object": "chat.completion", "created": 1,
                                   "model": "m", "choices": [choice], **usage}))  # fmt: skip
        talk = Talk(hostile, params={"max_tokens": 50})
        reply = talk.ask()
        assert (len(reply.tool_calls), reply.held) == (1, True)
        assert reply.tokens > 1_000


@pytest.mark.parametrize("model", [HostileServer.model, "groq/openai/gpt-oss-20b"])
def test_each_call_has_an_id_of_its_own(hostile: HostileServer, model: str) -> None:
    """Some servers give all calls the same, or none."""
    ids: list[Any] = ["same", "same", "", None, "same"]
    calls = [{"id": own, **function()} for own in ids] + [function()]
    hostile.queue(openai_message("tool_calls", tool_calls=calls))
    talk = Talk(hostile, model)
    reply = talk.ask()
    told = [call.id for call in reply.tool_calls]
    assert (len(told), len(set(told)), told[0]) == (6, 6, "same")
    hostile.say("A plan")
    talk.ask(answered(reply, *"abcdef"))
    sent = talk.sent["messages"][2:]
    assert [call["id"] for call in sent[0]["tool_calls"]] == told
    assert [(m["tool_call_id"], m["content"]) for m in sent[1:]] == list(
        zip(told, "abcdef", strict=True)
    )


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        *((nothing, "{}") for nothing in ("", " ", "null", None, '""')),
        ({"draft": "x"}, '{"draft": "x"}'),
        ('{"draft": ', '{"draft":'),
    ],
)
@pytest.mark.parametrize("model", [HostileServer.model, "groq/openai/gpt-oss-20b"])
def test_arguments_are_text_as_the_model_wrote_it(
    hostile: HostileServer, model: str, arguments: Any, read: str
) -> None:
    call = {"id": "a", **function(arguments=arguments)}
    hostile.queue(openai_message("tool_calls", tool_calls=[call]))
    reply = Talk(hostile, model).ask()
    assert [call.arguments for call in reply.tool_calls] == [read]


def test_a_tool_that_does_not_exist_is_told_as_it_was_called(hostile: HostileServer) -> None:
    calls = [{"id": "a", **function("shell", "{}")}, {"id": "b", **function(arguments=GOOD)}]
    hostile.queue(openai_message("tool_calls", tool_calls=calls))
    reply = Talk(hostile).ask()
    assert [call.name for call in reply.tool_calls] == ["shell", TOOL.name]


def test_where_no_tool_was_offered_nothing_was_called(hostile: HostileServer) -> None:
    hostile.queue(openai_calls(BAD, content="A plan"), openai_calls(BAD))
    talk = Talk(hostile)
    replies = [talk.ask(tools=[]), talk.ask(tools=[])]
    assert [(r.text, r.tool_calls, r.kept) for r in replies] == [("A plan", (), {}), ("", (), {})]
    assert not any(reply.has_no_tools for reply in replies)
    assert not talk.sent.keys() & {"tools", "tool_choice"}


def test_litellm_s_own_tool_is_none_of_the_agent(hostile: HostileServer) -> None:
    """It has a model call `json_tool_call` with the answer where that takes no schema."""
    call = {"id": "a", **function("json_tool_call", PLAN)}
    hostile.queue(openai_message("tool_calls", tool_calls=[call]))
    reply = Talk(hostile, "groq/llama-3.3-70b-versatile", structured="native").ask(
        tools=[], schema=SCHEMA
    )
    assert (reply.text, reply.tool_calls) == (PLAN, ())
    hostile.queue(openai_message("tool_calls", tool_calls=[call, {"id": "b", **function()}]))
    reply = Talk(hostile).ask()
    assert [call.name for call in reply.tool_calls] == [TOOL.name]
    # One that is called like it is the agent's own.
    own = Tool("json_tool_call", "", SCHEMA)
    hostile.queue(openai_message("tool_calls", tool_calls=[call]))
    reply = Talk(hostile).ask(tools=[own])
    assert [call.arguments for call in reply.tool_calls] == [PLAN]


class TestACutOffAnswer:
    def test_keeps_its_calls(self, hostile: HostileServer) -> None:
        calls = [{"id": "a", **function()}, {"id": "b", **function(arguments='{"draft": "hal')}]
        hostile.queue(openai_message("length", tool_calls=calls))
        reply = Talk(hostile, params={"max_tokens": 10}).ask()
        assert reply.cut_off
        assert [call.arguments for call in reply.tool_calls] == [BAD, '{"draft": "hal']

    def test_is_no_long_thought_where_it_calls(self, hostile: HostileServer) -> None:
        """Anthropic breaks off inside the arguments, and leaves out what was not whole."""
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed=="}
        use = {"type": "tool_use", "id": "toolu_1", "name": TOOL.name, "input": {}}
        hostile.queue(anthropic_answer(thought, use, stop="max_tokens"))
        thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
        reply = Talk(hostile, "anthropic/claude-sonnet-4-5", params=thinks).ask()
        assert (reply.cut_off, [call.arguments for call in reply.tool_calls]) == (True, ["{}"])
        assert reply.kept["thinking_blocks"] == [thought]

    def test_at_the_cap_of_a_limit_is_told_so(self, hostile: HostileServer) -> None:
        hostile.queue(openai_message("length", tool_calls=[{"id": "a", **function()}]))
        caps = AnswerCaps(usual=1_000, least=100, most=None)
        with pytest.raises(AgentError, match="was cut off at 1,000 tokens") as raised:
            Talk(hostile).ask(caps=caps, cap=1_000)
        assert raised.value.capped

    def test_without_calls_may_be_one(self, hostile: HostileServer) -> None:
        hostile.queue(openai_message("length", reasoning_content="Hm."))
        with pytest.raises(AgentError, match="went into reasoning"):
            Talk(hostile, params={"max_tokens": 10}).ask()


def test_a_refusal_beside_calls_is_one(hostile: HostileServer) -> None:
    calls = [{"id": "a", **function()}]
    hostile.queue(openai_message("tool_calls", tool_calls=calls, refusal="I would rather not."))
    with pytest.raises(AgentError, match="the model refused to answer: I would rather not"):
        Talk(hostile).ask()


def test_an_answer_that_can_not_be_read_stays_so(hostile: HostileServer) -> None:
    hostile.queue(openai_message("tool_calls", tool_calls=[{"id": "a", "function": 5}]))
    with pytest.raises(AgentError) as raised:
        Talk(hostile, "groq/openai/gpt-oss-20b").ask()
    assert raised.value.unreadable


class TestAModelWithoutTools:
    """It is offered none, and the reply says so: loopkit calls the required one for it."""

    @pytest.mark.parametrize(
        ("model", "own"),
        [
            ("openai/gpt-4o-mini", {"tool_use": "runner"}),
            ("mistral/codestral-mamba-latest", {}),
            ("openai/a-model-of-our-own", {"tool_use": "runner"}),
        ],
    )
    def test_is_asked_as_if_there_were_none(
        self, hostile: HostileServer, model: str, own: Any
    ) -> None:
        hostile.queue(openai_calls(BAD, content="A plan"))
        talk = Talk(hostile, model, **own)
        reply = talk.ask()
        assert (reply.text, reply.tool_calls, reply.has_no_tools) == ("A plan", (), True)
        assert not talk.sent.keys() & {"tools", "tool_choice"}

    @pytest.mark.parametrize(
        ("model", "own"),
        [("openai/a-model-of-our-own", {}), ("groq/llama-guard-3-8b", {"tool_use": "native"})],
    )
    def test_is_none_that_nobody_knows_or_that_the_agent_says_has_them(
        self, hostile: HostileServer, model: str, own: Any
    ) -> None:
        hostile.queue(openai_calls(BAD))
        talk = Talk(hostile, model, **own)
        reply = talk.ask()
        assert ([call.arguments for call in reply.tool_calls], reply.has_no_tools) == ([BAD], False)
        assert [tool["function"]["name"] for tool in talk.sent["tools"]] == [TOOL.name]

    def test_is_ollama_s_where_litellm_would_have_every_answer_be_json(
        self, hostile: HostileServer
    ) -> None:
        told = {"model": "llama3.1", "response": "A plan", "done": True, "done_reason": "stop"}
        counted = {"prompt_eval_count": 20, "eval_count": 10}
        hostile.queue(json_answer({**told, **counted}))
        reply = Talk(hostile, "ollama/llama3.1").ask()
        (sent,) = [r.body for r in hostile.requests() if r.path == "/api/generate"]
        assert (reply.text, reply.has_no_tools) == ("A plan", True)
        assert "format" not in sent
        assert TOOL.name not in sent["prompt"]


class TestCallsOfAnotherProvidersModel:
    """A fallback goes on with a conversation whose ids and signatures are none of its own."""

    @pytest.fixture
    def told(self, hostile: HostileServer) -> list[Message]:
        hostile.queue(openai_calls(BAD, GOOD, content="Let me see."))
        reply = Talk(hostile).ask()
        return [*answered(reply, "It is bad.", "It is good."), Message("user", "Answer now.")]

    IN_WORDS = (
        "Let me see.\n\nI call `validate_plan` with " + BAD + "\n\n"
        "I call `validate_plan` with " + GOOD,
        "`validate_plan` gave:\n\nIt is bad.\n\n`validate_plan` gave:\n\nIt is good.\n\n"
        "Answer now.",
    )

    @pytest.mark.parametrize(
        ("model", "own", "offered"),
        [
            ("mistral/mistral-large-latest", {}, True),
            ("openai/gpt-4o-mini", {"tool_use": "runner"}, False),
        ],
    )
    def test_are_told_in_words(
        self, hostile: HostileServer, told: list[Message], model: str, own: Any, offered: bool
    ) -> None:
        hostile.say("A plan")
        talk = Talk(hostile, model, **own)
        assert talk.ask(told).text == "A plan"
        assert [m["role"] for m in talk.sent["messages"]] == ["system", "user", "assistant", "user"]
        assert tuple(m["content"] for m in talk.sent["messages"][2:]) == self.IN_WORDS
        assert ("tools" in talk.sent) is offered

    def test_do_not_keep_a_claude_from_thinking(
        self, hostile: HostileServer, told: list[Message]
    ) -> None:
        """It refuses calls without the thought before them."""
        thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 4096}
        hostile.queue(anthropic_answer({"type": "text", "text": "A plan"}, stop="end_turn"))
        talk = Talk(hostile, "anthropic/claude-sonnet-4-5", params=thinks)
        assert talk.ask(told[:-1]).text == "A plan"
        said, given = talk.sent["messages"][1:]
        assert [part["type"] for part in said["content"]] == ["text"]
        assert [part["type"] for part in given["content"]] == ["text"]
        assert given["content"][0]["text"].endswith("It is good.")

    def test_are_its_own_where_another_seller_has_the_same_model(
        self, hostile: HostileServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "made-up-for-a-test")
        monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed=="}
        use = {"type": "tool_use", "id": "toolu_1", "name": TOOL.name, "input": {"draft": "x"}}
        hostile.queue(anthropic_answer(thought, use))
        reply = Talk(hostile, "anthropic/claude-sonnet-4-5").ask()
        counted = {"inputTokens": 20, "outputTokens": 10, "totalTokens": 30}
        message = {"role": "assistant", "content": [{"text": "A plan"}]}
        told = {"output": {"message": message}, "stopReason": "end_turn", "usage": counted}
        hostile.queue(json_answer(told))
        talk = Talk(hostile, "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0")
        talk.ask(answered(reply, "It is bad."))
        said = talk.sent["messages"][1]["content"]
        signed = {"text": "Hm.", "signature": "signed=="}
        assert said[0] == {"reasoningContent": {"reasoningText": signed}}
        assert said[1]["toolUse"]["toolUseId"] == "toolu_1"


class TestASchemaBesideTools:
    @pytest.mark.parametrize(
        ("model", "own"),
        [
            ("openai/gpt-4o-mini", {}),
            ("mistral/mistral-large-latest", {}),
            ("openai/a-model-of-our-own", {"structured": "native"}),
        ],
    )
    def test_is_asked_for_where_the_provider_takes_both(
        self, hostile: HostileServer, model: str, own: Any
    ) -> None:
        hostile.queue(openai_message(content='{"steps": "one", "note": null}'))
        talk = Talk(hostile, model, **own)
        reply = talk.ask(schema=SCHEMA)
        assert reply.text == PLAN
        assert talk.sent["response_format"]["json_schema"]["strict"] is True
        assert [tool["function"]["name"] for tool in talk.sent["tools"]] == [TOOL.name]
        assert talk.sent["messages"][0]["content"] == TASK[0].content

    def test_of_anthropic_is_too(self, hostile: HostileServer) -> None:
        hostile.queue(anthropic_answer({"type": "text", "text": PLAN}, stop="end_turn"))
        talk = Talk(hostile, "anthropic/claude-sonnet-4-5")
        assert talk.ask(schema=SCHEMA).text == PLAN
        assert talk.sent["output_format"]["type"] == "json_schema"
        assert ([tool["name"] for tool in talk.sent["tools"]], talk.sent.get("tool_choice")) == (
            [TOOL.name], None,
        )  # fmt: skip

    def test_is_told_in_words_where_litellm_would_have_another_tool_called(
        self, hostile: HostileServer
    ) -> None:
        hostile.queue(anthropic_answer({"type": "text", "text": PLAN}, stop="end_turn"))
        talk = Talk(hostile, "anthropic/claude-3-7-sonnet-20250219", structured="native")
        assert talk.ask(schema=SCHEMA).text == PLAN
        assert [tool["name"] for tool in talk.sent["tools"]] == [TOOL.name]
        assert "tool_choice" not in talk.sent
        assert "fits this JSON Schema" in talk.sent["system"][0]["text"]

    @pytest.mark.parametrize(
        ("model", "own"),
        [
            ("groq/llama-3.3-70b-versatile", {"structured": "native"}),
            ("groq/openai/gpt-oss-20b", {}),
            ("openai/gpt-4o-mini", {"structured": "text"}),
        ],
    )
    def test_is_told_in_words_where_it_would_be_refused(
        self, hostile: HostileServer, model: str, own: Any
    ) -> None:
        hostile.queue(openai_message(content=PLAN))
        talk = Talk(hostile, model, **own)
        assert talk.ask(schema=SCHEMA).text == PLAN
        assert "response_format" not in talk.sent
        assert [tool["function"]["name"] for tool in talk.sent["tools"]] == [TOOL.name]
        assert "fits this JSON Schema" in talk.sent["messages"][0]["content"]

    @pytest.mark.parametrize(
        ("model", "is_native"), [("gemini-2.5-flash", False), ("gemini-3-flash-preview", True)]
    )
    def test_of_gemini_needs_its_third_generation(
        self, hostile: HostileServer, model: str, is_native: bool
    ) -> None:
        counted = {"promptTokenCount": 20, "candidatesTokenCount": 10, "totalTokenCount": 30}
        content = {"role": "model", "parts": [{"text": PLAN}]}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        hostile.queue(json_answer({"candidates": [candidate], "usageMetadata": counted}))
        talk = Talk(hostile, f"gemini/{model}")
        assert talk.ask(schema=SCHEMA).text == PLAN
        asked = talk.sent.get("generationConfig", {})
        assert (asked.get("response_mime_type") == "application/json") is is_native
        assert ("JSON Schema" in str(talk.sent["system_instruction"])) is not is_native

    @pytest.mark.parametrize(
        ("model", "own", "fields"),
        [
            ("openai/gpt-4o-mini", {"tool_use": "runner"}, {}),
            ("groq/openai/gpt-oss-20b", {"tool_use": "runner"}, {}),
            ("groq/openai/gpt-oss-20b", {}, {"tools": []}),
        ],
    )
    def test_without_tools_is_asked_for_as_before(
        self, hostile: HostileServer, model: str, own: Any, fields: Any
    ) -> None:
        hostile.queue(openai_message(content=PLAN))
        talk = Talk(hostile, model, **own)
        talk.ask(schema=SCHEMA, **fields)
        assert "response_format" in talk.sent


class TestARefusalOfTools:
    @pytest.mark.parametrize(
        ("status", "message"),
        [
            (400, "registry.ollama.ai/library/gemma:2b does not support tools"),
            (404, "No endpoints found that support tool use."),
            (400, "`function calling` is not enabled for this model: function_call"),
            (400, "tools.0.custom.input_schema: JSON schema is invalid"),
        ],
    )
    def test_names_the_remedy(self, hostile: HostileServer, status: int, message: str) -> None:
        hostile.fail(status, message=message)
        with pytest.raises(AgentError) as raised:
            Talk(hostile, "openai/a-model-of-our-own").ask()
        assert raised.value.error_class == "fatal"
        cause = "the provider does not take the tools of the agent: "
        assert raised.value.message.startswith(cause + message.rstrip("."))
        assert "write `tool_use: runner` on the agent" in raised.value.message

    def test_by_litellm_is_one_too(self, hostile: HostileServer) -> None:
        with pytest.raises(AgentError, match="tool_use: runner"):
            Talk(hostile, "perplexity/sonar", tool_use="native").ask()
        assert hostile.requests() == []

    def test_is_none_without_tools_or_for_another_reason(self, hostile: HostileServer) -> None:
        hostile.fail(400, message="The tool does not exist")
        hostile.fail(400, message="temperature must be below 2")
        with pytest.raises(AgentError, match="the provider refused the request"):
            Talk(hostile).ask(tools=[])
        with pytest.raises(AgentError, match="the provider refused the request"):
            Talk(hostile).ask()

    def test_of_one_call_is_a_fault_of_its_author(self, hostile: HostileServer) -> None:
        """Groq reads the calls itself, and throws away an answer with one that is no JSON."""
        hostile.fail(400, message="Failed to call a function.", code="tool_use_failed")
        with pytest.raises(AgentError, match="called a tool wrongly") as raised:
            Talk(hostile, "groq/openai/gpt-oss-20b").ask()
        assert (raised.value.error_class, raised.value.charged) == ("content", True)


def test_a_server_that_can_not_be_told_to_call_nothing_is_asked_once(
    hostile: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it answers to a request that was sent is never asked for again."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up-for-a-test")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    hostile.queue(*[Answer(b'{"message": "tool_choice is not supported"}', 400)] * 2)
    with pytest.raises(AgentError, match="does not take the tools"):
        Talk(hostile, "bedrock/us.amazon.nova-pro-v1:0").ask(may_call_tools=False)
    assert len(hostile.requests()) == 1
    assert "toolChoice" not in hostile.requests()[0].body["toolConfig"]
