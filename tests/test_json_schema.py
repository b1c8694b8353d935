"""JSON Schema: what is found, what is said of a schema, and how long it takes at most."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from loopkit.cli import invoke as run
from loopkit.language.datatypes.notation import parse_fields
from loopkit.language.json_schema import schema_faults, schema_problem
from loopkit.language.json_schema.equality import NotJudged
from loopkit.language.json_schema.validation import errors
from tests.machines import loop
from tests.support import CommandLine, Desk, scenario

NODE = {"properties": {"inner": {"items": {"$ref": "#/$defs/node"}}}}
TREE = {"$defs": {"node": NODE}, "$ref": "#/$defs/node"}
DOUBLING: dict[str, Any] = {
    "$id": "doubling",
    "$ref": "#/$defs/d40",
    "$defs": {
        "d0": {"minimum": 0},
        **{f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2} for n in range(1, 41)},
    },
}
BACKTRACKING = {"type": "string", "pattern": "^(a|aa)+$"}
LONG_LINE = "a" * 60 + "!"


def fits(value: object, schema: dict[str, Any]) -> bool:
    """Whether data surely breaks nothing in a schema."""
    try:
        return not schema_faults(value, schema)
    except NotJudged:
        return False


def messages(value: object, schema: Any) -> list[str]:
    return [message for _, message in schema_faults(value, schema)]


def places(value: object, schema: Any) -> list[str]:
    return [location for location, _ in schema_faults(value, schema)]


# Time


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (LONG_LINE, BACKTRACKING),
        ({LONG_LINE: 1}, {"patternProperties": {"^(a|aa)+$": {}}}),
        ({LONG_LINE: 1}, {"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False}),
        ({LONG_LINE: 1}, {"propertyNames": BACKTRACKING}),
        ({LONG_LINE: 1}, {"patternProperties": {"^(a|aa)+$": {}}, "unevaluatedProperties": False}),
        (1, DOUBLING),
        ({}, {**DOUBLING, "unevaluatedProperties": False}),
        ([], {**DOUBLING, "unevaluatedItems": False}),
        (1, {"not": DOUBLING}),
        ([1], {"contains": DOUBLING}),
    ],
    ids=lambda part: "" if isinstance(part, dict) else "data",
)
def test_a_schema_that_would_take_for_ever_is_given_up(value: object, schema: Any) -> None:
    with pytest.raises(NotJudged, match=r"took longer than 0\.2"):
        errors(value, schema, most=1, limit_s=0.2)


def test_a_judging_has_a_second_whatever_it_judges() -> None:
    with pytest.raises(NotJudged, match=r"took longer than 1\.0"):
        schema_faults(LONG_LINE, BACKTRACKING)


def test_unique_items_are_compared_in_linear_time() -> None:
    items = [{"id": number, "of": {"list": [number]}} for number in range(20_000)]
    assert schema_faults(items, {"uniqueItems": True}) == []
    [told] = messages([*items, {"of": {"list": [7]}, "id": 7}], {"uniqueItems": True})
    assert told.endswith("has {'of': {'list': [7]}, 'id': 7} twice")


def test_numbers_that_share_a_hash_are_told_apart_as_quickly() -> None:
    items = [number * sys.hash_info.modulus for number in range(30_000)]
    assert schema_faults(items, {"uniqueItems": True}) == []


def test_large_data_has_the_time_that_it_needs() -> None:
    fields = {
        "id": {"type": "integer"},
        "tags": {"items": {"type": "string", "pattern": "^[a-z]+$"}},
    }
    schema = {"items": {"properties": fields, "required": ["id"], "additionalProperties": False}}
    value = [{"id": number, "tags": ["a", "b", "c"]} for number in range(20_000)]
    assert schema_faults(value, schema) == []


# Depth


def test_a_schema_that_leads_back_to_itself_at_once_is_no_crash() -> None:
    with pytest.raises(NotJudged, match="refers to itself"):
        schema_faults(1, {"$ref": "#"})


def test_data_as_deep_as_a_file_may_be_is_judged_by_a_schema_of_trees() -> None:
    value: dict[str, Any] = {}
    for _ in range(31):
        value = {"inner": [value]}
    assert schema_faults(value, TREE) == []


def test_a_fault_deep_in_optional_data_is_found_at_once_and_in_its_place() -> None:
    inner = {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}
    value: dict[str, Any] = {"v": "x", "next": None}
    for _ in range(40):
        value = {"v": 1, "next": value}
    [(place, told)] = schema_faults(value, {"properties": inner})
    assert (place.count("next"), told) == (40, "'x' is not of type 'integer'")


def test_data_that_is_nested_deeper_than_any_file_is_not_judged() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotJudged, match="nested 100,001 levels deep"):
        schema_faults(value, {"items": {"$ref": "#"}})
    assert not fits(value, {})


# Messages


def test_only_the_first_faults_are_told_in_the_order_of_their_places() -> None:
    found = schema_faults([1] * 100_000, {"items": {"type": "string"}})
    assert [place for place, _ in found] == [f"[{number}]" for number in range(50)]


def test_a_message_about_large_data_is_short_and_says_the_cause() -> None:
    large = [{"name": "x" * 1_000_000} for _ in range(5)]
    for schema in ({"maxItems": 3}, {"type": "string"}, {"not": {}}, {"anyOf": [False, False]}):
        [told] = messages(large, schema)
        assert len(told) < 300
    assert messages(large, {"maxItems": 3})[0].endswith("is too long (5, at most 3)")


@pytest.mark.parametrize(
    ("value", "schema", "told"),
    [
        ("x", {"type": "integer"}, "'x' is not of type 'integer'"),
        (None, {"type": ["integer", "string"]}, "None is not of type 'integer', 'string'"),
        ("tv", {"enum": ["print", "web"]}, "'tv' is not one of ['print', 'web']"),
        ({}, {"required": ["id"]}, "'id' is a required property"),
        ({"b": 1, "a": 2}, {"additionalProperties": False},
         "Additional properties are not allowed ('a', 'b' were unexpected)"),
        (1.25, {"multipleOf": 0.5}, "1.25 is not a multiple of 0.5"),
        ("abc", {"maxLength": 2}, "'abc' is too long (3, at most 2)"),
        ("", {"minLength": 1}, "'' should be non-empty"),
        ([1, 2], {"prefixItems": [{}], "items": False},
         "Expected at most 1 item but found 1 extra: 2"),
        (1, False, "1 is not allowed here"),
    ],
)  # fmt: skip
def test_a_message_names_the_value_and_what_is_expected(value: Any, schema: Any, told: str) -> None:
    assert messages({"at": value}, {"properties": {"at": schema}}) == [told]


def test_a_decimal_is_a_multiple_as_it_is_written() -> None:
    assert schema_faults([0.3, 19.99, 10**400], {"items": {"multipleOf": 0.01}}) == []


def test_true_is_no_number_and_the_order_of_keys_does_not_matter() -> None:
    assert schema_faults([1, True, 0, False, "1"], {"uniqueItems": True}) == []
    assert not fits([1, 1.0], {"uniqueItems": True})
    assert fits({"b": 1.0, "a": [0]}, {"const": {"a": [-0.0], "b": 1}})


# References


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/id", "$defs": {"id": {"type": "string"}}},
        {"$ref": "#id", "$defs": {"x": {"$anchor": "id", "type": "string"}}},
        {"$ref": "id", "$id": "https://here.test/a",
         "$defs": {"x": {"$id": "id", "type": "string"}}},
        {"$ref": "https://here.test/a#/$defs/x", "$id": "https://here.test/a",
         "$defs": {"x": {"type": "string"}}},
        {"$ref": "#/$defs/a~1b%20c/allOf/0", "$defs": {"a/b c": {"allOf": [{"type": "string"}]}}},
        {"$dynamicRef": "#id", "$defs": {"x": {"$dynamicAnchor": "id", "type": "string"}}},
    ],
)  # fmt: skip
def test_a_reference_leads_to_a_part_an_id_or_an_anchor_of_its_document(schema: Any) -> None:
    assert schema_problem(schema) is None
    assert messages(1, schema) == ["1 is not of type 'string'"]


def test_a_dynamic_reference_leads_to_the_outermost_of_its_name() -> None:
    tree = {
        "$id": "tree",
        "$dynamicAnchor": "node",
        "properties": {"inner": {"items": {"$dynamicRef": "#node"}}},
    }
    strict = {"$id": "strict", "$dynamicAnchor": "node", "$ref": "tree", "$defs": {"tree": tree},
              "unevaluatedProperties": False}  # fmt: skip
    assert places({"inner": [{"inner": [{"other": 1}]}]}, strict) == ["inner[0].inner[0]"]
    assert fits({"inner": [{"inner": []}]}, strict)


def test_the_schema_of_schemas_is_at_hand() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert schema_problem(schema) is None
    assert places({"type": 3}, schema) == ["type"]


@pytest.mark.parametrize("address", ["urn:x:name", "https://here.test/name", "name"])
def test_a_reference_of_a_part_with_an_id_leads_into_that_part(address: str) -> None:
    short = {"$id": address, "$defs": {"short": {"maxLength": 3}}, "$ref": "#/$defs/short"}
    written = {"type": "object", "properties": {"name": {"$ref": address}}, "$defs": {"n": short}}
    for schema in (written, parse_fields(written).schema):
        assert not schema_faults({"name": "Bo"}, schema)
        assert schema_faults({"name": "Boris"}, schema)


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-07/schema#", "urn:unknown"])
def test_a_dialect_that_a_part_names_does_not_leave_our_keywords(draft: str) -> None:
    part = {"$schema": draft, "allOf": DOUBLING["$defs"]["d40"]["allOf"]}
    schema = {"$schema": draft, "allOf": [part], "$defs": DOUBLING["$defs"]}
    with pytest.raises(NotJudged, match="took longer"):
        errors(1, schema, most=1, limit_s=0.2)


@pytest.mark.parametrize(
    ("schema", "path", "message"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, ("properties", "a", "$ref"),
         "leads nowhere"),
        ({"items": {"$ref": "#b"}}, ("items", "$ref"), "leads nowhere"),
        ({"$ref": "http://127.0.0.1:9/b"}, ("$ref",), "leads nowhere"),
        ({"$ref": "http://["}, ("$ref",), "leads nowhere"),
        ({"$ref": "#/allOf/x", "allOf": [{}]}, ("$ref",), "leads nowhere"),
        ({"$ref": "#/minimum", "minimum": 3}, ("$ref",), "leads to no schema"),
        ({"$ref": "#/x", "x": {"type": "text"}}, ("$ref",), "'text' is not valid"),
        ({"$dynamicRef": "#b"}, ("$dynamicRef",), "leads nowhere"),
        ({"$id": "http://["}, (), "is not a URI"),
        ({"items": {"type": "text"}}, ("items", "type"), "'text' is not valid"),
        ({"items": {"pattern": "a("}}, ("items", "pattern"), "a regular expression"),
        ({"patternProperties": {"a(": {}}}, ("patternProperties", "a("), "a regular expression"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_schema_is_told_with_the_way_to_it(
    schema: Any, path: tuple[str, ...], message: str
) -> None:
    problem = schema_problem(schema)
    assert problem.path == path
    assert message in problem.message


# Beside the library


NAMES = st.sampled_from(["a", "b", "ab", "c1"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from([1.0, 0.5]) | NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
PATTERNS = st.sampled_from(["^a", "b$", "[0-9]", "^$"])
SIZES = st.integers(0, 3)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "number", "object", "array", "null"])
            | st.just(["boolean", "array", "object"]),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
            "minimum": st.integers(-2, 5),
            "exclusiveMaximum": st.integers(0, 9),
            "multipleOf": st.integers(1, 4),
            "minLength": SIZES,
            "maxLength": SIZES,
            "pattern": PATTERNS,
            "minItems": SIZES,
            "maxItems": SIZES,
            "uniqueItems": st.booleans(),
            "prefixItems": several,
            "items": inner,
            "contains": inner,
            "minContains": SIZES,
            "maxContains": SIZES,
            "unevaluatedItems": inner,
            "properties": named,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": st.lists(NAMES, max_size=2, unique=True),
            "minProperties": SIZES,
            "maxProperties": SIZES,
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True), max_size=2),
            "dependentSchemas": named,
            "unevaluatedProperties": inner,
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "$ref": st.sampled_from(["#/$defs/part", "#name"]),
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.just({}), _schemas, max_leaves=8)


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf", "not", "$ref", "$dynamicRef"])
def test_a_schema_that_leads_back_to_itself_is_told_wherever_the_calls_run_out(
    word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    again = {"$ref": "#/$defs/a"}
    inner = {"not": again, "$ref": "#/$defs/a", "$dynamicRef": "#a"}.get(word, [again])
    schema = {"$defs": {"a": {"$dynamicAnchor": "a", word: inner}}, **again}

    def judged(calls: int) -> str:
        if calls:
            return judged(calls - 1)
        with pytest.raises(NotJudged) as raised:
            schema_faults(1, schema)
        return str(raised.value)

    told = {judged(calls) for calls in range(25)}
    assert all("the schema refers to itself" in reason for reason in told)
    # A panic is printed by those who raise it.
    assert capfd.readouterr().err == ""


def assert_judged_alike(one: Any, two: Any, three: Any, value: Any) -> None:
    """That we and the library say the same of a value under a schema of three."""
    named = {"$anchor": "name", "anyOf": [three]}
    schema = {"allOf": [one], "$defs": {"part": two, "name": named}}
    try:
        theirs = Draft202012Validator(schema).is_valid(value)
    except RecursionError:
        with pytest.raises(NotJudged):
            schema_faults(value, schema)
        return
    assert fits(value, schema) is theirs


PARTS = (SCHEMAS, SCHEMAS, SCHEMAS, VALUES)


@settings(max_examples=50)
@given(*PARTS)
def test_the_verdict_is_the_one_of_the_library(one: Any, two: Any, three: Any, value: Any) -> None:
    assert_judged_alike(one, two, three, value)


@pytest.mark.long
@settings(max_examples=10_000)
@given(*PARTS)
def test_each_of_many_verdicts_is_the_one_of_the_library(
    one: Any, two: Any, three: Any, value: Any
) -> None:
    assert_judged_alike(one, two, three, value)


# Where schemas judge


MACHINE = loop(
    "[{schema: RULE}]",
    {"incomplete": "unjudged", "valid": "done"},
    "{revise: draft}",
    "{target: done}",
    top="""
input: {x: INPUT}
agents: {writer: {model: openai/gpt-5-mini, schema: {x: SCHEMA}}}
""",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    judge="check",
)


def machine(**schemas: Any) -> str:
    text = MACHINE
    for word in ("INPUT", "SCHEMA", "RULE"):
        schema = schemas.get(word.lower(), {"type": "string"})
        rule = {"type": "object", "properties": {"x": schema}}
        text = text.replace(word, json.dumps(rule if word == "RULE" else schema))
    return text


def replies(value: object) -> str:
    return scenario(agents={"writer": [{"data": {"x": value}}] * 3})


def test_a_rule_that_runs_out_of_time_has_no_verdict_and_costs_no_revision(desk: Desk) -> None:
    played = desk.play(machine(rule=BACKTRACKING), replies(LONG_LINE), {"x": ""})
    assert played.route == ["draft", "check", "unjudged"]
    [report] = played.reports
    assert (report.verdict, report.error_class, report.findings) == ("incomplete", "fatal", ())
    assert "took longer than" in report.answers[0].reason


def test_an_answer_that_cannot_be_held_against_its_schema_is_not_its_authors_fault(
    durable: Desk,
) -> None:
    played = durable.play(machine(schema=BACKTRACKING), replies(LONG_LINE), {"x": ""})
    assert "could not be checked against its schema" in played.state.suspended.message
    assert len(played.asked("writer")) == 1
    again = durable.resume(played.state.run)
    assert again.asked("writer") == []


@pytest.mark.usefixtures("own_folder")
def test_input_that_cannot_be_judged_is_a_mistake_of_the_call(cli: CommandLine) -> None:
    Path("m.yaml").write_text(machine(input=BACKTRACKING))
    Path("s.yaml").write_text(replies(""))
    call = ["run", "m.yaml", "--script", "s.yaml"]
    assert "took longer than" in cli(2, *call, "--set", f"x={LONG_LINE}").err
    assert "nested more than" in cli(2, *call, "--set-json", "x=" + "[" * 5000 + "]" * 5000).err


@pytest.mark.usefixtures("own_folder")
def test_a_case_whose_input_cannot_be_judged_fails_in_place(cli: CommandLine) -> None:
    Path("m.yaml").write_text(machine(input=BACKTRACKING))
    case = {"input": {"x": LONG_LINE}, "expect": {"outcome": "done"}}
    Path("m.scenario.yaml").write_text(
        json.dumps({"scenario": 1, "machine": "m.yaml", "cases": {"one": case}})
    )
    assert "took longer than" in cli(2, "test", "m.scenario.yaml").out


# The network


CONNECTIONS: list[object] = []


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.getaddrinfo"):
        CONNECTIONS.append(arguments)


@pytest.mark.usefixtures("own_folder")
def test_nothing_is_ever_fetched() -> None:
    sys.addaudithook(_hook)
    schema = {"type": "string", "$ref": "http://127.0.0.1:80/x.json"}
    assert schema_problem(schema) is not None
    with pytest.raises(NotJudged, match="leads nowhere"):
        schema_faults({}, schema)
    for place in ("input", "schema", "rule"):
        Path("m.yaml").write_text(machine(**{place: schema}))
        Path("s.yaml").write_text(replies(""))
        assert run(["check", "m.yaml"]) == 1
        assert run(["run", "m.yaml", "--script", "s.yaml", "--set", "x="]) == 2
    assert not CONNECTIONS
    # The hook does hear of connections.
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert CONNECTIONS
