"""kill -9 at any instant while models are asked over HTTP, by what the server really received."""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash.host import MAX_RESUMES
from tests.crash.points import assert_alike, begun, killed_among_models

MACHINE = """
loopkit: 1
input: {n: {type: int, minimum: 0, maximum: 3}}
limits: {revisions: input.n, cost_usd: 1}
agents:
  author:
    model: openai/gpt-4o-mini
    base_url: URL/v1
    api_key_env: CRASH_KEY
    params: {max_tokens: 500}
    session: SESSION
    MORE
  critic:
    model: openai/gpt-4o-mini
    base_url: URL/v1
    api_key_env: CRASH_KEY
    retry: {attempts: 4, backoff: 10ms}
validators:
  form: {matches: revision 2, message: It is not the second revision.}
  quality:
    judge: critic
    prompt: '{"said": "good", "findings": []}'  # which the server repeats
    map: {verdict: said, verdicts: {good: pass, bad: fail}}
states:
  draft:
    agent: author
    prompt: "Plan. {{ feedback }}"
    output: plan
    next: judge
  judge:
    validate: plan
    by: [form, quality]
    transitions:
      - {guard: valid, target: done}
      - {guard: cap_reached, target: failed}
      - {revise: draft, feedback: "revision {{ revision }}"}
  done: {final: success, result: plan}
  failed: {final: failure}
"""


FALLBACK = "openai/gpt-4o"
TRIES = "retry: {attempts: 4, backoff: 10ms}"
"""Tries of the author: its first call fails, and either it or its fallback is asked then."""
INSTEAD = f"retry: {{attempts: 1}}\n    fallbacks: [{{model: {FALLBACK}, {TRIES}}}]"


@pytest.fixture(scope="module", params=[("fresh", INSTEAD), ("keep", TRIES)])
def told(
    request: pytest.FixtureRequest, every: int, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What the host tells of the unharmed run and of each point."""
    session, more = request.param
    machine = MACHINE.replace("SESSION", session).replace("MORE", more)
    return killed_among_models(tmp_path_factory.mktemp("crash_http"), machine, every)


def test_the_unharmed_run_fails_once_and_revises_twice(told: Any) -> None:
    unharmed = told[0]
    assert unharmed["outcome"] == "done"
    assert unharmed["counters"] == {"revisions:draft": 2}
    assert (unharmed["replies"], unharmed["failed"], unharmed["calls"]) == (4, 1, 5)
    assert unharmed["in_doubt"] == 0


def test_after_resume_a_run_ends_and_says_the_same_as_the_unharmed_one(told: Any) -> None:
    assert_alike(told)


def test_the_server_received_what_was_committed_and_at_most_what_is_in_doubt_besides(
    told: Any,
) -> None:
    for point in begun(told):
        committed = point["replies"] + point["failed"]
        assert point["replies"] == told[0]["replies"], point
        assert committed <= point["calls"] <= committed + point["in_doubt"], point


def test_a_call_that_was_killed_while_it_waited_was_received_and_is_in_doubt(told: Any) -> None:
    inside = [point for point in told if point["point"].startswith("inside_call")]
    assert len(inside) <= MAX_RESUMES
    assert [point["in_doubt"] for point in inside] == [1] * len(inside)


def test_a_run_that_had_come_to_a_fallback_goes_on_with_it(told: Any) -> None:
    """Whoever is killed between the tries, and whatever call of the work is in doubt."""
    by_fallback = FALLBACK in told[0]["answered"]
    assert told[0]["answered"].count(FALLBACK) == by_fallback
    for point in begun(told):
        assert (point["answered"][0] == FALLBACK) is by_fallback, point
