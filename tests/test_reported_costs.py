"""What a program reports of its own cost: counted however it ends, if it can be true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.events import Failed, Replied, Suspended
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
