"""kill -9 at any instant of a run in which one model's artifact is kept and another's made anew."""

from __future__ import annotations

from typing import Any

from tests.crash.points import assert_alike, begun, killed, killed_among_models

MODEL = (
    "{model: openai/gpt-4o-mini, base_url: URL/v1, api_key_env: CRASH_KEY, "
    "params: {max_tokens: 500}, retry: {attempts: 4, backoff: 10ms}}"
)
MACHINE = f"""
loopkit: 1
limits: {{revisions: 3, cost_usd: 1}}
agents:
  planner: {MODEL}
  designer: {MODEL}
  coder: {MODEL}
states:
  plan:
    agent: planner
    prompt: "Plan, word alpha. {{{{ feedback }}}}"
    output: {{name: plan, fields: {{words: {{all: 'word \\w+'}}}}}}
    on_error: {{content: failed}}
    next: design
  design:
    agent: designer
    prompt: "Design {{{{ plan.words }}}}"
    needs: plan.words
    on_error: {{content: failed}}
    next: code
  code:
    agent: coder
    prompt: "Code {{{{ design }}}} by {{{{ plan }}}}"
    needs: [plan, design]
    next: review
  review:
    validate: code
    by: [{{matches: again, message: It is the first round.}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: plan, feedback: "Plan again."}}
      - {{target: failed}}
  done: {{final: success, result: [design, code]}}
  failed: {{final: failure}}
"""
told = killed(MACHINE, by=killed_among_models)


def test_the_unharmed_run_designs_once_in_two_rounds(told: Any) -> None:
    unharmed = told[0]
    assert (unharmed["outcome"], unharmed["counters"]) == ("done", {"revisions:plan": 1})
    assert unharmed["attempts"] == {"plan": 2, "design": 1, "code": 2, "review": 2}
    # The first answer is an error.
    assert (unharmed["replies"], unharmed["failed"], unharmed["calls"]) == (5, 1, 6)


def test_after_resume_the_same_was_kept_and_nothing_is_paid_twice(told: Any) -> None:
    assert_alike(told)
    for point in begun(told):
        assert point["replies"] == told[0]["replies"], point
        committed = point["replies"] + point["failed"]
        assert committed <= point["calls"] <= committed + point["in_doubt"], point
