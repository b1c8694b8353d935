"""Items that work in trees of their own, and are merged in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from loopkit.engine.events import ChildEnded, ChildStarted
from loopkit.language.load import load
from loopkit.views.plan.planned import plan_of
from tests.support import CommandLine, Desk, Played, scenario

WRITER = """
loopkit: 1
input: {file: str, text: str, seconds: {type: num, default: 0}, fails: {type: bool, default: false}}
states:
  work:
    run:
      - sh
      - -c
      - sleep "$2"; echo "$1" > "$0"
      - "{{ input.file }}"
      - "{{ input.text }}"
      - "{{ input.seconds }}"
    transitions:
      - {guard: input.fails, target: failed}
      - {target: done}
  done: {final: success}
  failed: {final: failure}
"""
TASKS = """
loopkit: 1
input:
  tasks:
    - id: str
      file: str
      seconds: {type: num, default: 0}
      fails: {type: bool, default: false}
      needs: {type: [str], default: []}
states:
  tasks:
    each: input.tasks
    as: task
    key: task.id
    after: task.needs
    parallel: 3
    max_items: 10
    isolate: copy
    machine: task.yaml
    input:
      file: "{{ task.file }}"
      text: "{{ task.id }}"
      seconds: "{{ task.seconds }}"
      fails: "{{ task.fails }}"
    next: check
  check:
    validate: tasks
    by: [{command: [sh, -c, "test ! -e one || test ! -e two"]}]
    transitions:
      - {guard: valid and tasks.failed == 0, target: done}
      - {target: failed}
  done: {final: success, result: tasks}
  failed: {final: failure, result: tasks}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path, in_memory=False)
    desk.write("task.yaml", WRITER)
    desk.write("before", "kept\n")
    return desk


def became(run: Played) -> dict[str, str]:
    return {e.key: e.result["outcome"] for e in run.of(ChildEnded)}


def written(desk: Desk, name: str) -> str | None:
    path = desk.folder / name
    return path.read_text(encoding="utf-8") if path.exists() else None


def test_each_item_works_by_itself_and_what_succeeds_is_merged(desk: Desk) -> None:
    tasks = [{"id": "a", "file": "of_a"}, {"id": "b", "file": "of_b", "fails": True}]
    run = desk.play(TASKS, inputs={"tasks": tasks})
    assert became(run) == {"a": "done", "b": "failed"}
    assert (written(desk, "of_a"), written(desk, "of_b")) == ("a\n", None)


def test_merges_follow_the_list_whoever_is_done_first(desk: Desk) -> None:
    tasks = [{"id": "a", "file": "of_a", "seconds": 0.5}, {"id": "b", "file": "of_b"}]
    run = desk.play(TASKS, inputs={"tasks": tasks})
    assert list(became(run)) == ["a", "b"]
    assert (written(desk, "of_a"), written(desk, "of_b")) == ("a\n", "b\n")


def test_two_that_change_one_file_are_a_conflict_that_names_it(desk: Desk) -> None:
    tasks = [{"id": "a", "file": "same"}, {"id": "b", "file": "same"}]
    run = desk.play(TASKS, inputs={"tasks": tasks})
    assert became(run) == {"a": "done", "b": "conflict"}
    (found,) = run.result["tasks"]["b"]["findings"]
    assert found["location"] == "same"
    left = Path(found["message"].rpartition(" is left in ")[2])
    assert (left / "same").read_text() == "b\n"
    assert written(desk, "same") == "a\n"


SIGNED = """
loopkit: 1
input: {file: str, text: str, seconds: num, fails: bool}
agents: {writer: {command: [none]}}
states:
  write:
    render: "{{ input.text }}: {{ feedback }}"
    output: {name: text, file: "{{ input.file }}"}
    next: outside
  outside: {run: [sh, -c, "test $0 = none || date +%N > $0", "OUTSIDE"], next: sign}
  sign: {agent: writer, prompt: Sign., on_error: failed, next: done}
  done: {final: success}
  failed: {final: failure}
"""


@pytest.mark.parametrize(("is_outside", "outcomes"), [(False, "done"), (True, "conflict")])
def test_an_item_in_conflict_runs_once_more_on_what_was_merged(
    desk: Desk, *, is_outside: bool, outcomes: str
) -> None:
    """Also in another process; where somebody changes the file again, the conflict stays."""
    outside = "{{ '%s' if 'Others' in text else 'none' }}" % (desk.folder / "same")
    desk.write("task.yaml", SIGNED.replace("OUTSIDE", outside if is_outside else "none"))
    machine = TASKS.replace("isolate: copy", "isolate: copy\n    on_conflict: again")
    machine = machine.replace("states:", "limits: {agent_calls: 2}\nstates:", 1)
    script = scenario(children={"tasks": {"*": {"agents": {"writer": ["ok"]}}}})
    tasks = [{"id": "a", "file": "same"}, {"id": "b", "file": "same"}]
    planned = plan_of(load(desk.write("tasks.yaml", machine)).machine, {"tasks": tasks})
    assert planned.children["tasks"].most == planned.bounds.runs.worst.total == 4
    stopped = desk.play(machine, script, {"tasks": tasks})
    assert stopped.outcome is None
    run = desk.resume(stopped.state.run, {"agent_calls": 9})
    ends = [(e.key, e.result["outcome"]) for e in run.of(ChildEnded)]
    assert ends == [("a", "done"), ("b", "conflict"), ("b", outcomes)]
    assert run.result["tasks"]["b"]["outcome"] == outcomes
    [first, again] = [e for e in run.of(ChildStarted) if e.key == "b"]
    assert (first.again, again.again, again.child) == (False, True, f"{first.child}.2")
    if not is_outside:
        assert written(desk, "same") == (
            "b: Others changed the same files meanwhile, so your work could not be merged. "
            "Do it again on what they have left in: same"
        )


def test_a_conflict_is_told_with_the_file_and_the_tree(own_folder: Path, cli: CommandLine) -> None:
    Desk(own_folder).write("task.yaml", WRITER)
    Desk(own_folder).write("tasks.yaml", TASKS)
    tasks = '[{"id": "a", "file": "same"}, {"id": "b", "file": "same"}]'
    told = cli(1, "run", "tasks.yaml", "--set-json", f"tasks={tasks}").err
    run, _, child = told.partition("tasks[b] run ")[2].partition("\n")[0].partition("/")
    shown, of_child = (cli(0, "runs", "show", name).out for name in (run, f"{run}/{child}"))
    for text in (told, shown):
        assert re.search(rf"same: the file has changed .* left in \S*trees/{run}/{child}/1\n", text)
    assert "not merged, because they have changed in the workspace as well: same\n" in of_child


def test_a_dependent_begins_with_the_merged_tree(desk: Desk) -> None:
    tasks = [{"id": "b", "file": "of_b", "needs": ["a"]}, {"id": "a", "file": "before"}]
    run = desk.play(TASKS, inputs={"tasks": tasks})
    assert [e.key for e in run.of(ChildStarted)] == ["a", "b"]
    assert became(run) == {"a": "done", "b": "done"}


def test_what_passes_alone_and_breaks_together_is_found_in_the_merged_tree(desk: Desk) -> None:
    tasks = [{"id": "a", "file": "one"}, {"id": "b", "file": "two"}]
    assert desk.play(TASKS, inputs={"tasks": tasks[:1]}).outcome == "done"
    (desk.folder / "one").unlink()
    run = desk.play(TASKS, inputs={"tasks": tasks})
    assert became(run) == {"a": "done", "b": "done"}
    assert run.outcome == "failed"


LEVELS = """
loopkit: 1
input: {merges: bool}
workspace: {path: PLACE, create: true, isolate: copy}
states:
  make: {run: [sh, -c, echo parent > made], output: made, next: inner}
  inner:
    machine: inner.yaml
    transitions: [{guard: outcome == "done" and input.merges, target: done}, {target: failed}]
  done: {final: success, result: inner}
  failed: {final: failure, result: inner}
"""
READER = """
loopkit: 1
WORKSPACE
states:
  read:
    run: [sh, -c, "cat made && echo child > added"]
    transitions: [{guard: exit_code == 0, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


@pytest.mark.parametrize("place", [".", "part"])
def test_children_work_in_the_tree_in_which_the_run_above_them_works(
    place: str, desk: Desk
) -> None:
    own = "" if place == "." else "workspace: {path: part, create: true}"
    desk.write("inner.yaml", READER.replace("WORKSPACE", own))
    desk.write("part/before", "kept\n")
    machine = LEVELS.replace("PLACE", place)
    left = desk.play(machine, inputs={"merges": False})
    assert left.of(ChildEnded)[0].result["outcome"] == "done"
    assert written(desk, f"{place}/made") is written(desk, f"{place}/added") is None
    assert desk.play(machine, inputs={"merges": True}).outcome == "done"
    assert written(desk, f"{place}/made") == "parent\n"
    assert written(desk, f"{place}/added") == "child\n"


CODER = """
loopkit: 1
agents:
  coder: {command: [sh, -c, "pwd | tee place"]}
states:
  work: {agent: coder, prompt: "Work.", next: judge}
  judge:
    validate: work
    by: [{command: [sh, -c, 'test "$(pwd)" = "$(cat place)"']}]
    transitions: [{guard: valid, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def test_an_agent_and_its_judge_work_in_the_tree_of_their_run(desk: Desk) -> None:
    desk.write("task.yaml", CODER)
    before, _, behind = TASKS.partition("    input:\n      file")
    machine = before + behind[behind.index("    next: check") :]
    run = desk.play(machine, inputs={"tasks": [{"id": "a", "file": "none"}]})
    assert became(run) == {"a": "done"}
    assert (written(desk, "place") or "").strip() not in ("", str(desk.folder))


def test_an_agent_of_a_child_works_in_the_tree_of_its_parent(desk: Desk) -> None:
    desk.write("task.yaml", CODER)
    run = desk.play(
        """
        loopkit: 1
        workspace: {path: ., isolate: copy}
        states:
          code: {machine: task.yaml, next: done}
          done: {final: success}
        """
    )
    assert run.outcome == "done"
    assert (written(desk, "place") or "").strip() not in ("", str(desk.folder))
