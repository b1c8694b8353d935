"""kill -9 at any instant: after resume a run ends as if nothing had happened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.crash.points import AGENT, assert_alike, assert_paid_once, killed_at_points

MACHINE = f"""
loopkit: 1
input: {{n: {{type: int, minimum: 0, maximum: 3}}}}
limits: {{revisions: input.n, agent_calls: 30}}
agents:
  author: {{command: {json.dumps([*AGENT, "author"])}, on_in_doubt: retry, session: SESSION}}
  critic: {{command: {json.dumps([*AGENT, "critic"])}, on_in_doubt: retry}}
validators:
  form: {{min_chars: 20}}
  quality: {{judge: critic, rubric: [It is not vague.]}}
states:
  start: {{next: prepare}}
  prepare: {{run: {json.dumps([*AGENT, "prepare"])}, stdin: "", on_in_doubt: retry, next: draft}}
  draft:
    agent: author
    prompt: "Write a plan. {{{{ feedback }}}}"
    output: plan
    next: judge
  judge:
    validate: plan
    by: [form, quality]
    transitions:
      - {{guard: valid, target: heading}}
      - {{guard: cap_reached, target: failed}}
      - revise: draft
        feedback: |
          revision {{{{ revision }}}}:
          {{% for f in findings %}}
          {{{{ f.message }}}}
          {{% endfor %}}
  heading: {{render: "Accepted: {{{{ plan }}}}", next: ask}}
  ask:
    human: Keep it?
    choices: [keep, drop]
    transitions:
      - {{guard: choice == "keep", target: done}}
      - {{target: failed}}
  done: {{final: success, result: [plan, heading]}}
  failed: {{final: failure}}
"""


@pytest.fixture(scope="module", params=["fresh", "keep"])
def session(request: pytest.FixtureRequest) -> str:
    """Whether agents are told all anew. The ordinary run tries each point of one that is."""
    chosen: str = request.param
    return chosen


@pytest.fixture(scope="module")
def step(session: str, every: int) -> int:
    return 1 if session == "fresh" else every


@pytest.fixture(scope="module")
def told(session: str, step: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the host tells of the unharmed run and of each point."""
    folder, machine = tmp_path_factory.mktemp("crash"), MACHINE.replace("SESSION", session)
    return killed_at_points(folder, machine, step, "{ask: [keep]}")


def test_the_unharmed_run_revises_twice_and_is_accepted(told: Any) -> None:
    unharmed = told[0]
    assert unharmed["outcome"] == "done"
    assert unharmed["counters"] == {"revisions:draft": 2}
    assert unharmed["calls"] == unharmed["replies"] == 6
    assert unharmed["in_doubt"] == 0


def test_after_resume_a_run_ends_like_the_unharmed_one(told: Any) -> None:
    assert_alike(told)


def test_a_killed_run_goes_on_without_being_suspended(told: Any) -> None:
    assert [p["point"] for p in told if p["outcome"] and p["suspensions"]] == []


def test_no_committed_call_is_paid_twice_and_none_is_lost(told: Any) -> None:
    assert_paid_once(told)


def test_a_call_that_was_made_and_lost_is_listed_in_doubt(step: int, told: Any) -> None:
    inside = [point for point in told if point["point"].startswith("inside_call")]
    assert [point["in_doubt"] for point in inside] == [1] * len(range(0, told[0]["calls"], step))
    assert [point["calls"] for point in inside] == [told[0]["calls"] + 1] * len(inside)
