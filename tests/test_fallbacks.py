"""Fallbacks with played agents: whose turn it is, what is told and recorded of it, and bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from loopkit.agents.players import AgentChanges
from loopkit.agents.port import NotRunnable
from loopkit.engine.events import Failed, Intended, Suspended
from loopkit.language.load import load
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.outcomes.analysis import Analysis
from loopkit.views.console import status
from loopkit.views.plan.plan_as_text import plan_text
from loopkit.views.plan.planned import plan_of
from tests.recording import assert_same, taped
from tests.support import PASS, Desk, Played, QuickClock, progress_of, scenario
from tests.support import console_lines as told

MACHINE = """
loopkit: 1
agents:
  writer:
    model: openai/one
    retry: {attempts: 3, backoff: 1ms, max_backoff: 2s}
    fallbacks: [openai/two, {model: groq/three, retry: {attempts: 2, backoff: 1ms}}]
states:
  draft: {agent: writer, prompt: Write., output: plan, on_error: {content: failed}, next: done}
  done: {final: success, result: plan}
  failed: {final: failure}
"""
JUDGED = """
loopkit: 1
agents:
  critic:
    model: openai/one
    retry: {attempts: 2, backoff: 1ms}
    fallbacks: [{model: groq/two, retry: {attempts: 3, backoff: 1ms}}]
states:
  draft: {render: A plan., output: plan, next: check}
  check:
    validate: plan
    by: [{judge: critic, rubric: [Good.], reask: 2}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success, result: plan}
  failed: {final: failure}
"""
DOWN: dict[str, Any] = {"fault": "server_error", "cost_usd": 1}
NO_VERDICT: dict[str, Any] = {"reply": "I like it.", "cost_usd": 1}
FOUND = [{"message": "No end.", "severity": "error"}]
CONTRADICTION = {"data": {"verdict": "pass", "findings": FOUND}, "cost_usd": 1}


def played(desk: Desk, *calls: object, machine: str = MACHINE) -> Played:
    desk.clock = QuickClock()
    agent = "critic" if machine == JUDGED else "writer"
    return desk.play(machine, scenario(agents={agent: [list(calls)]}))


def turns(run: Played) -> list[int]:
    """Who was asked, call by call: 0 is the agent itself."""
    return [intent.fallback for intent in run.of(Intended)]


@pytest.mark.parametrize("fault", ["authentication", "bad_request", "context_too_long"])
def test_what_no_other_model_mends_ends_the_call(desk: Desk, fault: str) -> None:
    run = played(desk, {"fault": fault}, "A plan.")
    assert turns(run) == [0]
    assert run.of(Suspended)[0].reason == "fatal"


QUOTA, OUTAGE = {"fault": "quota"}, {"fault": "region_outage"}


@pytest.mark.parametrize(
    ("calls", "outcome", "whose"),
    [
        ([{"fault": "refusal"}], "failed", [0]),
        ([DOWN] * 7, "done", [0, 0, 0, 1, 1, 1, 2, 2]),
        ([QUOTA, QUOTA, OUTAGE], "done", [0, 1, 2, 2]),
    ],
    ids=["no answer is one", "tries of its own", "an outage of the last is waited for"],
)
def test_everybody_is_asked_in_turn(
    desk: Desk, calls: list[object], outcome: str, whose: list[int]
) -> None:
    run = played(desk, *calls, "A plan.")
    assert (run.outcome, turns(run)) == (outcome, whose)


def test_where_nobody_answers_each_says_why(desk: Desk) -> None:
    run = played(desk, *[DOWN] * 3, {"fault": "quota"}, *[DOWN] * 2)
    [suspended] = run.of(Suspended)
    assert suspended.reason == "transient"
    assert suspended.message == (
        "500: the provider failed (3 tries); fallback `openai/two`: 429: insufficient_quota; "
        "fallback `groq/three`: 500: the provider failed (2 tries)"
    )


def test_a_call_in_doubt_is_one_of_the_tries_of_whom_was_asked(desk: Desk) -> None:
    text = MACHINE.replace("attempts: 3", "attempts: 1")
    desk.clock, desk.in_memory = QuickClock(), False
    script = scenario(agents={"writer": [[{"fault": "crash"}, DOWN, "A plan."]]})
    resumed = desk.resume(desk.abort(text, script).state.run)
    assert (resumed.outcome, turns(resumed)) == ("done", [0, 1, 2])


def test_a_resume_asks_the_agent_itself_again_unless_a_fallback_had_answered(durable: Desk) -> None:
    durable.clock = QuickClock()
    failing = [{"fault": "quota"}, NO_VERDICT, {"fault": "authentication"}]
    first = scenario(agents={"critic": [[*failing, PASS]]})
    stopped = durable.play(JUDGED, first)
    assert (turns(stopped), stopped.state.status) == ([0, 1, 1], "suspended")
    assert turns(durable.resume(stopped.state.run)) == [0, 1, 1, 0]


def test_the_console_and_the_status_say_that_a_fallback_is_asked(desk: Desk) -> None:
    run = played(desk, {"fault": "quota"}, "A plan.")
    shown = told(run)
    assert "  draft          asks `writer` (openai/one)" in shown
    assert "  draft          asks `writer`, fallback 1 (openai/two)" in shown
    at = [index for index, event in enumerate(run.events) if isinstance(event, Intended)][1]
    now = progress_of(run.stored[: at + 1])
    shown = status(now, run.stored[at].at + 5)
    assert "asks writer, fallback 1 5 s" in shown
    assert shown.endswith("openai/two")


def test_what_each_of_them_said_is_not_told_again_when_the_run_stops(desk: Desk) -> None:
    run = played(desk, *[{"fault": "quota"}] * 2, {"fault": "missing_model"})
    assert told(run)[-1] == "  draft          suspended (fatal)"
    run = played(desk, *[DOWN] * 3, {"fault": "quota"}, {"fault": "missing_model"})
    assert told(run)[-1] == "  draft          suspended (fatal): 500: the provider failed (3 tries)"


def test_a_provider_that_is_left_alone_is_passed_over_and_that_is_told(desk: Desk) -> None:
    text = MACHINE.replace("attempts: 3", "attempts: 5").replace("openai/two", "groq/two")
    again = text.splitlines()[-3].replace("draft:", "again:")
    text = text.replace("next: done}", "next: again}").replace("  done:", f"{again}\n  done:")
    desk.clock = QuickClock()
    script = scenario(agents={"writer": [[*[DOWN] * 5, "A plan."], "Another."]})
    run = desk.play(text, script)
    assert (run.outcome, turns(run)) == ("done", [0] * 5 + [1, 1])
    assert "  again          not waiting for openai: `openai` failed 5 times in a row" in told(run)


class CutClock(QuickClock):
    """Time that ends with the first pause, as for a process that is killed in it."""

    async def sleep(self, seconds: float) -> None:
        for task in asyncio.all_tasks() if seconds > 0 else ():
            task.cancel()
        await asyncio.sleep(0)


def test_a_try_is_not_lost_because_the_time_of_day_went_back(desk: Desk) -> None:
    desk.clock, desk.in_memory = CutClock(), False
    cut = desk.play(MACHINE, scenario(agents={"writer": [[DOWN, "A plan."]]}))
    assert (cut.state.status, turns(cut)) == ("running", [0])
    clock = desk.clock = QuickClock(cut.stored[-1].at - 3600)
    run = desk.resume(cut.state.run)
    assert (run.outcome, turns(run)) == ("done", [0, 0])
    assert clock.slept == [2]


ALONE = MACHINE.replace("attempts: 3", "attempts: 5").replace(
    "[openai/two, {model: groq/three, retry: {attempts: 2, backoff: 1ms}}]", "[groq/two]"
)
ALONE = ALONE.replace(
    "on_error: {content: failed}, next: done}",
    """on_error: {transient: again, content: failed}, next: again}
  again: {agent: writer, prompt: Write., output: plan, on_error: {content: failed}, next: done}""",
)


@pytest.mark.parametrize(
    ("calls", "told", "after_s"),
    [
        # Of the first, the quota; of the second, that it is left alone.
        (
            [*[{"fault": "quota", "retry_after": "9s"}], *[DOWN] * 5],
            "429: insufficient_quota; fallback `groq/two`: `groq` failed 5 times in a row",
            9,
        ),
        # Both are left alone.
        (
            [DOWN] * 10,
            "`openai` failed 5 times in a row; fallback `groq/two`: `groq` failed 5 times in a row",
            30,
        ),
    ],
)
def test_where_the_last_is_left_alone_each_says_why_and_the_earliest_time_is_named(
    desk: Desk, calls: list[object], told: str, after_s: int
) -> None:
    desk.clock = QuickClock()
    run = desk.play(ALONE, scenario(agents={"writer": [calls, calls[:1]]}))
    [suspended] = run.of(Suspended)
    assert (suspended.reason, suspended.message) == ("transient", told)
    assert suspended.resume_at == pytest.approx(run.stored[-1].at + after_s, abs=5)


def test_one_that_was_left_alone_says_why_where_its_fallback_fails(desk: Desk) -> None:
    desk.clock = QuickClock()
    run = desk.play(
        ALONE, scenario(agents={"writer": [[*[DOWN] * 5, "A plan."], [{"fault": "quota"}]]})
    )
    [suspended] = run.of(Suspended)
    assert suspended.message == (
        "`openai` failed 5 times in a row; fallback `groq/two`: 429: insufficient_quota"
    )


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (MACHINE, [DOWN] * 8),
        # The first tries its two, the fallback three for each of the four questions.
        (JUDGED, [DOWN] * 4 + [CONTRADICTION] + [*[DOWN] * 2, NO_VERDICT] * 3),
    ],
)
def test_the_bounds_have_the_tries_of_all_and_a_run_takes_them(
    desk: Desk, text: str, calls: Sequence[object]
) -> None:
    run = played(desk, *calls, machine=text)
    machine = load(desk.folder / "machine.yaml").machine
    prices = {0: 1.0, 1: 1.0, 2: 1.0}
    bounds = explore(Analysis.of_machine(machine), price=lambda _, __, number: prices[number])
    assert run.state.usage.agent_calls == len(calls) == bounds.calls.worst.total
    assert run.state.usage.cost_usd == bounds.cost.worst.total
    assert bounds.calls.best.total == 1


def test_the_dearest_way_through_the_fallbacks_is_what_a_call_costs_at_most(desk: Desk) -> None:
    machine = load(desk.write("machine.yaml", JUDGED)).machine
    analysis = Analysis.of_machine(machine)
    for usd, most in (([1, 1], 2 + 3 + 3 * 3), ([5, 1], 10 + 3 + 3 * 10), ([1, None], None)):
        bounds = explore(analysis, price=lambda _, __, number, of=usd: of[number])
        assert bounds.cost.worst.total == most


def test_a_plan_names_the_fallbacks_each_with_its_price(desk: Desk) -> None:
    text = MACHINE.replace("openai/one", "openai/gpt-5-mini").replace("openai/two", "openai/gpt-5")
    text = text.replace("model: groq/three", "model: groq/three, price: 0")
    asked, second, third = plan_of(load(desk.write("machine.yaml", text)).machine, {}).asked
    assert (asked.who, asked.prompt) == (("openai/gpt-5-mini",), "Write.")
    assert (second.who, second.fallback, second.prompt) == (("openai/gpt-5",), 1, None)
    assert (third.who, third.call_usd) == (("groq/three",), 0)
    assert 0 < (asked.call_usd or 0) < (second.call_usd or 0)
    told = plan_text(plan_of(load(desk.folder / "machine.yaml").machine, {}), {}, has_paths=True)
    # Three tries of the first, three of the second, two of the third.
    assert "\nThe path with the most calls (8):\n  1. draft\n" in told
    shown = [line.split() for line in told.splitlines() if "fallback " in line and "/" in line]
    assert [row[:3] for row in shown] == [
        ["fallback", "1", "openai/gpt-5"],
        ["fallback", "2", "groq/three"],
    ]


def test_a_recorded_run_with_fallbacks_plays_the_same(desk: Desk) -> None:
    run = played(desk, DOWN, {"fault": "missing_model"}, {"fault": "region_outage"}, "A plan.")
    assert turns(run) == [0, 0, 1, 2]
    assert_same(taped(desk, run), run)


def test_the_wait_that_each_named_is_recorded(desk: Desk) -> None:
    waiting = [{"fault": "quota", "retry_after": f"{hours}h"} for hours in (3, 1, 2)]
    run = played(desk, *waiting)
    [suspended] = run.of(Suspended)
    assert suspended.resume_at == pytest.approx(run.stored[-1].at + 3600, abs=5)
    recorded = json.dumps(str(taped(desk, run).path.read_text(encoding="utf-8")))
    assert [recorded.count(f"{hours * 3600}s") for hours in (3, 1, 2)] == [1, 1, 1]
    assert [failed.resume_at is None for failed in run.of(Failed)] == [False] * 3


def test_a_model_for_one_run_goes_without_fallbacks(desk: Desk) -> None:
    machine = load(desk.write("machine.yaml", MACHINE)).machine
    other = AgentChanges({"writer": "ollama/llama3"}).apply_to(machine).agents["writer"]
    assert [one.called for one in other.in_turn] == [("ollama/llama3",)]


@pytest.mark.parametrize(
    ("limits", "fallback", "said"),
    [
        ("cost_usd: 1", "groq/ours", "fallback 1 of agent `writer` asks `groq/ours`, whose price"),
        ("tokens: 9", "morph/ours", "fallback 1 of agent `writer` may answer at any length"),
        ("revisions: 1", "hosted_vllm/ours", "fallback 1 of agent `writer` asks a server of your"),
    ],
)
def test_what_a_fallback_lacks_is_told_before_anything_is_spent(
    desk: Desk, limits: str, fallback: str, said: str
) -> None:
    text = MACHINE.replace("[openai/two, {model: groq/three, retry: {attempts: 2, backoff: 1ms}}]",
                           f"[{fallback}]")  # fmt: skip
    text = text.replace("openai/one", "openai/gpt-5").replace(
        "agents:", f"limits: {{{limits}}}\nagents:", 1
    )
    with pytest.raises(NotRunnable, match=said) as refused:
        desk.play(text)
    # It would be the price of the agent's own model.
    assert "--price" not in str(refused.value)


def test_the_keys_of_fallbacks_are_secrets_too(desk: Desk) -> None:
    text = MACHINE.replace("openai/two", "{model: openai/two, api_key_env: OUR_SPARE}")
    assert load(desk.write("machine.yaml", text)).machine.key_names == ["OUR_SPARE"]


def test_a_field_called_verdict_is_not_why_an_answer_is_replaced(desk: Desk) -> None:
    text = MACHINE.replace("model: openai/one", "model: openai/one\n    schema: {verdict: str}")
    text = text.replace("next: done}", "transitions: [{target: stock}]}", 1)
    text += "  stock: {render: None., output: plan, fallback: true, next: done}\n"
    run = played(desk, {"data": {"verdict": "fail"}}, machine=text)
    assert run.state.artifacts["plan"].fallback_reason == "draft[0]"
