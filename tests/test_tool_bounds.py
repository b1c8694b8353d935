"""What is known before a run of the calls that agents with tools make, beside what runs make."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from loopkit.engine.events import Intended
from loopkit.language.load import load
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import Plan, plan_of
from tests.support import Desk, Played, scenario

MACHINE = """
loopkit: 1
limits: {revisions: 1}
agents:
  planner:
    model: openai/gpt-5-mini
    retry: {attempts: 2, backoff: 1ms}
    price: {input: 1, output: 1}
    tools:
      measure: {by: [length]}
      search: {command: [grep, "{{ word }}", words.txt], input: {word: str}}
    MORE
validators: {length: [{min_chars: 10}]}
states:
  plan: {agent: planner, prompt: Plan it., next: check}
  check:
    validate: plan
    by: [length]
    transitions: [{guard: valid, target: done}, {revise: plan}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure, result: plan}
"""
LOST = {"fault": "server_error"}
MEASURE = {"tool_calls": [{"name": "measure", "input": {"draft": "Short."}}]}
SEARCH = {"tool_calls": [{"name": "search", "input": {"word": "plan"}}]}
UNKNOWN = {"tool_calls": [{"name": "delete", "arguments": "{broken"}]}


def lost_once_each(*calls: Any) -> list[Any]:
    """The same calls, each after one that is lost."""
    return [each for call in calls for each in (LOST, call)]


def plan_for(desk: Desk, machine: str) -> Plan:
    return plan_of(load(desk.write("machine.yaml", machine)).machine, {})


def played(desk: Desk, machine: str, *attempts: Sequence[Any]) -> Played:
    results = [{"stdout": "plan"}] * 9
    script = scenario(agents={"planner": list(attempts)}, commands={"planner.search": results})
    return desk.play(machine, script)


def made(run: Played, *roles: str) -> int:
    return sum(event.role in roles for event in run.of(Intended))


@pytest.mark.parametrize(
    ("more", "attempt", "calls", "tool_calls"),
    [
        pytest.param(
            "{require_tool: measure, max_tool_calls: 2, reask: 1}",
            lost_once_each("Unseen.", MEASURE, SEARCH, "Unseen."),
            8,
            2,
            id="an answer nobody validated, and every tool call in a round of its own",
        ),
        pytest.param(
            "{max_tool_calls: 3, reask: 1}",
            lost_once_each(SEARCH, UNKNOWN, MEASURE, "Short."),
            8,
            3,
            id="with nothing required nobody is asked again",
        ),
        pytest.param(
            "{max_tool_calls: 2}",
            lost_once_each(SEARCH, UNKNOWN, SEARCH),
            6,
            2,
            id="a model that never stops calling",
        ),
        pytest.param(
            "{require_tool: measure, tool_use: runner, max_tool_calls: 2, reask: 1}",
            lost_once_each("Short.", "Short."),
            4,
            2,
            id="loopkit calls the tool",
        ),
        pytest.param(
            "{require_tool: measure, tool_use: runner, max_tool_calls: 2, reask: 1, "
            "fallbacks: [openai/gpt-5]}",
            [LOST, LOST, *lost_once_each("Unseen.", MEASURE, MEASURE, "Unseen.")],
            10,
            2,
            id="a fallback that calls tools itself",
        ),
        pytest.param(
            "{tool_use: runner, max_tool_calls: 2}",
            lost_once_each("Short."),
            2,
            0,
            id="nobody calls a tool",
        ),
        pytest.param(
            "{tool_use: runner, max_tool_calls: 2}",
            lost_once_each({**SEARCH, "reply": "Short."}),
            2,
            0,
            id="who can't call tools calls none",
        ),
    ],
)
def test_the_dearest_run_makes_exactly_the_calls_that_are_known_before(
    desk: Desk, more: str, attempt: list[Any], calls: int, tool_calls: int
) -> None:
    fields = ", ".join(more.strip("{}").split(", "))
    machine = MACHINE.replace("MORE", "\n    ".join(fields.split(", ")))
    run, bounds = played(desk, machine, attempt, attempt), plan_for(desk, machine).bounds
    assert run.outcome == "failed"
    assert bounds.calls.worst.total == made(run, "author") == 2 * calls
    known = bounds.tool_calls.total if bounds.tool_calls else 0
    assert known == made(run, "tool") == 2 * tool_calls


def test_calls_beyond_the_last_that_may_be_made_are_within_the_bounds(desk: Desk) -> None:
    machine = MACHINE.replace("MORE", "max_tool_calls: 3")
    many = {"tool_calls": SEARCH["tool_calls"] * 9}
    run = played(desk, machine, [many, "Short."], [many, many])
    assert made(run, "tool") == 6
    bounds = plan_for(desk, machine).bounds
    assert bounds.tool_calls is not None
    assert bounds.tool_calls.total == 6


def test_a_plan_shows_the_tool_calls_the_rounds_and_the_programs(desk: Desk) -> None:
    machine = MACHINE.replace("MORE", "require_tool: measure\n    max_tool_calls: 3")
    text = plan_text(plan_for(desk, machine), {})
    lines = [line.split() for line in text.splitlines()]
    assert ["agent", "runs", "1", "2"] in lines
    assert ["calls", "1", "24"] in [line[:3] for line in lines]
    assert ["tool", "calls", "0", "6"] in lines
    assert "re-ask and answer that calls a tool" in text
    assert "plan  planner, up to 6 times" in text
    assert "plan · planner.search: grep {{ word }} words.txt" in text
    without = plan_text(plan_for(desk, MACHINE.replace("MORE", "tool_use: runner")), {})
    assert "tool calls" not in without


def test_a_required_tool_makes_an_answer_typically_take_two_calls(desk: Desk) -> None:
    def plan(more: str) -> Plan:
        return plan_for(desk, MACHINE.replace("MORE", more))

    required, other = plan("require_tool: measure"), plan("reask: 1")
    assert [typical.calls for typical in required.typical] == [2, 4]
    assert [typical.calls for typical in other.typical] == [1, 2]
    usd, usual = required.typical[0].usd, other.typical[0].usd
    assert usd is not None
    assert usual is not None
    # The draft is sent again with the call that follows it.
    assert usd == pytest.approx(2 * usual + 1_000 / 1e6)
    by_loopkit = plan("require_tool: measure\n    tool_use: runner")
    assert [typical.calls for typical in by_loopkit.typical] == [1, 2]


def test_means_count_the_calls_of_a_required_tool(desk: Desk) -> None:
    text = MACHINE.replace("MORE", "require_tool: measure")
    machine = load(desk.write("machine.yaml", text)).machine
    expected = plan_of(machine, {}, {"check.valid": Fraction(1, 2)}).bounds.expected
    assert expected is not None
    assert (expected.runs, expected.calls) == (Fraction(3, 2), Fraction(3))
    cost = expected.cost
    first = plan_of(machine, {}).typical[0].usd
    assert cost is not None
    assert first is not None
    assert cost > Fraction(first)


def test_what_cannot_be_counted_out_is_never_below_what_is_exact(desk: Desk) -> None:
    text = MACHINE.replace("MORE", "require_tool: measure\n    max_tool_calls: 3")
    analysis = Analysis.of_machine(load(desk.write("machine.yaml", text)).machine)

    def known(bounds: Bounds) -> tuple[float | None, float | None]:
        of_tools = bounds.tool_calls
        return bounds.calls.worst.total, of_tools.total if of_tools else None

    exact, roughly = explore(analysis), explore(analysis, most=1)
    assert roughly.configurations is None
    assert known(exact) == (24, 6)
    assert known(roughly) == known(exact)


def test_children_call_their_tools_for_the_run_that_starts_them(desk: Desk) -> None:
    desk.write("one.yaml", MACHINE.replace("MORE", "max_tool_calls: 3"))
    family = """
loopkit: 1
input: {items: [{id: str}]}
states:
  all: {each: input.items, max_items: 5, as: item, key: item.id, machine: one.yaml, next: done}
  done: {final: success, result: all}
"""
    bounds = plan_for(desk, family).bounds
    assert bounds.tool_calls is not None
    assert bounds.tool_calls.total == 5 * 2 * 3
    assert bounds.calls.worst.total == 5 * 2 * 4 * 2
