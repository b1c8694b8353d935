"""Files as inputs, and values that are set in them: all else stays, also after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.document.reading import read
from loopkit.document.writing import NotSet, with_values
from loopkit.engine.events import Setting, Worked
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load
from loopkit.machine.inputs import complete_input
from tests.crash.points import begun, killed_at_points
from tests.support import CommandLine, Desk, console_lines
from tests.warm import Process

PLAN = """\
# Made by hand.
meta: {name: 'tea', date: 2026-02-11}   # when
sections:
- id: s1
  tasks:
  - id: '1.10'     # keep
    status: "in_progress"   # why

    findings:
    - a   # gone with its list
    - b
  # about the next
  - id: '2'
    status:
    text: |
      many
      lines
"""
FINDINGS = "- a   # gone with its list\n    - b"
FIRST, SECOND = ("sections", 0, "tasks", 0), ("sections", 0, "tasks", 1)
JSON = '{\n\t"a": {"b": "x", "l": [1,\n 2]},\n\t"e": {}\n}\n'
SHARED = "a: &x {n: 1}\nb: *x\nc:\n  <<: *x\n  m: 1\nd: &s one\ne: *s\n"


@pytest.mark.parametrize(
    ("text", "place", "values", "old", "new"),
    [
        (PLAN, FIRST, {"status": "done"}, '"in_progress"', '"done"'),
        (PLAN, FIRST, {"status": "a: 'b'\n"}, '"in_progress"', '"a: \'b\'\\n"'),
        (PLAN, FIRST, {"status": "a\u2028"}, '"in_progress"', '"a\\u2028"'),
        (PLAN, FIRST, {"findings": ["c: d", {"e": 1}]}, FINDINGS,
         '- "c: d"\n    - {e: 1}'),
        (PLAN, FIRST, {"findings": []}, f"\n    {FINDINGS}", " []"),
        (PLAN, FIRST, {"findings": {"e": 1}}, f"\n    {FINDINGS}", " {e: 1}"),
        (PLAN, FIRST, {"at": "2026-02-11", "by": ["me"]}, "    - b\n",
         '    - b\n    at: "2026-02-11"\n    by: [me]\n'),
        (PLAN, SECOND, {"status": "no"}, "status:\n", 'status: "no"\n'),
        (PLAN, SECOND, {"text": "one\ntwo\n"}, "many\n      lines", "one\n      two"),
        (PLAN, SECOND, {"text": "one"}, "|\n      many\n      lines", "one"),
        (PLAN, SECOND, {"by": None}, "      lines\n", "      lines\n    by: null\n"),
        (PLAN, ("meta",), {"name": "it's", "by": 1}, "'tea', date: 2026-02-11",
         "'it''s', date: 2026-02-11, by: 1"),
        (JSON, ("a",), {"b": "null", "n": True}, '"x", "l": [1,\n 2]',
         '"null", "l": [1,\n 2], "n": true'),
        (JSON, ("a",), {"l": [True, 2]}, "[1,\n 2]", "[true, 2]"),
        (JSON, (), {"z": ["é"]}, '"e": {}', '"e": {},\n\t"z": ["é"]'),
        (JSON, ("e",), {"z": {"y": "x"}}, "{}", '{"z": {"y": "x"}}'),
        (SHARED, ("c",), {"m": 2, "o": 3}, "m: 1", "m: 2\n  o: 3"),
        ("a: 1", (), {"b": 2}, "a: 1", "a: 1\nb: 2"),
        ("a: |\r\n  b\r\nc: 1\r\n", (), {"a": "d\ne\n"}, "b\r\n", "d\r\n  e\r\n"),
    ],
)  # fmt: skip
def test_nothing_but_the_values_changes(
    text: str, place: tuple[str | int, ...], values: dict[str, Any], old: str, new: str
) -> None:
    assert text.count(old) == 1
    assert with_values(read(text, "plan.yaml"), place, values) == text.replace(old, new)


@pytest.mark.parametrize(
    ("place", "key"), [(("b",), "n"), (("a",), "new"), (("c",), "n"), ((), "d"), ((), "e")]
)
def test_a_value_that_an_alias_or_a_merge_key_shares_is_not_set(
    place: tuple[str, ...], key: str
) -> None:
    with pytest.raises(NotSet, match="without an anchor, an alias or a merge key"):
        with_values(read(SHARED, "plan.yaml"), place, {key: 2})


def test_what_nobody_could_read_then_is_not_set() -> None:
    with pytest.raises(NotSet, match="because then the file has more than 1,000,000 bytes"):
        with_values(read("a: 1", "plan.yaml"), (), {"a": "x" * 1_000_000})


TEXTS = st.text(alphabet="ab \n\x01\\\"':#é-", max_size=8)


@pytest.mark.parametrize(
    "style",
    ["old", "'old'", '"old"', "|\n  old\n", "|+\n  old\n\n", "|-\n  old", "[o, ld]", "\n- o"],
)
@given(
    value=TEXTS | st.integers(-9, 9) | st.none() | st.lists(TEXTS | st.dictionaries(TEXTS, TEXTS))
)
def test_a_value_reads_back_as_it_was_set_whatever_stood_there(style: str, value: object) -> None:
    text = f"first: 1\nkey: {style}\n# but\nlast: 2\n"
    made = with_values(read(text, "plan.yaml"), (), {"key": value, "new": value})
    assert read(made, "plan.yaml").plain() == {"first": 1, "key": value, "last": 2, "new": value}
    assert made.startswith("first: 1\nkey:")
    assert "\n# but\nlast: 2\nnew:" in made


MACHINE = """
loopkit: 1
input:
  plan: {type: file, default: plan.yaml}
  id: {type: str, default: "1.10"}
  n: {type: int, default: 1}
states:
  note:
    set: "{{ FILE }}"
    at: sections[].tasks[]
    where: {id: "{{ input.id }}"}
    expect: {status: in_progress}
    values: {status: done, tries: "{{ input.n }}"}
    on_error: {content: refused}
    next: done
  done: {final: success, result: note}
  refused: {final: failure}
"""


def machine(file: str = "input.plan.path") -> str:
    return MACHINE.replace("FILE", file)


def test_a_state_sets_values_of_an_item_and_tells_what_the_file_holds(desk: Desk) -> None:
    file = desk.write("plan.yaml", "\ufeff" + PLAN)
    file.chmod(0o640)
    run = desk.play(machine())
    changed = PLAN.replace('"in_progress"', '"done"').replace(
        "    - b\n", "    - b\n    tries: 1\n"
    )
    assert file.read_text() == "\ufeff" + changed
    assert file.stat().st_mode & 0o777 == 0o640
    assert run.result["note"]["data"] == read(changed, "").plain()
    assert run.result["note"]["digest"] != run.state.input["plan"]["digest"]
    assert [event.values for event in run.of(Setting)] == [{"status": "done", "tries": 1}]
    assert [path.name for path in desk.folder.iterdir() if path.name[0] == "."] == []


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (PLAN.replace("1.10", "7"), 'has no `sections[].tasks[]`, id "1.10"'),
        (PLAN.replace("'2'", "'1.10'"), "has more than one"),
        (
            PLAN.replace("in_progress", "failed"),
            ':7: `status` is "failed" instead of "in_progress"',
        ),
        (
            PLAN.replace('"in_progress"', '"done"').replace("    - b\n", "    - b\n    tries: 1\n"),
            ':7: `status` is "done" instead of "in_progress"',
        ),
        ("<<<<<<< a\n", "a merge conflict was left in the file"),
        ("a: [1\n", "plan.yaml:"),
        (None, "No such file"),
    ],
)
def test_what_does_not_stand_there_as_expected_is_a_content_error_and_nothing_is_written(
    desk: Desk, now: str | None, told: str
) -> None:
    file = desk.write("plan.yaml", PLAN)
    text = machine().replace(
        "states:\n", "states:\n  change: {run: [sh, -c, CHANGE], next: note}\n"
    )
    desk.write("now", now or "")
    run = desk.play(text.replace("CHANGE", "mv now plan.yaml" if now else "rm plan.yaml"))
    assert run.outcome == "refused"
    assert told in run.of(Worked)[-1].error
    assert any(told in line for line in console_lines(run))
    assert (file.read_text() if file.exists() else None) == now


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("'link.yaml'", "is a link, which is not followed"),
        ("'../plan.yaml'", "contains '..'"),
        ("'/etc/plan.yaml'", "lies outside of the folder"),
        ("'fixed.yaml'", "is read-only"),
        ("'second.yaml'", "is a hard link"),
    ],
)
def test_no_other_file_and_no_protected_one_is_changed(desk: Desk, file: str, told: str) -> None:
    desk.write("plan.yaml", PLAN)
    (desk.folder / "link.yaml").symlink_to("plan.yaml")
    desk.write("fixed.yaml", PLAN).chmod(0o444)
    (desk.folder / "second.yaml").hardlink_to(desk.folder / "plan.yaml")
    suspended = desk.play(machine(file)).state.suspended
    assert suspended is not None
    assert (suspended.reason, told in suspended.message) == ("fatal", True)
    assert (
        (desk.folder / "plan.yaml").read_text() == (desk.folder / "fixed.yaml").read_text() == PLAN
    )


@pytest.mark.parametrize("known_by", ["", ", status: in_progress"])
def test_values_are_set_once_wherever_the_process_is_killed(tmp_path: Path, known_by: str) -> None:
    text = machine("'plan.yaml'").replace("  plan: {type: file, default: plan.yaml}\n", "")
    text = text.replace('{{ input.id }}"', f'{{{{ input.id }}}}"{known_by}')
    made = {"render": PLAN, "output": {"name": "plan", "file": "plan.yaml"}, "next": "note"}
    text = text.replace("states:", f"states:\n  made: {json.dumps(made)}")
    mark = {"set": "plan.yaml", "at": "sections[].tasks[]", "where": {"id": "1.10"}}
    mark |= {"expect": {"status": "done"}, "values": {"status": "over"}}
    text = text.replace("result: note}", f"result: note, mark: {json.dumps(mark)}}}")
    told = killed_at_points(tmp_path, text)
    assert len(told) > 8
    for point in begun(told):
        assert point["outcome"] == "done", point
        written = (tmp_path / "work" / point["point"] / "plan.yaml").read_text()
        assert written.count("tries: 2\n") == written.count('"over"') == 1


MARKED = """
loopkit: 1
input: {plan: {type: file, default: plan.yaml}}
states:
  check:
    run: [test, -e, good]
    transitions: [{guard: exit_code == 0, target: done}, {target: bad}]
  done: {final: success, mark: {<<: &item {set: "{{ input.plan.path }}", at: "sections[].tasks[]",
         where: {id: "1.10"}, expect: {status: [pending, in_progress]}}, values: {status: done}}}
  bad: {final: failure, mark: {<<: *item, values: {status: "exit {{ check.exit_code }}"}}}
"""


@pytest.mark.parametrize(("files", "status"), [(["good"], "done"), ([], "exit 1")])
def test_a_run_marks_in_a_file_how_it_ended(desk: Desk, files: list[str], status: str) -> None:
    plan = desk.write("plan.yaml", PLAN)
    for name in files:
        desk.write(name, "")
    assert desk.play(MARKED).state.status == "finished"
    assert plan.read_text() == PLAN.replace("in_progress", status)


def test_a_run_that_cannot_mark_its_end_is_suspended_there_and_goes_on(durable: Desk) -> None:
    durable.write("good", "")
    plan = durable.write("plan.yaml", PLAN.replace("in_progress", "skipped"))
    run = durable.play(MARKED)
    assert run.state.suspended is not None
    assert (run.state.state, run.state.suspended.reason) == ("done", "content")
    assert '"skipped" instead of "pending" or "in_progress"' in run.state.suspended.message
    plan.write_text(PLAN)
    assert durable.resume(run.state.run).outcome == "done"
    assert plan.read_text() == PLAN.replace("in_progress", "done")


CONFLICT = """
loopkit: 1
input: {plan: {type: file, default: plan.yaml}, on: {type: [str], default: [a]}}
states:
  all:
    each: input.on
    as: on
    key: on
    max_items: 2
    isolate: copy
    machine: task.yaml
    input: {plan: "{{ input.plan }}"}
    next: done
  done: {final: success}
"""


def test_what_could_not_be_merged_is_not_marked(desk: Desk) -> None:
    both = f"[sh, -c, 'echo a > f; echo b > \"$0/f\"', {json.dumps(str(desk.folder))}]"
    desk.write("task.yaml", MARKED.replace("[test, -e, good]", both) + "workspace: {path: .}\n")
    plan = desk.write("plan.yaml", PLAN)
    data: Any = desk.play(CONFLICT).state.artifacts["all"].data
    assert data["a"]["outcome"] == "conflict"
    assert plan.read_text() == PLAN


EACH = """
loopkit: 1
input: {plan: {type: file, data: {tasks: [{id: str, status: optional str}]}}, ids: [str]}
states:
  tasks:
    each: input.ids
    as: id
    key: id
    parallel: 4
    max_items: 20
    isolate: ISOLATE
    machine: task.yaml
    input: {plan: "{{ input.plan }}", id: "{{ id }}"}
    transitions: [{guard: failed == 0, target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""
TASK = """
loopkit: 1
input: {plan: {type: file}, id: str}
states:
  note:
    set: "{{ input.plan.path }}"
    at: tasks[]
    where: {id: "{{ input.id }}"}
    values: {status: "done {{ input.id }}"}
    next: done
  done: {final: success}
"""


def tasks(desk: Desk, most: int, isolate: str) -> Path:
    """A plan of so many tasks, beside the machine that works on some of them."""
    desk.write("task.yaml", TASK)
    desk.write("machine.yaml", EACH.replace("ISOLATE", isolate))
    return desk.write("plan.yaml", "tasks:\n" + "".join(f"- id: a{n}  # n\n" for n in range(most)))


def test_no_folder_is_made_for_a_file_that_is_missing(desk: Desk) -> None:
    desk.write("plan.yaml", PLAN)
    run = desk.play(machine("'new/plan.yaml'"))
    assert (run.outcome, (desk.folder / "new").exists()) == ("refused", False)
    assert "there is no folder" in run.of(Worked)[-1].error


def test_two_processes_and_their_children_lose_no_value_of_each_other(tmp_path: Path) -> None:
    file = tasks(Desk(tmp_path), 40, "none")
    command = ["-m", "loopkit", "run", "machine.yaml", "--set", "plan=plan.yaml"]
    halves = (json.dumps([f"a{n}" for n in range(start, 40, 2)]) for start in (0, 1))
    runs = [Process([*command, "--set-json", f"ids={i}"], cwd=tmp_path) for i in halves]
    assert [run.wait(120) for run in runs] == [0, 0]
    lines = (f"- id: a{n}  # n\n  status: done a{n}\n" for n in range(40))
    assert file.read_text() == "tasks:\n" + "".join(lines)


def test_an_isolated_child_sets_values_in_the_file_of_the_project(tmp_path: Path) -> None:
    desk = Desk(tmp_path, in_memory=False)
    file = tasks(desk, 2, "copy")
    run = desk.play(desk.folder / "machine.yaml", inputs={"plan": "plan.yaml", "ids": ["a0", "a1"]})
    assert run.outcome == "done"
    assert file.read_text().count("status: done a") == 2


FILES = """
loopkit: 1
input: {plan: {type: file, data: {n: {type: int, default: 2}, ...: any}}}
states:
  a: {render: "{{ input.plan.data.n }}", next: b}
  b: {final: success, result: a}
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: 1\n<<<<<<< x\n=======\n>>>>>>> y\n", "plan.yaml:2, 3, 4: a merge conflict was left"),
        ("a: 1\na: 2\n", "plan.yaml:2, 1: the key `a` is written twice"),
        ("n: two\n", "plan.yaml: n: 'two' is not"),
        (None, "plan.yaml:1: the file cannot be read: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_before_anything_starts(
    own_folder: Path, cli: CommandLine, text: str | None, told: str
) -> None:
    desk = Desk(own_folder)
    desk.write("m.yaml", FILES)
    if text is not None:
        desk.write("plan.yaml", text)
    assert told in cli(2, "run", "m.yaml", "--set", "plan=plan.yaml").err
    assert not list((own_folder / ".loopkit").iterdir())
    assert text is None or (own_folder / "plan.yaml").read_text() == text


@pytest.mark.parametrize("given", ["plan.yaml", "@plan.yaml"])
def test_a_file_is_read_when_the_run_starts(own_folder: Path, cli: CommandLine, given: str) -> None:
    Desk(own_folder).write("m.yaml", FILES)
    Desk(own_folder).write("plan.yaml", "date: 2026-02-11\n")
    run = ("run", "m.yaml", "--set", f"plan={given}", "--record", "m.scenario.yaml")
    said = cli(0, *run)
    assert (said.out, "does not pass" in said.err) == ("2\n", False)
    assert cli(2, "run", "m.yaml", "--set", f"plan={given}", "--set", "n=1").err


def test_a_case_has_files_of_its_own(own_folder: Path, cli: CommandLine) -> None:
    desk = Desk(own_folder)
    desk.write("machine.yaml", machine())
    file = desk.write("plans/tea.yaml", PLAN)
    cases = (
        "  one: {expect: {outcome: done}}\n  two: {input: {id: x}, expect: {outcome: refused}}\n"
    )
    head = "scenario: 1\nmachine: machine.yaml\ninput: {plan: plans/tea.yaml}\ncases:\n"
    desk.write("m.scenario.yaml", head + cases)
    cli(0, "test", "m.scenario.yaml")
    assert file.read_text() == PLAN


TWO = """
loopkit: 1
input: {a: {type: file}, b: {type: file}}
states:
  first: {set: "{{ input.a.path }}", values: {status: done}, next: second}
  second: {set: "{{ input.b.path }}", values: {status: done}, next: told}
  told: {render: "{{ first.data.title }} {{ second.data.title }}", next: done}
  done: {final: success, result: told}
"""


def test_files_of_one_name_stay_apart_in_a_case_that_is_kept_elsewhere(
    own_folder: Path, cli: CommandLine
) -> None:
    desk = Desk(own_folder)
    desk.write("machine.yaml", TWO)
    given = [f"--set={one}={desk.write(f'{one}/plan.yaml', f'title: {one}')}" for one in "ab"]
    (desk.folder / "cases").mkdir()
    case = desk.folder / "cases/m.scenario.yaml"
    said = cli(0, "run", "machine.yaml", *given, "--record", str(case))
    assert (said.out, "path is" in said.err) == ("a b\n", False)
    case.write_text(case.read_text() + "      artifacts: {told: {equals: a b}}\n")
    cli(0, "test", str(case))


@pytest.mark.parametrize(
    "part",
    [
        "input: {a: {b: file}}",
        "input: {a: [file]}",
        "agents: {b: {command: [x], schema: {a: file}}}",
    ],
)
def test_only_an_input_itself_is_a_file(desk: Desk, part: str) -> None:
    text = f"loopkit: 1\n{part}\nstates:\n  a: {{render: x, next: b}}\n  b: {{final: success}}\n"
    assert "only an input itself can be a `file`" in [p.message for p in desk.problems(text)]


LOOSE = {"path": "/etc/plan.yaml", "data": {}, "digest": ""}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("../plan.yaml", "lies outside of"),
        ("/etc/plan.yaml", "lies outside of"),
        ("link/plan.yaml", "lies outside of"),
        (LOOSE, "lies outside of"),
        ("", "takes the path of a file"),
        ("a\0", "is no path of a file: embedded null byte"),
        ("loop/plan.yaml", "is no path of a file: Symlink loop"),
        ("x" * 300, "is no path of a file: File name too long"),
    ],
)
def test_a_server_reads_only_files_of_its_project(desk: Desk, path: object, told: str) -> None:
    (desk.folder / "link").symlink_to("..")
    (desk.folder / "loop").symlink_to("loop")
    known = load(desk.write("machine.yaml", FILES)).machine
    with pytest.raises(InvalidInput, match=told):
        complete_input(known, {"plan": path}, desk.folder)
