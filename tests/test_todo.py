"""Cases with a `todo`: what is still to be written, which is found before anything is played."""

from __future__ import annotations

import re

import pytest

from loopkit.document.problems import ProblemsFound
from loopkit.scenario.cases import load_scenario
from loopkit.testing import load_suite, play, run_case
from tests.machines import loop
from tests.support import Desk
from tests.test_testing import loopkit

LOOP = loop(
    "[{min_chars: 30}, {judge: critic, rubric: [It is kind.]}]",
    {"valid and input.short": "noted", "valid": "done", "stalled": "dropped"},
    "{revise: draft, max: 1}",
    "{target: lost}",
    top="""
input: {topic: str, short: {type: bool, default: false}}
agents: {writer: {model: openai/gpt-5-mini, retry: {attempts: 2}}, critic: {model: openai/gpt-5}}
""",
    draft='draft: {agent: writer, prompt: "{{ input.topic }}", output: text, '
    "on_error: {transient: dropped, fatal: lost}}",
    judge="check",
    ends="noted: {final: success, result: text}",
    result="text",
)
SHARED = """
scenario: 1
machine: loop.yaml
input: {topic: Tea}
agents: {critic: [{data: {verdict: pass, findings: []}}]}
cases:
  good:
    agents: {writer: [{reply: {file: tea.md}}]}
    expect: {outcome: done}
"""
TEA = "Boil water, and give the tea five minutes in it."


@pytest.fixture
def loop(desk: Desk) -> Desk:
    """A machine, and a file with one case."""
    desk.write("loop.yaml", LOOP)
    desk.write("loop.scenario.yaml", SHARED)
    desk.write("tea.md", TEA)
    return desk


def test_what_all_cases_share_may_be_left_as_well(loop: Desk) -> None:
    shared = SHARED.replace("[{data: {verdict: pass, findings: []}}]", "[{todo: Judge.}]")
    suite = load_suite(loop.write("loop.scenario.yaml", shared))
    [problem] = suite.unwritten["good"]
    assert problem.message == "reply 1 of `critic` is still to be written"
    assert (problem.span and problem.span.line, problem.help) == (5, "Judge.")
    assert suite.playable == ()


LEFT = """
scenario: 1
machine: loop.yaml
cases:
  good:
    input: {topic: {todo: Some drink.}}
    agents:
      writer:
        - - {fault: rate_limit}
          - todo: |
              Put `reply:` here.
              - at least 30 characters
      critic: [{data: {verdict: pass, findings: []}}]
  done:
    input: {topic: Tea}
    agents:
      writer: [Boil water and give the tea five minutes.]
      critic: [{data: {verdict: pass, findings: []}}]
    expect: {outcome: done}
"""


@pytest.fixture
def left(loop: Desk) -> Desk:
    loop.write("loop.scenario.yaml", LEFT)
    return loop


def test_a_case_with_something_left_fails_and_says_which_reply_it_is(left: Desk) -> None:
    """It is not played, and the others of its file are."""
    result = loopkit(left.folder, "test", "--coverage")
    assert result.returncode == 1
    assert "loop.scenario.yaml: good: FAILED" in result.stdout
    assert "loop.scenario.yaml: done: ok" in result.stdout
    assert "error[todo]: input `topic` is still to be written" in result.stdout
    assert "error[todo]: reply 1 of `writer` is still to be written" in result.stdout
    assert "loop.scenario.yaml:10:13" in result.stdout
    assert "- at least 30 characters" in result.stdout
    assert "on_error.fatal" in result.stdout
    assert result.stderr == "2 cases: 1 failed\n"


def test_a_run_is_not_played_by_a_script_with_something_left(left: Desk) -> None:
    result = loopkit(
        left.folder, "run", "loop.yaml", "--input", "topic=Tea", "--script", "loop.scenario.yaml",
        "--case", "good",
    )  # fmt: skip
    assert result.returncode == 2
    assert "error[todo]: reply 1 of `writer` is still to be written" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_diagram_counts_the_cases_in_which_nothing_is_left(left: Desk) -> None:
    result = loopkit(left.folder, "diagram", "loop.yaml", "--cases", "loop.scenario.yaml")
    assert result.returncode == 0


def test_from_python_it_is_the_problem_that_it_is(left: Desk) -> None:
    suite = load_suite(left.folder / "loop.scenario.yaml")
    assert suite.playable == ("done",)
    with pytest.raises(ProblemsFound, match="input `topic` is still to be written"):
        play(suite, "good")
    with pytest.raises(ProblemsFound, match="reply 1 of `writer` is still to be written"):
        load_scenario(left.folder / "loop.scenario.yaml", "good")


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ("agents: {critic: {'by[1]': [hm, {todo: x}]}}", "reply 2 of `critic` at `by[1]`"),
        ("answers: {ask: [{choice: yes, todo: x}]}", "answer 1 of `ask`"),
        ("commands: {make: [{}, [{todo: x}, {}]]}", "result 2 of `make`"),
        ("commands: {make: [{exit_code: 1, todo: x}]}", "result 1 of `make`"),
    ],
)
def test_what_is_left_is_found_wherever_it_stands(desk: Desk, parts: str, told: str) -> None:
    path = desk.write("script.yaml", f"scenario: 1\n{parts}\n")
    with pytest.raises(ProblemsFound, match=f"{re.escape(told)} is still to be written"):
        load_scenario(path)


def test_an_input_may_have_a_field_of_that_name(desk: Desk) -> None:
    desk.write("list.yaml", """
        loopkit: 1
        input: {list: {todo: str}}
        states:
          start: {transitions: [{guard: input.list.todo == "tea", target: done}, {target: done}]}
          done: {final: success}
    """)  # fmt: skip
    case = "{input: {list: {todo: tea}}, expect: {outcome: done}}"
    text = f"scenario: 1\nmachine: list.yaml\ncases: {{a: {case}}}\n"
    suite = load_suite(desk.write("list.scenario.yaml", text))
    assert run_case(suite, "a").passed
