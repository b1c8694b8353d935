"""The schemas in real tools: one exact message for each mistake, and help while writing."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from loopkit.engine.events import EVENTS
from loopkit.views.schemas import SCHEMAS
from tests.support import MACHINES, ROOT, CommandLine
from tests.support_node import run_node

MACHINE = """\
loopkit: 1
limits: {revisions: 2}
agents:
  writer: {model: openai/gpt-5-mini}
  builder: {command: [build]}
validators:
  form: [{section: Goal}]
states:
  draft:
    agent: writer
    prompt: Write a plan.
    output: {name: plan, fields: {goal: {section: Goal}}}
    next: check
  check:
    validate: plan
    by: [form, {min_chars: 9}]
    on_error: {fatal: failed}
    transitions:
      - {guard: valid, target: ask}
      - {revise: draft, max: 1}
      - {target: failed}
  ask:
    human: Publish?
    choices: [yes, no]
    transitions:
      - {guard: choice == "yes", target: build}
      - {target: failed}
  build: {run: [make], timeout: 10s, next: note}
  note: {render: Built., next: done}
  done: {final: success, result: plan}
  failed: {final: failure}
"""
SCENARIO = """\
scenario: 1
agents:
  writer: [One., {reply: Two., usage: {input: 3}}]
answers:
  ask: ["yes"]
commands:
  build: [{exit_code: 0}]
"""


@dataclass(frozen=True)
class Slip:
    """One mistake: what is written instead, in which line, and what each tool says of it."""

    before: str
    after: str
    line: int
    editor: str
    validator: str


UNKNOWN = "Property {} is not allowed."
MISSING = 'Missing property "{}".'
KIND = 'Incorrect type. Expected "{}".'
ID = 'String does not match the pattern of "^[a-z][a-z0-9_]*$".'
OF_MACHINES = [
    # A wrong key.
    Slip("limits:", "limts:", 2, UNKNOWN.format("limts"), "'limts' does not match"),
    Slip("{revisions: 2}", "{revision: 2}", 2, UNKNOWN.format("revision"), "'revision' was"),
    Slip("{model:", "{modl:", 4, UNKNOWN.format("modl"), "'modl' was unexpected"),
    Slip("{section: Goal}]", "{sction: Goal}]", 7, UNKNOWN.format("sction"), "'sction' was"),
    Slip("    prompt:", "    promt:", 11, UNKNOWN.format("promt"), "'promt' was unexpected"),
    Slip("{name: plan, ", "{nam: plan, ", 12, UNKNOWN.format("nam"), "'nam' was unexpected"),
    Slip("{goal: {section", "{goal: {heading", 12, UNKNOWN.format("heading"), "'heading' was"),
    Slip("    validate:", "    validat:", 15, UNKNOWN.format("validat"), "'validat' was"),
    Slip("{fatal:", "{fatl:", 17, UNKNOWN.format("fatl"), "'fatl' was unexpected"),
    Slip("{guard: valid, target", "{guard: valid, taget", 19, UNKNOWN.format("taget"), "'taget'"),
    Slip("    choices:", "    choises:", 24, UNKNOWN.format("choises"), "'choises' was"),
    Slip("timeout: 10s", "timout: 10s", 28, UNKNOWN.format("timout"), "'timout' was unexpected"),
    Slip(
        "render: Built.,", "render: Built., run: [x],", 29, UNKNOWN.format("render"), "'render' was"
    ),
    Slip("result: plan", "reslt: plan", 30, UNKNOWN.format("reslt"), "'reslt' was unexpected"),
    # A wrong kind.
    Slip("loopkit: 1", "loopkit: 2", 1, "Value must be 1.", "1 was expected"),
    Slip(
        "revisions: 2", "revisions: yes", 2, 'String does not match the pattern of "^input', "'yes'"
    ),
    Slip("[build]", "build", 5, KIND.format("array"), "'build' is not of type 'array'"),
    Slip(
        "prompt: Write a plan.", "prompt: 3", 11, KIND.format("string"), "3 is not of type 'string'"
    ),
    Slip("next: check", "next: Check", 13, ID, "'Check' does not match"),
    Slip("by: [form, {min_chars: 9}]", "by: form", 16, KIND.format("array"), "'form' is not of"),
    Slip("min_chars: 9", "min_chars: few", 16, KIND.format("integer"), "'few' is not of type"),
    Slip("max: 1}", "max: many}", 20, 'String does not match the pattern of "^input', "'many'"),
    Slip("timeout: 10s", "timeout: 10", 28, KIND.format("string"), "10 is not of type 'string'"),
    Slip(
        "final: success", "final: good", 30, 'Value is not accepted. Valid values: "s', "'good' is"
    ),
    # A missing field; the editor marks the key or the bracket of what misses it.
    Slip("loopkit: 1\n", "", 1, MISSING.format("loopkit"), "'loopkit' is a required property"),
    Slip("    prompt: Write a plan.\n", "", 9, MISSING.format("prompt"), "'prompt' is a required"),
    Slip("name: plan, ", "", 12, MISSING.format("name"), "'name' is a required property"),
    Slip("    next: check\n", "", 9, MISSING.format("next"), "'next' is a required property"),
    Slip("    by: [form, {min_chars: 9}]\n", "", 14, MISSING.format("by"), "'by' is a required"),
    Slip("target: ask}", "emit: ask}", 19, MISSING.format("target"), "'target' is a required"),
    Slip("    choices: [yes, no]\n", "", 22, MISSING.format("choices"), "'choices' is a required"),
]
OF_SCENARIOS = [
    Slip("reply: Two.", "replay: Two.", 3, UNKNOWN.format("replay"), "'replay' was unexpected"),
    Slip("input: 3", "input: few", 3, KIND.format("integer"), "'few' is not of type 'integer'"),
    Slip("scenario: 1\n", "", 1, MISSING.format("scenario"), "'scenario' is a required property"),
    Slip("exit_code: 0", "exit: 0", 7, UNKNOWN.format("exit"), "'exit' was unexpected"),
]
ALL = [("machine", MACHINE, s) for s in OF_MACHINES] + [
    ("scenario", SCENARIO, s) for s in OF_SCENARIOS
]
EACH_SLIP = pytest.mark.parametrize(
    "number", range(len(ALL)), ids=[s.after.strip() or s.before.strip() for *_, s in ALL]
)
HELPED = """\
loopkit: 1
agents:
  writer:
    {agent}
states:
  {states}
  draft:
    {state}
  other:
    agent: writer
    {kind}
  check:
    validate: draft
    by:
      - {rule}
    transitions:
      - {transition}
"""


def with_slip(text: str, slip: Slip) -> str:
    assert text.count(slip.before) == 1, slip.before
    return text.replace(slip.before, slip.after)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the schemas, as a project has them."""
    made = tmp_path_factory.mktemp("project")
    for name, schema in SCHEMAS.items():
        text = json.dumps(schema(), ensure_ascii=False)
        (made / f"{name}.schema.json").write_text(text, encoding="utf-8")
    return made


def edited(folder: Path, documents: list[dict[str, Any]]) -> Any:
    """What yaml-language-server says of each text; lines and characters count from 0."""
    for number, document in enumerate(documents):
        document["uri"] = (folder / f"{number}.yaml").as_uri()
        schema = f"# yaml-language-server: $schema={document.pop('schema')}.schema.json\n"
        document["text"] = schema + document["text"]
    return run_node("edit_yaml.mjs", {"documents": documents})


@pytest.fixture(scope="module")
def answered(folder: Path) -> dict[str, list[Any]]:
    """What the editor says of all documents of these tests; one process reads them all."""
    asked = {"slips": slips(), "sound": sound(), "offered": [helped()], "hovered": [hovered()]}
    answers = iter(edited(folder, list(chain.from_iterable(asked.values()))))
    return {name: list(islice(answers, len(documents))) for name, documents in asked.items()}


def slips() -> list[dict[str, Any]]:
    return [{"schema": s, "text": with_slip(text, slip)} for s, text, slip in ALL]


@pytest.fixture(scope="module")
def said(answered: dict[str, list[Any]]) -> list[list[tuple[int, str]]]:
    """For every slip, the lines (from 1, without the one that names the schema) and messages."""
    found = answered["slips"]
    return [[(d["line"], d["message"]) for d in each["diagnostics"]] for each in found]


@EACH_SLIP
def test_an_editor_has_one_exact_message_for_each_mistake(
    number: int, said: list[list[tuple[int, str]]]
) -> None:
    slip = ALL[number][2]
    ((line, message),) = said[number]
    assert message.startswith(slip.editor)
    assert line == slip.line


def sound() -> list[dict[str, Any]]:
    paths = [*MACHINES, *(ROOT / "tests/cases/ok").glob("*.yaml")]
    texts = [MACHINE, *(path.read_text(encoding="utf-8") for path in paths)]
    machines = [{"schema": "machine", "text": text} for text in texts]
    return [*machines, {"schema": "scenario", "text": SCENARIO}]


def test_an_editor_has_nothing_against_what_is_sound(answered: dict[str, list[Any]]) -> None:
    assert [each["diagnostics"] for each in answered["sound"]] == [[]] * len(sound())


# -- help while writing ------------------------------------------------------------------------

PLACES = ("agent", "states", "state", "kind", "rule", "transition")


def helped() -> dict[str, Any]:
    """A machine in which the editor is asked what could stand at each place."""
    lines = HELPED.splitlines()
    at = {p: next(n for n, line in enumerate(lines) if f"{{{p}}}" in line) for p in PLACES}
    text = HELPED.format(**dict.fromkeys(PLACES, ""))
    # The first line names the schema.
    places = [[at[p] + 1, lines[at[p]].index("{")] for p in PLACES]
    return {"schema": "machine", "text": text, "completions": places}


@pytest.fixture(scope="module")
def offered(answered: dict[str, list[Any]]) -> dict[str, dict[str, str]]:
    """For each place of a machine, the keys that an editor offers, with their descriptions."""
    (found,) = answered["offered"]
    items = ({i["label"]: i["documentation"] for i in each} for each in found["completions"])
    return dict(zip(PLACES, items, strict=True))


def test_an_editor_offers_the_kinds_of_states(offered: dict[str, dict[str, str]]) -> None:
    kinds = {"agent", "run", "render", "data", "set", "validate", "human", "machine", "each"}
    others = {"final", "transitions", "next", "description", "on_error", "emit"}
    assert kinds | others == set(offered["state"])
    assert offered["state"]["validate"] == "Judges an artifact and writes a report."
    assert {"Draft an artifact", "Review an artifact", "Succeed"} <= set(offered["states"])


def test_an_editor_offers_the_fields_of_the_kind_that_is_written(
    offered: dict[str, dict[str, str]],
) -> None:
    assert {"prompt", "output", "workspace"} <= set(offered["kind"])
    assert set(offered["kind"]) & {"run", "validate", "choices", "final"} == set()


def test_an_editor_offers_the_rules(offered: dict[str, dict[str, str]]) -> None:
    assert {"matches", "section", "schema", "require", "command", "judge"} <= set(offered["rule"])
    assert offered["rule"]["judge"] == "Asks a model to judge, with a structured report."


@pytest.mark.parametrize("place", PLACES)
def test_whatever_an_editor_offers_is_described(
    place: str, offered: dict[str, dict[str, str]]
) -> None:
    assert [key for key, text in offered[place].items() if not text] == []


def hovered() -> dict[str, Any]:
    """A machine in which the editor is asked what some keys mean."""
    lines = MACHINE.splitlines()
    keys = ("revisions", "prompt", "validate:", "max", "choices", "final: s")
    at = [next((n + 1, w.index(k) + 1) for n, w in enumerate(lines) if k in w) for k in keys]
    return {"schema": "machine", "text": MACHINE, "hovers": at}


def test_an_editor_shows_the_words_of_the_definition_for_a_key(
    answered: dict[str, list[Any]],
) -> None:
    (found,) = answered["hovered"]
    starts = [text.partition("\n")[0] for text in found["hovers"]]
    assert starts == [
        "How often each author may be revised, over all edges that lead back to it. Default: 2 "
        "over those without `max` or `budget`. The first attempt is not a revision.",
        "The prompt to send: a template.",
        "The artifact to judge.",
        "The maximum number of revisions by this edge (to each origin, if it has several).",
        "The possible answers.",
        "Whether the run succeeds or fails; this decides the exit code.",
    ]


# -- check-jsonschema --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def validated(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What check-jsonschema says of every slip, by the name of its file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for schema in ("machine", "scenario"):
        paths = []
        for number, (of, text, slip) in enumerate(ALL):
            if of == schema:
                paths.append(folder / f"slip{number}.yaml")
                paths[-1].write_text(with_slip(text, slip), encoding="utf-8")
        for error in checked(folder / f"{schema}.schema.json", *paths)["errors"]:
            found.setdefault(Path(error["filename"]).stem, []).append(error)
    return found


def checked(schema: Path, *paths: Path) -> Any:
    argv = [sys.executable, "-m", "check_jsonschema", "-o", "json", "--schemafile", schema, *paths]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False)
    return json.loads(done.stdout)


@EACH_SLIP
def test_check_jsonschema_has_one_exact_message_for_each_mistake(
    number: int, validated: dict[str, list[dict[str, Any]]]
) -> None:
    (error,) = validated[f"slip{number}"]
    assert ALL[number][2].validator in error["message"]


def test_check_jsonschema_has_nothing_against_what_is_sound(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text(MACHINE, encoding="utf-8")
    paths = [*MACHINES, tmp_path / "machine.yaml"]
    assert checked(folder / "machine.schema.json", *paths)["status"] == "ok"


# -- events ------------------------------------------------------------------------------------


@pytest.fixture
def printed(own_folder: Path, cli: CommandLine) -> list[dict[str, Any]]:
    """The lines that a run with a question prints."""
    (own_folder / "machine.yaml").write_text(MACHINE, encoding="utf-8")
    scenario = SCENARIO.replace("One.", '"# Plan\\n\\n## Goal\\n\\nTea for two."')
    (own_folder / "scenario.yaml").write_text(scenario, encoding="utf-8")
    _, told = cli.ends("run", "machine.yaml", "--script", "scenario.yaml", "--output", "jsonl")
    return [json.loads(line) for line in told.out.splitlines()]


EVENT_SCHEMA = SCHEMAS["event"]()
EVENT = Draft7Validator(EVENT_SCHEMA)


def faults(event: dict[str, Any]) -> list[str]:
    return [error.message for error in EVENT.iter_errors(event)]


def test_the_schema_of_events_has_one_exact_message_for_a_wrong_event(
    printed: list[dict[str, Any]],
) -> None:
    entered = next(line for line in printed if line["type"] == "entered")
    without = {key: value for key, value in entered.items() if key != "visit"}
    assert faults(without) == ["'visit' is a required property"]
    assert faults({**entered, "visit": "first"}) == ["'first' is not of type 'integer'"]


def test_a_reader_of_events_has_to_pass_over_what_a_later_version_adds(
    printed: list[dict[str, Any]],
) -> None:
    worked = next(line for line in printed if line["type"] == "worked" and line["report"])
    report = {**worked["report"], "mood": "good"}
    assert faults({**worked, "colour": "red", "report": report}) == []
    assert faults({"type": "remembered", "anything": 1}) == []


@pytest.mark.parametrize("name", EVENTS)
def test_the_schema_of_events_knows_every_type_with_its_words(name: str) -> None:
    ways = {
        way["if"]["properties"]["type"]["const"]: way["then"]["$ref"]
        for way in EVENT_SCHEMA["allOf"]
    }
    described = EVENT_SCHEMA["definitions"][ways[name].rpartition("/")[2]]
    assert described["description"] == inspect.getdoc(EVENTS[name])
    assert {"seq", "epoch", "time", "type", "version"} <= set(described["required"])


def test_a_schema_can_be_printed(cli: CommandLine) -> None:
    assert json.loads(cli(0, "schema", "scenario").out) == SCHEMAS["scenario"]()
