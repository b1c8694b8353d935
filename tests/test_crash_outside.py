"""kill -9 at any instant while somebody outside plays the author."""

from __future__ import annotations

from typing import Any

from tests.crash.points import assert_alike, begun, killed

MACHINE = """
loopkit: 1
agents:
  author: {outside: true}
states:
  draft: {agent: author, prompt: "Write a plan.", output: plan, next: check}
  check:
    validate: plan
    by: [{section: Goal}, {section: Risks}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 2}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
DELIVERED = ("Tea.", "## Goal\n\nTea.\n", "## Goal\n\nTea.\n\n## Risks\n\nNone.\n")
told = killed(MACHINE, delivered=DELIVERED)


def test_the_unharmed_run_takes_three_deliveries(told: Any) -> None:
    assert (told[0]["outcome"], told[0]["result"]) == ("done", {"plan": DELIVERED[-1]})
    assert (told[0]["replies"], told[0]["attempts"]["draft"]) == (3, 3)


def test_no_delivery_is_lost_or_counts_twice(told: Any) -> None:
    assert len(begun(told)) >= 8
    assert_alike(told)
    for point in begun(told):
        assert point["replies"] == 3
        assert (point["in_doubt"], point["failed"]) == (0, 0)
