"""What a program reports of its own cost: counted however it ends, if it can be true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.events import Failed, Replied, Suspended
from tests.recording import assert_same, taped
from tests.support import Desk, Played

MACHINE = """
loopkit: 1
limits: {cost_usd: 1}
agents:
  writer:
    command: [sh, -c, "cat said; exit EXIT"]
    reply: REPLY
    price_per_run: 0.5
    retry: {attempts: 1}
states:
  write: {agent: writer, prompt: Write a line., output: line, on_error: {content: bad}, next: check}
  check:
    validate: line
    by: [{max_chars: 1}]
    transitions: [{guard: valid, target: done}, {revise: write, max: 9}, {target: bad}]
  done: {final: success, result: line}
  bad: {final: failure}
"""


def play(tmp_path: Path, said: str, exit_code: int = 0, reply: str = "stream_json") -> Played:
    (tmp_path / "said").write_text(said, encoding="utf-8")
    machine = MACHINE.replace("EXIT", str(exit_code)).replace("REPLY", reply)
    return Desk(tmp_path, in_memory=False).play(machine)


def result(**parts: Any) -> str:
    return json.dumps({"type": "result", "result": "A line", **parts})


@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_a_program_reports_to_have_cost_before_it_failed_is_spent(
    tmp_path: Path, exit_code: int
) -> None:
    cost = {"total_cost_usd": 0.75, "usage": {"input_tokens": 7, "output_tokens": 3}}
    (failed,) = play(tmp_path, result(is_error=True, **cost), exit_code).of(Failed)
    assert (failed.usage.cost_usd, failed.usage.tokens) == (0.75, 10)


@pytest.mark.parametrize("reply", ["stream_json", "{json: text}"])
def test_a_program_that_fails_without_a_cost_counts_at_its_price(
    tmp_path: Path, reply: str
) -> None:
    (failed,) = play(tmp_path, result(is_error=True), reply=reply).of(Failed)
    assert failed.usage.cost_usd == 0.5


@pytest.mark.parametrize("said", ["1e308", "1e400", "NaN", "-1"])
def test_a_cost_that_no_run_has_is_not_believed(tmp_path: Path, said: str) -> None:
    played = play(tmp_path, result(total_cost_usd="SAID").replace('"SAID"', said))
    assert [replied.usage.cost_usd for replied in played.of(Replied)] == [0.5, 0.5]
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "limit"


FREE = (
    MACHINE.replace("limits: {cost_usd: 1}", "LIMITS")
    .replace("cat said; exit EXIT", "echo call >>CALLS; sleep 0.1; cat SAID")
    .replace("REPLY\n    price_per_run: 0.5", "stream_json\n    price_per_run: 0")
)
HEAD = FREE.partition("states:")[0]
JUDGED = f"""{HEAD}
states:
  write: {{render: A line, output: line, next: check}}
  check:
    validate: line
    by: [{{judge: writer, rubric: [A, B]}}, {{judge: writer, rubric: [C], samples: 3}}]
    transitions: [{{guard: valid, target: done}}, {{target: bad}}]
  done: {{final: success, result: line}}
  bad: {{final: failure}}
"""
EACH = """
loopkit: 1
LIMITS
states:
  all: {each: input.all, as: it, key: it, parallel: 3, max_items: 9, machine: one.yaml, next: done}
  done: {final: success, result: all}
input: {all: {type: [str], default: [a, b, c]}}
"""
COST, TOKENS = "limits: {cost_usd: 0.1}", "limits: {tokens: 25}"


def spend(desk: Desk, machine: str, limits: str) -> tuple[Played, int]:
    """A run whose program reports 50 cents and 15 tokens a call, and how often it was called."""
    said = result(total_cost_usd=0.5, usage={"input_tokens": 10, "output_tokens": 5})
    calls, program = desk.folder / "calls", str(desk.write("said", said))
    desk.write("one.yaml", _filled(JUDGED, "", calls, program))
    played = desk.play(_filled(machine, limits, calls, program))
    return played, calls.read_text().count("call")


def _filled(machine: str, limits: str, calls: Path, said: str) -> str:
    return machine.replace("LIMITS", limits).replace("CALLS", str(calls)).replace("SAID", said)


@pytest.mark.parametrize(
    ("machine", "limits", "most"),
    [(FREE, COST, 1), (FREE, TOKENS, 2), (JUDGED, COST, 1), (EACH, COST, 1), (EACH, TOKENS, 2)],
    ids=["cost", "tokens", "judges", "items", "tokens of items"],
)
def test_a_limit_that_is_used_up_refuses_all_calls_that_can_report_more(
    durable: Desk, machine: str, limits: str, most: int
) -> None:
    played, calls = spend(durable, machine, limits)
    assert calls == most
    assert [event.reason for event in played.of(Suspended)] == ["limit"]
    if machine is FREE:
        assert_same(taped(durable, played), played)


def test_what_can_report_nothing_goes_on_and_so_does_a_run_with_a_higher_limit(
    durable: Desk,
) -> None:
    plain = "  plain: {command: [echo, hi], price_per_run: 0}\nstates:\n"
    plain += "  more: {agent: plain, prompt: Go., on_error: {content: bad}, next: check}\n"
    machine = FREE.replace("next: check", "next: more").replace("states:\n", plain)
    begun, calls = spend(durable, machine.replace("states:", "initial: write\nstates:"), COST)
    (suspended,) = begun.of(Suspended)
    assert (calls, begun.state.usage.agent_calls) == (1, 2)
    assert "--max-cost 0.51" in suspended.remedy
    played = durable.resume(begun.state.run, {"cost_usd": 0.51})
    assert played.state.usage.cost_usd == 1.0


def test_after_then_all_works_that_is_no_call(durable: Desk) -> None:
    then = """
  more: {run: [echo, more], output: more, next: look}
  look:
    validate: more
    by: [{command: [grep, more], stdin: "{{ more }}"}]
    transitions: [{guard: valid, target: done}, {target: bad}]
  done:"""
    machine = FREE.replace("\n  done:", then)
    played, calls = spend(durable, machine, "limits: {cost_usd: 0.1, then: more}")
    assert (calls, played.outcome) == (1, "done")
