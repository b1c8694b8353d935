"""X: what the users of such loops ran into, whichever system it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import PASS, Desk, Played, fails, listed, scenario, warns

MACHINE = """
loopkit: 1
limits: {revisions: 8, feedback_items: 3, cost_usd: 1, then: out_of_money}
agents:
  author: {command: [none], schema: {text: str, infeasible: bool}, infeasible: infeasible}
  critic: {model: some/model, price: 0.01, retry: {attempts: 1}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{judge: critic, reask: 0}]
    on_error: {transient: infra_error, fatal: infra_error}
    transitions:
      - {guard: infeasible, target: infeasible_task}
      - {guard: incomplete, target: infra_error}
      - {guard: valid and warning_count > 0, target: accepted_with_warnings}
      - {guard: valid, target: gate}
      - {guard: stalled, revise: draft, max: 1, feedback: 'You go in circles. Start anew, without {{ findings[0].message }}'}
      - {guard: stalled, target: no_progress}
      - {guard: attempt >= 6, target: exhausted}
      - {revise: draft}
      - {target: exhausted}
  gate:
    human: Accept?
    choices: [yes, no]
    transitions: [{guard: choice == "yes", target: accepted}, {target: human_rejected}]
  accepted: {final: success, result: plan}
  accepted_with_warnings: {final: success, result: plan}
  exhausted: {final: failure, result: plan, pick: best}
  no_progress: {final: failure, result: plan, pick: best}
  infeasible_task: {final: failure, result: plan}
  human_rejected: {final: failure, result: plan}
  infra_error: {final: failure, result: plan}
  out_of_money: {final: failure}
"""  # noqa: E501


def draft(number: int, **more: Any) -> dict[str, Any]:
    return {"data": {"text": f"plan {number}", "infeasible": False, **more}}


def play(
    desk: Desk, critic: list[Any], drafts: list[Any] | None = None, answer: str = "yes"
) -> Played:
    texts = drafts or [draft(number) for number in range(1, 9)]
    script = scenario(agents={"author": texts, "critic": critic}, answers={"gate": [answer]})
    return desk.play(MACHINE, script)


COSTLY = {**fails("A"), "cost_usd": 2.0}
CANNOT = {"data": {"text": "", "infeasible": True}}


@pytest.mark.parametrize(
    ("critic", "drafts", "answer", "outcome"),
    [
        ([PASS], None, "yes", "accepted"),
        ([warns("W")], None, "yes", "accepted_with_warnings"),
        ([fails(f"A{i}") for i in range(9)], None, "yes", "exhausted"),
        ([fails("A")] * 9, None, "yes", "no_progress"),
        ([fails("A"), fails("B")] * 4, None, "yes", "no_progress"),
        ([], [CANNOT], "yes", "infeasible_task"),
        ([COSTLY], None, "yes", "out_of_money"),
        ([PASS], None, "no", "human_rejected"),
        ([{"fault": "connection"}], None, "yes", "infra_error"),
        (["What?"], None, "yes", "infra_error"),
    ],
    ids=["accepted", "warnings", "exhausted", "same", "turns", "infeasible", "money", "rejected",
         "infrastructure", "unparsed"],
)  # fmt: skip
def test_each_way_to_end_is_an_outcome_of_its_own(
    desk: Desk, critic: list[Any], drafts: list[Any] | None, answer: str, outcome: str
) -> None:
    """X.14: outcomes are the final states, and their exit codes follow from success or failure."""
    assert play(desk, critic, drafts, answer).outcome == outcome


def test_what_goes_in_circles_is_steered_once_and_then_ends_with_the_best(desk: Desk) -> None:
    """X.5: another feedback, then the outcome of its own; X.6: with the best version so far."""
    critic = [fails("A", "B"), fails("A"), fails("A"), fails("A"), fails("A")]
    played = play(desk, critic)
    steered = [text for text in played.prompts("author") if "You go in circles." in text]
    assert len(steered) == 1
    assert "without A" in steered[0]
    assert played.outcome == "no_progress"
    assert played.result == {"plan": {"text": "plan 2", "infeasible": False}}


def test_feedback_has_the_worst_and_no_more_than_the_limit(desk: Desk) -> None:
    """X.9 and S0.40: a cap with an order in which it drops."""
    mixed = [{"message": f"W{i}", "severity": "warning"} for i in range(3)]
    mixed += [{"message": f"E{i}", "severity": "error"} for i in range(5)]
    played = play(desk, [{"data": {"verdict": "fail", "findings": mixed}}, PASS])
    assert listed(played.prompts("author")[1]) == "- E0\n- E1\n- E2\n- … and 2 more"
