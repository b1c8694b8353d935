"""Events as lines: every one of every case satisfies the published schema, and comes in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from loopkit.testing import load_suite, play
from loopkit.testing.playing import FamilyRun
from loopkit.views.console import event_line
from tests import test_families as families
from tests.support import ROOT, CommandLine

SCHEMA = json.loads((ROOT / "schemas/event.schema.json").read_text(encoding="utf-8"))
SCENARIOS = sorted((ROOT / "machines").glob("*.scenario.yaml"))
OF_TYPE = {
    rule["if"]["properties"]["type"]["const"]: Draft7Validator({**SCHEMA, "allOf": [rule]})
    for rule in SCHEMA["allOf"]
}
"""By type, the schema without what it says of others, which takes thirty times as long."""
TASK = families.TASK.replace(
    "next: ask}",
    """next: check}
  check:
    validate: draft
    by: [{not_matches: milk}]
    transitions: [{guard: valid, target: done}, {target: ask}]""",
)
PARENT = families.PARENT.replace("parallel: 2", "parallel: 3")


def runs_of(run: FamilyRun) -> Iterator[FamilyRun]:
    yield run
    for child in run.children:
        yield from runs_of(child.run)


def faults(line: dict[str, Any]) -> list[str]:
    return [f"{line['type']}: {e.message}" for e in OF_TYPE[line["type"]].iter_errors(line)]


@pytest.fixture
def printed(own_folder: Path, cli: CommandLine) -> list[dict[str, Any]]:
    """The lines of a family that waits for a person, and then of the answer that ends it."""
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")
    waiting = lines_of(cli(5, "run", "parent.yaml", "--output", "jsonl").out)
    answer = cli(0, "answer", waiting[-1]["run"], "approve", "--output", "jsonl")
    return waiting + lines_of(answer.out)


def lines_of(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name.partition(".")[0])
def test_every_event_of_the_cases_of_a_machine_satisfies_the_published_schema(
    path: Path, step: int
) -> None:
    """S3.23 and S3.24."""
    suite = load_suite(path)
    for case in suite.names[::step]:
        for run in runs_of(play(suite, case)):
            told = [json.loads(event_line(run.state.run, stored)) for stored in run.events]
            assert [fault for line in told for fault in faults(line)] == [], case
            assert [line["seq"] for line in told] == list(range(1, len(told) + 1))
            assert {(line["run"], line["version"]) for line in told} == {(run.state.run, 2)}


def test_the_result_is_the_last_line_and_satisfies_the_schema_with_and_without_a_question(
    printed: list[dict[str, Any]],
) -> None:
    waiting, ended = (line for line in printed if line["type"] == "result")
    assert (waiting["status"], waiting["exit"]) == ("waiting", 5)
    assert [one["item"] for one in waiting["questions"]] == ["parts[milk]"]
    assert (ended["outcome"], ended["exit"], printed[-1]) == ("done", 0, ended)
    keys = SCHEMA["definitions"]["Result"]["properties"].keys()
    for line in (waiting, ended):
        assert faults(line) == []
        assert line.keys() == keys
    assert faults({**ended, "exit": "0"}) == ["result: '0' is not of type 'integer'"]


def test_what_a_child_does_is_printed_between_its_beginning_and_its_end_in_the_parent(
    printed: list[dict[str, Any]],
) -> None:
    """S3.22: a family has one order, in which a cause comes before what it causes."""
    at: dict[tuple[str, str], int] = {}
    for place, line in enumerate(printed):
        of = line.get("child", line.get("key", "")) if "child" in line["type"] else ""
        at[line["type"], of or line["run"]] = place
    begun = {line["key"]: line["child"] for line in printed if line["type"] == "child_started"}
    assert begun.keys() == {"tea", "milk", "sugar"}
    for key, child in begun.items():
        own = [place for place, line in enumerate(printed) if line["run"] == child]
        assert at["child_started", child] < own[0]
        assert own[-1] < at["child_ended", key]
        seqs = [printed[place]["seq"] for place in own]
        # What is missing is `claimed`, once at the start, and once where it is taken up again.
        missing = sorted(set(range(1, seqs[-1] + 1)) - set(seqs))
        assert seqs == sorted(set(seqs))
        assert len(missing) == (2 if key == "milk" else 1)
