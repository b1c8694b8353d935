"""S1 and S0: plans of tasks, each built, judged and built again, and the loops around them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from loopkit.drive.stored_runs import Stored
from loopkit.engine.events import ChildEnded, ChildStarted, Event, Intended, Replied
from loopkit.language.load import Loaded, load
from loopkit.machine.inputs import complete_input
from tests.support import PASS, ROOT, Desk, Played, fails, scenario
from tests.test_children import TASK as PLAYED_TASK

E = TypeVar("E", bound=Event)
SILENT = ["It looks fine.", "Yes, fine.", "I have said it."]
PASSES, FAILS = "**Verdict: PASS**", "- [FAIL] No test.\n\n**Verdict: FAIL**"
FAIL_EACH = [f"- [FAIL] No test {n}.\n\n**Verdict: FAIL**" for n in range(4)]
SAID: dict[str, Any] = {
    "coder": ["Done."],
    "frontend_coder": ["Done."],
    "validator": [PASSES],
    "issue_verifier": [PASSES],
}


@cache
def machine() -> Loaded:
    return load(ROOT / "machines/task_validation.yaml")


@dataclass
class Plan:
    """How a run of a plan went, with the runs of its tasks."""

    root: Played
    children: Mapping[str, list[Stored]]

    @property
    def outcomes(self) -> dict[str, str]:
        data: Mapping[str, Any] = self.root.state.artifacts["tasks"].data
        return {key: result["outcome"] for key, result in data.items()}

    def of(self, key: str, kind: type[E]) -> list[E]:
        return [s.event for s in self.children.get(key, ()) if isinstance(s.event, kind)]

    def prompts(self, key: str, agent: str) -> list[str]:
        return [event.prompt for event in self.of(key, Intended) if event.agent == agent]

    @property
    def order(self) -> list[str]:
        """Which tasks began and ended, in order: `+a`, `-a`."""
        kept = (e for e in self.root.events if isinstance(e, ChildStarted | ChildEnded))
        return [f"{'+' if isinstance(e, ChildStarted) else '-'}{e.key}" for e in kept]

    def calls(self, agent: str) -> int:
        return sum(len(self.prompts(key, agent)) for key in self.children)


def seen(desk: Desk, run: Played) -> Plan:
    """A run with all that is stored of the runs of its tasks."""

    async def read() -> Plan:
        async with desk._app() as app:
            begun = {event.key: event.child for event in run.of(ChildStarted)}
            return Plan(run, {key: await app.events(child) for key, child in begun.items()})

    return asyncio.run(read())


def task(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "name": f"Task {name}", "description": "Do it.", "agent": "coder", **more}


def plan(*tasks: dict[str, Any], more: Mapping[str, Any] = {}, **validation: Any) -> dict[str, Any]:
    """A plan in which what coders make is judged."""
    meta = {"name": "plan", "validation": {"enabled": True, **validation}, **more}
    return {"meta": meta, "sections": [{"id": "1", "tasks": list(tasks)}]}


def carry_out(desk: Desk, inputs: dict[str, Any], **by_key: Any) -> Plan:
    """Run the machine for plans; what is said of a task comes before what is said of all."""
    parts = {key: {"agents": {**SAID, **said}} for key, said in by_key.items()}
    script = scenario(children={"tasks": {**parts, "*": {"agents": SAID}}})
    loaded, file = machine(), desk.write("plan.json", json.dumps(inputs))
    given = complete_input(loaded.machine, {"plan": str(file)})

    async def drive() -> Played:
        async with desk._app() as app:
            active = await app.start(loaded, given, desk.script(script))
            return await desk._drive(app, active, 0)

    return seen(desk, asyncio.run(drive()))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, in_memory=False)


# -- what is judged ------------------------------------------------------------------------------


def test_validation_is_opt_in_for_a_plan_and_for_a_task(desk: Desk) -> None:
    """S1.1: nothing is judged by default; a task can say otherwise than its plan."""
    on, off = {"validation": {"enabled": True}}, {"validation": {"enabled": False}}
    silent = {
        "meta": {"name": "plan"},
        "sections": [{"id": "1", "tasks": [task("a"), task("b", **on)]}],
    }
    run = carry_out(desk, silent)
    assert (run.outcomes, run.calls("validator")) == ({"a": "not_applicable", "b": "verified"}, 1)
    run = carry_out(desk, plan(task("a"), task("b", **off)))
    assert (run.outcomes, run.calls("validator")) == ({"a": "verified", "b": "not_applicable"}, 1)


def test_only_tasks_of_the_named_agents_are_judged(desk: Desk) -> None:
    """S1.2: others pass through, and are not called verified."""
    tasks = (task("a"), task("b", agent="frontend-coder"))
    run = carry_out(desk, plan(*tasks))
    assert run.outcomes == {"a": "verified", "b": "not_applicable"}
    run = carry_out(desk, plan(*tasks, run_after=["frontend-coder"]))
    assert run.outcomes == {"a": "not_applicable", "b": "verified"}


def test_the_plan_names_its_validators_and_retries_once_by_default(desk: Desk) -> None:
    """S1.3: one validator and one retry, unless the plan says more."""
    run = carry_out(desk, plan(task("a")), a={"coder": ["1", "2"], "validator": [FAILS, FAILS]})
    assert run.outcomes == {"a": "exhausted"}
    assert [run.calls(agent) for agent in ("coder", "validator", "issue_verifier")] == [2, 2, 0]
    both = plan(task("a"), validators=["validator", "issue-verifier"], max_validation_attempts=2)
    said = {"coder": ["1", "2", "3"], "validator": [PASSES] * 3}
    run = carry_out(desk, both, a={**said, "issue_verifier": [*FAIL_EACH[:2], PASSES]})
    assert run.outcomes == {"a": "verified"}
    assert [run.calls(agent) for agent in ("coder", "validator", "issue_verifier")] == [3, 3, 3]


def test_a_plan_keeps_what_the_machine_does_not_know(desk: Desk) -> None:
    """S1.9: the plan file is the input, field for field."""
    known = task("a", target_acs=["AC1"], model_used="opus", completed_at="2026-11-20T13:07:27")
    given = plan(known, more={"plan_doc": "docs/plan.md"}) | {"extra": [1]}
    given["sections"][0] |= {"name": "Build", "status": "pending"}
    run = carry_out(desk, given)
    kept = run.root.state.input["plan"]["data"]
    assert kept["meta"]["plan_doc"] == "docs/plan.md"
    assert (kept["extra"], kept["sections"][0]["name"]) == ([1], "Build")
    assert kept["sections"][0]["tasks"][0]["model_used"] == "opus"


# -- order ---------------------------------------------------------------------------------------


def spans(run: Plan, agent: str) -> list[tuple[float, float]]:
    """When the calls to an agent began and ended, over all tasks."""
    found: list[tuple[float, float]] = []
    for stored in run.children.values():
        events = [(s.at, s.event) for s in stored]
        calls = {e.key: at for at, e in events if isinstance(e, Intended) and e.agent == agent}
        found += [
            (calls[e.key], at) for at, e in events if isinstance(e, Replied) and e.key in calls
        ]
    return sorted(found)


def overlaps(run: Plan, agent: str) -> int:
    found = spans(run, agent)
    return sum(later[0] < earlier[1] for earlier, later in pairwise(found))


def test_authors_of_a_group_work_at_once_and_their_validators_one_by_one(desk: Desk) -> None:
    """S1.41: the calls of authors overlap, those of validators never do."""
    tasks = (task(name, parallel_group="g") for name in "abc")
    slow = {"coder": [{"reply": "Done.", "delay": "1s"}]}
    said = {**slow, "validator": [{"reply": PASSES, "delay": "100ms"}]}
    run = carry_out(desk, plan(*tasks), a=said, b=said, c=said)
    assert len(spans(run, "validator")) == 3
    assert (overlaps(run, "coder") > 0, overlaps(run, "validator")) == (True, 0)


def test_a_group_is_judged_before_anything_else_begins(desk: Desk) -> None:
    """S1.42: what waits for one of the group does not overtake the judging of the other."""
    group = (task("a", parallel_group="g"), task("b", parallel_group="g"))
    slow = {"validator": [{"reply": PASSES, "delay": "200ms"}]}
    run = carry_out(desk, plan(*group, task("c", depends_on=["a"]), task("d")), b=slow)
    assert run.order[:2] == ["+a", "+b"]
    assert set(run.order[2:4]) == {"-a", "-b"}
    assert run.order[4:] == ["+c", "-c", "+d", "-d"]


STATUSES = {
    "verified": ("done_before", True),
    "skipped": ("skipped", False),
    "failed": ("failed", False),
    "exhausted": ("exhausted", False),
}


@pytest.mark.parametrize("status", STATUSES)
def test_only_what_is_verified_lets_others_begin(desk: Desk, status: str) -> None:
    """S1.43, S1.62: what a plan says is over is not done again, and does not count as verified."""
    outcome, lets_begin = STATUSES[status]
    run = carry_out(desk, plan(task("a", status=status), task("b", dependencies=["a"])))
    assert run.outcomes == {"a": outcome, "b": "verified" if lets_begin else "blocked"}
    assert (run.prompts("a", "coder"), run.prompts("a", "validator")) == ([], [])


def test_nothing_left_to_do_is_told_apart_from_nothing_that_can_be_done(desk: Desk) -> None:
    """S1.44: done, deadlocked with who blocks, or suspended; a deadlock is no success."""
    assert carry_out(desk, plan(task("a"))).root.outcome == "done"
    fail = {"coder": ["1", "2"], "validator": [FAILS, FAILS]}
    run = carry_out(desk, plan(task("a"), task("b", depends_on=["a"])), a=fail)
    assert (run.root.outcome, run.outcomes["b"]) == ("deadlocked", "blocked")
    assert run.root.state.finished is not None
    assert not run.root.state.finished.success
    [told] = run.root.result["tasks"]["b"]["findings"]
    assert told["message"] == "it waits for `a`, which is exhausted"
    busy = {"coder": [[{"fault": "authentication"}]]}
    assert carry_out(desk, plan(task("a")), a=busy).root.state.status == "suspended"


# -- retries and restarts ------------------------------------------------------------------------


def test_findings_and_counters_survive_a_restart(desk: Desk) -> None:
    """S1.48: the retry is made with the findings, and it is the only one."""
    said = {"coder": ["1", [{"fault": "authentication"}, "2"]], "validator": [FAILS, FAILS]}
    run = carry_out(desk, plan(task("a")), a=said)
    assert (run.root.state.status, run.calls("validator")) == ("suspended", 1)
    again = seen(desk, desk.resume(run.root.state.run))
    assert again.outcomes == {"a": "exhausted"}
    assert "- [FAIL] No test." in again.prompts("a", "coder")[-1]
    assert len(again.of("a", Replied)) == 4


def test_another_run_begins_where_the_plan_says_that_the_last_one_ended(desk: Desk) -> None:
    """S1.48, S1.62: a question about one task keeps no other from being merged and written."""
    fails = {"coder": ["1", "2"], "validator": FAIL_EACH[:2]}
    run = carry_out(desk, plan(*map(task, "abc")), a={"validator": [SILENT]}, b=fails)
    assert run.root.state.status == "suspended"
    kept = json.loads((desk.folder / "plan.json").read_text())
    a, b, c = kept["sections"][0]["tasks"]
    assert [each["status"] for each in (a, b, c)] == ["in_progress", "exhausted", "verified"]
    assert (b["attempts"], b["validation_findings"]) == (2, "- [FAIL] No test 1.\n")
    again = carry_out(desk, kept)
    assert again.outcomes == {"a": "verified", "b": "exhausted", "c": "done_before"}
    assert again.calls("coder") == 1


def test_a_plan_from_the_middle_counts_what_it_has_spent(desk: Desk) -> None:
    """S1.48, S1.33: findings, the true attempt, and the retries that are left."""
    before = {"status": "in_progress", "attempts": 2, "validation_attempts": 1}
    found = "[PASS] It compiles.\n[FAIL] `\\r` is not quoted.\n"
    given = plan(task("a", **before, validation_findings=found), max_validation_attempts=2)
    run = carry_out(desk, given, a={"coder": ["3"], "validator": [FAILS]})
    [prompt] = run.prompts("a", "coder")
    assert "Attempt 2 at this task" in prompt
    assert "- [FAIL] `\\r` is not quoted.\n" in prompt
    assert "It compiles" not in prompt
    assert "(attempt 3)" in prompt
    assert run.outcomes == {"a": "exhausted"}


def test_attempts_and_validation_retries_are_two_bounds(desk: Desk) -> None:
    """S1.50: whichever is used up first ends the task."""
    said = {"coder": ["1", "2", "3", "4"], "validator": FAIL_EACH}
    for attempts, retries, builds in ((2, 3, 2), (5, 2, 3)):
        given = plan(
            task("a"), more={"max_attempts_default": attempts}, max_validation_attempts=retries
        )
        run = carry_out(desk, given, a={n: words[:builds] for n, words in said.items()})
        assert (run.outcomes, run.calls("coder")) == ({"a": "exhausted"}, builds)


CRASHES: list[Any] = [{"fault": "server_error"}, {"fault": "server_error"}]


@pytest.mark.parametrize("said", [SILENT, CRASHES], ids=["says nothing", "crashes"])
def test_a_validator_without_a_verdict_asks_a_person_and_never_the_coder(
    desk: Desk, said: list[Any]
) -> None:
    """S1.59, S1.28: the task waits with its question, and goes on with the answer, later."""
    run = carry_out(desk, plan(task("a"), task("b", depends_on=["a"])), a={"validator": [said]})
    assert (run.root.state.status, run.calls("coder")) == ("suspended", 1)
    [begun] = run.root.of(ChildStarted)
    again = seen(desk, desk.answer(begun.child, "accept"))
    assert again.outcomes == {"a": "accepted", "b": "verified"}
    assert len(again.prompts("a", "coder")) == 1


# -- loops around the tasks ----------------------------------------------------------------------

WHOLE = """
loopkit: 1
agents:
  planner: {model: some/model, schema: {tasks: [{id: str}]}}
  verifier: {model: some/model}
states:
  plan:
    agent: planner
    prompt: "Plan it. {% if log is defined %}{{ log }}{% endif %} {{ feedback }}"
    on_error: {content: failed}
    next: tasks
  tasks:
    each: plan.tasks
    as: task
    key: task.id
    max_items: 5
    machine: task.yaml
    input: {text: "{{ task.id }}"}
    on_error: {content: failed}
    next: log
  log:
    render: |
      {% for key, task in tasks | items %}
      {{ key }}: {{ task.outcome }} after {{ task.rounds }}
      {% endfor %}
    next: verify
  verify:
    validate: log
    by: [{judge: verifier}]
    transitions:
      - {guard: valid, target: done}
      - {revise: plan, max: 2, feedback: "The whole fails: {{ findings[0].message }}"}
      - {target: failed}
  done: {final: success, result: log}
  failed: {final: failure}
"""
TASK = """
loopkit: 1
input: {text: str}
agents:
  writer:
    command: [WRITER]
    reply: stream_json
    session: keep
    resume: [--resume, "{{ session }}"]
states:
"""
TASK += PLAYED_TASK.partition("states:\n")[2]


def test_the_whole_is_verified_and_planned_again_with_the_log(desk: Desk) -> None:
    """S1.60, S0.10: the loop of each task begins at zero, the one around them goes on."""
    desk.write("task.yaml", TASK.replace("WRITER", "never"))
    said = {"*": {"agents": {"writer": ["bad", "good"]}}}
    planned = [{"data": {"tasks": [{"id": name}]}} for name in ("a", "b", "c")]
    agents = {"planner": planned, "verifier": [fails("One"), fails("Two"), PASS]}
    run = desk.play(WHOLE, scenario(agents=agents, children={"tasks": said}))
    assert run.outcome == "done"
    assert run.state.counters == {"verify[1]": 2}
    assert run.result == {"log": "c: done after 2\n"}
    assert "a: done after 2" in run.prompts("planner")[1]
    assert "The whole fails: One" in run.prompts("planner")[1]


PROGRAM = """
import json, pathlib, sys

prompt, calls = sys.stdin.read(), pathlib.Path("calls.jsonl")
number = len(calls.read_text().splitlines()) if calls.exists() else 0
with calls.open("a") as file:
    file.write(json.dumps({"args": sys.argv[1:], "prompt": prompt}) + "\\n")
said = "good" if number % 2 else "bad"
session = sys.argv[-1] if "--resume" in sys.argv else f"session-{number}"
print(json.dumps({"type": "result", "result": said, "session_id": session}))
"""


def test_a_session_is_kept_inside_a_task_and_ends_with_it(desk: Desk) -> None:
    """S0.39: the retry of a task continues its conversation; the next task begins a new one."""
    script = desk.write("writer.py", PROGRAM)
    desk.write("task.yaml", TASK.replace("[WRITER]", json.dumps([sys.executable, str(script)])))
    listed = WHOLE[WHOLE.index("  tasks:\n    each") :].replace("plan.tasks", "input.tasks")
    head = "loopkit: 1\ninput: {tasks: [{id: str}]}\nstates:\n"
    body = listed[: listed.index("    on_error")] + "    next: done\n  done: {final: success}\n"
    run = desk.play(head + body, inputs={"tasks": [{"id": "a"}, {"id": "b"}]})
    assert run.outcome == "done"
    calls = [json.loads(line) for line in (desk.folder / "calls.jsonl").read_text().splitlines()]
    assert [call["args"] for call in calls] == [
        [], ["--resume", "session-0"], [], ["--resume", "session-2"]
    ]  # fmt: skip
    assert ["Do a" in call["prompt"] or "Do b" in call["prompt"] for call in calls] == [
        True, False, True, False
    ]  # fmt: skip
