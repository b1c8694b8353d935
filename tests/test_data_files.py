"""`{file: PATH}` where a value of an input stands: a glossary or a catalogue in its own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.checks import check
from loopkit.cli import invoke
from loopkit.document.problems import ProblemsFound
from loopkit.language.load import load, load_resolved
from loopkit.language.states.kinds import ValidateState
from loopkit.language.validators import PythonRule
from tests.support import CommandLine, Desk

GLOSSARY = "tea: Tee\npot: {de: Kanne, file: other.yaml}\n"
MACHINE = """
loopkit: 1
input:
  glossary: TYPE
states:
  told: {render: '{"words": ["{{ input.glossary | join }}"]}', next: check}
  check:
    validate: told
    by: [{lookup: {path: "words[]", in: input.glossary}}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: told}
  failed: {final: failure, result: told}
"""
RECORD = "{type: {...: any}, default: {file: glossary.yaml}}"
SCHEMA = "{type: object, default: {file: glossary.yaml}}"


def machine(
    folder: Path, notation: str, holds: str = GLOSSARY, name: str = "glossary.yaml"
) -> Path:
    (folder / name).write_text(holds, encoding="utf-8")
    path = folder / "machine.yaml"
    path.write_text(MACHINE.replace("TYPE", notation), encoding="utf-8")
    return path


def told(path: Path) -> str:
    with pytest.raises(ProblemsFound) as raised:
        load(path)
    (problem,) = raised.value.problems
    return f"{problem.code} {Path(problem.span.file).name}: {problem.message}"


@pytest.mark.parametrize("notation", [RECORD, SCHEMA], ids=["notation", "JSON Schema"])
def test_a_file_is_the_data_of_a_default(desk: Desk, notation: str) -> None:
    loaded = load(machine(desk.folder, notation))
    data = {"tea": "Tee", "pot": {"de": "Kanne", "file": "other.yaml"}}
    assert loaded.machine.input["glossary"]["default"] == data
    assert load_resolved(loaded.resolved).input["glossary"]["default"] == data
    assert any(name.endswith("glossary.yaml") for name in loaded.source.texts)


def test_a_catalogue_may_be_a_list_of_json(desk: Desk) -> None:
    notation = "{type: [str], default: {file: words.json}}"
    played = desk.play(machine(desk.folder, notation, '["tea"]', "words.json"))
    assert played.outcome == "done"
    assert played.state.input == {"glossary": ["tea"]}


def test_a_text_is_the_text_of_the_file(desk: Desk) -> None:
    path = machine(desk.folder, "{type: str, default: {file: glossary.yaml}}")
    assert load(path).machine.input["glossary"]["default"] == GLOSSARY


def test_a_nested_default_is_data_too(desk: Desk) -> None:
    path = machine(desk.folder, "{words: [" + RECORD + "]}")
    default = load(path).machine.input["glossary"]["words"][0]["default"]
    assert default["tea"] == "Tee"


@pytest.mark.parametrize(
    "notation",
    ["{type: {file: str}, default: {file: glossary.yaml}}",
     "{type: object, properties: {file: {type: string}}, default: {file: glossary.yaml}}"],
)  # fmt: skip
def test_where_the_type_has_a_field_file_it_is_that(desk: Desk, notation: str) -> None:
    default = load(machine(desk.folder, notation)).machine.input["glossary"]["default"]
    assert default == {"file": "glossary.yaml"}


def test_what_is_no_data_is_told_in_its_file(desk: Desk) -> None:
    assert told(machine(desk.folder, RECORD, "a: [1\n")).startswith("unclosed-bracket glossary")
    missing = machine(desk.folder, RECORD.replace("glossary.", "glosary."))
    assert told(missing) == "unreadable-file machine.yaml: there is no file `glosary.yaml`"


def test_data_that_does_not_fit_is_told(desk: Desk) -> None:
    path = machine(desk.folder, "{type: [str], default: {file: words.json}}", "[1]", "words.json")
    assert "the default does not fit the type" in told(path)


def test_a_file_where_a_type_stands_is_still_a_schema(desk: Desk) -> None:
    notation = "{type: {file: types.yaml}, default: {file: glossary.yaml}}"
    (desk.folder / "types.yaml").write_text("type: object\nrequired: [tea]\n", encoding="utf-8")
    path = machine(desk.folder, notation)
    assert load(path).machine.input["glossary"]["default"]["tea"] == "Tee"
    assert "the default does not fit" in told(machine(desk.folder, notation, "pot: Kanne\n"))


CASES = """
scenario: 1
machine: machine.yaml
cases:
  one: {input: {glossary: {file: WORDS}}, expect: {outcome: done}}
"""


@pytest.mark.parametrize(("name", "holds"), [("w.json", '["tea"]'), ("w.yaml", "tea: Tee\n")])
def test_an_input_of_a_case_is_the_data_of_a_file(desk: Desk, name: str, holds: str) -> None:
    machine(desk.folder, "any", holds, name)
    cases = desk.folder / "machine.scenario.yaml"
    cases.write_text(CASES.replace("WORDS", name), encoding="utf-8")
    assert invoke(["test", str(cases)]) == 0


@pytest.mark.usefixtures("own_folder")
def test_a_file_on_the_command_line_is_data_where_the_input_is_none_of_texts(
    desk: Desk, cli: CommandLine
) -> None:
    machine(desk.folder, "{...: any}", "tea: Tee\n", "words.yaml")
    assert invoke(["run", "machine.yaml", "--set", "glossary=@words.yaml"]) == 0
    (desk.folder / "words.yaml").write_text("tea: [1\n", encoding="utf-8")
    assert "words.yaml:1:" in cli(2, "run", "machine.yaml", "--set", "glossary=@words.yaml").err


def problems_of(path: Path) -> list[str]:
    return [f"{found.code}: {found.message}" for found in check(load(path))]


def test_a_glossary_in_place_of_its_type_is_told_wherever_a_type_stands(desk: Desk) -> None:
    silent = ["no-keyword: `glossary.yaml` has no keyword of JSON Schema, so it allows anything"]
    for notation in ("{file: glossary.yaml}", "[{file: glossary.yaml}]", "{$ref: glossary.yaml}"):
        assert problems_of(machine(desk.folder, notation)) == silent
    assert problems_of(machine(desk.folder, "{type: object}")) == []
    # An empty schema, or one with a description alone, means to allow anything.
    for free in ("{}", "{description: Words.}", "{title: Words, $comment: free, default: {}}"):
        notation = f"{{type: object, properties: {{a: {free}, b: true}}}}"
        assert problems_of(machine(desk.folder, notation)) == []


@pytest.mark.parametrize("mark", ["$id: https://acme.test/x", "x: 1"])
def test_what_only_a_reference_leads_to_is_looked_at_once_and_groups_are_not(
    desk: Desk, mark: str
) -> None:
    schema = (
        "type: object\nproperties: {a: {$ref: '#/$defs/g/b'}, c: {$ref: '#/$defs/g/b'},\n"
        "  again: {$ref: '#'}}\n"
        f"$defs: {{g: {{b: {{typ: string}}, unused: {{typ: string}}}}}}\n{mark}\n"
    )
    path = machine(desk.folder, "{file: glossary.yaml}", schema)
    assert len(problems_of(path)) == 1


def test_data_that_looks_like_a_schema_is_data(desk: Desk) -> None:
    data = "type: object\n$ref: nowhere.json\nanyOf: [{typ: string}]\n"
    path = machine(desk.folder, "{type: any, default: {file: glossary.yaml}}", data)
    assert problems_of(path) == []
    assert load(path).machine.input["glossary"]["default"]["$ref"] == "nowhere.json"
    plugged = machine(desk.folder, "any")
    rule = "{python: 'rules:few', with: {schema: {$ref: nowhere.json, words: {file: a.yaml}}}}"
    (desk.folder / "rules.py").write_text("def few(text, context): return []\n", encoding="utf-8")
    text = plugged.read_text(encoding="utf-8").replace("by: [", f"by: [{rule}, ")
    plugged.write_text(text, encoding="utf-8")
    assert problems_of(plugged) == []
    first = load(plugged).machine.states_of(ValidateState)["check"].by[0]
    assert isinstance(first, PythonRule)
    assert first.with_["schema"] == {"$ref": "nowhere.json", "words": {"file": "a.yaml"}}


@pytest.mark.parametrize(
    ("name", "holds", "says"),
    [
        ("g.yaml", b"", "empty-file g.yaml: the file is empty"),
        ("g.yaml", b"tea: Tee\ntea: Tea\n", "duplicate-key g.yaml: the key `tea` is written twice"),
        ("g.json", b'{"tea": 1, "tea": 2}', "duplicate-key g.json: the key `tea` is written twice"),
        ("g.yaml", b"tea: T\xe9e\n", "unreadable-file machine.yaml: `g.yaml` is not UTF-8 text"),
        ("g.yaml", b"tea: Tee\0", "forbidden-character g.yaml: the NUL character"),
        ("g.yaml", b"a: " + b"x" * 1_000_000, "unreadable-file machine.yaml: `g.yaml` is larger"),
        ("g.json", b'{"tea": NaN}', "unreadable-data g.json: this is not JSON: NaN is not a JSON"),
        ("g.json", rb'{"tea": "\ud800"}', "forbidden-character g.json: an escape in this text"),
        ("g.json", b"[" * 100 + b"]" * 100, "too-deep g.json: more than 64 levels are nested"),
    ],
)
def test_an_odd_file_is_told_with_its_place(desk: Desk, name: str, holds: bytes, says: str) -> None:
    path = machine(desk.folder, f"{{type: any, default: {{file: {name}}}}}", "", name)
    (desk.folder / name).write_bytes(holds)
    assert told(path).startswith(says)


@pytest.mark.parametrize("notation", ["{type: any, default: {file: g}}", "{type: {file: g.yaml}}"])
def test_a_folder_and_links_in_a_circle_are_no_files(desk: Desk, notation: str) -> None:
    path = machine(desk.folder, notation)
    place = desk.folder / ("g.yaml" if "g.yaml" in notation else "g")
    place.mkdir()
    message = f"`{place.name}` is a folder, not a file"
    assert told(path) == f"unreadable-file machine.yaml: {message}"
    place.rmdir()
    place.symlink_to(place.name)
    assert told(path).startswith(f"unreadable-file machine.yaml: `{place.name}` can't be read: ")


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("g.yaml", b"\xef\xbb\xbftea: Tee\n"),
        ("g.json", b'\xef\xbb\xbf{"tea": "Tee"}'),
        ("g.json", b'{\t"tea": "Tee"}'),
        ("g.yaml", b"{tea: Tee}"),
        ("g.yaml", b"<<: {tea: Tee}\n"),
        ("g.yaml", b"tea: &tea Tee\n"),
    ],
)
def test_a_mark_tabs_and_anchors_do_no_harm(desk: Desk, name: str, holds: bytes) -> None:
    path = machine(desk.folder, f"{{type: {{...: str}}, default: {{file: {name}}}}}", "", name)
    (desk.folder / name).write_bytes(holds)
    assert load(path).machine.input["glossary"]["default"] == {"tea": "Tee"}
