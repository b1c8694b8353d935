"""How a schema is asked for, and what is done with an answer that a strict one made longer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.events import Failed, Replied, Suspended
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import HostileServer, json_answer
from tests.support import Desk, Played

pytestmark = pytest.mark.usefixtures("provider_key")

MACHINE = """
loopkit: 1
agents:
  writer: {model: MODEL, base_url: URL, api_key_env: VARIABLE, price: 1, schema: SCHEMA, STRUCTURED}
states:
  write: {agent: writer, prompt: Write., output: data, on_error: {content: broken}, next: done}
  done: {final: success, result: data}
  broken: {final: failure}
"""
WORK = "output: data, on_error: {content: broken}"
NOTATION = (
    """{title: str, note: optional str, count: {type: int, default: 3}, tags: [TAG]}""".replace(
        "TAG", "{name: str, weight: {type: num, default: 1}}"
    )
)
NULL = {"type": "null"}


def machine(
    server: HostileServer,
    schema: str,
    model: str = HostileServer.model,
    how: str = "",
    work: str = WORK,
) -> str:
    parts = {
        WORK: work, "MODEL": model, "URL": server.base_url, "VARIABLE": KEY_VARIABLE,
        "SCHEMA": schema, ", STRUCTURED": f", structured: {how}" if how else "",
    }  # fmt: skip
    text = MACHINE
    for name, value in parts.items():
        text = text.replace(name, value)
    return text


def play(desk: Desk, *parts: Any, **more: str) -> Played:
    return desk.play(machine(*parts, **more))


def form(server: HostileServer) -> Any:
    return server.requests()[0].body["response_format"]["json_schema"]


def test_fields_that_may_be_left_out_keep_the_strict_mode(
    hostile: HostileServer, desk: Desk
) -> None:
    tags = [{"name": "a", "weight": None}, {"name": "b", "weight": 2}]
    hostile.say(json.dumps({"title": "T", "note": None, "count": None, "tags": tags}))
    played = play(desk, hostile, NOTATION)
    sent = form(hostile)
    assert sent["strict"] is True
    schema = sent["schema"]
    assert schema["required"] == ["title", "note", "count", "tags"]
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["count"] == {"anyOf": [{"type": "integer"}, NULL]}
    assert schema["properties"]["tags"]["items"]["required"] == ["name", "weight"]
    assert played.result["data"] == {
        "title": "T", "note": None, "count": 3,
        "tags": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}],
    }  # fmt: skip


CLOSED = {"type": "object", "additionalProperties": False}


def test_only_the_nulls_that_strictness_made_are_taken_out(
    hostile: HostileServer, desk: Desk
) -> None:
    leaf = {**CLOSED, "properties": {"x": {"type": "integer"}}}
    schema = {
        **CLOSED,
        "$defs": {"leaf": leaf, "kind": {"enum": ["a", None]}},
        "properties": {
            "own": {"type": ["string", "null"]},
            "kind": {"$ref": "#/$defs/kind"},
            "leaf": {"$ref": "#/$defs/leaf"},
            "either": {"anyOf": [{"$ref": "#/$defs/leaf"}, NULL]},
            "must": {"type": "string"},
            "word": {"type": "string", "enum": ["y"], "default": "y"},
        },
        "required": ["must"],
    }
    given = {
        "own": None, "kind": None, "leaf": {"x": None}, "either": {"x": None}, "must": "m",
        "word": None,
    }  # fmt: skip
    hostile.say(json.dumps(given))
    played = play(desk, hostile, json.dumps(schema))
    assert form(hostile)["strict"] is True
    kept = {"own": None, "kind": None, "leaf": {}, "either": {}, "must": "m"}
    assert json.loads(played.of(Replied)[0].text) == kept


def test_a_null_where_a_field_is_required_is_a_fault(hostile: HostileServer, desk: Desk) -> None:
    hostile.say(json.dumps({"title": None, "note": None, "count": 1, "tags": []}))
    assert play(desk, hostile, NOTATION).outcome == "broken"


@pytest.mark.parametrize(
    "schema",
    ["{a: any, b: optional str}", "{type: object, properties: {a: {}}}"],
)
def test_what_strictness_can_not_have_is_asked_for_as_it_is(
    hostile: HostileServer, desk: Desk, schema: str
) -> None:
    hostile.say('{"a": null, "b": null}' if "any" in schema else '{"a": null}')
    played = play(desk, hostile, schema)
    assert form(hostile)["strict"] is False
    assert "null" in played.of(Replied)[0].text
    assert '"anyOf"' not in json.dumps(form(hostile)) or "any" in schema


def test_deepseek_is_asked_in_words(hostile: HostileServer, desk: Desk) -> None:
    hostile.say('{"title": "T", "tags": []}')
    played = play(desk, hostile, NOTATION, "deepseek/deepseek-chat")
    (request,) = hostile.requests()
    assert "response_format" not in request.body
    assert "JSON Schema" in request.texts[0]
    assert played.result["data"]["title"] == "T"


def test_of_words_no_null_is_taken_out(hostile: HostileServer, desk: Desk) -> None:
    hostile.say('{"title": "T", "count": null, "tags": []}')
    assert play(desk, hostile, NOTATION, how="text").outcome == "broken"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (422, "Structured outputs are not supported by this model"),
        (400, "tools.0.custom.input_schema.type: Field required"),
        (400, "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be: object"),
    ],
)
def test_a_provider_that_refuses_the_schema_is_asked_in_words_from_then_on(
    hostile: HostileServer, desk: Desk, status: int, message: str
) -> None:
    hostile.fail(status, message=message)
    for _ in range(2):
        hostile.say('{"title": "T", "tags": []}')
    again = "again: {agent: writer, prompt: Again., "
    played = play(desk, hostile, NOTATION, work=f"{WORK}, next: again}}\n  {again}{WORK}")
    assert played.outcome == "done"
    assert ["response_format" in one.body for one in hostile.requests()] == [True, False, False]
    assert ["JSON Schema" in one.texts[0] for one in hostile.requests()] == [False, True, True]
    first, last = (replied.in_words for replied in played.of(Replied))
    assert first.startswith("the provider does not take the JSON Schema of the answer: ")
    assert message.rstrip(".") in first
    assert not last


def test_what_was_refused_before_a_failure_is_not_sent_again(
    hostile: HostileServer, desk: Desk
) -> None:
    for status in (400, 500):
        hostile.fail(status, message="This response_format type is unavailable now")
    hostile.say('{"title": "T", "tags": []}')
    played = play(desk, hostile, NOTATION)
    assert played.of(Failed)[0].in_words
    assert not played.of(Replied)[0].in_words
    assert ["response_format" in one.body for one in hostile.requests()] == [True, False, False]


class TestARefusedKey:
    def test_that_of_the_agent_is_named(self, hostile: HostileServer, desk: Desk) -> None:
        hostile.fail(401)
        (suspended,) = play(desk, hostile, NOTATION).of(Suspended)
        assert suspended.message == (
            f"the API key was refused (401): check the environment variable {KEY_VARIABLE}"
        )

    @pytest.mark.parametrize(
        ("model", "variable"),
        [
            ("bedrock/anthropic.claude-3-7-sonnet-20250219-v1:0", "AWS_ACCESS_KEY_ID or"),
            ("datarobot/a-model", "DATAROBOT_API_TOKEN"),
            ("gemini/gemini-2.5-flash", "GEMINI_API_KEY"),
            ("groq/qwen/qwen3-32b", "GROQ_API_KEY"),
            ("lambda_ai/a-model", "LAMBDA_API_KEY"),
            ("meta_llama/a-model", "LLAMA_API_KEY"),
            ("xai/grok-4", "XAI_API_KEY"),
        ],
    )
    def test_without_one_that_of_the_provider_is(
        self,
        hostile: HostileServer,
        desk: Desk,
        monkeypatch: pytest.MonkeyPatch,
        model: str,
        variable: str,
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", variable):
            monkeypatch.setenv(name, "made-up-for-a-test")
        monkeypatch.setenv("AWS_REGION_NAME", "us-east-1")
        hostile.fail(401)
        text = MACHINE.replace("api_key_env: VARIABLE, ", "").replace(
            ", schema: SCHEMA, STRUCTURED", ""
        )
        text = text.replace("MODEL", model).replace("URL", hostile.base_url)
        (suspended,) = desk.play(text).of(Suspended)
        start = "the API key was refused (401): check the environment variable "
        assert suspended.message.startswith(start + variable)


DETAIL = [{"type": "literal_error", "loc": ["body", "response_format", "type"], "msg": "No"}]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"detail": DETAIL}, "body.response_format.type: No"),
        ({"object": "error", "message": {"detail": DETAIL}}, "body.response_format.type: No"),
        (
            {"error": {"message": "Unsupported value", "param": "response_format"}},
            "response_format: Unsupported value",
        ),
    ],
    ids=["a list of details", "in a message", "the name of an option"],
)
def test_a_refusal_that_names_the_option_apart_is_read(
    hostile: HostileServer, desk: Desk, body: Any, told: str
) -> None:
    hostile.queue(json_answer(body, 422))
    hostile.say('{"title": "T", "tags": []}')
    (replied,) = play(desk, hostile, NOTATION).of(Replied)
    assert replied.in_words == f"the provider does not take the JSON Schema of the answer: {told}"


def test_without_a_schema_no_refusal_is_about_one(hostile: HostileServer, desk: Desk) -> None:
    hostile.fail(400, message="output_config.effort: this schema of options is not known")
    (suspended,) = play(desk, hostile, NOTATION, how="text").of(Suspended)
    assert suspended.message.startswith("the provider refused the request (400): output_config")


def test_an_answer_that_the_provider_throws_away_is_a_fault_of_its_author(
    hostile: HostileServer, desk: Desk
) -> None:
    hostile.fail(400, message="Failed to generate JSON.", code="json_validate_failed")
    assert play(desk, hostile, NOTATION).outcome == "broken"
    assert len(hostile.requests()) == 1


def record(**fields: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": fields}


def test_in_one_of_several_forms_the_nulls_of_that_one_are_taken_out(
    hostile: HostileServer, desk: Desk
) -> None:
    text, own = {"type": "string"}, {"type": ["string", "null"]}
    first = record(kind={"const": "a"}, note=text) | {"required": ["kind"]}
    second = record(kind={"const": "b"}, note=own) | {"required": ["kind", "note"]}
    wide, narrow = record(x=text, y=text), record(x=own) | {"required": ["x"]}
    lists = {"type": "array", "items": {"type": "array", "items": {"$ref": "#/$defs/node"}}}
    node = record(name=text, next={"$ref": "#/$defs/node"}, rows=lists) | {"required": ["name"]}
    schema = {
        **record(
            kinds={"type": "array", "items": {"anyOf": [first, second]}},
            size={"anyOf": [wide, narrow]},
            tree={"$ref": "#/$defs/node"},
        ),
        "required": ["kinds", "size", "tree"],
        "$defs": {"node": node},
    }
    leaf = {"name": "leaf", "next": None, "rows": None}
    given = {
        "kinds": [{"kind": "a", "note": None}, {"kind": "b", "note": None}],
        "size": {"x": None},
        "tree": {"name": "root", "next": leaf, "rows": [[leaf], []]},
    }
    hostile.say(json.dumps(given))
    played = play(desk, hostile, json.dumps(schema))
    assert form(hostile)["strict"] is True
    assert json.loads(played.of(Replied)[0].text) == {
        "kinds": [{"kind": "a"}, {"kind": "b", "note": None}],
        "size": {"x": None},
        "tree": {"name": "root", "next": {"name": "leaf"}, "rows": [[{"name": "leaf"}], []]},
    }
    assert played.outcome == "done"


def test_a_prompt_that_the_server_cut_is_told_of_at_once_and_at_the_end(
    hostile: HostileServer, desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.say('{"title": "T", "tags": []}')
    text = machine(hostile, NOTATION).replace("Write.", f'"{"a word " * 600}"')
    desk.write("machine.yaml", text)
    assert invoke(["run", str(desk.folder / "machine.yaml"), "--output", "plain"]) == 0
    told = capsys.readouterr().err
    assert "warning: `openai/gpt-4o-mini` has read 20 tokens of a prompt with 1,200 words" in told
    assert "done (success), although `writer` has read only a part of a prompt" in told
