"""The published schemas are current, and every file that we ship satisfies them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from loopkit.checks import check
from loopkit.document.reading import read_file
from loopkit.language.inclusion import INCLUDING
from loopkit.language.load import load
from loopkit.views.schemas import SCHEMAS
from tests.support import MACHINES, ROOT

SOUND = [*MACHINES, *sorted((ROOT / "tests/cases/ok").glob("*.yaml"))]
SCENARIOS = [
    *sorted((ROOT / "machines").glob("*/scenario*.yaml")),
    *sorted((ROOT / "machines").glob("*.scenario.yaml")),
]


def published(name: str) -> Any:
    return json.loads((ROOT / f"schemas/{name}.schema.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_what_the_command_prints(name: str) -> None:
    assert published(name) == SCHEMAS[name]()


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_published_schema_is_a_valid_draft_07_schema(name: str) -> None:
    assert published(name)["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(published(name))


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.stem)
def test_every_machine_satisfies_the_schema(path: Path) -> None:
    plain = read_file(path).plain()
    assert [e.message for e in Draft7Validator(published("machine")).iter_errors(plain)] == []


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_scenario_satisfies_the_schema(path: Path) -> None:
    plain = read_file(path).plain()
    assert [e.message for e in Draft7Validator(published("scenario")).iter_errors(plain)] == []


def test_what_an_editor_inserts_makes_a_machine_without_errors(tmp_path: Path) -> None:
    schema = published("machine")["properties"]
    machine: dict[str, Any] = {"loopkit": 1, "input": {"topic": "str"}}
    for place in ("agents", "states"):
        bodies = [snippet["body"] for snippet in schema[place]["defaultSnippets"]]
        machine[place] = {name: each for body in bodies for name, each in body.items()}
    written = json.dumps(machine).replace("\\\\}", "\\}")
    inserted = re.sub(r"\$\{\d:((?:[^\\}]|\\.)*)\}", r"\1", written).replace("\\}", "}")
    path = tmp_path / "machine.yaml"
    path.write_text(inserted.replace('"100"', "100"), encoding="utf-8")
    assert [p.message for p in check(load(path)) if p.severity == "error"] == []


def places_of_texts(
    schema: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The keys under which a schema takes a text, and whether it also takes that of a file."""
    match schema:
        case {
            "if": _,
            "then": {"properties": {"file": _, **others}},
            "else": {"type": "string"},
        } if not others:
            yield path, True
        case {"type": "string"}:
            yield path, False
        case dict():
            for key, value in schema.items():
                yield from places_of_texts(value, (*path, key))
        case _:
            return


def test_the_schema_offers_the_text_of_a_file_exactly_where_the_language_includes_it() -> None:
    found = {
        (noun, *path): takes_file
        for noun, schema in published("machine")["definitions"].items()
        for path, takes_file in places_of_texts(schema.get("properties", {}))
    }
    # There it is the path of a part of a report.
    assert found.pop(("ReportMap", "message")) is False
    for (noun, *path), takes_file in found.items():
        # An item of a list is included where its list is.
        is_included = path[0] in {*INCLUDING, "in"} and path[1:] in ([], ["items"])
        assert takes_file == is_included, (noun, *path)


def test_the_schema_has_one_exact_message_for_a_wrong_key_in_a_state() -> None:
    plain = read_file(ROOT / "machines/plan_review.yaml").plain()
    plain["states"]["draft"]["promt"] = "x"
    errors = list(Draft7Validator(published("machine")).iter_errors(plain))
    assert [list(error.path) for error in errors] == [["states", "draft"]]
    assert "'promt' was unexpected" in errors[0].message


def test_the_schema_marks_a_capital_in_a_name_and_lets_blocks_be_shared() -> None:
    plain = read_file(ROOT / "machines/plan_review.yaml").plain()
    plain |= {"x-edges": [1], "agents": {**plain["agents"], "Writer": {"model": "openai/m"}}}
    [error] = Draft7Validator(published("machine")).iter_errors(plain)
    assert list(error.path) == ["agents"]
    assert "'Writer' does not match" in error.message


def test_the_schema_describes_fields_in_the_words_of_the_definition() -> None:
    limits = published("machine")["definitions"]["Limits"]["properties"]
    assert limits["time"]["description"] == "The maximum working time, not counting waiting."
