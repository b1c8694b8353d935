"""Types: the notation and JSON Schema, wherever data is declared, and what comes of the data."""

from __future__ import annotations

import json
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from loopkit.cli import invoke
from loopkit.document.writing import to_yaml
from loopkit.drive.answers import AnswerRefused
from loopkit.engine.events import Replied
from loopkit.language.datatypes.datatype import NotationError, conform, describe_type, single_values
from loopkit.language.datatypes.notation import parse_fields, parse_type
from loopkit.language.load import load
from tests.support import ROOT, Desk, scenario

HALF = {
    "type": "object",
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "string"},
        "flag": {"type": "boolean"},
        "count": {"type": "integer", "default": 3},
        "deep": {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer"}},
        },
    },
    "required": ["a"],
}
"""Of these, only `a` has to be given."""


class Colour(Enum):
    red = "red"
    green = "green"


class Inner(BaseModel):
    ok: bool = False
    note: str | None = None
    kind: Literal["inner"] = "inner"


class Answer(BaseModel):
    """What pydantic makes a schema of: models in models, enums, optional parts, defaults."""

    result: Inner
    missingFacets: list[str] = []  # noqa: N815 - the name is what is tested
    colour: Colour = Colour.red
    score: int = Field(gt=0, le=5, description="how good it is")
    other: Inner | None = None
    size: Literal["s", "m"]
    kids: list[Answer] = []


def machine(**parts: Any) -> str:
    return to_yaml({"loopkit": 1, **parts})


def asking(schema: Any, *ways: Any, **parts: Any) -> str:
    """A machine with one agent that answers in this schema."""
    return machine(
        agents={"writer": {"model": "openai/gpt-5-mini", "schema": schema, **parts}},
        states={
            "draft": {
                "agent": "writer",
                "prompt": "Go.",
                "output": "work",
                "on_error": {"content": "unusable"},
                "transitions": [*ways, {"target": "done"}],
            },
            **({"yes": {"final": "success", "result": "work"}} if ways else {}),
            "done": {"final": "success", "result": "work"},
            "unusable": {"final": "failure"},
        },
    )


def saying(*said: Any) -> str:
    return scenario(agents={"writer": [{"data": data} for data in said]})


def showing(input_: Any, template: str, *ways: Any) -> str:
    """A machine that fills a template with its input."""
    return machine(
        input=input_,
        states={
            "start": {"transitions": [*ways, {"target": "show"}]},
            "show": {"render": template, "next": "done"},
            "done": {"final": "success", "result": "show"},
            **({"yes": {"final": "success"}} if ways else {}),
        },
    )


def judging(work: dict[str, Any], rule: dict[str, Any], *ways: Any, **parts: Any) -> str:
    """A machine that judges what a state leaves by a rule."""
    check = {
        "validate": "work",
        "by": [rule],
        "transitions": [{"guard": "valid", "target": "done"}, *ways, {"target": "failed"}],
    }
    ends = {"done": {"final": "success", "result": "work"}, "failed": {"final": "failure"}}
    return machine(states={"work": {**work, "next": "check"}, "check": check, **ends}, **parts)


def judged_by(schema: Any) -> str:
    """A machine that judges its input, as a text, by a `schema` rule."""
    return judging({"render": "{{ input.text }}"}, {"schema": schema}, input={"text": "str"})


def finished(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The last event that was printed: how the run ended."""
    event: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return event


# -- what is not required may be left out -------------------------------------------------------


def test_a_rule_takes_data_that_leave_out_what_is_not_required(desk: Desk) -> None:
    played = desk.play(judged_by(HALF), inputs={"text": json.dumps({"a": "x", "deep": {}})})
    assert played.outcome == "done"
    assert played.reports[0].findings == ()


def test_a_rule_refuses_a_null_that_the_schema_does_not_take(desk: Desk) -> None:
    played = desk.play(judged_by(HALF), inputs={"text": json.dumps({"a": "x", "b": None})})
    assert played.outcome == "failed"
    assert [f.location for f in played.reports[0].findings] == ["b"]


def test_an_input_may_leave_out_what_is_not_required_and_reads_it_as_none(desk: Desk) -> None:
    template = "[{{ input.doc.b }}|{{ input.doc.count }}|{{ input.doc.deep | default('') }}]"
    guard = {"guard": "input.doc.b != none or input.doc.deep.ok == true", "target": "yes"}
    sound = showing({"doc": HALF}, template, guard)
    played = desk.play(sound, inputs={"doc": {"a": "x"}})
    assert played.result == {"show": "[|3|]"}
    assert desk.play(sound, inputs={"doc": {"a": "x", "deep": {"ok": True}}}).outcome == "yes"


def test_data_print_as_they_were_given_with_their_defaults(desk: Desk) -> None:
    played = desk.play(showing({"doc": HALF}, "{{ input.doc }}"), inputs={"doc": {"a": "x"}})
    assert played.result["show"] == {"a": "x", "count": 3}


def test_an_answer_may_leave_out_what_is_not_required(desk: Desk) -> None:
    guard = {"guard": "b != none or count != 3 or deep.n != none", "target": "yes"}
    played = desk.play(asking(HALF, guard), saying({"a": "x"}))
    assert (played.outcome, played.result) == ("done", {"work": {"a": "x", "count": 3}})


def test_what_an_answer_left_out_is_not_judged_as_null_by_a_rule(desk: Desk) -> None:
    rule = {"schema": HALF, "message": "{{ artifact.b }} {{ value }}"}
    agents = {"writer": {"model": "openai/gpt-5-mini", "schema": HALF}}
    judged = judging({"agent": "writer", "prompt": "Go."}, rule, agents=agents)
    assert desk.play(judged, saying({"a": "x"})).outcome == "done"


def test_a_form_may_leave_out_what_is_not_required(durable: Desk) -> None:
    asked = machine(
        states={
            "ask": {
                "human": "Publish?",
                "choices": ["yes", "again"],
                "form": HALF,
                "transitions": [
                    {"guard": "b != none and deep.ok == true", "target": "good"},
                    {"target": "told"},
                ],
            },
            "told": {"render": "{{ ask.a }}{{ ask.b }}{{ ask.count }}", "next": "done"},
            "good": {"final": "success"},
            "done": {"final": "success", "result": "told"},
        }
    )
    played = durable.play(asked)
    assert durable.answer(played.state.run, "yes", form={"a": "x"}).result == {"told": "x3"}
    again = durable.play(asked)
    whole = {"a": "x", "b": "y", "deep": {"ok": True}}
    assert durable.answer(again.state.run, "yes", form=whole).outcome == "good"


def test_feedback_of_a_question_reads_what_the_form_left_out_as_none(durable: Desk) -> None:
    asked = machine(
        states={
            "work": {"render": "Text {{ feedback }}", "next": "ask"},
            "ask": {
                "human": "Publish?",
                "choices": ["yes", "again"],
                "form": HALF,
                "transitions": [
                    {
                        "guard": 'choice == "again"',
                        "revise": "work",
                        "feedback": "<{{ b }}{{ a }}>",
                    },
                    {"target": "done"},
                ],
            },
            "done": {"final": "success", "result": "work"},
        }
    )
    played = durable.play(asked)
    again = durable.answer(played.state.run, "again", form={"a": "x"})
    assert durable.answer(again.state.run, "yes", form={"a": "x"}).result == {"work": "Text <x>"}


def test_a_field_that_a_schema_requires_has_to_be_given_in_spite_of_its_default() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "default": "x"}},
        "required": ["a"],
    }
    assert conform({}, parse_type(schema))[1] == [("", "'a' is a required property")]
    assert parse_type(schema).fields is not None
    assert parse_type(schema).fields["a"].required  # type: ignore[index]


def test_a_nested_boolean_that_is_not_required_is_a_boolean_in_guards_and_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guard = {"guard": "input.doc.deep.ok == true", "target": "yes"}
    Path("machine.yaml").write_text(showing({"doc": HALF}, "no", guard), encoding="utf-8")
    Path("input.yaml").write_text("doc: {a: x}\n", encoding="utf-8")
    given = ["run", "machine.yaml", "-i", "input.yaml", "--output", "jsonl"]
    assert invoke([*given, "--set", "doc.deep.ok=true"]) == 0
    assert finished(capsys)["outcome"] == "yes"
    assert invoke(given) == 0
    assert finished(capsys)["outcome"] == "done"
    assert invoke([*given, "--set", "doc.deep.ok=perhaps"]) == 2
    assert "input `doc.deep.ok` takes true or false; `perhaps` is not" in capsys.readouterr().err


def test_a_completed_value_conforms_as_it_is() -> None:
    for notation in (HALF, {"a": "optional str", "b": {"type": "int", "default": 2}, "c": HALF}):
        datatype = parse_fields(notation)
        given: dict[str, Any] = {"a": "x", "c": {"a": "y"}} if "c" in notation else {"a": "x"}
        filled, faults = conform(given, datatype)
        assert faults == []
        assert conform(filled, datatype) == (filled, [])


# -- what can't be done --------------------------------------------------------------------------


GIVING_UP = {
    "title": "str",
    "nodes": [{"id": "str"}],
    "infeasible": {"type": "bool", "default": False},
}


def giving_up(*ways: Any) -> str:
    return machine(
        agents={
            "writer": {
                "model": "openai/gpt-5-mini",
                "schema": GIVING_UP,
                "infeasible": "infeasible",
            }
        },
        states={
            "draft": {"agent": "writer", "prompt": "Go.", "output": "plan", "next": "check"},
            "check": {
                "validate": "plan",
                "by": [{"require": "nodes.count > 0"}],
                "transitions": [
                    {"guard": "infeasible", "target": "why"},
                    *ways,
                    {"guard": "valid", "target": "done"},
                    {"revise": "draft"},
                    {"target": "failed"},
                ],
            },
            "why": {
                "render": "{{ plan.title }}{% for node in plan.nodes %}{{ node.id }}{% endfor %}.",
                "next": "hopeless",
            },
            "hopeless": {"final": "failure", "result": ["why", "plan"]},
            "done": {"final": "success", "result": "plan"},
            "failed": {"final": "failure"},
        },
    )


@pytest.mark.parametrize(
    "said",
    [
        {"infeasible": True},
        {"infeasible": True, "nodes": "none", "title": 7},
        {"infeasible": True, "nodes": [{"id": "a"}, {}], "more": 1},
    ],
)
def test_who_declares_that_it_cant_be_done_need_not_fill_in_the_rest(
    desk: Desk, said: dict[str, Any]
) -> None:
    played = desk.play(giving_up(), saying(said))
    assert played.outcome == "hopeless"
    assert played.result["why"] == "."
    assert [report.verdict for report in played.reports] == ["infeasible"]


def test_what_an_infeasible_answer_says_is_kept(desk: Desk) -> None:
    said = {"infeasible": True, "title": "no way", "nodes": [{"id": "a"}]}
    played = desk.play(giving_up(), saying(said))
    assert played.result == {"why": "no waya.", "plan": said}


def test_what_fits_of_an_infeasible_answer_is_kept_whatever_the_fields_are_called(
    desk: Desk,
) -> None:
    fields = {"a": {"b": "int"}, "a.b": "str", "c[0]": "int", "c": ["int"], "infeasible": "bool"}
    text = asking(fields, infeasible="infeasible")
    said = {"infeasible": True, "a": {"b": "?"}, "a.b": "x", "c[0]": 3, "c": [1]}
    assert desk.play(text, saying(said)).result == {"work": {**said, "a": {"b": 0}}}
    said = {"infeasible": True, "a": {"b": 1}, "a.b": 7, "c[0]": 3, "c": ["?"]}
    assert desk.play(text, saying(said)).result == {"work": {**said, "a.b": "", "c": []}}


def test_every_field_of_an_infeasible_answer_that_does_not_fit_is_empty(desk: Desk) -> None:
    fields = {"a": ["int"], "b": "str", "infeasible": "bool"}
    text = asking(fields, infeasible="infeasible")
    said = {"infeasible": True, "a": ["?"] * 100, "b": 7}
    assert desk.play(text, saying(said)).result == {"work": {**said, "a": [], "b": ""}}


def test_guards_of_its_own_do_not_decide_by_what_an_infeasible_answer_lacks(desk: Desk) -> None:
    fields = {"kind": "bug|feature", "infeasible": "bool"}
    text = asking(fields, {"guard": 'kind == "bug"', "target": "yes"}, infeasible="infeasible")
    assert desk.play(text, saying({"infeasible": True})).outcome == "unusable"
    assert desk.play(text, saying({"infeasible": True, "kind": "bug"})).outcome == "yes"


# -- every form of type ----------------------------------------------------------------------------

KNOWN = """
text: str
whole: int
number: num, at least 0, at most 0.5
flag: bool
size: small|medium|large
record.name: str
record.max-tries: int
record.größe: num
open.name: str
closed.name: str
perhaps: str, optional
defaulted: str, default "int"
by_kind: str
by_kinds: int, at least 1, optional
by_forms: num, at most 3, optional
by_one: a|b
by_all: int, at least 2
by_enum: red|green, optional
by_reference.ok: bool
by_reference.n: int, default 3
"""
KNOWN_OF_INPUT = """
text: str
rounds: int, at least 0, at most 2, default 2, How often it may be revised.
whole_record.name: str
whole_record.tries: int, default 2
by_file.id: str
"""


def test_guards_know_the_single_values_in_every_form_of_type() -> None:
    machine = load(ROOT / "tests/cases/ok/types.yaml").machine
    schemas = {name: agent.schema_ or {} for name, agent in machine.agents.items()}
    for fields, known in ((machine.input, KNOWN_OF_INPUT), (schemas["teller"], KNOWN)):
        found = single_values(parse_fields(fields))
        assert [f"{name}: {describe_type(single)}" for name, single in found] == known.split("\n")[
            1:-1
        ]
    assert [name for name, _ in single_values(parse_fields(schemas["sorter"]))] == [
        "type",
        "default",
    ]


# -- JSON Schema wherever types stand ------------------------------------------------------------

SAID = {"result": {"ok": True}, "score": 4, "size": "s", "missingFacets": ["x"]}


def test_a_schema_of_pydantic_works_as_it_is_for_an_agent(desk: Desk) -> None:
    schema = Answer.model_json_schema()
    guard = 'result.ok and colour == "red" and score > 3 and other.ok == none'
    text = asking(schema, {"guard": guard, "target": "yes"})
    assert desk.problems(text) == []
    played = desk.play(text, saying(SAID))
    assert played.outcome == "yes"
    assert Answer.model_validate(played.result["work"]).missingFacets == ["x"]
    assert played.result["work"]["result"] == {"ok": True, "note": None, "kind": "inner"}
    wrong = {**SAID, "kids": [{**SAID, "score": 9}]}
    assert desk.play(text, saying(wrong)).outcome == "unusable"


def test_a_schema_of_pydantic_works_as_it_is_for_the_input_and_a_form(desk: Desk) -> None:
    schema = Answer.model_json_schema()
    template = "{{ input.result.note }}{{ input.missingFacets | join }}"
    template += "{% for kid in input.kids %}{{ kid.size }}{% endfor %}"
    text = showing(schema, template, {"guard": "input.other.ok == true", "target": "yes"})
    kid = {**SAID, "size": "m"}
    assert desk.play(text, inputs={**SAID, "kids": [kid]}).result == {"show": "xm"}
    assert desk.play(text, inputs={**SAID, "other": {"ok": True}}).outcome == "yes"


def test_a_schema_of_pydantic_works_inside_a_record(desk: Desk) -> None:
    text = showing({"plan": Answer.model_json_schema(), "n": "int"}, "{{ input.plan.result.kind }}")
    assert desk.play(text, inputs={"plan": SAID, "n": 1}).result == {"show": "inner"}
    broken = {"plan": {**SAID, "kids": [{**SAID, "result": {"ok": 3}}]}, "n": 1}
    faults = conform(broken, parse_fields({"plan": Answer.model_json_schema(), "n": "int"}))[1]
    assert faults == [("plan.kids[0].result.ok", "3 is not of type 'boolean'")]


def test_a_schema_at_a_root_is_told_from_a_record_by_a_word_of_json_schema() -> None:
    record = parse_fields({"type": "bug|feature", "title": "str"})
    assert set(record.fields or {}) == {"type", "title"}
    schema = parse_fields({"type": "object", "properties": {"title": {"type": "string"}}})
    assert set(schema.fields or {}) == {"title"}
    listed = parse_fields({"type": "array", "items": {"type": "string"}})
    assert conform(["a"], listed)[1] == []
    plain = parse_fields({"type": "str", "default": "int"})
    assert set(plain.fields or {}) == {"type", "default"}


def test_the_answer_of_an_agent_may_be_a_list(desk: Desk) -> None:
    text = asking({"type": "array", "items": {"type": "string"}})
    assert desk.play(text, saying(["a", "b"])).result == {"work": ["a", "b"]}


def test_an_input_is_a_mapping_whatever_its_schema(desk: Desk) -> None:
    [problem] = desk.problems(showing({"type": "array"}, "x"))
    assert (problem.code, problem.path) == ("bad-type", "input")
    assert "`type: object`" in problem.message
    assert desk.play(showing({"type": "object"}, "{{ input }}"), inputs={"a": 1}).outcome == "done"


def test_a_default_in_a_schema_has_to_fit(desk: Desk) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": "5"}}}
    [problem] = desk.problems(asking(schema))
    assert problem.code == "bad-type"
    assert problem.path == "agents.writer.schema.properties.n.default"
    assert "not of type int" in problem.message


def test_null_as_the_default_of_what_takes_no_null_is_none(desk: Desk) -> None:
    class Loose(BaseModel):
        n: int = None  # type: ignore[assignment]

    guard = {"guard": "n != none and n > 3", "target": "yes"}
    text = asking(Loose.model_json_schema(), guard)
    assert desk.play(text, saying({})).outcome == "done"


def test_schemas_that_name_their_parts_again_and_again_are_read_in_time() -> None:
    pairs = {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in "ab"},
            "allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2,
        }
        for n in range(60)
    }
    whole = {"$defs": {**pairs, "d60": {"type": "object"}}, "$ref": "#/$defs/d0"}
    assert len(list(single_values(parse_fields(whole)))) <= 10_000
    nested: Any = "str"
    for _ in range(60):
        nested = {"type": [nested], "default": []}
    assert parse_type(nested).items is not None


# -- the notation ---------------------------------------------------------------------------------


def test_any_takes_everything_and_has_to_be_there() -> None:
    datatype = parse_fields({"x": "any"})
    for value in (None, 1, [1], {"a": None}, "text"):
        assert conform({"x": value}, datatype) == ({"x": value}, [])
    assert conform({}, datatype)[1] == [("", "'x' is a required property")]


def test_a_record_may_let_other_fields_be_there(desk: Desk) -> None:
    record = {"id": "str", "...": "int"}
    assert conform({"id": "a", "n": 3}, parse_type(record))[1] == []
    assert conform({"id": "a", "n": "x"}, parse_type(record))[1] == [
        ("n", "'x' is not of type 'integer'")
    ]
    text = "{{ input.x.id }}{% if input.x.more %}{{ input.x.more }}{% endif %}"
    played = desk.play(showing({"x": record}, text), inputs={"x": {"id": "a", "more": 5}})
    assert played.result == {"show": "a5"}
    [problem] = desk.problems(showing({"x": record}, "{{ input.x.more }}{{ input.x.id }}"))
    assert problem.code == "may-be-missing"


KEEPING = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini, schema: {task: {id: str}}}}
states:
  plan: {agent: writer, prompt: Go., on_error: {content: failed}, next: work}
  work:
    machine: task.yaml
    input: {task: "{{ plan.task }}"}
    on_error: {content: failed}
    transitions: [{guard: outcome == "done", target: done}, {target: failed}]
  done: {final: success, result: [plan, work]}
  failed: {final: failure}
"""


def test_what_a_record_does_not_name_is_kept_on_all_its_ways_and_read_by_no_name(
    desk: Desk,
) -> None:
    task = {"id": "a", "agent": "coder", "notes": [None]}
    child = showing({"task": {"id": "str"}}, "{{ input.task | tojson }}")
    (desk.folder / "task.yaml").write_text(child, encoding="utf-8")
    played = desk.play(KEEPING, saying({"task": task, "by": "me"}))
    assert played.result["plan"] == {"task": task, "by": "me"}
    assert json.loads(played.result["work"]["result"]["show"]) == task
    [problem] = desk.problems(child.replace("input.task |", "input.task.agent |"))
    assert problem.code == "unknown-field"
    assert conform([task], parse_type([{}])) == ([task], [])
    assert "unexpected" in conform(task, parse_type({"id": "str", "...": "none"}))[1][0][1]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ({"type": "optional [str]", "default": []}, []),
        ("optional str", None),
        ({"type": "optional str", "default": None}, None),
        ({"type": "optional [str]", "default": ["a"]}, ["a"]),
        ({"type": {"type": "object", "allOf": [{"type": "object"}]}, "optional": True}, None),
        ({"type": "str", "default": ""}, "None is not of type 'string'"),
    ],
)
def test_null_is_a_missing_value_where_a_field_is_optional(kind: Any, told: object) -> None:
    filled, faults = conform({"x": None}, parse_fields({"x": kind}))
    assert (faults or filled) == ([("x", told)] if isinstance(told, str) else {"x": told})


@pytest.mark.parametrize("kind", ["optional [int]", {"type": ["int"], "optional": True}])
def test_a_fault_inside_of_optional_data_is_told_by_its_own_place(kind: Any) -> None:
    assert conform({"x": [1, "a"]}, parse_fields({"x": kind}))[1] == [
        ("x[1]", "'a' is not of type 'integer'")
    ]


def test_an_optional_field_with_a_default_always_has_a_value(desk: Desk) -> None:
    field = {"type": "optional [str]", "default": ["tea"]}
    text = showing({"x": field}, "{% for one in input.x %}{{ one }}{% endfor %}")
    assert desk.play(text, inputs={"x": None}).result == {"show": "tea"}


PLAN = """
tasks:
- dependancies: []
- {dependencies: , dependancies: [], when: 2026-01-01}
"""


@pytest.mark.parametrize("is_file", [False, True])
def test_a_name_one_slip_away_from_a_field_that_is_left_out_is_a_warning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_file: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    task = {"dependencies": {"type": "optional [str]", "default": []}, "when": "optional str"}
    plan, data = {"tasks": [task]}, ".data" if is_file else ""
    of_file = {"type": "file", "data": plan}
    text = showing({"plan": of_file if is_file else plan}, f"{{{{ input.plan{data}.tasks }}}}")
    Path("machine.yaml").write_text(text, encoding="utf-8")
    Path("plan.yaml").write_text(PLAN, encoding="utf-8")
    assert invoke(["run", "machine.yaml", "--set", "plan=@plan.yaml", "--output", "jsonl"]) == 0
    said = capsys.readouterr()
    place = f"input.plan{data}.tasks[0].dependancies"
    assert [line for line in said.err.splitlines() if "warning" in line] == [
        f"warning: no field is called `{place}`; did you mean `dependencies`?"
    ]
    shown = json.loads(said.out.splitlines()[-1])["result"]["show"]
    assert shown[1] == {"dependencies": [], "dependancies": [], "when": "2026-01-01"}


def test_a_record_of_the_root_may_let_other_fields_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = showing({"id": "str", "...": "any"}, "{{ input }}")
    Path("machine.yaml").write_text(text, encoding="utf-8")
    given = ["run", "machine.yaml", "--set", "id=a", "--set", "more=[1]", "--output", "jsonl"]
    assert invoke(given) == 0
    assert finished(capsys)["result"]["show"] == {"id": "a", "more": [1]}


def test_a_record_may_have_a_default_that_is_filled_in(desk: Desk) -> None:
    options = {"type": {"tries": {"type": "int", "default": 1}}, "default": {}}
    guard = {"guard": "input.options.tries == 1", "target": "yes"}
    text = showing({"options": options}, "{{ input.options.tries }}", guard)
    assert desk.play(text).outcome == "yes"
    assert desk.play(text, inputs={"options": {"tries": 2}}).result == {"show": "2"}


def test_a_record_may_have_a_field_called_type() -> None:
    nested = parse_fields({"item": {"type": "str", "title": "str"}})
    assert nested.fields is not None
    assert set(nested.fields["item"].fields or {}) == {"type", "title"}


@pytest.mark.parametrize(
    "name", ["missingFacets", "facet_Catalog", "X", "größe", "max-tries", "1st", "a b", "a.b"]
)
def test_names_of_data_are_their_own(desk: Desk, name: str) -> None:
    notation = {"doc": {name: "int"}, name: "str"}
    text = showing(notation, f'{{{{ input["{name}"] }}}}{{{{ input.doc["{name}"] }}}}')
    assert desk.problems(text) == []
    assert desk.play(text, inputs={"doc": {name: 3}, name: "x"}).result == {"show": "x3"}


@pytest.mark.parametrize("name", ["missingFacets", "X", "größe", "max-tries"])
def test_guards_read_data_by_their_own_names(desk: Desk, name: str) -> None:
    guard = {"guard": f"input.{name} > 2 and input.doc.{name} == 'a'", "target": "yes"}
    text = showing({"doc": {name: "str"}, name: "int"}, "no", guard)
    assert desk.play(text, inputs={"doc": {name: "a"}, name: 3}).outcome == "yes"
    assert desk.play(text, inputs={"doc": {name: "b"}, name: 3}).outcome == "done"


def test_an_input_of_any_name_can_bound_revising(desk: Desk) -> None:
    tries = {"maxTries": {"type": "int", "default": 1, "minimum": 0, "maximum": 3}}
    limits, back = {"revisions": "input.maxTries"}, {"revise": "work"}
    text = judging({"render": "x"}, {"min_chars": 9}, back, input=tries, limits=limits)
    assert desk.problems(text) == []
    assert len(desk.play(text, inputs={"maxTries": 2}).reports) == 3


# -- guards read what an agent answers -----------------------------------------------------------


def test_guards_read_nested_values_of_an_answer_here_and_elsewhere(desk: Desk) -> None:
    text = machine(
        agents={
            "writer": {
                "model": "openai/gpt-5-mini",
                "schema": {"result": {"ok": "bool", "n": "int"}},
            }
        },
        states={
            "draft": {
                "agent": "writer",
                "prompt": "Go.",
                "output": "work",
                "on_error": {"content": "failed"},
                "transitions": [{"guard": "result.ok", "target": "more"}, {"target": "failed"}],
            },
            "more": {
                "transitions": [
                    {"guard": "draft.result.n > 3", "target": "large"},
                    {"target": "small"},
                ]
            },
            "large": {"final": "success"},
            "small": {"final": "success"},
            "failed": {"final": "failure"},
        },
    )
    assert desk.problems(text) == []
    for said, outcome in (
        ({"ok": True, "n": 9}, "large"),
        ({"ok": True, "n": 1}, "small"),
        ({"ok": False, "n": 9}, "failed"),
    ):
        assert desk.play(text, saying({"result": said})).outcome == outcome


def test_a_field_whose_parts_a_guard_could_take_for_a_states_is_told(desk: Desk) -> None:
    guard = {"guard": "done.ok", "target": "yes"}
    problems = desk.problems(asking({"done": {"ok": "bool"}}, guard))
    assert [(p.code, p.path) for p in problems] == [("name-collision", "agents.writer.schema.done")]
    problems = desk.problems(asking({"input": {"ok": "bool"}}))
    assert [p.code for p in problems if p.severity == "error"] == ["shadowed-name"]


def test_a_misspelt_part_of_an_answer_is_told_with_what_was_meant(desk: Desk) -> None:
    guard = {"guard": "result.okay", "target": "yes"}
    [problem] = desk.problems(asking({"result": {"ok": "bool"}}, guard))
    assert (problem.code, problem.help) == ("unknown-name", "did you mean `result.ok`?")


def test_a_replied_answer_is_stored_as_it_was_said(desk: Desk) -> None:
    played = desk.play(asking(HALF), saying({"a": "x"}))
    [reply] = played.of(Replied)
    assert json.loads(reply.text) == {"a": "x"}


# -- schemas in files ------------------------------------------------------------------------------

NODE = """{
\t"type": "object",
\t"properties": {"name": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
\t"required": ["name"]
}"""


def test_a_schema_from_a_file_stands_for_a_type_and_guards_know_it(desk: Desk) -> None:
    schema = {**Answer.model_json_schema(), "title": "in a file"}
    desk.write("types/answer.schema.json", json.dumps(schema))
    guard = {"guard": "result.ok and score > 3", "target": "yes"}
    text = asking({"file": "types/answer.schema.json"}, guard)
    assert desk.problems(text) == []
    assert desk.play(text, saying(SAID)).outcome == "yes"
    assert desk.play(text, saying({**SAID, "size": "l"})).outcome == "unusable"


def test_a_file_refers_to_files_beside_it_and_a_record_holds_several(desk: Desk) -> None:
    desk.write("types/node.json", NODE)
    pair = {
        "type": "object",
        "properties": {"first": {"$ref": "node.json"}, "n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "integer"}},
        "required": ["first", "n"],
    }
    desk.write("types/pair of nodes.yaml", to_yaml(pair))
    notation = {"pair": {"file": "types/pair of nodes.yaml"}, "all": [{"file": "types/node.json"}]}
    guard = {"guard": 'input.pair.first.name == "a" and input.pair.n > 1', "target": "yes"}
    text = showing(notation, "{{ input.all[0].name }}", guard)
    given = {"pair": {"first": {"name": "b"}, "n": 2}, "all": [{"name": "x", "kids": []}]}
    assert desk.problems(text) == []
    assert desk.play(text, inputs=given).result == {"show": "x"}
    given["pair"] = {"first": {"name": "a"}, "n": 2}
    assert desk.play(text, inputs=given).outcome == "yes"


def test_a_run_keeps_the_schema_of_a_file(durable: Desk) -> None:
    form = {
        "type": "object",
        "properties": {"why": {"type": "string", "minLength": 3}},
        "required": ["why"],
    }
    path = durable.write("form.schema.json", json.dumps(form))
    text = machine(
        states={
            "ask": {
                "human": "Why?",
                "choices": "tell",
                "form": {"file": "form.schema.json"},
                "next": "told",
            },
            "told": {"render": "{{ ask.why }}", "next": "done"},
            "done": {"final": "success", "result": "told"},
        }
    )
    played = durable.play(text)
    path.unlink()
    with pytest.raises(AnswerRefused, match="too short"):
        durable.answer(played.state.run, "tell", form={"why": "x"})
    assert durable.answer(played.state.run, "tell", form={"why": "yes."}).result == {"told": "yes."}


def test_a_schema_file_that_is_not_there_or_broken_is_told(desk: Desk) -> None:
    [problem] = desk.problems(showing({"doc": {"file": "none.json"}}, "x"))
    assert (problem.code, problem.path) == ("unreadable-file", "input.doc.$ref")
    assert problem.span is not None
    desk.write("broken.json", '{"type": "strnig"}')
    [problem] = desk.problems(showing({"doc": {"file": "broken.json"}}, "x"))
    assert problem.code == "bad-type"
    assert problem.span is not None
    assert problem.span.file.endswith("broken.json")


def test_a_record_may_have_a_field_called_file(desk: Desk) -> None:
    text = showing({"doc": {"file": "str"}}, "{{ input.doc.file }}")
    assert desk.play(text, inputs={"doc": {"file": "a.json"}}).result == {"show": "a.json"}


def test_what_is_no_json_is_no_type() -> None:
    with pytest.raises(NotationError, match="is not a type"):
        parse_fields({"day": date(2026, 1, 2)})
    with pytest.raises(NotationError, match="is not a type"):
        parse_fields({"days": [date(2026, 1, 2)]})
