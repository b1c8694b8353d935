"""What rules read besides what they judge, wherever they name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopkit.language.load import load
from loopkit.language.validators import rules_of
from loopkit.machine.scope import inputs_read, others_read

MACHINE = """
loopkit: 1
input: {one: str, two: [str], three: {a: str}, four: bool, five: optional str}
guards: {careful: input.four}
agents:
  critic: {command: [judge, "{{ input.five }}"]}
validators:
  judged: RULE
states:
  first: {render: "{{ input.one }}", output: {name: notes}, next: write}
  write: {render: "{{ notes }}", output: plan, next: check}
  check:
    validate: plan
    by: [judged]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


@pytest.mark.parametrize(
    ("rule", "inputs", "others"),
    [
        ("{min_chars: 3}", "", ""),
        ('{matches: x, message: "{{ input.one }}, {{ value }}"}', "one", ""),
        ('{matches: x, fields: {about: "{{ input.three.a }}"}}', "three", ""),
        ("{min_chars: 3, guard: not careful}", "four", ""),
        ('{lookup: {path: "nodes[].id", in: input.two}}', "two", ""),
        ('{lookup: {path: "nodes[].id", in: notes, at: "known[]"}}', "", "notes"),
        ('{command: [x, "{{ plan }}", "{{ artifact }}", "{{ notes }}"]}', "", "notes"),
        ('{command: [x], stdin: "{% for k in input.two %}{{ k }}{% endfor %}"}', "two", ""),
        ('{command: [x, "{{ input }}"]}', "one two three four five", ""),
        ("{judge: critic, sees: [input.one, notes]}", "one five", "notes"),
        ('{judge: critic, prompt: "{{ artifact }} {{ input.two }}"}', "two five", ""),
        ("{require: one == 3}", "", ""),
        ("{require: notes.one == 3, sees: [notes]}", "", "notes"),
    ],
)
def test_what_a_rule_reads_is_found_wherever_it_is_named(
    tmp_path: Path, rule: str, inputs: str, others: str
) -> None:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE.replace("RULE", rule), encoding="utf-8")
    machine = load(path).machine
    rules = rules_of(machine.validators["judged"])
    assert inputs_read(machine, rules) == set(inputs.split())
    assert others_read(machine, rules, "plan") == set(others.split())


def test_inputs_declared_by_a_json_schema_are_known_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "machine.yaml"
    written = MACHINE.replace("RULE", '{matches: x, message: "{{ input.one }}"}')
    declared = "input: {type: object, properties: {one: {type: string}, four: {type: boolean}}}"
    path.write_text(written.replace(written.splitlines()[2], declared), encoding="utf-8")
    machine = load(path).machine
    assert inputs_read(machine, rules_of(machine.validators["judged"])) == {"one"}
