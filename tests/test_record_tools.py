"""Recorded runs of agents that call tools: a case plays them again, with no program at work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import loopkit
from loopkit.app import App
from loopkit.document.problems import ProblemsFound
from loopkit.engine.events import Emitted, Intended, Suspended
from loopkit.testing import load_suite, run_case
from tests.recording import assert_same, taped, taped_same
from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
limits: {revisions: 1, tool_calls: 20}
agents:
  planner:
    model: openai/gpt-5-mini
    retry: {attempts: 2, backoff: 1ms}
    schema: {nodes: [str]}
    tools:
      validate_plan: {by: [graph, linted], emit: plan_rejected}
      search:
        command: [sh, -c, "cat words.txt; echo odd >&2; test -e \\"$0\\"", "{{ word }}"]
        input: {word: str}
    require_tool: validate_plan
    MORE
validators:
  graph: [{require: nodes.count > 0, message: There is no node.}]
  linted:
    command: [sh, -c, "grep -q good - || { echo bad words; exit 1; }"]
    parse: lines
    retry: {attempts: 2}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [graph]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""
EMPTY: dict[str, Any] = {"nodes": []}
GOOD = {"nodes": ["good"]}


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "input": arguments}]}


def validating(draft: object) -> dict[str, Any]:
    return calling("validate_plan", draft=draft)


ATTEMPTS: list[Any] = [
    [
        {"reply": "I look it up.", **calling("search", word="words.txt")},
        {"fault": "rate_limit"},
        {"tool_calls": [{"name": "search", "arguments": "{"}, {"name": "delete", "input": {}}]},
        calling("search", word="no such file"),
        validating(EMPTY),
        {"data": EMPTY},
        {"data": EMPTY},
        {"data": EMPTY},
    ],
    [validating({"nodes": ["bad"]}), calling("search", word="x"), validating(GOOD), {"data": GOOD}],
]


def played(desk: Desk, more: str = "reask: 2", attempts: list[Any] | None = None) -> Played:
    desk.write("words.txt", "one\ntwo ``` three\n")
    machine = MACHINE.replace("MORE", more)
    return desk.play(machine, scenario(agents={"planner": attempts or ATTEMPTS}))


def recorded_without_programs(durable: Desk, run: Played) -> Any:
    """The recording of a run whose programs would give something else now."""
    durable.write("words.txt", "another\n")
    made = taped(durable, run)
    assert_same(made, run)
    return made


def test_a_run_with_tools_is_played_to_the_same_events(durable: Desk) -> None:
    run = played(durable)
    assert run.outcome == "done"
    assert len(run.of(Emitted)) == 2
    made = recorded_without_programs(durable, run)
    case = load_suite(made.path).case(made.case)
    (first,), (second,), (third,), (fourth,) = case.commands["planner.search"]
    assert (first.exit_code, first.stdout, first.stderr) == (0, "one\ntwo ``` three\n", "odd\n")
    assert second.stdout == "", "the program was not run, because the arguments were broken"
    assert third.exit_code == fourth.exit_code == 1
    assert [tries[-1].stdout for tries in case.commands["planner.validate_plan"]] == [
        "bad words\n",
        "bad words\n",
        "",
    ]
    assert case.expect is not None
    assert case.expect.calls == {
        "planner": 12,
        "planner.search": 4,
        "planner.validate_plan": 3,
    }


def test_a_model_without_tools_is_played_as_one(durable: Desk) -> None:
    run = played(durable, "tool_use: runner", [[{"data": EMPTY}, {"data": GOOD}]])
    assert run.outcome == "done"
    recorded_without_programs(durable, run)


async def run_of(desk: Desk, run: str) -> Played:
    """What the journal has of a run."""
    async with App.open(desk.state_folder) as app:
        return Played(await app.state_of(run), await app.events(run), desk.folder)


def test_a_function_that_plays_an_agent_is_recorded_as_one_without_tools(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    path = desk.write("machine.yaml", MACHINE.replace("MORE", "reask: 2"))
    drafts = iter([EMPTY, GOOD])
    machine = loopkit.load(path)
    state = tmp_path / ".loopkit"
    done = loopkit.run(machine, agents={"planner": lambda *_: next(drafts)}, state=state)
    assert done.outcome == "done"
    stored = asyncio.run(run_of(desk, done.run))
    made = taped_same(desk, stored)
    text = made.path.read_text()
    assert text.count("tools: false") == 2
    assert "tool_calls" not in text


NOTE = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  write: {agent: writer, prompt: Write., on_error: {content: failed}, next: done}
  done: {final: success, result: write}
  failed: {final: failure}
"""


@pytest.mark.parametrize("said", ["a text", {"steps": [1]}, "[" * 900 + "]" * 900])
def test_a_function_that_plays_an_agent_without_tools_is_recorded(
    tmp_path: Path, said: Any
) -> None:
    desk = Desk(tmp_path, in_memory=False)
    machine = loopkit.load(desk.write("machine.yaml", NOTE))
    done = loopkit.run(machine, agents={"writer": lambda *_: said}, state=tmp_path / ".loopkit")
    assert done.outcome == "done"
    stored = asyncio.run(run_of(desk, done.run))
    made = taped_same(desk, stored)
    assert "tools" not in made.path.read_text()


@pytest.mark.parametrize("limit", [2, 3])
def test_a_limit_on_tool_calls_is_reached_in_the_replay_too(durable: Desk, limit: int) -> None:
    machine = MACHINE.replace("MORE", "reask: 2")
    run = durable.play(
        machine, scenario(agents={"planner": ATTEMPTS}), limits={"tool_calls": limit}
    )
    (suspended,) = run.of(Suspended)
    assert suspended.reason == "limit"
    assert sum(event.role == "tool" for event in run.of(Intended)) == limit
    assert_same(taped(durable, run), run)


def test_a_program_that_cannot_be_started_is_played_as_one(durable: Desk) -> None:
    machine = MACHINE.replace("MORE", "reask: 2").replace('[sh, -c, "cat', '[no-such-program, "cat')
    run = durable.play(machine, scenario(agents={"planner": ATTEMPTS}))
    (suspended,) = run.of(Suspended)
    assert suspended.reason == "fatal"
    assert_same(taped(durable, run), run)


def test_a_program_that_is_too_slow_is_played_as_one(durable: Desk) -> None:
    slow = 'command: [sh, -c, exec sleep 60, "{{ word }}"]\n        timeout: 50ms'
    slow += "\n        on_in_doubt: retry"
    start, _, rest = MACHINE.replace("MORE", "reask: 2").partition('command: [sh, -c, "cat')
    machine = start + slow + "\n" + rest.partition("\n")[2]
    attempt = [calling("search", word="x"), validating(GOOD), {"data": GOOD}]
    run = durable.play(machine, scenario(agents={"planner": [attempt]}))
    assert run.outcome == "done"
    made = taped_same(durable, run)
    assert "fault: timeout" in made.path.read_text()


CASES = """
scenario: 1
agents:
  planner:
    - - tool_calls: [{name: search, input: {word: x}}]
      - tool_calls: [{name: validate_plan, input: {draft: {nodes: [good]}}}]
      - data: {nodes: [good]}
machine: machine.yaml
cases:
  one:
    commands: COMMANDS
    expect: EXPECT
"""


def case_of(desk: Desk, commands: str, expect: str) -> Any:
    desk.write("machine.yaml", MACHINE.replace("MORE", "reask: 2"))
    text = CASES.replace("COMMANDS", commands).replace("EXPECT", expect)
    return load_suite(desk.write("one.scenario.yaml", text))


def test_a_case_expects_calls_of_tools(desk: Desk) -> None:
    both = "{planner.search: [{stdout: found}], planner.validate_plan: [{}]}"
    suite = case_of(
        desk, both, "{calls: {planner: 3, planner.search: 1, planner.validate_plan: 2}}"
    )
    result = run_case(suite, "one")
    (failure,) = result.failures
    assert failure.problem.message == (
        "expected 2 calls of `planner.validate_plan`, and there were 1"
    )
    assert "calls: {planner: 3, planner.search: 1, planner.validate_plan: 1}" in result.block


def test_a_result_of_a_tool_that_is_never_used_is_left_over(desk: Desk) -> None:
    both = "{planner.search: [{stdout: found}, {}], planner.validate_plan: [{}]}"
    (failure,) = run_case(case_of(desk, both, "{outcome: done}"), "one").failures
    assert failure.problem.message == "result 2 is never used"


@pytest.mark.parametrize(
    ("commands", "expect", "code"),
    [
        ("{planner.serch: [{}]}", "{outcome: done}", "unknown-command"),
        ("{search: [{}]}", "{outcome: done}", "unknown-command"),
        ("{planner.search: [{}]}", "{calls: {planner.serch: 1}}", "unknown-agent"),
        ("{planner.search: [{}]}", "{events: [plan_rejectd]}", "unknown-event"),
    ],
)
def test_an_unknown_tool_in_a_case_is_told_with_the_one_that_is_meant(
    desk: Desk, commands: str, expect: str, code: str
) -> None:
    with pytest.raises(ProblemsFound) as found:
        case_of(desk, commands, expect)
    (problem,) = found.value.problems
    assert problem.code == code
    assert "did you mean `plan" in problem.help


@pytest.mark.parametrize("body", ["return ['found', word]", "raise ValueError('no ' + word)"])
def test_a_function_that_is_a_tool_is_played_by_what_it_gave(durable: Desk, body: str) -> None:
    start, _, rest = MACHINE.replace("MORE", "reask: 2").partition('command: [sh, -c, "cat')
    machine = start + "python: tools:search\n" + rest.partition("\n")[2]
    durable.write("tools.py", f"def search(word):\n    {body}\n")
    attempt = [calling("search", word="x"), validating(GOOD), {"data": GOOD}]
    run = durable.play(machine, scenario(agents={"planner": [attempt]}))
    assert run.outcome == "done"
    durable.write("tools.py", "def search(word):\n    return 'something else'\n")
    made = taped_same(durable, run)
    assert "something else" not in made.path.read_text()
