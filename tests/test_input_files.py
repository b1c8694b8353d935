"""Programs that judge read the run's input: in their templates, and as a file of JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
input:
  words: {type: [str], default: [tea, pot]}
  note: optional str
  most: {type: int, default: 3}
agents:
  critic: {command: JUDGE, price_per_run: 0}
states:
  draft: {render: TEXT, output: text, next: check}
  check:
    validate: text
    by: [RULE]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
READING = """
import json, pathlib, sys
path = pathlib.Path(sys.argv[1])
given = json.loads(path.read_text(encoding='utf-8'))
text = sys.stdin.read()
missing = [word for word in given['words'] if word not in text]
print(f'{path}: it lacks', missing, given['most'], given['note'])
print(path.parent.stat().st_mode & 0o077, file=open('mode', 'w'))
print(path, file=open('path', 'a'))
sys.exit(1 if missing else 0)
"""


def argv(*arguments: str) -> str:
    return json.dumps([sys.executable, *arguments])


def play(desk: Desk, text: str, rule: str = "", judge: str = "[cat]") -> Played:
    machine = MACHINE.replace("JUDGE", judge).replace("TEXT", text)
    rule = rule or f"{{command: {argv('-c', READING, '{{ input_file }}')}}}"
    return desk.play(machine.replace("RULE", rule))


@pytest.mark.parametrize(("argument", "unused"), [("{{ input_file }}", 0), ("x", 3)])
def test_whoever_gets_the_input_as_a_file_uses_all_of_it(
    desk: Desk, argument: str, unused: int
) -> None:
    rule = f"{{command: {argv('-c', READING, argument)}}}"
    machine = MACHINE.replace("JUDGE", "[cat]").replace("TEXT", "tea").replace("RULE", rule)
    notes = [problem for problem in desk.problems(machine) if "the input" in problem.message]
    assert len(notes) == unused


@pytest.mark.parametrize(("text", "outcome"), [("tea in a pot", "done"), ("tea", "failed")])
def test_a_rule_reads_the_input_as_json(desk: Desk, text: str, outcome: str) -> None:
    played = play(desk, text)
    assert played.outcome == outcome
    for finding in played.reports[0].findings:
        # Of the place that differs each time nothing is told, so that it is the same finding.
        assert "input.json: it lacks ['pot'] 3 None" in finding.message
        assert "loopkit-input" not in finding.message


def test_the_file_is_the_users_alone_and_gone_afterwards(desk: Desk) -> None:
    played = play(desk, "tea")
    assert (played.folder / "mode").read_text().strip() == "0"
    assert not Path((played.folder / "path").read_text().strip()).parent.exists()


def test_two_runs_tell_the_same_finding(desk: Desk) -> None:
    first, second = play(desk, "tea"), play(desk, "tea")
    ids = [[f.id for f in played.reports[0].findings] for played in (first, second)]
    assert ids[0] == ids[1] != []


def test_tries_of_one_round_read_the_same_file(desk: Desk) -> None:
    failing = READING.replace("sys.exit(1 if", "sys.exit(9 if")
    errors = "errors: [{exit: 9, class: transient}], retry: {attempts: 2, backoff: 1ms}"
    rule = f"{{command: {argv('-c', failing, '{{ input_file }}')}, {errors}}}"
    played = play(desk, "tea", rule)
    first, second = (played.folder / "path").read_text().split()
    assert first == second


def test_a_program_that_judges_sees_the_input(desk: Desk) -> None:
    judging = (
        "import json, pathlib, sys; given = json.loads(pathlib.Path(sys.argv[1]).read_text())\n"
        "same = sys.argv[2] == str(given['most'])\n"
        "print(json.dumps(dict(verdict='pass' if same else 'fail', findings=[])))"
    )
    judge = argv("-c", judging, "{{ input_file }}", "{{ input.most }}")
    played = play(desk, "tea", "{judge: critic, rubric: [It is good.]}", judge)
    assert played.outcome == "done"


def test_a_scenario_plays_such_a_rule(desk: Desk) -> None:
    machine = MACHINE.replace("JUDGE", "[cat]").replace("TEXT", "tea")
    machine = machine.replace("RULE", "{command: [tool, '{{ input_file }}']}")
    played = desk.play(machine, scenario(commands={"by[0]": [{"exit_code": 0}]}))
    assert played.outcome == "done"
