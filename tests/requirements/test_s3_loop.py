"""S3, the planner's loop without tools: late defects, the event stream, data in prose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from tests.support import Desk, scenario

LATE = """
loopkit: 1
limits: {revisions: 1}
agents: {planner: {command: [none], schema: {nodes: [{id: str, then: optional str}]}}}
validators:
  shape: [{require: nodes.count > 0, code: EMPTY}]
  routes:
    - lookup: {path: "nodes[].then", in: plan, at: "nodes[].id"}
      code: BAD_ROUTE
      message: "`{{ parent.id }}` goes on to `{{ value }}`, which does not exist."
      fields: {nodeStage: routing}
  pins: [{require: 'id != "fax"', each: "nodes[]", code: PINNED, message: The fax is gone.}]
states:
  plan: {agent: planner, prompt: Plan., next: check}
  check:
    validate: plan
    by: [shape, pins]
    transitions:
      - {guard: '"PINNED" in codes', target: stopped, emit: plan_rejected}
      - {guard: valid, target: compiled}
      - {revise: plan, emit: plan_rejected}
      - {target: failed}
  compiled: {render: "{{ plan }}", next: late}
  late:
    validate: plan
    by: [routes]
    transitions:
      - {guard: valid, target: done, emit: plan_generated}
      - {revise: plan, emit: plan_rejected}
      - {target: failed}
  done: {final: success, result: plan}
  stopped: {final: failure}
  failed: {final: failure}
"""


def nodes(*pairs: tuple[str, str | None]) -> dict[str, Any]:
    return {"data": {"nodes": [{"id": name, "then": then} for name, then in pairs]}}


def test_the_stream_of_events_goes_on_where_a_reader_stopped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S3.23: lines of JSON, the same for whoever reads them again, numbered without gaps."""
    monkeypatch.chdir(desk.folder)
    (desk.folder / ".loopkit").mkdir()
    desk.write("machine.yaml", LATE)
    drafts = [nodes(("a", "b")), nodes(("a", "b"), ("b", None))]
    Path("script.yaml").write_text(scenario(agents={"planner": drafts}), encoding="utf-8")
    assert invoke(["run", "machine.yaml", "--script", "script.yaml", "--output", "jsonl"]) == 0
    *live, result = map(json.loads, capsys.readouterr().out.splitlines())
    assert invoke(["runs", "logs", result["run"], "--jsonl"]) == 0
    replayed = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [event for event in replayed if event["seq"] >= live[0]["seq"]] == live
    half = live[len(live) // 2]["seq"]
    assert invoke(["runs", "logs", result["run"], "--jsonl", "--after", str(half)]) == 0
    rest = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert rest == [event for event in live if event["seq"] > half]
    [rejected, generated] = [event for event in live if event["type"] == "emitted"]
    assert (rejected["run"], rejected["name"]) == (result["run"], "plan_rejected")
    assert rejected["time"] <= generated["time"]
    assert rejected["findings"][0]["item"] == {"nodeStage": "routing"}
    assert result["artifacts"]["plan"]["attempts"] == 2


IN_PROSE = 'Here is the plan:\n\n```json\n{"nodes": ["a"]}\n```\n\nI hope it helps.'
TOLERANT = """
loopkit: 1
agents: {planner: {command: [none] SCHEMA}}
states:
  plan: {agent: planner, prompt: Plan., emit: plan_requested, next: check}
  check:
    validate: plan
    by: [{schema: {nodes: [str]} RULE}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""


@pytest.mark.parametrize("text", [IN_PROSE, 'Sure: {"nodes": ["a"]}', '{"nodes": ["a"]}'])
def test_data_in_a_fence_or_in_prose_is_data_in_the_result(desk: Desk, text: str) -> None:
    """S3.32: where the author declares a schema, whoever reads the plan gets data."""
    machine = TOLERANT.replace("SCHEMA", ", schema: {nodes: [str]}").replace("RULE", "")
    played = desk.play(machine, scenario(agents={"planner": [text]}))
    assert played.result == {"plan": {"nodes": ["a"]}}
