"""S0, counters and budgets: every line that needs no model."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.engine.events import Decided
from loopkit.engine.payloads import Feedback
from tests.machines import loop
from tests.support import Desk, scenario

GOOD = "Long enough to be taken for a plan."
LOOP = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft, feedback: "
    '"Longer: {{ revision }} of {{ max_revisions }}, attempt {{ attempt }}."}',
    top="""
input:
  max_revisions: {type: int, default: 2, minimum: 0, maximum: 5}
limits: {revisions: input.max_revisions}
agents: {author: {command: [none], retry: {attempts: 2, backoff: 1ms}}}
""",
)


def stubborn(attempts: int, **more: Any) -> str:
    """An author who writes something new and too short each time."""
    texts = ["x" * number for number in range(1, attempts + 1)]
    return scenario(agents={"author": texts}, **more)


@pytest.mark.parametrize("given", [None, 0, 1, 5])
def test_a_cap_of_n_grants_exactly_n_revisions(desk: Desk, given: int | None) -> None:
    """S0.13, S0.14: N, or the default, are N+1 attempts, of which the last can still succeed."""
    cap, inputs = (2, {}) if given is None else (given, {"max_revisions": given})
    played = desk.play(LOOP, stubborn(7), inputs)
    assert len(played.prompts("author")) == cap + 1
    assert played.state.counters.get("revisions:draft", 0) == cap
    assert played.outcome == "exhausted"
    texts = ["x" * number for number in range(1, cap + 1)] + [GOOD]
    assert desk.play(LOOP, scenario(agents={"author": texts}), inputs).outcome == "accepted"


def test_only_an_invalid_verdict_is_counted(desk: Desk) -> None:
    """S0.15: neither a fault of the provider nor a valid report is a revision."""
    calls: list[Any] = [[{"fault": "rate_limit"}, "short"], [{"fault": "connection"}, GOOD]]
    played = desk.play(LOOP, scenario(agents={"author": calls}))
    assert len(played.prompts("author")) == 4
    assert played.state.counters == {"revisions:draft": 1}
    assert played.prompts("author")[-1].endswith("Longer: 1 of 2, attempt 1.")
    assert played.state.attempts["draft"] == 2


def test_a_validator_that_cannot_run_costs_the_author_nothing(durable: Desk) -> None:
    """S0.15: its failure suspends the run; the counter stays, and nobody works twice."""
    machine = LOOP.replace("[{min_chars: 20}]", "[{min_chars: 20}, {command: [checker]}]")
    broken = scenario(
        agents={"author": ["short", GOOD]},
        commands={"by[1]": [{"exit_code": 0}, {"fault": "not_found"}]},
    )
    played = durable.play(machine, broken)
    assert played.state.status == "suspended"
    assert played.state.counters == {"revisions:draft": 1}
    again = durable.resume(played.state.run)
    assert again.state.counters == {"revisions:draft": 1}
    assert again.requests == []


REPLAN = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "gate"},
    "{revise: draft, max: 1}",
    top="limits: {total_revisions: 4}\nagents: {author: {command: [none]}}",
    ends="""
gate:
  human: It is not valid. What now?
  choices: [replan, give_up]
  transitions:
    - guard: choice == "replan"
      revise: draft
      max: 2
      resets: [draft]
      feedback: "{{ comment }} Open: {% for finding in findings %}{{ finding.message }}{% endfor %}"
    - {target: failed}
failed: {final: failure}
""",
)


def test_a_replan_gives_a_loop_its_revisions_back_and_the_total_is_never_reset(desk: Desk) -> None:
    """S0.16, S0.17: 1 + replan + 1 + replan, and the author is told comment and findings."""
    replan = {"choice": "replan", "comment": "Think anew."}
    played = desk.play(REPLAN, stubborn(8, answers={"gate": [replan, replan]}))
    assert (played.state.counters["total"], len(played.prompts("author"))) == (4, 5)
    assert "Think anew. Open: the text has 2 characters" in played.prompts("author")[2]
    closed = {choice.name: bool(choice.closed) for choice in played.questions[-1].choices}
    assert closed == {"replan": True, "give_up": False}


def test_nothing_that_is_collected_doubles_when_a_loop_is_entered_again(desk: Desk) -> None:
    """S0.19: one turn, one round and one feedback for each attempt, however often it goes round."""
    played = desk.play(LOOP, stubborn(7), {"max_revisions": 5})
    assert [len(turns) for turns in played.state.conversations.values()] == [6]
    assert [entry.report.attempt for entry in played.state.rounds] == [1, 2, 3, 4, 5, 6]
    told = [feedback for event in played.of(Decided) for feedback in event.feedback]
    assert told == [
        Feedback(
            to="draft",
            text=f"Longer: {number} of 5, attempt {number}.",
            revision=number,
            max_revisions=5,
        )
        for number in range(1, 6)
    ]
    assert all(prompt.count("Longer:") == 1 for prompt in played.prompts("author")[1:])
    assert played.state.pending == {}
