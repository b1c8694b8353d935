"""Limits: revisions by edge, budget and run; what calls may spend, reserved before each."""

from __future__ import annotations

import time
from typing import Any

import pytest

from loopkit.engine.events import Decided, Intended
from tests.machines import loop
from tests.support import PASS, Desk, Played, QuickClock, fails, scenario

LOOP = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted"},
    "EDGE",
    "{target: exhausted}",
    top="""
limits: LIMITS
agents: {author: {command: [none]}}
""",
)
SHORT = scenario(agents={"author": ["x" * number for number in range(1, 9)]})


@pytest.mark.parametrize(
    ("limits", "edge", "attempts"),
    [
        ("{}", "{revise: draft}", 3),
        ("{revisions: 1}", "{revise: draft}", 2),
        ("{}", "{revise: draft, max: 4}", 5),
        ("{revisions: 1}", "{revise: draft, max: 4}", 2),
        ("{revisions: 1}", "{revise: draft, max: 0}", 1),
        ("{budgets: {design: 3}}", "{revise: draft, budget: design}", 4),
        ("{budgets: {design: 3}}", "{revise: draft, budget: design, max: 1}", 2),
        ("{budgets: {design: 1}}", "{revise: draft, budget: design, max: 3}", 2),
        ("{total_revisions: 1}", "{revise: draft, max: 5}", 2),
    ],
)
def test_an_edge_grants_exactly_what_is_written(
    desk: Desk, limits: str, edge: str, attempts: int
) -> None:
    played = desk.play(LOOP.replace("LIMITS", limits).replace("EDGE", edge), SHORT)
    assert len(played.prompts("author")) == attempts
    assert played.outcome == "exhausted"


SHARED = """
loopkit: 1
limits: {budgets: {design: 2}, total_revisions: TOTAL}
agents: {author: {command: [none]}, first: {command: [none]}, second: {command: [none]}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: form}
  form:
    validate: plan
    by: [{judge: first}]
    transitions:
      - {guard: valid, target: meaning}
      - {revise: draft, budget: design, feedback: "form {{ revision }} of {{ max_revisions }}"}
      - {target: form_failed}
  meaning:
    validate: plan
    by: [{judge: second}]
    transitions:
      - {guard: valid, target: accepted}
      - {revise: draft, BUDGET, feedback: "meaning {{ revision }} of {{ max_revisions }}"RESETS}
      - {target: meaning_failed}
  accepted: {final: success}
  form_failed: {final: failure}
  meaning_failed: {final: failure}
"""


def shared(
    desk: Desk,
    first: list[Any],
    second: list[Any],
    *,
    budget: str,
    resets: str = "",
    total: int = 9,
) -> tuple[str | None, list[str]]:
    """(outcome, the feedback of each revision)."""
    machine = SHARED.replace("BUDGET", budget).replace("RESETS", resets)
    played = desk.play(
        machine.replace("TOTAL", str(total)),
        scenario(agents={"author": list("abcdefg"), "first": first, "second": second}),
    )
    return played.outcome, [f.text for event in played.of(Decided) for f in event.feedback]


def test_edges_that_share_a_budget_share_its_counter(desk: Desk) -> None:
    outcome, told = shared(
        desk, [fails("A"), PASS, PASS], [fails("B"), fails("C")], budget="budget: design"
    )
    assert told == ["form 1 of 2", "meaning 2 of 2"]
    assert outcome == "meaning_failed"


def test_edges_without_a_shared_budget_count_for_themselves(desk: Desk) -> None:
    outcome, told = shared(
        desk, [fails("A"), PASS, fails("D"), PASS], [fails("B"), fails("C")], budget="max: 1"
    )
    assert told == ["form 1 of 2", "meaning 1 of 1", "form 2 of 2"]
    assert outcome == "meaning_failed"


def test_a_reset_zeroes_the_other_edges_into_that_state_before_it_counts(desk: Desk) -> None:
    """Without it, the third failure of `form` would have no room."""
    first = [fails("A"), fails("B"), PASS, fails("C"), fails("D"), fails("E")]
    outcome, told = shared(desk, first, [fails("F")], budget="max: 1", resets=", resets: [draft]")
    assert told == ["form 1 of 2", "form 2 of 2", "meaning 1 of 1", "form 1 of 2", "form 2 of 2"]
    assert outcome == "form_failed"


def test_a_reset_of_the_budget_that_the_edge_spends_counts_from_one(desk: Desk) -> None:
    first = [fails("A"), fails("B"), PASS, PASS]
    _, told = shared(
        desk, first, [fails("F"), PASS], budget="budget: design", resets=", resets: [draft]"
    )
    assert told == ["form 1 of 2", "form 2 of 2"]


def test_the_total_closes_edges_that_were_reset(desk: Desk) -> None:
    first = [fails("A"), fails("B"), PASS, fails("C"), fails("D")]
    outcome, told = shared(
        desk, first, [fails("F")], budget="max: 1", resets=", resets: [draft]", total=4
    )
    assert told == ["form 1 of 2", "form 2 of 2", "meaning 1 of 1", "form 1 of 1"]
    assert outcome == "form_failed"


THEN = loop(
    "[{min_chars: 20}]",
    {"valid": "accepted", "cap_reached": "exhausted"},
    "{revise: draft}",
    top="""
limits: {revisions: 5, LIMIT, then: enough}
agents: {author: {command: [none]}}
""",
    ends="enough: {final: failure, result: plan}",
)
CALL = {"usage": {"input": 100, "output": 50}, "cost_usd": 0.4}
CALLS = [{"reply": "x" * number, **CALL} for number in range(1, 9)]
SPENDING = scenario(agents={"author": CALLS})


@pytest.mark.parametrize(
    ("limit", "calls"),
    [
        ("agent_calls: 2", 2),
        ("tokens: 450", 3),
        ("tokens: 449", 2),
        ("cost_usd: 1.2", 3),
        ("cost_usd: 1.19", 2),
        ("agent_calls: 0", 0),
    ],
)
def test_a_limit_goes_to_then_before_the_call_that_does_not_fit(
    desk: Desk, limit: str, calls: int
) -> None:
    """X.13: looked at before each call, and every call counts."""
    played = desk.play(THEN.replace("LIMIT", limit), SPENDING)
    assert played.outcome == "enough"
    assert len(played.requests) == len(played.of(Intended)) == calls
    assert played.state.usage.tokens == 150 * calls
    assert played.state.usage.cost_usd == pytest.approx(0.4 * calls)
    assert played.result == ({"plan": "x" * calls} if calls else {})


def test_time_is_work_and_ends_the_call_in_flight(desk: Desk) -> None:
    script = scenario(agents={"author": ["short", {"reply": "late", "delay": "300s"}]})
    played = desk.play(THEN.replace("LIMIT", "time: 1s"), script)
    assert played.outcome == "enough"
    assert played.result == {"plan": "short"}
    assert 1 <= played.state.usage.time_s < 100


def test_no_call_is_made_when_the_time_is_used_up(desk: Desk) -> None:
    """Checks are work, too."""
    slow = "[{min_chars: 20}, {command: [sleep, '0.2']}]"
    machine = THEN.replace("LIMIT", "time: 150ms").replace("[{min_chars: 20}]", slow)
    played = desk.play(machine, scenario(agents={"author": ["short", "never"]}))
    assert played.outcome == "enough"
    assert len(played.of(Intended)) == len(played.requests) == 1


def suspending(limit: str, rules: str) -> str:
    """The machine, judged by these rules, with nothing that leads on from a limit."""
    machine = THEN.replace("LIMIT", limit).replace(", then: enough", "")
    machine = machine.replace("  enough: {final: failure, result: plan}\n", "")
    return machine.replace("{min_chars: 20}", rules)


@pytest.mark.parametrize(
    "rule",
    [
        "{command: [sleep, '600']}",
        "{command: [sleep, '600'], timeout: 50ms, retry: {attempts: 9, backoff: 60s}}",
        "{python: 'slow:check'}",
    ],
)
def test_time_ends_what_validators_run_and_is_the_limit_then(rule: str, durable: Desk) -> None:
    durable.write("slow.py", "import time\ndef check(*_):\n    time.sleep(600)\n")
    started_s = time.monotonic()
    played = durable.play(
        suspending("time: 1s", rule), scenario(agents={"author": ["short", "never"]})
    )
    assert time.monotonic() - started_s < 100
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert " of 1 s used" in played.state.suspended.message
    assert "--set limits.time=" in played.state.suspended.remedy
    assert played.reports == []
    assert 1 <= played.state.usage.time_s < 100
    # What it took is spent, so that a resume finds the limit where it was.
    again = durable.resume(played.state.run)
    assert again.state.suspended is not None
    assert again.state.suspended.reason == "limit"
    assert again.state.usage.time_s < played.state.usage.time_s + 0.9


def test_a_verdict_that_comes_after_the_time_is_none(durable: Desk) -> None:
    rules = "{matches: '(?:a|aa|aaa)+$|b$'}, {min_chars: 900}, {command: [sleep, '0.3']}"
    played = durable.play(suspending("time: 300ms", rules), scenario(agents={"author": ["a" * 60]}))
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert durable.resume(played.state.run, {"time": 60}).reports[-1].verdict == "fail"


def test_behind_a_limit_rules_judge_although_the_time_is_over(desk: Desk) -> None:
    machine = suspending("time: 200ms, then: last", "{command: [sleep, '600']}") + (
        "  last: {render: Over., output: note, next: look}\n"
        "  look: {validate: note, by: [{command: ['true']}], "
        "transitions: [{guard: valid, target: kept}, {target: exhausted}]}\n"
        "  kept: {final: success, result: note}\n"
    )
    assert desk.play(machine, scenario(agents={"author": ["short"]})).outcome == "kept"


def test_time_ends_a_baseline(durable: Desk) -> None:
    rule = "{command: [sleep, '600'], baseline: true}"
    played = durable.play(suspending("time: 300ms", rule), SPENDING)
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert "no baseline for validator" in played.state.suspended.message
    assert played.of(Intended) == []


ASKED_FIRST = """
loopkit: 1
limits: {time: 60s}
agents: {author: {command: [none]}}
states:
  ask: {human: Start?, choices: [start], next: draft}
  draft: {agent: author, prompt: Write., on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""


def test_time_that_passes_while_a_person_thinks_is_not_counted(durable: Desk) -> None:
    durable.clock = clock = QuickClock()
    waiting = durable.play(ASKED_FIRST, scenario(agents={"author": ["plan"]}))
    assert waiting.state.status == "waiting"
    clock.time += 120
    assert durable.answer(waiting.state.run, "start").outcome == "done"


def test_a_second_limit_suspends(durable: Desk) -> None:
    """`then` is taken once a run."""
    machine = THEN.replace("LIMIT", "agent_calls: 1, time: 150ms").replace(
        "  enough: {final: failure, result: plan}",
        "  enough: {run: [sleep, '0.3'], output: note, next: over}\n"
        "  over: {run: [echo], next: ended}\n"
        "  ended: {final: failure}",
    )
    played = durable.play(machine, SPENDING)
    assert played.state.suspended is not None
    assert played.state.suspended.reason == "limit"
    assert played.route[-1] == "enough"
    assert [event.edge for event in played.of(Decided)][-1] == "draft.limit"


def test_a_way_back_to_an_origin_of_that_name_is_no_limit(desk: Desk) -> None:
    machine = (
        THEN.replace("LIMIT", "agent_calls: 2")
        .replace("limits:", "origins: [limit]\nlimits:")
        .replace("  draft:", "  limit:")
        .replace("{revise: draft}", "{revise: {origin: limit}}")
    )
    assert desk.play(machine, SPENDING).outcome == "enough"


def test_without_then_a_limit_suspends_and_a_higher_one_goes_on(durable: Desk) -> None:
    machine = THEN.replace(", then: enough", "").replace(
        "  enough: {final: failure, result: plan}\n", ""
    )
    stopped = durable.play(machine.replace("LIMIT", "cost_usd: 0.9"), SPENDING)
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "limit"
    assert stopped.state.suspended.message == (
        "the limit `cost_usd` leaves no room: $0.8000 of $0.9000 used, "
        "and the next call can take up to $0.4000"
    )
    same = durable.resume(stopped.state.run)
    assert (same.state.status, same.requests) == ("suspended", [])
    played = durable.resume(stopped.state.run, limits={"cost_usd": 1.3})
    assert played.state.status == "suspended"
    assert len(played.requests) == 1
    assert played.state.usage.cost_usd == pytest.approx(1.2)


PANEL = loop(
    "[{judge: first}, {judge: second}, {judge: third}]",
    {"valid": "accepted"},
    "{target: refused}",
    top="""
limits: {LIMIT THEN}
agents:
  author: {model: some/model}
  first: {model: some/model}
  second: {model: some/model}
  third: {model: some/model}
""",
    ends="ENDING",
)


def panel(desk: Desk, limit: str, *, then: bool) -> Played:
    machine = PANEL.replace("LIMIT", limit).replace("THEN", ", then: enough" if then else "")
    machine = machine.replace("ENDING", "enough: {final: failure}" if then else "")
    slow = {**PASS, "delay": "50ms", "cost_usd": 0.4}
    agents = {name: [slow] for name in ("first", "second", "third")}
    agents["author"] = [{"reply": "plan", "cost_usd": 0.1}]
    return desk.play(machine, scenario(agents=agents))


@pytest.mark.parametrize(
    ("limit", "calls"),
    [("agent_calls: 3", 3), ("cost_usd: 1.0", 3), ("cost_usd: 0.95", 3), ("cost_usd: 0.85", 2)],
)
def test_judges_that_are_asked_at_the_same_time_do_not_spend_the_same_money(
    desk: Desk, limit: str, calls: int
) -> None:
    """Each reserves its maximum before it is asked, so that together they stay inside."""
    played = panel(desk, limit, then=True)
    assert played.outcome == "enough"
    assert len(played.requests) == calls
    committed = played.state.committed
    assert committed.agent_calls == calls
    assert committed.cost_usd == pytest.approx(0.1 + 0.4 * (calls - 1))


def test_all_of_them_are_asked_where_the_limit_has_room(desk: Desk) -> None:
    assert panel(desk, "agent_calls: 4, cost_usd: 1.3", then=True).outcome == "accepted"


def test_a_judge_that_was_asked_before_the_limit_is_not_paid_twice(durable: Desk) -> None:
    """The limit stops the calls that do not fit; those in flight come back and are kept."""
    stopped = panel(durable, "agent_calls: 3", then=False)
    assert stopped.state.suspended is not None
    played = durable.resume(stopped.state.run, limits={"agent_calls": 4})
    assert played.outcome == "accepted"
    assert [request.agent for request in played.requests] == ["third"]
    assert played.state.usage.agent_calls == 4
