"""Machines whose agent calls tools, over real HTTP: what is sent, what counts, what it costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from loopkit.agents.port import CUT_OFF
from loopkit.engine.events import Failed, Intended, Replied, Suspended
from tests.providers.anthropic_mock import AnthropicMock
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer, json_answer
from tests.providers.openai_mock import OpenAIMock
from tests.providers.tool_talk import COUNTED, anthropic_answer, openai_message
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
agents:
  planner:
    model: MODEL
    base_url: URL
    api_key_env: VARIABLE
    price: 1
    retry: {attempts: 2, backoff: 10ms}
    schema: {nodes: [{id: str, needs: int}]}
    tools:
      validate_plan: {by: [graph], emit: plan_rejected}
      search: {command: [grep, -n, "{{ word }}", catalogue.txt], input: {word: str}}
    require_tool: validate_plan
    max_tool_calls: 4
validators:
  graph:
    - {each: "nodes[]", require: needs < 10, code: too-much, message: "{{ item.id }} is too much."}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [graph]
    transitions: [{guard: valid, target: done}, {revise: plan, max: 1}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""


def plan(*needs: int) -> dict[str, Any]:
    return {"nodes": [{"id": f"n{index}", "needs": need} for index, need in enumerate(needs)]}


BAD, GOOD, OTHER = plan(1, 20), plan(1, 2), plan(3)
FOUND = {
    "ok": False,
    "diagnostics": [
        {
            "code": "too-much", "message": "n1 is too much.", "severity": "error",
            "location": "nodes[1]",
        }
    ],
}  # fmt: skip
CLEAN = {"ok": True, "diagnostics": []}
NONE_LEFT = "Not called: no call is left. Give your answer now."


def calls(
    *called: tuple[str, Any] | Any, text: str | None = None, finish: str = "tool_calls"
) -> Any:
    """An answer with calls: of a tool with its arguments, else of the validator with a draft."""
    told = []
    for number, one in enumerate(called):
        name, given = one if isinstance(one, tuple) else ("validate_plan", {"draft": one})
        arguments = given if isinstance(given, str) else json.dumps(given)
        function = {"name": name, "arguments": arguments}
        told.append({"id": f"call_{number}", "type": "function", "function": function})
    return openai_message(finish, tool_calls=told, content=text)


def says(answer: object) -> Any:
    return openai_message(content=answer if isinstance(answer, str) else json.dumps(answer))


def play(
    desk: Desk, server: HostileServer, *answers: Any, text: str = MACHINE, **parts: str
) -> Played:
    desk.write("catalogue.txt", "coffee\ntea, green\ntea, black\n")
    server.queue(*answers)
    went = desk.play(written(text, **{"MODEL": server.model, "URL": server.base_url, **parts}))
    assert not server.waiting
    return went


def written(text: str, **parts: str) -> str:
    for name, value in {**parts, "VARIABLE": KEY_VARIABLE}.items():
        text = text.replace(name, value)
    return text


def results(server: HostileServer, number: int = -1) -> list[str]:
    """What the tools gave, as a request told the model of it."""
    told = server.requests()[number].body["messages"]
    return [message["content"] for message in told if message["role"] == "tool"]


def diagnosed(given: Sequence[str]) -> list[Any]:
    return [json.loads(text) for text in given]


def faults(went: Played) -> list[list[str]]:
    return [[finding.code for finding in report.findings] for report in went.reports]


def usage(went: Played) -> tuple[int, int, int]:
    spent = went.state.usage
    return spent.agent_calls, spent.tool_calls, spent.tokens


def test_a_bad_draft_is_mended_and_the_clean_one_counts(hostile: HostileServer, desk: Desk) -> None:
    """S3.1, S3.2: over HTTP, with the requests that the model received."""
    went = play(desk, hostile, calls(BAD, text="I try."), calls(GOOD), says(GOOD))
    assert (went.outcome, went.result) == ("done", {"plan": GOOD})
    assert (went.state.attempts["plan"], usage(went)) == (1, (3, 2, 90))
    first, _, last = (request.body for request in hostile.requests())
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in first["tools"]}
    assert list(tools) == ["validate_plan", "search"]
    assert tools["validate_plan"]["required"] == ["draft"]
    assert list(tools["validate_plan"]["properties"]["draft"]["properties"]) == ["nodes"]
    assert first["response_format"]["type"] == "json_schema"
    assert last["tools"] == first["tools"]
    assert [message["role"] for message in last["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
    assert last["messages"][1]["content"] == "I try."
    assert diagnosed(results(hostile)) == [FOUND, CLEAN]


def test_who_never_stops_calling_gets_no_answer_in(hostile: HostileServer, desk: Desk) -> None:
    """S3.5: the last request forbids tools, and what is called all the same is not made."""
    rounds = [calls(GOOD)] * 5
    went = play(desk, hostile, *rounds, calls(GOOD), says(GOOD))
    assert faults(went) == [["no-answer"], []]
    choices = [request.body.get("tool_choice") for request in hostile.requests()]
    assert choices == [None, None, None, None, "none", None, None]
    assert all(request.body["tools"] for request in hostile.requests())
    assert usage(went)[:2] == (7, 5)


def test_parallel_and_duplicate_calls_are_all_answered_and_counted_one_by_one(
    hostile: HostileServer, desk: Desk
) -> None:
    """The limit counts calls, not the rounds in which they come (pydantic-ai #2311)."""
    search = ("search", {"word": "tea"})
    many = calls(BAD, search, BAD, search, GOOD, search)
    went = play(desk, hostile, many, says(BAD), calls(GOOD), says(GOOD))
    given = results(hostile, 1)
    assert len(given) == 6
    assert diagnosed([given[0], given[2]]) == [FOUND, FOUND]
    assert "2:tea, green" in given[1]
    assert given[4:] == [NONE_LEFT, NONE_LEFT]
    ids = [m["tool_call_id"] for m in hostile.requests()[1].body["messages"][2:]]
    assert ids == [f"call_{number}" for number in range(6)]
    assert hostile.requests()[1].body["tool_choice"] == "none"
    assert usage(went)[1] == 5
    assert faults(went) == [["not-validated", "too-much"], []]


def test_the_count_goes_on_where_nothing_was_called_in_between(
    hostile: HostileServer, desk: Desk
) -> None:
    """Elsewhere an answer without a call begins it anew (pydantic-ai #6581)."""
    went = play(
        desk, hostile, calls(BAD, BAD), says(GOOD), calls(BAD, BAD, BAD), says(GOOD),
        calls(GOOD), says(GOOD),
    )  # fmt: skip
    assert results(hostile, 3)[-1] == NONE_LEFT
    assert [r.body.get("tool_choice") for r in hostile.requests()][:4] == [None, None, None, "none"]
    assert faults(went) == [["not-validated", "too-much"], []]
    assert usage(went)[1] == 5


def test_an_answer_beside_a_call_that_fails_does_not_hide_it(
    hostile: HostileServer, desk: Desk
) -> None:
    """Elsewhere the text beside a failing call ends the run (pydantic-ai #4767)."""
    beside = calls(("search", "no JSON"), text=json.dumps(GOOD))
    went = play(desk, hostile, calls(GOOD), beside, says(GOOD))
    assert went.outcome == "done"
    assert "the arguments are not JSON" in results(hostile)[-1]
    assert hostile.requests()[-1].body["messages"][-2]["content"] == json.dumps(GOOD)


def test_feedback_is_told_once_however_many_errors_there_are(
    hostile: HostileServer, desk: Desk
) -> None:
    """Elsewhere each error brings its own copy of it (pydantic-ai #7171)."""
    worse = plan(20, 30, 40)
    went = play(desk, hostile, calls(worse), says(worse), says(worse), says(worse), calls(GOOD),
                says(GOOD))  # fmt: skip
    (given,) = diagnosed(results(hostile, 3))
    assert [one["location"] for one in given["diagnostics"]] == [
        f"nodes[{number}]" for number in range(3)
    ]
    asked_again = [m["content"] for m in hostile.requests()[3].body["messages"][4::2]]
    assert len(asked_again) == 2
    assert all(text.count("found errors") == 1 for text in asked_again)
    assert went.outcome == "done"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("validate_plan", '{"draft": {"nodes"'), "Error: the arguments are not JSON"),
        (("validate_plan", "[1]"), "Error: the arguments are not a JSON object"),
        (("validate_plan", {}), "`draft` is missing"),
        (("search", {"word": 5}), "Error: the arguments can't be used"),
        (("shell", {"command": "rm"}), "Error: there is no tool `shell`"),
    ],
    ids=["cut off", "no object", "missing", "of another type", "no such tool"],
)
def test_what_can_not_be_called_is_told_and_the_history_stays_readable(
    hostile: HostileServer, desk: Desk, call: Any, told: str
) -> None:
    went = play(desk, hostile, calls(call), calls(GOOD), says(GOOD))
    assert (went.outcome, usage(went)[1]) == ("done", 2)
    assert told in results(hostile)[0]
    sent = hostile.requests()[-1].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


@pytest.mark.parametrize(
    ("model", "use"),
    [("openai/gpt-4o-mini", "tool_use: runner"), ("mistral/codestral-mamba-latest", "")],
)
def test_a_model_without_tools_comes_to_the_same_result(
    hostile: HostileServer, desk: Desk, model: str, use: str
) -> None:
    """S3.6: loopkit calls the tool with each draft, and says what it found."""
    text = MACHINE.replace("    max_tool_calls: 4", f"    max_tool_calls: 4\n    {use}")
    went = play(desk, hostile, says(BAD), says(GOOD), text=text, MODEL=model)
    assert (went.outcome, went.result) == ("done", {"plan": GOOD})
    assert (went.state.attempts["plan"], usage(went)) == (1, (2, 2, 60))
    assert not any("tools" in request.body for request in hostile.requests())
    roles = [message["role"] for message in hostile.requests()[-1].body["messages"]]
    assert roles[-3:] == ["user", "assistant", "user"]
    assert "n1 is too much." in hostile.requests()[-1].prompt


def test_signed_thoughts_come_back_from_the_journal(hostile: HostileServer, durable: Desk) -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed=="}
    use = {"type": "tool_use", "id": "toolu_1", "name": "validate_plan", "input": {"draft": GOOD}}
    thinks = "price: 1\n    params: {thinking: {type: enabled, budget_tokens: 1024}}"
    broken = json_answer({"error": {"type": "overloaded_error", "message": "Later"}}, 529)
    text = MACHINE.replace("price: 1", thinks).replace("attempts: 2", "attempts: 1")
    went = play(
        durable, hostile, anthropic_answer(thought, use), broken, text=text,
        MODEL="anthropic/claude-sonnet-4-5",
    )  # fmt: skip
    assert went.of(Suspended)
    hostile.queue(anthropic_answer({"type": "text", "text": json.dumps(GOOD)}, stop="end_turn"))
    again = durable.resume(went.state.run)
    assert (again.outcome, usage(again)[:2]) == ("done", (3, 1))
    said, given = hostile.requests()[-1].body["messages"][1:]
    assert said["content"] == [thought, use]
    assert given["content"][0]["tool_use_id"] == "toolu_1"


def test_a_fallback_goes_on_with_the_conversation_in_its_own_words(
    hostile: HostileServer, desk: Desk
) -> None:
    other = f"fallbacks: [{{model: mistral/mistral-small-latest, base_url: '{hostile.base_url}', "
    other += f"api_key_env: {KEY_VARIABLE}, price: 1}}]"
    text = MACHINE.replace("    max_tool_calls: 4", f"    max_tool_calls: 4\n    {other}")
    gone = json_answer({"error": {"message": "gone", "code": "model_not_found"}}, 404)
    own = openai_message(
        "tool_calls",
        tool_calls=[{"id": "Ab3dEf9hI", "type": "function", "function": {
            "name": "validate_plan", "arguments": json.dumps({"draft": GOOD}),
        }}],
    )  # fmt: skip
    went = play(desk, hostile, calls(BAD), gone, own, says(GOOD), text=text)
    assert (went.outcome, usage(went)[1]) == ("done", 2)
    last = [r.body for r in hostile.requests() if r.body["model"] == "mistral-small-latest"][-1]
    assert [m["role"] for m in last["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert last["messages"][1]["content"].startswith("I call `validate_plan` with ")
    assert "n1 is too much." in last["messages"][2]["content"]
    assert last["messages"][4]["tool_call_id"] == "Ab3dEf9hI"


@pytest.mark.parametrize(("own", "is_offered"), [("", True), (", tool_use: runner", False)])
def test_a_fallback_s_tools_are_its_own_affair(
    hostile: HostileServer, desk: Desk, own: str, is_offered: bool
) -> None:
    """What an agent says of its model is not said of another one."""
    other = f"fallbacks: [{{model: mistral/mistral-small-latest, base_url: '{hostile.base_url}', "
    other += f"api_key_env: {KEY_VARIABLE}, price: 1{own}}}]\n    tool_use: runner"
    text = MACHINE.replace("    max_tool_calls: 4", f"    max_tool_calls: 4\n    {other}")
    gone = json_answer({"error": {"message": "gone", "code": "model_not_found"}}, 404)
    rest = [calls(GOOD)] * is_offered
    assert play(desk, hostile, gone, *rest, says(GOOD), text=text).outcome == "done"
    assert ["tools" in request.body for request in hostile.requests()] == [
        False, is_offered, *[True] * is_offered,
    ]  # fmt: skip


def test_a_model_that_turns_out_to_have_no_tools_names_the_remedy(
    hostile: HostileServer, desk: Desk
) -> None:
    said = {"error": {"message": "gemma:2b does not support tools"}}
    went = play(desk, hostile, json_answer(said, 400))
    (suspended,) = went.of(Suspended)
    assert "write `tool_use: runner` on the agent" in suspended.message


THROWN_AWAY = {"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}
ENDED = {
    "candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}],
    "usageMetadata": {"promptTokenCount": 20, "totalTokenCount": 20},
}


@pytest.mark.parametrize(
    ("model", "answer"),
    [
        ("groq/openai/gpt-oss-20b", json_answer(THROWN_AWAY, 400)),
        ("gemini/gemini-2.5-flash", json_answer(ENDED)),
    ],
)
def test_an_answer_that_is_thrown_away_for_a_call_in_it_is_the_author_s_fault(
    hostile: HostileServer, desk: Desk, model: str, answer: Any
) -> None:
    text = (
        MACHINE.replace("output: ", "")
        .replace("prompt: Plan it., next", "prompt: Plan it., on_error: {content: failed}, next")
        .replace("failed: {final: failure, result: plan}", "failed: {final: failure}")
    )
    went = play(desk, hostile, answer, text=text, MODEL=model)
    (failed,) = went.of(Failed)
    assert failed.message.startswith("the model called a tool wrongly: ")
    assert (failed.error_class, went.outcome) == ("content", "failed")


class TestLimits:
    def test_each_round_is_reserved_with_all_that_it_sends(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        long = {"nodes": [{"id": "x" * 5_000, "needs": 1}]}
        went = play(desk, hostile, calls(long), says(long))
        first, second = (e.reserved for e in went.of(Intended) if e.role == "author")
        # The draft is in the call that is sent back.
        assert first.tokens > 1_000
        assert second.tokens > first.tokens + 5_000
        assert second.cost_usd is not None

    def test_the_run_s_limits_hold_between_the_rounds(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        text = f"{MACHINE}limits: {{agent_calls: 2}}\n"
        went = play(desk, hostile, calls(BAD), calls(BAD), text=text)
        (suspended,) = went.of(Suspended)
        assert "agent_calls" in suspended.message
        assert usage(went)[:2] == (2, 2)

    def test_a_round_is_tried_again_without_the_calls_before_it(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        late = json_answer({"error": {"message": "later"}}, 503)
        went = play(desk, hostile, calls(GOOD), late, says(GOOD))
        assert (went.outcome, usage(went)[1], len(went.of(Failed))) == ("done", 1, 1)
        assert hostile.requests()[1].body == hostile.requests()[2].body

    def test_calls_that_are_cut_off_by_a_limit_are_paid_and_not_made(
        self, hostile: HostileServer, desk: Desk
    ) -> None:
        text = f"{MACHINE}limits: {{tokens: 20000}}\n"
        went = play(desk, hostile, calls(GOOD, finish="length"), text=text)
        (failed,) = went.of(Failed)
        assert failed.message.startswith(CUT_OFF)
        assert (failed.usage.tokens, usage(went)[1]) == (30, 0)


def test_a_cut_off_call_is_answered_and_a_cut_off_answer_is_content(
    hostile: HostileServer, desk: Desk
) -> None:
    half = calls(("validate_plan", '{"draft": {"nod'), finish="length")
    cut = openai_message("length", content=json.dumps(GOOD)[:10])
    text = MACHINE.replace("price: 1", "price: 1\n    params: {max_tokens: 10}")
    went = play(desk, hostile, half, calls(GOOD), cut, calls(GOOD), says(GOOD), text=text)
    assert "the arguments are not JSON" in results(hostile, 1)[0]
    assert (went.outcome, went.state.attempts["plan"]) == ("done", 2)
    assert [event.cut_off for event in went.of(Replied) if event.model] == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_a_kept_session_sends_the_rounds_of_earlier_attempts_whole(
    hostile: HostileServer, desk: Desk
) -> None:
    text = MACHINE.replace("price: 1", "price: 1\n    session: {keep: 1}").replace(
        "revise: plan, max: 1", "revise: plan, max: 3"
    )
    lost = [calls(GOOD), says(OTHER), says(OTHER), says(OTHER)]
    went = play(desk, hostile, *lost * 3, calls(GOOD), says(GOOD), text=text)
    assert went.outcome == "done"
    for request in hostile.requests():
        told = request.body["messages"]
        called = [c["id"] for m in told for c in m.get("tool_calls") or ()]
        given = [m["tool_call_id"] for m in told if m["role"] == "tool"]
        assert called == given
    last = hostile.requests()[-1].body["messages"]
    # The turn that says what the task is, the last one before this one, and this one.
    assert sum(message["role"] == "tool" for message in last) == 3


SUBMITTED = """
loopkit: 1
agents:
  critic: {model: MODEL, base_url: URL, api_key_env: VARIABLE, price: 1}
states:
  draft: {render: A plan., output: plan, next: check}
  check:
    validate: plan
    by: [{judge: critic, rubric: [Good.], submit: true}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


def test_a_judge_hands_in_its_report_by_a_tool(hostile: HostileServer, desk: Desk) -> None:
    """S0.52."""
    report = {"verdict": "fail", "findings": [{"message": "Too vague.", "severity": "error"}]}
    said = calls(("submit_review", report), text="I approve of it. PASS")
    went = play(desk, hostile, said, text=SUBMITTED)
    assert went.outcome == "failed"
    assert [finding.message for finding in went.reports[0].findings] == ["Too vague."]
    (sent,) = (request.body for request in hostile.requests())
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["submit_review"]
    assert "response_format" not in sent


INTERFACES = [
    ("anthropic/claude-sonnet-4-5", ""),
    ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", ""),
    ("cohere/command-a-03-2025", "/v2/chat"),
    ("deepseek/deepseek-chat", "/v1"),
    ("gemini/gemini-2.5-flash", "/v1beta"),
    ("mistral/mistral-large-latest", "/v1"),
    ("ollama_chat/qwen3", ""),
    ("openai/gpt-4o-mini", "/v1"),
    ("openai/responses/gpt-5-mini", "/v1"),
    ("openrouter/openai/gpt-4o", "/api/v1"),
    ("together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo", "/v1"),
    ("xai/grok-4", "/v1"),
]


@pytest.mark.parametrize(("model", "path"), INTERFACES)
def test_each_interface_takes_a_machine_through_its_rounds(
    anthropic_server: AnthropicMock,
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    path: str,
) -> None:
    """At a server that nobody here wrote, and that speaks them all."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "made-up-for-a-test")
    monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
    counted = {"usage": COUNTED}
    for draft in (BAD, GOOD):
        call = {"name": "validate_plan", "arguments": json.dumps({"draft": draft})}
        anthropic_server.queue({"toolCalls": [call], **counted})
    anthropic_server.queue({"content": json.dumps(GOOD), **counted})
    key = "" if model.startswith("bedrock/") else "    api_key_env: VARIABLE\n"
    text = MACHINE.replace("    api_key_env: VARIABLE\n", key)
    went = desk.play(written(text, MODEL=model, URL=anthropic_server.base_url + path))
    assert (went.outcome, went.result) == ("done", {"plan": GOOD})
    assert (went.state.attempts["plan"], usage(went)[:2]) == (1, (3, 2))
    assert len(anthropic_server.requests()) == 3


def test_a_client_that_calls_tools_passes_llmock_s_verdict(
    openai_server: OpenAIMock, desk: Desk
) -> None:
    for draft in (BAD, GOOD):
        call = {"name": "validate_plan", "arguments": {"draft": draft}}
        openai_server.queue({"type": "reply", "tool_calls": [call]})
    openai_server.say(json.dumps(GOOD))
    text = written(MACHINE, MODEL=openai_server.model, URL=openai_server.base_url)
    assert desk.play(text).outcome == "done"
    verdict = openai_server.verdict()
    assert (verdict["passed"], verdict["findings"]) == (True, [])


TREE = """{
      type: object, properties: {nodes: {type: array, items: {$ref: "#/$defs/node"}}},
      required: [nodes], $defs: {node: {type: object, properties: {id: {type: string},
      needs: {type: integer}, rest: {$ref: "#"},
      parts: {type: array, items: {$ref: "#/$defs/node"}}}}}}
"""


def test_a_schema_with_definitions_keeps_them_where_providers_look_for_them(
    hostile: HostileServer, desk: Desk
) -> None:
    text = MACHINE.replace("{nodes: [{id: str, needs: int}]}", TREE.strip())
    assert play(desk, hostile, calls(GOOD), says(GOOD), text=text).outcome == "done"
    function = hostile.requests()[0].body["tools"][0]["function"]
    schema = function["parameters"]
    draft, node = schema["properties"]["draft"], schema["$defs"]["node"]
    assert "$defs" not in draft
    assert draft["properties"]["nodes"]["items"] == {"$ref": "#/$defs/node"}
    assert node["properties"]["parts"]["items"] == {"$ref": "#/$defs/node"}
    assert node["properties"]["rest"] == {"$ref": "#/properties/draft"}


def test_who_insists_loses_the_attempt_and_is_told_in_the_next(
    hostile: HostileServer, desk: Desk
) -> None:
    insisting = [calls(GOOD), says(OTHER), says(OTHER), says(OTHER)]
    went = play(desk, hostile, *insisting, calls(GOOD), says(GOOD))
    assert faults(went) == [["not-validated"], []]
    assert (went.outcome, went.state.attempts["plan"]) == ("done", 2)
    # A new attempt is a new conversation.
    roles = [[m["role"] for m in request.body["messages"]] for request in hostile.requests()]
    assert roles[4] == ["user"]
