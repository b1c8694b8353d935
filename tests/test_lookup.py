"""`lookup`: values of data are among known ones in an input, an artifact or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.findings import Answer
from loopkit.language.load import load
from loopkit.language.validators import LookupRule
from tests.judging import judge_by, told_in
from tests.support import Desk

PLAN = {"nodes": [{"id": "a", "skill": "boil"}, {"id": "b", "skill": "brwe"}, {"id": "c"}]}
MACHINE = """
loopkit: 1
input: {skills: {type: [str], default: [boil, brew]}}
states:
  start: {render: START, output: catalogue, next: plan}
  plan: {render: 'PLAN', next: check}
  check: {validate: plan, by: [{lookup: LOOKUP}], transitions: [{guard: valid, target: done}, {target: no}]}
  done: {final: success, result: [plan, catalogue]}
  no: {final: failure, result: [plan, catalogue]}
"""  # noqa: E501


async def judge(lookup: dict[str, Any], data: object = PLAN, **names: Any) -> Answer:
    return await judge_by(LookupRule.model_validate({"lookup": lookup}), data, **names)


async def messages(lookup: dict[str, Any], data: object = PLAN, **names: Any) -> list[str]:
    return told_in(await judge(lookup, data, **names))


def machine(lookup: str, start: str = '"[boil]"', plan: object = PLAN) -> str:
    written = MACHINE.replace("LOOKUP", lookup).replace("START", start)
    return written.replace("PLAN", json.dumps(plan))


async def test_each_unknown_value_is_found_at_its_place_with_what_may_have_been_meant() -> None:
    answer = await judge({"path": "nodes[].skill", "in": "input.known"}, input={"known": ["brew"]})
    assert [(f.location, f.message) for f in answer.findings] == [
        ("nodes[0].skill",
         "nodes[0].skill: `boil` is not known in `input.known`; allowed: `brew`"),
        ("nodes[1].skill",
         "nodes[1].skill: `brwe` is not known in `input.known`; did you mean `brew`?"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "known"),
    [
        (None, ["boil", "brwe"]),
        (None, {"boil": 1, "brwe": None}),
        ("[]", ["boil", "brwe"]),
        ("items[].id", {"items": [{"id": "boil"}, {"id": "brwe"}]}),
        ("items", {"items": ["boil", "brwe"]}),
        ("items", {"items": {"boil": {}, "brwe": {}}}),
        ("items[].names", {"items": [{"names": ["boil"]}, {"names": ["brwe"]}]}),
    ],
)
async def test_known_are_items_of_lists_keys_of_mappings_and_values_at_paths(
    at: str | None, known: object
) -> None:
    lookup = {"path": "nodes[].skill", "in": "input.known", "at": at}
    assert await messages(lookup, input={"known": known}) == []


@pytest.mark.parametrize(
    ("known", "values", "unknown"),
    [
        (["boil"], [None, "boil"], []),
        ([], ["boil", None], ["boil"]),
        # White space that makes a value unknown is seen, and control characters are not told.
        (["boil"], ["boil ", "boil\n", "", "boil it"], ['"boil "', '"boil\\n"', '""', "boil it"]),
        (["boil"], ["\x1b[31mred"], ["red"]),
        # Values are equal by kind and value.
        ([1, True, "2"], [1.0, True, "2"], []),
        ([1], [True, 1], ["true"]),
        ([1, True, "2"], [0, False, 2, {"a": 1}], ["0", "false", "2", '{"a": 1}']),
        # Keys of a mapping are known, and those of the items of a list are not.
        ({"boil": 1}, ["boil"], []),
        ([{"boil": 1}], ["boil"], ["boil"]),
    ],
)
async def test_an_unknown_value_is_told_as_it_is(
    known: object, values: list[object], unknown: list[str]
) -> None:
    told = await messages({"path": "[]", "in": "input.known"}, values, input={"known": known})
    assert [message.partition("`")[2].partition("` is")[0] for message in told] == unknown


async def test_where_nothing_is_known_every_value_is_unknown() -> None:
    at = {"path": "nodes[].skill", "in": "input.known", "at": "items[].id"}
    assert len(await messages(at, input={"known": {"items": []}})) == 2


@pytest.mark.parametrize("known", [None, {"other": []}, [{"name": "boil"}], "boil"])
async def test_where_the_known_values_cannot_be_had_the_author_is_not_blamed(known: object) -> None:
    lookup = {"path": "nodes[].skill", "in": "input.known", "at": "items[].id"}
    answer = await judge(lookup, input={"known": known})
    assert (answer.verdict, answer.error_class) == ("error", "fatal")
    assert "`input.known`" in answer.reason


async def test_the_artifact_can_be_held_against_itself() -> None:
    plan = {"nodes": [{"id": "a", "needs": []}, {"id": "b", "needs": ["a", "c"]}]}
    for name in ("plan", "artifact"):
        told = await messages({"path": "nodes[].needs[]", "in": name, "at": "nodes[].id"}, plan)
        assert [message.partition(" is")[0] for message in told] == ["nodes[1].needs[1]: `c`"]
    # Whoever wrote no ids at all is to blame for that.
    assert await messages({"path": "nodes[].needs[]", "in": "plan", "at": "ids[]"}, plan)


async def test_at_most_fifty_unknown_values_are_named() -> None:
    data = [f"unknown {number}" for number in range(20_000)]
    known = [f"known {number}" for number in range(20_000)]
    told = await messages({"path": "[]", "in": "input.known"}, data, input={"known": known})
    assert len(told) == 50


def test_values_are_looked_up_in_another_artifact(desk: Desk) -> None:
    lookup = '{path: "nodes[].skill", in: catalogue, at: "[]"}'
    found = desk.play(machine(lookup, start='\'["boil", "brew"]\'')).reports[0].findings
    assert [finding.location for finding in found] == ["nodes[1].skill"]


def test_an_artifact_that_is_no_data_is_no_fault_of_the_author(desk: Desk) -> None:
    played = desk.play(machine('{path: "nodes[].skill", in: catalogue}', start="Boil and brew."))
    assert played.state.suspended.reason == "fatal"
    assert "`catalogue` is neither JSON" in played.state.suspended.message
    assert played.state.attempts["plan"] == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("known/skills.yaml", "skills:\n  - id: boil\n  - {id: brwe}\n"),
        ("skills.json", '{"skills": [{"id": "boil"}, {"id": "brwe"}]}'),
        ("skills.yaml", "{skills: [{id: boil}, {id: brwe}]}"),
    ],
)
def test_values_are_looked_up_in_a_file_beside_the_machine(
    desk: Desk, name: str, text: str
) -> None:
    desk.write(name, text)
    lookup = f'{{path: "nodes[].skill", in: {{file: {name}}}, at: "skills[].id"}}'
    assert desk.play(machine(lookup)).outcome == "done"
    desk.write(name, text.replace("brwe", "brew"))
    assert desk.play(machine(lookup)).outcome == "no"


def test_a_file_of_known_values_is_part_of_the_definition(durable: Desk) -> None:
    """A run that goes on later has what was known when it started."""
    durable.write("skills.json", '["boil", "brwe"]')
    text = machine('{path: "nodes[].skill", in: {file: skills.json}}')
    asking = text.replace("next: check", "next: ask").replace(
        "  check:", "  ask: {human: Go?, choices: [go], transitions: [{target: check}]}\n  check:"
    )
    waiting = durable.play(asking)
    durable.write("skills.json", '["nothing"]')
    assert durable.answer(waiting.state.run, "go").outcome == "done"
    loaded = load(durable.folder / "machine.yaml")
    assert waiting.state.definition != loaded.digest
    files = json.loads(loaded.resolved)["files"]
    assert {Path(name).name for name in files} == {"machine.yaml", "skills.json"}


def test_a_field_called_in_of_a_schema_is_no_file(desk: Desk) -> None:
    text = machine('{path: "nodes[].skill", in: input.skills}')
    text = text.replace("by: [", "by: [{schema: {in: {file: str}}}, ")
    assert [p.code for p in desk.problems(text)] == []


def test_a_typed_artifact_is_known_to_have_no_such_values(desk: Desk) -> None:
    text = machine('{path: "nodes[].skill", in: catalogue, at: "tools[].id"}')
    text = text.replace('render: "[boil]"', "agent: clerk, prompt: List them.")
    head = "agents: {clerk: {model: some/model, schema: {tools: [{name: str}]}}}\nstates:"
    text = text.replace("states:", head)
    found = {p.code: p.help for p in desk.problems(text)}
    assert "it has `name`" in found["no-known-values"]
    assert "no-known-values" not in {p.code for p in desk.problems(text.replace("].id", "].name"))}


IDS: list[Any] = ["u1", "u2", "u2", 3, None, [["a list"]]]
UNITS = {"units": [{"name": "no id"}, *({"id": one} for one in IDS)]}
COVER = {"path": "parts[].unit", "in": "plan_data", "at": "units[].id", "cover": True}


async def test_every_known_value_has_to_be_used_where_they_are_to_be_covered() -> None:
    data = {"parts": [{"unit": "u1"}, {"unit": "unknown"}, {"unit": "3"}]}
    answer = await judge(COVER, data, plan_data=UNITS)
    # Each once; that one of the parts is of no unit is for another rule.
    assert [finding.message for finding in answer.findings] == [
        "`u2` of `plan_data` at `units[].id` is not used at `parts[].unit`",
        "`3` of `plan_data` at `units[].id` is not used at `parts[].unit`",
    ]
    whole = {"parts": [{"unit": "u2"}, {"unit": "u1"}, {"unit": 3.0}]}
    assert await messages(COVER, whole, plan_data=UNITS) == []
    assert len(await messages(COVER, {"parts": []}, plan_data=UNITS)) == 3
    assert await messages(COVER, {}, plan_data={"units": []}) == []


async def test_values_at_several_paths_are_looked_up_by_one_rule() -> None:
    data = {"nodes": [{"to": "a", "else": "b"}], "last": "c"}
    lookup = {"path": ["nodes[].to", "nodes[].else", "last", "nodes[].else"], "in": "input.known"}
    told = await messages(lookup, data, input={"known": ["a"]})
    assert [message.partition(": ")[0] for message in told] == ["nodes[0].else", "last"]
    cover = {**lookup, "path": ["nodes[].to", "last"], "cover": True}
    [message] = await messages(cover, data, input={"known": ["a", "b", "c"]})
    assert message == "`b` of `input.known` is not used at `nodes[].to` or `last`"


async def test_what_is_not_covered_keeps_its_id_wherever_it_stands() -> None:
    first = await judge(COVER, {"parts": []}, plan_data={"units": [{"id": "a"}, {"id": "b"}]})
    second = await judge(COVER, {"parts": []}, plan_data={"units": [{"id": "b"}]})
    assert first.findings[1].id == second.findings[0].id != first.findings[0].id


def test_a_run_sends_back_what_covers_too_little(desk: Desk) -> None:
    lookup = '{path: "nodes[].skill", in: catalogue, at: "[]", cover: true}'
    known = """'["boil", "brew"]'"""
    run = desk.play(machine(lookup, start=known, plan={"nodes": [{"skill": "boil"}]}))
    assert run.outcome == "no"
    [finding] = run.reports[0].findings
    assert finding.message == "`brew` of `catalogue` at `[]` is not used at `nodes[].skill`"


CATALOGUE = {
    "skills": [
        {"id": "boil", "status": "active"},
        {"id": "brew", "status": "retired"},
        {"id": "pour"},
    ]
}
ACTIVE = {"path": "nodes[].skill", "in": "catalogue", "at": "skills[].id"}


async def test_only_values_of_items_that_meet_a_condition_are_known() -> None:
    data = {"nodes": [{"skill": "boil"}, {"skill": "brew"}, {"skill": "pour"}]}
    lookup = {**ACTIVE, "where": 'status == "active"'}
    where = '`catalogue` at `skills[].id` where `status == "active"`'
    assert await messages(lookup, data, catalogue=CATALOGUE) == [
        f"nodes[1].skill: `brew` is not known in {where}; allowed: `boil`",
        f"nodes[2].skill: `pour` is not known in {where}; allowed: `boil`",
    ]
    # That nothing meets it is no want of values.
    assert len(await messages({**lookup, "where": "false"}, data, catalogue=CATALOGUE)) == 3
    both = {**lookup, "where": 'status == wanted and index < 2 and item.id != "x"'}
    assert len(await messages(both, data, catalogue=CATALOGUE, wanted="active")) == 2


async def test_values_that_may_not_be_used_are_found_and_unknown_ones_are_not() -> None:
    data = {"nodes": [{"skill": "boil"}, {"skill": "brew"}, {"skill": "unheard of"}]}
    lookup = {**ACTIVE, "where": 'status != "active"', "avoid": True}
    [message] = await messages(lookup, data, catalogue=CATALOGUE)
    assert message.startswith("nodes[1].skill: `brew` is one of those in `catalogue`")


async def test_whole_mappings_are_compared_whatever_the_order_of_their_fields() -> None:
    lookup = {"path": "nodes[]", "in": "done", "at": "nodes[]", "cover": True}
    done = {"nodes": [{"id": "a", "cups": 2, "needs": ["b"]}, {"id": "b"}]}
    same = {"nodes": [{"id": "c"}, {"id": "b"}, {"needs": ["b"], "cups": 2.0, "id": "a"}]}
    assert await messages(lookup, same, done=done) == []
    [message] = await messages(lookup, {"nodes": [{"id": "a", "cups": 2}, {"id": "b"}]}, done=done)
    assert '{"id": "a", "cups": 2, "needs": ["b"]}' in message
    assert len(await messages({**lookup, "cover": False}, same, done=done)) == 1


async def test_a_finding_says_what_its_rule_adds_of_the_mapping_around_the_value() -> None:
    rule = LookupRule.model_validate(
        {
            "lookup": {"path": "nodes[].tools[]", "in": "input.tools"},
            "message": "`{{ parent.id }}` takes `{{ value }}`.",
            "fields": {"nodeId": "{{ parent.id }}", "kind": "{{ parent.kind }}", "fixed": "yes"},
        }
    )
    data = {"nodes": [{"id": "a", "kind": "", "tools": ["pot", "kettle"]}]}
    for artifact in (data, f"Here it is: {json.dumps(data)}"):
        [finding] = (await judge_by(rule, artifact, input={"tools": ["pot"]})).findings
        assert finding.message == "`a` takes `kettle`."
        assert finding.item == {"nodeId": "a", "fixed": "yes"}
    nothing = await judge_by(rule, "no data", input={"tools": ["pot"]})
    assert [finding.item for finding in nothing.findings] == [{}]


def test_templates_read_what_the_rules_of_a_machine_add(desk: Desk) -> None:
    text = machine('{path: "nodes[].skill", in: input.skills}').replace(
        "{lookup:", '{fields: {nodeId: "{{ parent.id }}"}, lookup:'
    )
    text = text.replace("{target: no}", "{target: told}").replace("result: [plan, catalogue]", "")
    text = text.replace("failure, ", "failure, result: told") + (
        '  told: {render: "{{ findings[0].item.FIELD }}", next: no}\n'
    )
    [problem] = [p for p in desk.problems(text.replace("FIELD", "nodeID")) if p.code != "unused"]
    assert "did you mean `nodeId`" in problem.help
    assert desk.play(text.replace("FIELD", "nodeId")).result == {"told": "b"}
