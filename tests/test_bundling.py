"""Files that a machine's schemas refer to: found, confined, and kept with the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.document.problems import ProblemsFound
from loopkit.language.load import load
from tests.machines import loop
from tests.support import CommandLine, Desk, scenario

MACHINE = loop(
    "[{schema: SCHEMA, tolerant: true}]",
    {"valid": "done"},
    "{target: failed}",
    top="agents: {writer: {model: openai/gpt-5-mini}}",
    draft="draft: {agent: writer, prompt: Write., output: plan}",
    judge="check",
)
FIRST = "  first: {agent: writer, prompt: A., on_error: {content: failed}, next: draft}\n"


def machine(schema: Any) -> str:
    return MACHINE.replace("SCHEMA", json.dumps(schema))


def desk_with(tmp_path: Path, **files: object) -> Desk:
    desk = Desk(tmp_path, in_memory=False)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        desk.write(
            name.replace("__", "/").replace("_json", ".json").replace("_yaml", ".yaml"), text
        )
    return desk


def judged(desk: Desk, schema: Any, data: object) -> list[str]:
    """The findings about data; none where it is valid."""
    script = scenario(agents={"writer": [json.dumps(data)]})
    played = desk.play(machine(schema), script)
    return [finding.message for report in played.reports for finding in report.findings]


def problems(folder: Path, schema: Any) -> list[tuple[str, str, str]]:
    """Code, message and `file:line:column` of all that is wrong with a machine."""
    path = folder / "machine.yaml"
    path.write_text(machine(schema), encoding="utf-8")
    with pytest.raises(ProblemsFound) as raised:
        load(path)
    return [
        (p.code, p.message, f"{Path(p.span.file).name}:{p.span.line}:{p.span.column}")
        for p in raised.value.problems
        if p.span is not None
    ]


def test_a_file_is_a_part_of_the_schema_that_refers_to_it(tmp_path: Path) -> None:
    desk = desk_with(tmp_path, id_json={"$defs": {"id": {"type": "string"}}})
    schema = {"type": "object", "properties": {"id": {"$ref": "id.json#/$defs/id"}}}
    assert judged(desk, schema, {"id": "a"}) == []
    assert judged(desk, schema, {"id": 1}) == ["id: 1 is not of type 'string'"]


def test_files_refer_to_each_other_from_where_they_stand(tmp_path: Path) -> None:
    desk = desk_with(
        tmp_path,
        defs__node_yaml="properties: {next: {$ref: '#'}, id: {$ref: ../id.json}}",
        id_json={"$ref": "defs/kind.json#kind"},
        defs__kind_json={"$defs": {"k": {"$anchor": "kind", "enum": ["a", "b"]}}},
    )
    schema = {"type": "array", "items": {"$ref": "defs/node.yaml"}}
    assert judged(desk, schema, [{"id": "a", "next": {"id": "b"}}]) == []
    found = judged(desk, schema, [{"id": "a", "next": {"id": "c"}}])
    assert found == ["[0].next.id: 'c' is not one of ['a', 'b']"]


def test_two_files_may_refer_to_each_other(tmp_path: Path) -> None:
    desk = desk_with(
        tmp_path,
        a_json={"type": "object", "properties": {"b": {"$ref": "b.json"}}},
        b_json={"type": "array", "items": {"$ref": "a.json"}},
    )
    assert judged(desk, {"$ref": "a.json"}, {"b": [{"b": []}]}) == []
    assert judged(desk, {"$ref": "a.json"}, {"b": [{"b": 1}]}) != []


def test_a_file_with_an_address_of_its_own_is_found_by_its_path_and_by_that(tmp_path: Path) -> None:
    desk = desk_with(
        tmp_path, id_json={"$id": "https://example.org/id", "$defs": {"i": {"type": "string"}}}
    )
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "id.json#/$defs/i"},
            "b": {"$ref": "https://example.org/id#/$defs/i"},
        },
    }
    assert judged(desk, schema, {"a": 1, "b": 2}) == [
        "a: 1 is not of type 'string'",
        "b: 2 is not of type 'string'",
    ]


def test_a_schema_with_an_address_finds_its_neighbours_by_their_paths(tmp_path: Path) -> None:
    desk = desk_with(tmp_path, id_json={"type": "string"})
    schema = {"$id": "https://example.org/root.json", "items": {"$ref": "id.json"}}
    assert judged(desk, schema, [1]) == ["[0]: 1 is not of type 'string'"]


def test_a_resumed_run_judges_by_the_file_as_it_was(tmp_path: Path) -> None:
    desk = desk_with(tmp_path, id_json={"type": "string"})
    text = machine({"$ref": "id.json"})
    text = text.replace("loopkit: 1", "loopkit: 1\nlimits: {agent_calls: 1}")
    text = text.replace("  draft: {", FIRST + "  draft: {")
    played = desk.play(text, scenario(agents={"writer": ["x", "1"]}))
    assert played.state.suspended is not None
    (tmp_path / "id.json").unlink()
    again = desk.resume(played.state.run, {"agent_calls": 5})
    assert [f.message for f in again.reports[0].findings] == ["1 is not of type 'string'"]


def test_the_stored_definition_names_the_files(tmp_path: Path) -> None:
    desk = desk_with(tmp_path, id_json={"type": "string"})
    loaded = load(desk.write("machine.yaml", machine({"$ref": "id.json"})))
    assert [Path(file).name for file in json.loads(loaded.resolved)["files"]] == [
        "id.json",
        "machine.yaml",
    ]


@pytest.mark.parametrize("reference", ["../id.json", "link.json", "way/id.json", "/etc/passwd"])
def test_a_file_outside_the_folder_is_never_read(tmp_path: Path, reference: str) -> None:
    (tmp_path / "id.json").write_text('{"type": "string"}')
    folder = tmp_path / "machines"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "id.json")
    (folder / "way").symlink_to(tmp_path)
    [(code, message, _)] = problems(folder, {"$ref": reference})
    assert (code, "outside" in message) in [("unreadable-file", True), ("dead-reference", False)]


@pytest.mark.parametrize(
    ("content", "code", "place"),
    [
        ('{\n  "items": {"$ref": "#/nope"}}', "dead-reference", "x.json:2:21"),
        ('{\n  "items": {"type": "text"}}', "bad-type", "x.json:2:21"),
        ('{\n  "items": {"$ref": "y.json"}}', "unreadable-file", "x.json:2:21"),
        ("[1]", "not-a-mapping", "x.json:1:1"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_that_file(
    tmp_path: Path, content: str, code: str, place: str
) -> None:
    (tmp_path / "x.json").write_text(content)
    [(found, _, where)] = problems(tmp_path, {"$ref": "x.json"})
    assert (found, where) == (code, place)


def test_many_references_to_many_files_are_read_once_each(tmp_path: Path) -> None:
    for number in range(100):
        following = {"$ref": f"f{number + 1}.json"} if number < 99 else {"type": "string"}
        (tmp_path / f"f{number}.json").write_text(json.dumps({"allOf": [following] * 20}))
    path = tmp_path / "machine.yaml"
    path.write_text(machine({"anyOf": [{"$ref": f"f{n}.json"} for n in range(100)]}))
    assert len(json.loads(load(path).resolved)["files"]) == 101


@pytest.mark.usefixtures("own_folder")
def test_check_tells_each_reference_that_leads_nowhere(cli: CommandLine) -> None:
    Path("m.yaml").write_text(machine({"allOf": [{"$ref": "#a"}, {"$ref": "http://b.test/c"}]}))
    told = cli(1, "check", "m.yaml")
    assert (told.out + told.err).count("error[dead-reference]") == 2
