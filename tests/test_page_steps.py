"""The steps of a run's page, folded from its events."""

from __future__ import annotations

import pytest

from loopkit.views.steps import Steps
from tests.support import Desk, scenario

CHILD = """
loopkit: 1
agents: {writer: {model: some/model}}
states:
  draft: {agent: writer, prompt: Write., next: done, on_error: {content: bad}}
  done: {final: success, result: draft}
  bad: {final: failure}
"""
PARENT = """
loopkit: 1
agents: {author: {model: some/model, retry: {attempts: 2, backoff: 0.1s}}}
states:
  plan: {agent: author, prompt: Plan., next: build, on_error: {content: bad}}
  build: {machine: child.yaml, next: done}
  done: {final: success, result: build}
  bad: {final: failure}
"""


def test_a_step_costs_what_its_failed_calls_and_its_children_cost(desk: Desk) -> None:
    desk.write("child.yaml", CHILD)
    tries = [{"fault": "rate_limit", "cost_usd": 0.25}, {"reply": "A plan.", "cost_usd": 0.5}]
    child = {"agents": {"writer": [{"reply": "A text.", "cost_usd": 2}]}}
    played = desk.play(PARENT, scenario(agents={"author": [tries]}, children={"build": child}))
    plan, build, _ = Steps().after(played.stored).all
    assert [call.status for call in plan.calls] == ["failed", "answered"]
    assert plan.usage.cost_usd == pytest.approx(0.75)
    assert build.usage.cost_usd == pytest.approx(2)
