"""Slips that are found while a machine is read, each with a remedy that, written as it is told,
makes the machine sound."""

import re

import pytest

from loopkit.checks import check, problems_in
from loopkit.document.problems import ProblemsFound
from loopkit.language.load import load_text
from tests.support import ROOT

MACHINE = """\
loopkit: 1
input: {strict: {type: bool, default: false}, topic: str, words: [str]}
agents: {w: {model: openai/gpt-5-mini, params: {temperature: 0}, api_key_env: TEA_KEY}}
states:
  draft: {agent: w, prompt: "{{ input }}", next: review}
  review:
    validate: draft
    by: [{min_chars: 20}, {command: [grep, -q, tea], timeout: 30s, env: [TEA]}]
    transitions:
      - {guard: valid, target: ask_person}
      - {revise: draft, max: 3}
      - {target: failed}
  ask_person:
    human: Publish?
    choices: [yes, no]
    transitions: [{guard: 'choice == "yes"', target: done}, {target: failed}]
  done: {final: success, result: draft}
  failed: {final: failure, result: draft}
"""
"""A machine without problems."""
SLIPS = [
    ("loopkit: 1", "loopkit: '1.0'"),
    ("loopkit: 1", "loopkit: 2"),
    ("topic: str", "topic: strr"),
    ("topic: str", "topic: string"),
    ("words: [str]", "words: 'str[]'"),
    ("default: false", "default: no"),
    ("default: false", "default: Off"),
    ("model: openai/gpt-5-mini", "model: 5"),
    ("model: openai/gpt-5-mini", "model: {name: gpt-5-mini}"),
    ("params: {temperature: 0}", "temperature: 0"),
    ("params: {temperature: 0}", "temprature: 0"),
    ("timeout: 30s", "timeout: 30"),
    ("timeout: 30s", "timeout: 30 seconds"),
    ("env: [TEA]", "env: {TEA: green}"),
    ("env: [TEA]", "env: TEA"),
    ("env: [TEA]", "env: [TEA=green]"),
    ("env: [TEA]", "env: [$TEA]"),
    ("command: [grep, -q, tea]", "command: grep -q tea"),
    ("command: [grep, -q, tea]", "command: [grep -q, tea]"),
    ("min_chars: 20", "min_chars: '20'"),
    ("- {revise: draft, max: 3}", "- revise: draft, max: 3"),
    ("choices: [yes, no]", "choices: {yes: done, no: failed}"),
    ("choices: [yes, no]", "choices: Yes, No"),
    ("final: success", "final: true"),
    ("draft", "Draft"),
    ("ask_person", "ask-person"),
    ("ask_person", "askPerson"),
]


def problems(text):
    try:
        return check(load_text(text, "machine.yaml", ROOT))
    except ProblemsFound as found:
        return problems_in(found)


@pytest.mark.parametrize(("right", "wrong"), SLIPS, ids=[wrong for _, wrong in SLIPS])
def test_a_slip_is_one_error_whose_remedy_is_what_is_right(right, wrong):
    assert problems(MACHINE) == []
    found = problems(MACHINE.replace(right, wrong))
    [problem] = [one for one in found if one.severity == "error"]
    written = re.findall(r"`([^`]+)`", problem.help)
    assert any(one in right for one in written), problem.help


def test_a_command_for_a_shell_is_written_with_one():
    told = {"a && b": "[sh, -c, a && b]", "a 'b c' {{ d }}": '[a, b c, "{{ d }}"]'}
    for wrong, right in told.items():
        text = f'loopkit: 1\nstates:\n  a: {{run: "{wrong}", next: b}}\n  b: {{final: success}}\n'
        [problem] = problems(text)
        assert f"`run: {right}`" in problem.help.replace('"a && b"', "a && b")
