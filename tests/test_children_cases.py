"""Cases of machines whose states run other machines: what is said in children, and expected."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopkit.agents.players import refuse_misnamed, refuse_unplayable
from loopkit.agents.port import NotRunnable
from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import read, read_file
from loopkit.document.writing import to_yaml
from loopkit.language.load import load, load_text
from loopkit.scenario.cases import Scenario
from loopkit.testing import CaseResult, Run, Tally, load_suite, play, run_case
from loopkit.text.run_ids import root_of
from tests import test_families as families
from tests.recording import family_difference
from tests.support import CommandLine

TASK = """
loopkit: 1
input: {text: str}
limits: {revisions: 1}
agents: {coder: {model: openai/gpt-5-mini}}
states:
  build: {agent: coder, prompt: "Build {{ input.text }}. {{ feedback }}", output: work, next: check}
  check:
    validate: work
    by: [{matches: done}]
    transitions:
      - {guard: valid, target: built}
      - {revise: build}
      - {target: rejected}
  built: {final: success, result: work}
  rejected: {final: failure, result: work}
"""
PLAN = """
loopkit: 1
input: {tasks: {type: [any], default: [{id: "1.1"}, {id: "1.2"}, {id: "2.1"}]}}
agents: {lead: {model: openai/gpt-5-mini}}
limits: {revisions: 1}
states:
  tasks:
    each: input.tasks
    as: task
    key: task.id
    parallel: 3
    max_items: 10
    machine: task.yaml
    input: {text: "{{ task.id }}"}
    transitions:
      - {guard: failed == 0, target: sum}
      - {target: failed}
  sum:
    agent: lead
    prompt: "Sum up. {{ feedback }}"
    output: summary
    on_error: {content: failed}
    next: review
  review:
    machine: task.yaml
    input: {text: "{{ summary }}"}
    transitions:
      - {guard: outcome == "built", target: done}
      - {revise: sum, feedback: Say it better.}
      - {target: failed}
  done: {final: success, result: summary}
  failed: {final: failure}
"""
OUTER = """
loopkit: 1
states:
  inner: {machine: plan.yaml, next: done}
  done: {final: success}
"""
GOOD = {"agents": {"coder": ["done"]}}
BAD = {"agents": {"coder": ["no", "still no"]}}
LEAD = {"lead": ["All built."]}


def write(folder: Path, **case: Any) -> Path:
    (folder / "task.yaml").write_text(TASK)
    (folder / "plan.yaml").write_text(PLAN)
    text = to_yaml({"scenario": 1, "machine": "plan.yaml", "cases": {"one": case}})
    (folder / "plan.scenario.yaml").write_text(text)
    return folder / "plan.scenario.yaml"


def played(folder: Path, **case: Any) -> Run:
    return play(load_suite(write(folder, **case)), "one")


def result(folder: Path, **case: Any) -> CaseResult:
    return run_case(load_suite(write(folder, **case)), "one")


def children(tasks: Any, review: Any = GOOD) -> dict[str, Any]:
    return {"tasks": tasks, "review": review}


def test_each_item_says_what_stands_under_its_key_and_the_others_what_stands_under_the_star(
    tmp_path: Path,
) -> None:
    said = children({"1.2": BAD, "*": GOOD})
    run = played(tmp_path, children=said)
    assert run.state.finished
    assert run.state.finished.outcome == "failed"
    ends = {child[:2]: child.run.state.finished.outcome for child in run.children
            if child.run.state.finished}  # fmt: skip
    expected = {"1.1": "built", "1.2": "rejected", "2.1": "built"}
    assert ends == {("tasks", key): outcome for key, outcome in expected.items()}


def test_every_item_under_the_star_starts_its_replies_anew(tmp_path: Path) -> None:
    said = children({"*": {"agents": {"coder": ["no", "done"]}}})
    done = result(
        tmp_path,
        agents=LEAD,
        children=said,
        expect={"outcome": "done", "calls": {"coder": 7, "lead": 1}},
    )
    assert done.passed, done.text


def test_the_only_child_of_a_state_has_no_key(tmp_path: Path) -> None:
    said = children({"*": GOOD}, {"agents": {"coder": ["no", "done"]}})
    expect = {
        "outcome": "done",
        "children": {"review": {"path": ["build", "check", "build", "check", "built"]}},
    }  # fmt: skip
    done = result(tmp_path, agents=LEAD, children=said, expect=expect)
    assert done.passed, done.text


def test_a_list_is_for_the_visits_of_the_state_and_its_last_one_for_all_that_follow(
    tmp_path: Path,
) -> None:
    agents = {"lead": ["One.", "Two."]}
    said = children({"*": GOOD}, [BAD, GOOD])
    expect = {
        "outcome": "done",
        "calls": {"coder": 6, "lead": 2},
        "children": {
            "review": [{"outcome": "rejected"}, {"outcome": "built"}],
            "tasks": {"*": {"outcome": "built"}},
        },
    }  # fmt: skip
    done = result(tmp_path, agents=agents, children=said, expect=expect)
    assert done.passed, done.text


def test_what_is_not_said_in_a_child_is_told_with_the_key_of_its_item(tmp_path: Path) -> None:
    done = result(tmp_path, children={"tasks": {"1.1": GOOD}}, expect={"outcome": "failed"})
    assert "`tasks[1.2]`: the scenario has 0 attempts for agent `coder`" in done.text
    assert "`tasks[1.1]`: the scenario" not in done.text


def test_a_child_of_a_child_is_called_by_its_place_in_the_family(tmp_path: Path) -> None:
    def told(**case: Any) -> list[str]:
        path = write(tmp_path)
        (tmp_path / "outer.yaml").write_text(OUTER)
        path.write_text(to_yaml({"scenario": 1, "machine": "outer.yaml", "cases": {"one": case}}))
        return [failure.problem.message for failure in run_case(load_suite(path), "one").failures]

    def inside(one: Any) -> Any:
        return {"inner": {"children": {"tasks": {"1.2": one}}}}

    unsaid = told(children=inside(BAD), expect={"outcome": "done"})
    assert any(one.startswith("`inner/tasks[1.1]`: the scenario has 0 attempts") for one in unsaid)
    others = {"1.2": BAD, "*": GOOD}
    said: Any = {"inner": {"children": {"tasks": others}}}
    [missed] = told(children=said, expect={"children": inside({"outcome": "built"})})
    assert missed.startswith("`inner/tasks[1.2]`: ")
    said["inner"]["children"]["tasks"] = {"*": GOOD, "1.2": {"agents": {"coder": ["done", "more"]}}}
    said["inner"]["children"]["review"] = GOOD
    said["inner"]["agents"] = LEAD
    assert told(children=said, expect={"outcome": "done"}) == [
        "`inner/tasks[1.2]`: attempt 2 is never asked for"
    ]


def test_what_no_child_uses_is_told_at_its_line(tmp_path: Path) -> None:
    said = children({"1.1": {"agents": {"coder": ["done", "more"]}}, "*": GOOD}, GOOD)
    done = result(tmp_path, agents=LEAD, children=said, expect={"outcome": "done"})
    (failure,) = done.failures
    assert failure.problem.message == "`tasks[1.1]`: attempt 2 is never asked for"
    assert failure.problem.path.endswith("children.tasks.1.1.agents.coder.1")


def test_what_one_of_many_children_uses_is_no_leftover(tmp_path: Path) -> None:
    tasks = {"1.2": BAD, "*": GOOD}
    done = result(tmp_path, children={"tasks": tasks}, expect={"outcome": "failed"})
    assert done.passed, done.text


def test_a_child_that_never_begins_is_a_leftover(tmp_path: Path) -> None:
    said = children({"1.2": BAD, "*": GOOD})
    done = result(tmp_path, children=said, expect={"outcome": "failed"})
    assert [failure.problem.message for failure in done.failures] == ["`review` never begins"]


@pytest.mark.parametrize(
    ("said", "path", "message"),
    [
        ({"taks": {"*": GOOD}}, "children.taks", "no state with children `taks`"),
        ({"sum": GOOD}, "children.sum", "no state with children `sum`"),
        ({"tasks": GOOD}, "children.tasks", "runs a child for each item, and no item is named"),
        ({"review": {"*": GOOD}}, "children.review", "runs one child, which has no key"),
        (
            {"tasks": {"1.1": {"agents": {"lead": ["x"]}}}},
            "children.tasks.1.1.agents.lead",
            "the machine has no agent `lead`",
        ),
        (
            {"tasks": {"*": {"agnets": {"coder": ["x"]}}}},
            "children.tasks.*.agnets",
            "unknown field `agnets`",
        ),
    ],
)
def test_a_name_that_the_child_does_not_have_is_a_problem_at_its_place(
    tmp_path: Path, said: Any, path: str, message: str
) -> None:
    with pytest.raises(ProblemsFound) as found:
        load_suite(write(tmp_path, children=said, expect={"outcome": "done"}))
    (problem,) = found.value.problems
    assert message in problem.message
    assert problem.path == f"cases.one.{path}"
    assert problem.help
    assert problem.span
    assert problem.span.line > 4


def test_a_missed_expectation_of_a_child_is_told_with_its_key_and_its_place(tmp_path: Path) -> None:
    expect = {"outcome": "failed", "children": {"tasks": {"1.2": {"outcome": "built"}}}}
    done = result(tmp_path, children={"tasks": {"1.2": BAD, "*": GOOD}}, expect=expect)
    (failure,) = done.failures
    assert failure.problem.path == "cases.one.expect.children.tasks.1.2.outcome"
    told = "`tasks[1.2]`: expected outcome `built`, and the run ended in `rejected`"
    assert failure.problem.message == told


def refuse(folder: Path, said: dict[str, Any], **limits: Any) -> None:
    machine = load(write(folder).parent / "plan.yaml").machine
    scenario = Scenario.model_validate({"scenario": 1, **said})
    refuse_misnamed(machine, scenario)
    refuse_unplayable(machine, scenario, {}, limits)


def test_a_script_that_plays_anybody_plays_the_models_of_all_children(tmp_path: Path) -> None:
    whole = {"agents": LEAD, "children": children({"*": GOOD})}
    refuse(tmp_path, whole)
    for part, who in (
        ({"agents": LEAD, "children": children({"1.1": GOOD})}, r"in `tasks\[\*\]`: .*`coder`"),
        ({"agents": LEAD, "children": {"tasks": {"*": GOOD}}}, "in `review`: .*`coder`"),
        ({"agents": LEAD, "children": children({"*": GOOD, "1.2": {}})}, r"in `tasks\[1.2\]`: "),
        ({"agents": LEAD, "children": children({"*": GOOD}, [GOOD, {}])}, "in `review`: "),
        ({"children": children({"*": GOOD})}, "plays some agents, but not `lead`"),
    ):
        with pytest.raises(NotRunnable, match=who):
            refuse(tmp_path, part)


def test_the_remedy_for_a_model_of_a_child_is_taken_as_it_is_printed(tmp_path: Path) -> None:
    said: dict[str, Any] = {"agents": LEAD}
    for state in ("tasks", "review"):
        with pytest.raises(NotRunnable, match=f"in `{state}") as refused:
            refuse(tmp_path, said)
        added = read(str(refused.value).rpartition(": add `")[2].removesuffix("`"), "s").plain()
        said["children"] = {**said.get("children", {}), **added["children"]}
    refuse(tmp_path, said)
    assert said["children"]["tasks"] == {"*": {"agents": {"coder": ["TEXT"]}}}
    judged = TASK.replace("by: [{matches: done}]", "by: [{judge: critic, rubric: [It is done.]}]")
    machine = load_text(
        judged.replace("agents: {", "agents: {critic: {model: openai/o3}, "), "t", tmp_path
    )
    scenario = Scenario.model_validate({"scenario": 1, "agents": {"coder": ["done"]}})
    with pytest.raises(NotRunnable, match=r"critic: \[{data: {verdict: pass, findings: \[\]}}\]"):
        refuse_unplayable(machine.machine, scenario, {}, {})


def test_a_script_names_children_as_their_states_have_them(tmp_path: Path) -> None:
    for said, told in (
        ({"children": {"taks": {}}}, "did you mean `tasks`"),
        ({"children": {"tasks": GOOD}}, "no item is named"),
        ({"children": {"review": {"*": GOOD}}}, "which has no key"),
        ({"children": {"review": {"agents": {"codr": []}}}}, r"children\.review.*`coder`"),
    ):
        with pytest.raises(NotRunnable, match=told):
            refuse(tmp_path, said)


def test_a_limit_on_money_needs_the_prices_of_the_children_for_whom_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    strange = TASK.replace("openai/gpt-5-mini", "openai/nobody-knows-this")
    review = """
loopkit: 1
states:
  review:
    machine: task.yaml
    input: {text: tea}
    transitions: [{guard: outcome == "built", target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
    for task, limits, is_refused in (
        (strange, {}, False),
        (strange, {"cost_usd": 1.0}, True),
        (strange.replace("{revisions: 1}", "{revisions: 1, cost_usd: 1}"), {}, True),
        (TASK, {"cost_usd": 1.0}, False),
    ):
        (tmp_path / "task.yaml").write_text(task)
        (tmp_path / "review.yaml").write_text(review)
        machine = load(tmp_path / "review.yaml").machine
        if is_refused:
            with pytest.raises(NotRunnable, match=r"in `review`: `limits\.cost_usd`"):
                refuse_unplayable(machine, None, {}, limits)
        else:
            refuse_unplayable(machine, None, {}, limits)


def test_a_function_may_play_an_agent_that_only_children_have(tmp_path: Path) -> None:
    machine = load(write(tmp_path).parent / "plan.yaml").machine
    refuse_unplayable(machine, None, {"coder": str, "lead": str}, {})
    with pytest.raises(NotRunnable, match="did you mean `coder`"):
        refuse_unplayable(machine, None, {"codr": str, "lead": str}, {})


def test_a_case_is_the_same_each_time_it_is_played(tmp_path: Path) -> None:
    said = children({"1.1": {"agents": {"coder": ["no", "done"]}}, "*": GOOD})

    def once() -> list[Any]:
        run = played(tmp_path, agents=LEAD, children=said)
        root = run.state.run
        runs = [run, *(child.run for child in run.children)]
        text = json.dumps([[event.plain() for event in one.plain_events] for one in runs])
        text = re.sub(r"loopkit-case-\w+", "FOLDER", text.replace(root, "ROOT"))
        return list(json.loads(text))

    assert once() == once()


def test_coverage_counts_the_machines_of_children_wherever_any_child_reaches_them(
    tmp_path: Path,
) -> None:
    tally = Tally()
    suite = load_suite(write(tmp_path, agents=LEAD, children=children({"*": GOOD})))
    tally.add(suite, "one", play(suite, "one"))
    plan, task = tally.coverage().machines
    assert Path(task.file).name == "task.yaml"
    assert {goal.name for goal in task.missed} == {"rejected", "check[1]", "check[2]"}
    suite = load_suite(write(tmp_path, children=children({"1.2": BAD, "*": GOOD})))
    tally.add(suite, "one", play(suite, "one"))
    plan, task = tally.coverage().machines
    assert not task.missed
    assert "failed" not in {goal.name for goal in plan.missed}
    covered = {one.goal.name: one.cases for one in task.measured}
    assert covered["built"] == (f"{suite.path}::one",)


@pytest.mark.usefixtures("own_folder")
def test_a_recorded_family_replays_to_the_same_events_of_root_and_children(
    tmp_path: Path, cli: CommandLine
) -> None:
    said = children({"1.1": {"agents": {"coder": ["no", "done"]}}, "*": GOOD}, [BAD, GOOD])
    script = write(tmp_path, agents={"lead": ["One.", "Two."]}, children=said)
    options = ("--script", str(script), "--record", "made.scenario.yaml", "--as", "made")
    told = cli(0, "run", "plan.yaml", *options).err
    assert "; it passes" in told
    cli(0, "test", "made.scenario.yaml")
    (case,) = (read_file(tmp_path / "made.scenario.yaml", "made").plain()["cases"]).values()
    assert case["children"]["tasks"] == {
        "1.1": {"agents": {"coder": ["no", "done"]}}, "1.2": GOOD, "2.1": GOOD
    }  # fmt: skip
    assert case["children"]["review"] == [BAD, GOOD]
    assert [one["outcome"] for one in case["expect"]["children"]["review"]] == ["rejected", "built"]


@pytest.mark.usefixtures("own_folder")
def test_a_family_whose_questions_were_answered_one_by_one_is_recorded_as_a_case_that_passes(
    cli: CommandLine,
) -> None:
    Path("task.yaml").write_text(families.TASK, encoding="utf-8")
    Path("plan.yaml").write_text(families.PARENT, encoding="utf-8")
    asked = re.findall(r"loopkit answer (\S+/\S+) approve", cli(5, "run", "plan.yaml").err)
    assert [cli.ends("answer", child, "approve")[0] for child in asked] == [5, 5, 0]
    cli(0, "runs", "record", root_of(asked[0]), "made.scenario.yaml", "--as", "made")
    of_child = cli(0, "runs", "record", asked[0], "child.scenario.yaml").err
    assert f"case `{asked[0].replace('/', '-')}`" in of_child
    cli(0, "test", "made.scenario.yaml", "child.scenario.yaml")


def test_a_recording_whose_child_does_something_else_differs_in_that_child(tmp_path: Path) -> None:
    before = played(tmp_path, agents=LEAD, children=children({"*": GOOD}))
    again = played(tmp_path, agents=LEAD, children=children({"*": GOOD}))
    assert not family_difference(before, again)
    *others, last = before.children
    short = replace(last.run, events=last.run.events[:-1])
    told = family_difference(before, replace(before, children=(*others, last._replace(run=short))))
    assert told.startswith("`review`: event ")
