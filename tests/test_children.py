"""Runs of other machines: when they begin, what they may spend, what becomes of their parent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import ChildEnded, ChildStarted, Intended, Suspended
from loopkit.engine.state import RunState
from loopkit.language.load import load
from tests.support import Desk, Played, scenario
from tests.test_families import TASK as ASKING

TASK = """
loopkit: 1
input: {text: str}
agents:
  writer: {model: openai/gpt-5, price: 1, retry: {attempts: 1}}
states:
  draft: {agent: writer, prompt: "Do {{ input.text }}.", next: check}
  check:
    validate: draft
    by: [{matches: good, message: "It is not good."}]
    transitions:
      - {guard: valid, target: done}
      - {revise: draft, max: 1}
      - {target: failed}
  done: {final: success, result: draft}
  failed: {final: failure, result: draft}
"""
TASKS = """
loopkit: 1
input:
  tasks: [{id: str, group: {type: str, default: one}, needs: {type: [str], default: []}}]
MORE
states:
  tasks:
    each: input.tasks
    as: task
    key: task.id
    max_items: 10
    machine: task.yaml
    input: {text: "{{ task.id }}"}
    KEYS
    transitions:
      - {guard: failed == 0, target: done}
      - {target: failed}
  done: {final: success, result: tasks}
  failed: {final: failure, result: tasks}
  stopped: {final: failure}
"""


def tasks(more: str = "", **keys: object) -> str:
    """A machine with an `each` state that has these keys as well."""
    written = "\n    ".join(f"{key}: {json.dumps(value)}" for key, value in keys.items())
    stop = "" if "then" in more else "  stopped: {final: failure}\n"
    return TASKS.replace("MORE", more).replace("KEYS", written or "emit: begun").replace(stop, "")


def said(**by_key: Any) -> str:
    """A script in which the writer of each child says this."""
    parts = {key: {"agents": {"writer": replies}} for key, replies in by_key.items()}
    anybody: dict[str, Any] = {"agents": {"writer": ["good"]}}
    return scenario(children={"tasks": {"*": anybody, **parts}})


def listed(*ids: str, **needs: list[str]) -> dict[str, Any]:
    return {"tasks": [{"id": name, "needs": needs.get(name, [])} for name in ids]}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, in_memory=False)
    desk.write("task.yaml", TASK)
    return desk


def became(run: Played) -> dict[str, str]:
    """The outcome of each item."""
    data: Mapping[str, Any] = run.state.artifacts["tasks"].data
    return {key: result["outcome"] for key, result in data.items()}


def prompts(desk: Desk, child: str) -> list[str]:
    """What the writer of a child was sent."""

    async def read() -> list[str]:
        async with App.open(desk.state_folder) as app:
            events = [stored.event for stored in await app.events(child)]
        return [event.prompt for event in events if isinstance(event, Intended)]

    return asyncio.run(read())


def order(run: Played) -> list[str]:
    """Which children began and ended, in order: `+a`, `-a`."""
    found = (event for event in run.events if isinstance(event, ChildStarted | ChildEnded))
    return [f"{'+' if isinstance(event, ChildStarted) else '-'}{event.key}" for event in found]


def test_each_item_is_a_run_of_its_own_whose_result_is_known_by_its_key(desk: Desk) -> None:
    run = desk.play(tasks(), said(b=["bad", "good"]), listed("a", "b"))
    assert (run.outcome, became(run)) == ("done", {"a": "done", "b": "done"})
    # What children spend is spent by their parent.
    assert (run.state.usage.agent_calls, run.of(Intended)) == (3, [])
    of_b = run.result["tasks"]["b"]
    assert (of_b["success"], of_b["result"], of_b["rounds"], of_b["calls"]) == (
        True, {"draft": "good"}, 2, 2
    )  # fmt: skip
    assert run.state.facts["tasks"] == {
        "succeeded": 2, "failed": 0, "total": 2, "deadlocked": False
    }  # fmt: skip


def test_of_the_time_of_a_family_no_second_counts_twice(desk: Desk) -> None:
    slow = [{"reply": "good", "delay": "300ms"}]
    run = desk.play(tasks(parallel=2), said(a=slow, b=slow), listed("a", "b"))
    each = [result["duration"] for result in run.result["tasks"].values()]
    assert max(each) <= run.state.usage.time_s < sum(each)


def test_the_results_are_in_the_order_of_the_list_whoever_ends_first(desk: Desk) -> None:
    slow = [{"reply": "good", "delay": "1s"}]
    run = desk.play(tasks(parallel=3), said(a=slow), listed("a", "b", "c"))
    assert order(run)[:3] == ["+a", "+b", "+c"]
    assert order(run).index("-b") < order(run).index("-a")
    assert list(became(run)) == ["a", "b", "c"]


def most_at_once(run: Played) -> int:
    """How many children ran at the same time at the most."""
    return max(accumulate(1 if step[0] == "+" else -1 for step in order(run)))


@pytest.mark.parametrize("parallel", [1, 2])
def test_no_more_than_so_many_run_at_the_same_time(desk: Desk, parallel: int) -> None:
    run = desk.play(tasks(parallel=parallel), said(), listed("a", "b", "c", "d"))
    assert most_at_once(run) == parallel


def test_an_item_begins_when_all_that_it_waits_for_have_succeeded(desk: Desk) -> None:
    machine = tasks(parallel=4, after="task.needs")
    run = desk.play(machine, said(), listed("c", "b", "a", b=["a"], c=["a", "b"]))
    assert order(run) == ["+a", "-a", "+b", "-b", "+c", "-c"]


def test_an_item_is_blocked_where_what_it_waits_for_fails_and_says_by_whom(desk: Desk) -> None:
    machine = tasks(parallel=4, after="task.needs")
    run = desk.play(machine, said(a=["bad", "bad"]), listed("a", "b", "c", "d", b=["a"], c=["b"]))
    assert became(run) == {"a": "failed", "b": "blocked", "c": "blocked", "d": "done"}
    assert run.state.facts["tasks"] == {
        "succeeded": 1, "failed": 3, "total": 4, "deadlocked": True
    }  # fmt: skip
    told = [finding["message"] for finding in run.result["tasks"]["c"]["findings"]]
    assert told == ["it waits for `b`, which is blocked"]
    assert sorted(order(run)) == ["+a", "+d", "-a", "-d"]


def test_an_item_may_wait_for_other_outcomes_than_success(desk: Desk) -> None:
    machine = tasks(after={"of": "task.needs", "when": ["failed"]})
    run = desk.play(machine, said(a=["bad", "bad"]), listed("a", "b", "c", b=["a"], c=["b"]))
    assert became(run) == {"a": "failed", "b": "done", "c": "blocked"}


def test_only_items_of_one_group_overlap(desk: Desk) -> None:
    machine = tasks(parallel=4, group="task.group")
    items = [("a", "one"), ("b", "two"), ("c", "one"), ("d", "two")]
    inputs = {"tasks": [{"id": name, "group": group} for name, group in items]}
    run = desk.play(machine, said(), inputs)
    assert [step for step in order(run) if step[0] == "+"] == ["+a", "+c", "+b", "+d"]
    assert set(order(run)[:4]) == {"+a", "+c", "-a", "-c"}


def test_items_that_need_the_same_alone_never_overlap_and_others_go_before(desk: Desk) -> None:
    machine = tasks(parallel=4, group="task.group", exclusive=["task.locks"])
    machine = machine.replace("[{id: str,", "[{id: str, locks: any,")
    locks = {"a": ["db"], "b": ["web", "db"], "c": "web", "d": None}
    inputs = {"tasks": [{"id": name, "locks": needed} for name, needed in locks.items()]}
    steps = order(desk.play(machine, said(), inputs))
    assert [step for step in steps if step[0] == "+"] == ["+a", "+c", "+d", "+b"]
    assert max(steps.index("-a"), steps.index("-c")) < steps.index("+b")
    assert max(steps.index("+c"), steps.index("+d")) < steps.index("-a")


def test_an_outcome_can_stop_all_others(desk: Desk) -> None:
    run = desk.play(tasks(stop_on=["failed"]), said(b=["bad", "bad"]), listed("a", "b", "c", "d"))
    assert became(run) == {"a": "done", "b": "failed", "c": "cancelled", "d": "cancelled"}


def test_siblings_in_hand_end_their_step_and_are_cancelled_then(desk: Desk) -> None:
    slow = [{"reply": "bad"}, {"reply": "good", "delay": "5s"}]
    script = said(a=["bad", "bad"], b=slow)
    run = desk.play(tasks(stop_on=["failed"], parallel=2), script, listed("a", "b"))
    assert became(run) == {"a": "failed", "b": "cancelled"}


@pytest.mark.parametrize(
    ("more", "outcome"),
    [("limits: {agent_calls: 3}", None), ("limits: {agent_calls: 3, then: stopped}", "stopped")],
)
def test_a_limit_counts_a_run_and_all_its_children(desk: Desk, more: str, outcome: str) -> None:
    script = said(a=["bad", "good"], b=["bad", "good"])
    run = desk.play(tasks(more), script, listed("a", "b", "c"))
    assert run.outcome == outcome
    # Calls of children that have not ended are not the parent's yet.
    assert outcome is None or run.state.usage.agent_calls == 3


def test_with_a_higher_limit_children_go_on_and_nothing_is_paid_twice(desk: Desk) -> None:
    script = said(a=["bad", "good"], b=["bad", "good"])
    run = desk.play(tasks("limits: {agent_calls: 3}"), script, listed("a", "b", "c"))
    stopped = run.state.suspended
    assert (stopped.reason, stopped.message) == (
        "limit", "the limit `agent_calls` leaves no room: 3 of 3 used"
    )  # fmt: skip
    again = desk.resume(run.state.run, {"agent_calls": 9})
    assert (again.outcome, again.state.usage.agent_calls) == ("done", 5)
    assert [step for step in order(again) if step[0] == "+"] == ["+a", "+b", "+c"]


@pytest.mark.parametrize("limit", ["time: 200ms", "agent_calls: 1"])
def test_the_time_in_which_children_worked_is_kept_when_a_limit_stops_them(
    desk: Desk, limit: str
) -> None:
    slow = [{"reply": "bad", "delay": "150ms"}, {"reply": "good", "delay": "150ms"}]
    run = desk.play(tasks(f"limits: {{{limit}}}"), said(a=slow, b=slow), listed("a", "b"))
    (stopped,) = run.of(Suspended)
    assert stopped.reason == "limit"
    assert run.state.usage.time_s >= 0.14
    if limit == "time: 200ms":
        again = desk.resume(run.state.run)
        assert again.state.suspended.reason == "limit"
        assert again.state.usage.time_s < run.state.usage.time_s + 0.1


def test_and_when_somebody_stops_them(desk: Desk) -> None:
    slow = [{"reply": "bad", "delay": "200ms"}, "good"]
    loaded = load(desk.write("machine.yaml", tasks()))
    inputs = {"tasks": [{"id": "a", "group": "one", "needs": []}]}

    async def stopped_in_a_call() -> RunState:
        def stop(stored: Stored) -> None:
            if isinstance(stored.event, Intended):
                active.stop()

        async with App.open(desk.state_folder, listeners_of=lambda _: (stop,)) as app:
            active = await app.start(loaded, inputs, desk.script(said(a=slow)))
            return await app.drive(active)

    state = asyncio.run(stopped_in_a_call())
    assert state.suspended.reason == "interrupted"
    assert state.usage.time_s >= 0.19
    assert desk.resume(state.run).outcome == "done"


def test_what_raises_the_limits_of_children_is_told_with_the_line_for_each(desk: Desk) -> None:
    desk.write("task.yaml", TASK.replace("agents:", "limits: {agent_calls: 1}\nagents:"))
    script = said(a=["bad", "good"], b=["bad", "good"])
    run = desk.play(tasks(), script, listed("a", "c", "b"))
    stopped = run.state.suspended
    assert stopped.reason == "limit"
    a, _, b = (event.child for event in run.of(ChildStarted))
    assert stopped.remedy.splitlines() == [
        f"raise it: loopkit resume {child} --set limits.agent_calls=2" for child in (a, b)
    ]
    assert desk.resume(a, {"agent_calls": 2}).outcome is None
    assert desk.resume(b, {"agent_calls": 2}).outcome == "done"


def test_what_open_children_have_spent_counts_after_a_resume(desk: Desk) -> None:
    a = [["bad"], [{"fault": "rate_limit"}, {"reply": "good"}]]
    run = desk.play(tasks("limits: {agent_calls: 3}"), said(a=a), listed("a", "b"))
    assert run.state.suspended.reason == "transient"
    again = desk.resume(run.state.run)
    assert again.state.suspended.message == "the limit `agent_calls` leaves no room: 3 of 3 used"
    assert desk.resume(run.state.run, {"agent_calls": 4}).outcome == "done"


def test_a_parent_waits_for_a_child_that_failed_for_now_and_goes_on_with_it(desk: Desk) -> None:
    script = said(a=[[{"fault": "rate_limit"}, {"reply": "good"}]])
    run = desk.play(tasks(), script, listed("a", "b"))
    assert [event.reason for event in run.of(Suspended)] == ["transient"]
    assert order(run) == ["+a", "+b", "-b"]
    again = desk.resume(run.state.run)
    assert (again.outcome, became(again)) == ("done", {"a": "done", "b": "done"})


def test_a_child_that_waits_for_a_person_frees_its_place_and_keeps_its_parent(desk: Desk) -> None:
    desk.write("task.yaml", ASKING)
    run = desk.play(tasks(), inputs=listed("a", "b"))
    assert order(run) == ["+a", "+b"]
    assert [event.reason for event in run.of(Suspended)] == ["waiting"]
    again = run
    for begun in run.of(ChildStarted):
        again = desk.answer(begun.child, "approve" if begun.key == "a" else "reject")
    assert (again.outcome, became(again)) == ("failed", {"a": "done", "b": "failed"})


WHOLE = """
loopkit: 1
LIMITS
states:
  plan: {render: good tea, next: work}
  work:
    machine: task.yaml
    input: {text: "{{ plan }}"}
    transitions:
      - {guard: outcome == "done", target: done}
      - {target: failed}
  done: {final: success, result: work}
  failed: {final: failure, result: work}
"""


@pytest.mark.parametrize(("said", "outcome"), [("good", "done"), ("bad", "failed")])
def test_a_machine_is_run_once_and_its_outcome_decides(desk: Desk, said: str, outcome: str) -> None:
    parts = {"work": {"agents": {"writer": [said, said]}}}
    run = desk.play(WHOLE.replace("LIMITS", ""), scenario(children=parts))
    assert (run.outcome, run.state.facts["work"]) == (outcome, {"outcome": outcome})
    assert run.result["work"]["result"] == {"draft": said}
    assert [event.child for event in run.of(ChildStarted)] == [f"{run.state.run}/work.1"]


def test_a_limit_counts_children_of_children(desk: Desk) -> None:
    desk.write("whole.yaml", WHOLE.replace("LIMITS", "input: {text: str}"))
    machine = tasks("limits: {agent_calls: 2, then: stopped}", machine="whole.yaml")
    script = scenario(children={"tasks": {"*": {"children": {
        "work": {"agents": {"writer": ["good"]}}}}}})  # fmt: skip
    run = desk.play(machine.replace("    machine: task.yaml\n", ""), script, listed("a", "b", "c"))
    assert (run.outcome, run.state.usage.agent_calls) == ("stopped", 2)


def test_what_open_children_of_children_have_spent_counts_once_after_a_resume(desk: Desk) -> None:
    desk.write("whole.yaml", WHOLE.replace("LIMITS", "input: {text: str}"))
    machine = tasks("limits: {agent_calls: 2}", machine="whole.yaml")
    said = {"agents": {"writer": [["bad"], [{"fault": "rate_limit"}, {"reply": "good"}]]}}
    script = scenario(children={"tasks": {"*": {"children": {"work": said}}}})
    run = desk.play(machine.replace("    machine: task.yaml\n", ""), script, listed("a"))
    assert [event.reason for event in run.of(Suspended)] == ["transient"]
    again = desk.resume(run.state.run)
    told = again.state.suspended.message if again.state.suspended else again.outcome
    # The call that got no reply was one, too.
    assert told == "the limit `agent_calls` leaves no room: 2 of 2 used"
    assert desk.resume(run.state.run, {"agent_calls": 3}).outcome == "done"


def test_what_children_of_a_cancelled_child_have_spent_is_spent_by_all_above(desk: Desk) -> None:
    desk.write("whole.yaml", WHOLE.replace("LIMITS", "input: {text: str}"))
    machine = tasks(machine="whole.yaml", parallel=2, stop_on=["failed"])
    slow = [{"reply": "bad", "delay": "1s"}, {"reply": "good", "delay": "5s"}]
    fast = [{"reply": "bad", "delay": "2s"}, {"reply": "bad"}]
    by_key = {"a": fast, "b": slow, "*": ["good"]}
    parts = {key: {"agents": {"writer": replies}} for key, replies in by_key.items()}
    inside = {key: {"children": {"work": part}} for key, part in parts.items()}
    script = scenario(children={"tasks": inside})
    run = desk.play(machine.replace("    machine: task.yaml\n", ""), script, listed("a", "b"))
    assert became(run) == {"a": "failed", "b": "cancelled"}
    calls = {key: one["calls"] for key, one in run.state.artifacts["tasks"].data.items()}
    assert calls == {"a": 2, "b": 2}
    assert run.state.usage.agent_calls == 4


JUDGED = """    next: check
  check:
    validate: tasks
    by: [{require: 'result.draft != "good"', each: "[]", message: "No."}]
    transitions:
      - {guard: valid, target: done}
      - {revise: tasks, max: 1}
      - {target: failed}
"""
GUARDED = "    transitions:\n      - {guard: failed == 0, target: done}\n      - {target: failed}\n"


def test_an_item_that_succeeded_stays_and_the_others_hear_what_was_found(desk: Desk) -> None:
    machine = tasks().replace(GUARDED, JUDGED)
    run = desk.play(machine, said(b=["very good"]), listed("a", "b"))
    assert (run.outcome, order(run)) == ("failed", ["+a", "-a", "+b", "-b", "+a", "-a"])
    (told,) = [event.feedback for event in run.of(ChildStarted) if event.feedback]
    assert (told.to, told.revision) == ("draft", 1)
    assert told.text == "Earlier answers to this task were wrong:\n- No. (at `a`)"
    again = [event.child for event in run.of(ChildStarted)][-1]
    assert prompts(desk, again)[0] == f"{told.text}\n\nDo a."


def test_an_item_that_did_not_begin_again_is_not_what_it_was_before(desk: Desk) -> None:
    """What is found in the first version of `b` is gone with it, though `b` was cancelled then."""
    rule = '{require: \'outcome != "failed"\', each: "[]", message: "No."}'
    judged = JUDGED.replace("by: [", f"by: [{rule}, ").replace("max: 1", "max: 2")
    visits = {"a": [["good"], ["bad", "bad"], ["very good"]], "b": [["good"], ["very good"]]}
    parts = {key: [{"agents": {"writer": w}} for w in said] for key, said in visits.items()}
    script = scenario(children={"tasks": {"*": {"agents": {"writer": []}}, **parts}})
    machine = tasks(stop_on=["failed"]).replace(GUARDED, judged)
    run = desk.play(machine, script, listed("a", "b"))
    assert order(run) == ["+a", "-a", "+b", "-b", "+a", "-a", "+a", "-a", "+b", "-b"]
    assert run.outcome == "done"


def test_an_item_that_left_the_list_for_one_visit_is_run_again(desk: Desk) -> None:
    """What it waits for may have become another one meanwhile."""
    machine = """
loopkit: 1
agents: {planner: {model: openai/gpt-5, schema: {tasks: [{id: str, needs: [str]}]}}}
states:
  plan: {agent: planner, prompt: Plan it., on_error: {content: failed}, next: tasks}
  tasks:
    each: plan.tasks
    as: task
    key: task.id
    after: task.needs
    max_items: 10
    machine: task.yaml
    input: {text: "{{ task.id }}"}
    on_error: {content: failed}
    next: ask
  ask:
    human: Fine?
    choices: [fine, again]
    transitions:
      - {guard: choice == "fine", target: done}
      - {revise: plan, feedback: Again.}
  done: {final: success, result: tasks}
  failed: {final: failure}
"""
    a, b = {"id": "a", "needs": []}, {"id": "b", "needs": ["a"]}
    plans = [{"data": {"tasks": listed}} for listed in ([a, b], [a], [a, b])]
    child = {"agents": {"writer": ["good"]}}
    script = scenario(
        agents={"planner": plans},
        answers={"ask": ["again", "again", "fine"]},
        children={"tasks": {"*": child}},
    )
    run = desk.play(machine, script)
    assert (run.outcome, order(run)) == ("done", ["+a", "-a", "+b", "-b", "+b", "-b"])


def test_an_item_with_another_input_is_run_again(desk: Desk) -> None:
    again = '{text: "{{ task.id }}{{ revision }}"}'
    machine = tasks().replace(GUARDED, JUDGED).replace('{text: "{{ task.id }}"}', again)
    run = desk.play(machine, said(b=["very good"]), listed("a", "b"))
    assert order(run) == ["+a", "-a", "+b", "-b"] * 2


def test_who_waits_for_an_item_that_is_run_again_is_run_again(desk: Desk) -> None:
    machine = tasks(after="task.needs").replace(GUARDED, JUDGED)
    script = said(b=["very good"], c=["very good"])
    run = desk.play(machine, script, listed("a", "b", "c", b=["a"]))
    assert order(run) == ["+a", "-a", "+b", "-b", "+c", "-c", "+a", "-a", "+b", "-b"]


def test_the_feedback_reaches_the_first_author_of_the_child(desk: Desk) -> None:
    machine = tasks().replace(
        GUARDED,
        """    next: ask
  ask:
    human: Fine?
    choices: [fine, again]
    transitions:
      - {guard: choice == "fine", target: done}
      - {revise: tasks, max: 1, feedback: "{{ comment }}"}
      - {target: failed}
""",
    )
    script = json.loads(said()) | {
        "answers": {"ask": [{"choice": "again", "comment": "Use more tea."}, "fine"]}
    }
    run = desk.play(machine, json.dumps(script), listed("a", "b"))
    assert (run.outcome, order(run)) == ("done", ["+a", "-a", "+b", "-b"] * 2)
    assert [e.feedback.text for e in run.of(ChildStarted) if e.feedback] == ["Use more tea."] * 2
    begun = [event.child for event in run.of(ChildStarted)]
    assert len(set(begun)) == 4
    assert prompts(desk, begun[0]) == ["Do a."]
    assert prompts(desk, begun[2]) == ["Do a.\n\nUse more tea."]


NOTING = """
loopkit: 1
input: {text: str}
states:
  first:
    run: [sh, -c, "echo +first >> log; sleep 0.2; echo -first >> log"]
    next: second
  second:
    run: [sh, -c, "echo +second >> log; sleep 0.2; echo -second >> log"]
    next: done
  done: {final: success}
"""


def _overlaps(folder: Path) -> set[str]:
    """What began while something else worked: `second in first`."""
    working: list[str] = []
    found: set[str] = set()
    for line in (folder / "log").read_text(encoding="utf-8").splitlines():
        name = line[1:]
        if line[0] == "+":
            found |= {f"{name} in {other}" for other in working}
            working.append(name)
        else:
            working.remove(name)
    return found


@pytest.mark.parametrize(
    "how", [{"serial": ["first", "second"]}, {"serial": ["second"], "alone": ["first"]}]
)
def test_of_serial_states_one_works_at_a_time_and_one_that_has_to_be_alone_beside_no_other(
    desk: Desk, how: dict[str, Any]
) -> None:
    desk.write("task.yaml", NOTING)
    machine = tasks(parallel=4, **how)
    assert desk.play(machine, inputs=listed(*"abc")).outcome == "done"
    assert _overlaps(desk.folder) == set()


def test_hundreds_of_items_end_in_order_with_fifty_at_a_time(desk: Desk) -> None:
    desk.in_memory = True
    machine = tasks(parallel=50).replace("max_items: 10", "max_items: 300")
    names = [f"t{number}" for number in range(300)]
    run = desk.play(machine, said(t7=["bad", "bad"]), listed(*names))
    assert list(became(run)) == names
    assert run.state.facts["tasks"] == {
        "succeeded": 299, "failed": 1, "total": 300, "deadlocked": False
    }  # fmt: skip
    assert most_at_once(run) == 50
    assert run.state.usage.agent_calls == 301


SLOW_RULE = """
loopkit: 1
states:
  work: {run: [echo, draft], next: judge}
  judge:
    validate: work
    by: [{command: [sh, -c, "sleep 2; touch judged"]}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
AROUND_IT = """
loopkit: 1
limits: {time: 300ms}
states:
  code: {machine: child.yaml, next: done}
  done: {final: success}
"""


@pytest.mark.parametrize(("machine", "limits"), [(AROUND_IT, {}), (SLOW_RULE, {"time": 0.3})])
def test_rules_are_stopped_when_the_time_of_a_parent_or_one_given_to_the_run_is_over(
    desk: Desk, machine: str, limits: dict[str, float]
) -> None:
    desk.write("child.yaml", SLOW_RULE)
    run = desk.play(machine, limits=limits)
    assert run.state.suspended.reason == "limit"
    assert not (desk.folder / "judged").exists()
