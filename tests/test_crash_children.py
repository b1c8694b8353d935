"""kill -9 at any instant of a run whose children draft at the same time and are judged in turn."""

from __future__ import annotations

import json
from typing import Any

from tests.crash.points import AGENT, assert_paid_once, begun, killed

MACHINE = """
loopkit: 1
input:
  n: int
  tasks:
    type: [{id: str, needs: {type: [str], default: []}}]
    default: [{id: a}, {id: b}, {id: c, needs: [a, b]}]
states:
  tasks:
    each: input.tasks
    as: task
    key: task.id
    after: task.needs
    parallel: 2
    serial: [draft, check]
    max_items: 3
    machine: task.yaml
    input: {id: "{{ task.id }}"}
    transitions:
      - {guard: failed == 0, target: last}
      - {target: failed}
  last:
    machine: task.yaml
    input: {id: last}
    transitions:
      - {guard: outcome == "done", target: done}
      - {target: failed}
  done: {final: success}
  failed: {final: failure}
"""
TASK = f"""
loopkit: 1
input: {{id: str}}
agents:
  worker: {{command: {json.dumps([*AGENT, "worker"])}, on_in_doubt: retry}}
  critic: {{command: {json.dumps([*AGENT, "critic"])}, on_in_doubt: retry}}
states:
  draft:
    agent: worker
    prompt: "Do {{{{ input.id }}}}."
    on_error: {{content: failed}}
    next: check
  check:
    validate: draft
    by: [{{judge: critic, rubric: [It is not vague.]}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{target: failed}}
  done: {{final: success, result: draft}}
  failed: {{final: failure}}
"""
told = killed(MACHINE, files={"task.yaml": TASK})


def test_the_unharmed_run_asks_for_each_item_what_it_needs(told: Any) -> None:
    unharmed = told[0]
    assert (unharmed["outcome"], unharmed["route"]) == ("done", ["tasks[0]", "last[0]"])
    assert list(unharmed["children"].values()) == [["done"]] * 4
    assert unharmed["calls"] == unharmed["replies"] == 8


def test_after_resume_each_item_has_one_child_and_each_child_has_ended_once(told: Any) -> None:
    for point in begun(told):
        assert (point["outcome"], point["route"]) == ("done", ["tasks[0]", "last[0]"]), point
        assert point["children"] == told[0]["children"], point


def test_no_committed_call_of_a_child_is_made_twice(told: Any) -> None:
    assert_paid_once(told)
