"""The items of an `each` state, and the input of their children, before anything runs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from loopkit.checks import check
from loopkit.document.problems import ProblemsFound
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import Loaded, load
from loopkit.language.states.each import EachState, MachineState
from loopkit.language.template.sandbox import FieldedText
from loopkit.machine.inputs import child_input, child_inputs, complete_input, partial_input
from loopkit.machine.item_list import Item, items_of
from loopkit.testing import load_suite
from tests.support import CommandLine, Desk

CHILD = """
loopkit: 1
input: INPUT
states:
  copy: {render: "{{ input.text }}", next: done}
  done: {final: success, result: copy}
"""
PARENT = """
loopkit: 1
input: {tasks: {type: [any], default: []}, note: {type: str, default: Hi}}
states:
  all:
    each: input.tasks
    as: task
    key: task.id
    max_items: 20000
    machine: child.yaml
    input: {text: "{{ task.id }}"}
MORE
    next: done
  done: {final: success}
"""


def loaded(
    folder: Path, more: str = "", child: str = "{text: any}", parent: str = PARENT
) -> Loaded:
    (folder / "child.yaml").write_text(CHILD.replace("INPUT", child))
    lines = "\n".join(f"    {line}" for line in more.splitlines())
    (folder / "parent.yaml").write_text(parent.replace("MORE", lines))
    return load(folder / "parent.yaml")


def each(folder: Path, more: str = "", **changes: Any) -> EachState:
    state = loaded(folder, more).machine.states["all"]
    assert isinstance(state, EachState)
    return state.model_copy(update=changes)


def faults(state: EachState, data: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        items_of(state, data)
    return [fault.message for fault in refused.value.faults]


def test_items_come_in_the_order_of_the_list_with_all_that_they_say(tmp_path: Path) -> None:
    tasks: list[object] = [
        {"id": "2", "needs": ["1.10", "1.10", 3], "group": "a", "locks": ["db", 5]},
        {"id": "1.10", "needs": None, "group": None, "locks": None},
        {"id": 3, "group": 4.5, "locks": "db"},
    ]
    state = each(tmp_path, "after: task.needs\ngroup: task.group\nexclusive: task.locks")
    assert items_of(state, {"input": {"tasks": tasks}}) == (
        Item("2", tasks[0], "input.tasks[0]", ("1.10", "3"), "a", frozenset({"db", "5"})),
        Item("1.10", tasks[1], "input.tasks[1]", (), None),
        Item("3", tasks[2], "input.tasks[2]", (), "4.5", frozenset({"db"})),
    )


def test_a_number_is_a_key_as_json_has_it(tmp_path: Path) -> None:
    tasks = [{"id": 1.10}, {"id": "1.10"}, {"id": 1}, {"id": 1.0}]
    keys = [item.key for item in items_of(each(tmp_path), {"input": {"tasks": tasks}})]
    assert keys == ["1.1", "1.10", "1", "1.0"]


def test_items_of_lists_inside_lists_are_one_list(tmp_path: Path) -> None:
    plan = {"sections": [{"tasks": [{"id": "a"}, {"id": "b"}]}, {}, {"tasks": [{"id": "c"}]}]}
    for path in ("plan.sections[].tasks[]", "plan.sections[].tasks"):
        found = items_of(each(tmp_path, each=path), {"plan": plan})
        assert [item.key for item in found] == ["a", "b", "c"]
        assert found[2].location == "plan.sections[2].tasks[0]"


def test_items_may_be_the_texts_of_a_list_that_was_extracted(tmp_path: Path) -> None:
    state = each(tmp_path, each="plan.names", key="task")
    found = items_of(state, {"plan": FieldedText("a, b", {"names": ["a", "b"]})})
    assert [(item.key, item.value) for item in found] == [("a", "a"), ("b", "b")]


def test_what_an_item_waits_for_may_lie_deep_in_it(tmp_path: Path) -> None:
    state = each(tmp_path, "after: {of: 'task.needs[].id', when: [done]}")
    tasks = [{"id": "a"}, {"id": "b", "needs": [{"id": "a"}]}]
    assert items_of(state, {"input": {"tasks": tasks}})[1].after == ("a",)


def test_an_item_may_wait_for_what_several_paths_name(tmp_path: Path) -> None:
    tasks = [{"id": "a"}, {"id": "b", "needs": "a"}, {"id": "c", "needs": ["b"], "more": ["a"]}]
    for after in ("[task.needs, task.more]", "{of: [task.needs, task.more], when: done}"):
        state = each(tmp_path, f"after: {after}")
        found = items_of(state, {"input": {"tasks": tasks}})
        assert [item.after for item in found] == [(), ("a",), ("b", "a")]
    [fault] = faults(state, {"input": {"tasks": [*tasks, {"id": "d", "more": ["x"]}]}})
    assert fault.startswith("`input.tasks[3].more[0]`: there is no task `x`")


def test_one_expression_is_a_value_and_not_a_text(tmp_path: Path) -> None:
    written = {
        "{{ task.most - task.used }}": 2,
        "{{ [task.used - task.most, 0] | max }}": 0,
        "{{ task.kind in input.kinds }}": True,
        "{{ task.names | map('upper') }}": ["A"],
        "{{ task.gone | default(3) }}": 3,
        "{{ task.most }} of 5": "3 of 5",
    }
    for text, value in written.items():
        parent = PARENT.replace("{{ task.id }}", text).replace("note:", "kinds: [str], note:")
        state = loaded(tmp_path, parent=parent).machine.states["all"]
        assert isinstance(state, EachState)
        task = {"id": "a", "most": 3, "used": 1, "kind": "web", "names": ["a"]}
        names = {"task": task, "input": {"kinds": ["web"]}}
        assert child_input(state, names) == {"text": value}
    with pytest.raises(InvalidInput, match="there is no field `most`"):
        child_input(state, {"task": {}})


def test_all_faults_are_told_each_at_its_place(tmp_path: Path) -> None:
    written = "after: task.needs\ngroup: task.group\nexclusive: task.locks"
    state = each(tmp_path, written, max_items=8)
    tasks: list[object] = [
        {"id": "1.1", "needs": ["1.2"]},
        {"id": "1.2", "needs": ["1.3"]},
        {"id": "1.3", "needs": ["1.1", "1.4"]},
        {"id": "1.1"},
        {"name": "no id"},
        {"id": ["x"]},
        {"id": ""},
        {"id": True, "needs": ["gone"]},
        {"id": "self", "needs": ["self", {}], "group": [], "locks": [True]},
        "text",
    ]
    assert faults(state, {"input": {"tasks": tasks}}) == [
        "`input.tasks`: 10 items, where at most 8 may be",
        "`input.tasks[3].id`: `1.1` is a key already, at `input.tasks[0].id`",
        "`input.tasks[4].id`: the key is missing",
        '`input.tasks[5].id`: `["x"]` is no key, which is a text or a number',
        "`input.tasks[6].id`: the key is missing",
        "`input.tasks[7].id`: `true` is no key, which is a text or a number",
        "`input.tasks[8].needs[0]`: `self` waits for itself",
        "`input.tasks[8].needs[1]`: `{}` is no key, which is a text or a number",
        "`input.tasks[8].group`: `[]` is no group, which is a text or a number",
        "`input.tasks[8].locks[0]`: `true` is no name, which is a text or a number",
        "`input.tasks[9].id`: the key is missing",
        "`input.tasks[2].needs[1]`: there is no task `1.4`; did you mean `1.3`?",
        "`input.tasks`: these wait for each other: 1.1 → 1.2 → 1.3 → 1.1",
    ]


def test_there_are_as_many_items_as_the_state_says(tmp_path: Path) -> None:
    no_task = ["`input.tasks`: 0 items, where at least 1 have to be"]
    for nothing in ({}, {"tasks": None}, {"tasks": []}):
        assert faults(each(tmp_path), {"input": nothing}) == no_task
        assert items_of(each(tmp_path, min_items=0), {"input": nothing}) == ()
    one = {"input": {"tasks": [{"id": "a"}]}}
    assert faults(each(tmp_path, min_items=2), one) == [
        "`input.tasks`: 1 item, where at least 2 have to be"
    ]
    assert faults(each(tmp_path, min_items=0), {"input": {"tasks": "a, b"}}) == [
        "`input.tasks`: `a, b` is no list"
    ]


def test_what_should_have_lists_in_it_is_told_where_it_has_none(tmp_path: Path) -> None:
    state = each(tmp_path, each="plan.sections[].tasks", min_items=0)
    for text in ("No plan.", FieldedText("No plan.", {"goal": "win"})):
        assert faults(state, {"plan": text}) == ["`plan`: `No plan.` has no field `sections`"]
    sections = [{"tasks": [{"id": "a"}]}, "two", None, {"tasks": 3}]
    assert faults(state, {"plan": {"sections": sections}}) == [
        "`plan.sections[1]`: `two` has no field `tasks`",
        "`plan.sections[3].tasks`: `3` is no list",
    ]


def test_ten_thousand_items_are_read_at_once(tmp_path: Path) -> None:
    state = each(tmp_path, "after: task.needs")
    tasks = [{"id": str(n), "needs": [str(n - 1)] if n else []} for n in range(10_000)]
    began = time.process_time()
    items = items_of(state, {"input": {"tasks": tasks}})
    assert len(items) == len(child_inputs(state, items, {"input": {}})) == 10_000
    tasks[0]["needs"] = ["9999", *(f"gone {n}" for n in range(1_000))]
    told = faults(state, {"input": {"tasks": [*tasks, *tasks]}})
    assert len(told) == 101
    assert told[-1] == "there are 10,901 more faults like these"
    assert time.process_time() - began < 30


def test_a_run_with_such_a_list_is_refused_and_nothing_is_stored(
    desk: Desk, cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(desk.folder, "after: task.needs")
    tasks = [{"id": "a", "needs": ["b"]}, {"id": "a"}]
    given = desk.write("input.json", json.dumps({"tasks": tasks}))
    parent = str(desk.folder / "parent.yaml")
    state = desk.folder / "state"
    monkeypatch.setenv("LOOPKIT_STATE", str(state))
    told = cli(2, "run", parent, "--input", str(given)).err
    assert told.splitlines() == [
        "error: `all`: `input.tasks[1].id`: `a` is a key already, at `input.tasks[0].id`",
        "error: `all`: `input.tasks[0].needs[0]`: there is no task `b`; allowed: `a`",
    ]
    assert not state.exists()


# -- the input of a child ------------------------------------------------------------------


INPUTS = """
loopkit: 1
input: {tasks: {type: [any], default: []}, note: {type: str, default: Hi}}
states:
  one:
    machine: child.yaml
    input: {text: WRITTEN}
    next: done
  done: {final: success}
"""


@pytest.mark.parametrize(
    ("written", "arrives"),
    [
        ('"{{ task }}"', {"id": 1, "tags": ["a"], "none": None}),
        ('"{{ task.id }}"', 1),
        ('"{{ task.tags }}"', ["a"]),
        ('"{{ task.none }}"', None),
        ('"{{ on }}"', True),
        ('"{{ plan }}"', "The plan"),
        ('"{{ plan.goal }}"', "win"),
        ('"{{ task.id }}."', "1."),
        ("7", 7),
        ('{a: ["{{ task.id }}", {b: "{{ task.tags[0] }}"}]}', {"a": [1, {"b": "a"}]}),
    ],
)
def test_a_lone_name_hands_on_the_value_itself(
    tmp_path: Path, written: str, arrives: object
) -> None:
    machine = loaded(tmp_path, parent=INPUTS.replace("WRITTEN", written)).machine
    state = machine.states["one"]
    assert isinstance(state, MachineState)
    names = {
        "task": {"id": 1, "tags": ["a"], "none": None},
        "on": True,
        "plan": FieldedText("The plan", {"goal": "win"}),
    }
    found = child_input(state, names)["text"]
    assert (found, type(found)) == (arrives, type(arrives))


def test_a_child_is_given_the_defaults_of_its_input(tmp_path: Path) -> None:
    more = "{text: str, tries: {type: int, default: 3}}"
    machine = loaded(tmp_path, child=more, parent=INPUTS.replace("WRITTEN", "Hello")).machine
    state = machine.states["one"]
    assert isinstance(state, MachineState)
    assert child_input(state, {}) == {"text": "Hello", "tries": 3}


def refused(machine: Loaded, **given: object) -> list[str]:
    with pytest.raises(InvalidInput) as error:
        complete_input(machine.machine, given)
    return [fault.message for fault in error.value.faults]


def test_an_input_list_that_is_not_valid_is_no_input(tmp_path: Path) -> None:
    machine = loaded(tmp_path, "after: task.needs")
    tasks: list[object] = [{"id": "a", "needs": ["b", "c"]}, {"id": "b", "needs": ["a"]}]
    assert refused(machine, tasks=tasks) == [
        "`all`: `input.tasks[0].needs[1]`: there is no task `c`; allowed: `a`, `b`",
        "`all`: `input.tasks`: these wait for each other: a → b → a",
    ]
    assert refused(machine) == ["`all`: `input.tasks`: 0 items, where at least 1 have to be"]


def test_items_whose_child_does_not_take_their_input_are_no_input(tmp_path: Path) -> None:
    machine = loaded(tmp_path, child="{text: int, more: {type: str, default: x}}")
    assert refused(machine, tasks=[{"id": 1}, {"id": "b"}, {"id": "c"}]) == [
        "`all`: `input.tasks[1]`: input `text` takes a whole number; `b` is not",
        "`all`: `input.tasks[2]`: input `text` takes a whole number; `c` is not",
    ]
    assert complete_input(machine.machine, {"tasks": [{"id": 1}]})["tasks"] == [{"id": 1}]


def test_a_field_that_an_item_has_not_is_told_with_the_item(tmp_path: Path) -> None:
    parent = PARENT.replace("{{ task.id }}", "Do {{ task.text }}")
    machine = loaded(tmp_path, parent=parent)
    [told] = refused(machine, tasks=[{"id": "a"}])
    assert told.startswith("`all`: `input.tasks[0]`: input `text`: line 1")
    assert told.endswith("there is no field `text`")


def test_the_input_of_a_child_that_reads_artifacts_is_known_later(tmp_path: Path) -> None:
    write = 'states:\n  plan: {render: "1", next: all}'
    parent = PARENT.replace("{{ task.id }}", "{{ plan }}").replace("states:", write)
    machine = loaded(tmp_path, child="{text: int}", parent=parent)
    assert complete_input(machine.machine, {"tasks": [{"id": "a"}]})["note"] == "Hi"


def test_the_input_of_a_single_child_is_judged_as_well(tmp_path: Path) -> None:
    parent = INPUTS.replace("WRITTEN", '"{{ input.note }}"')
    machine = loaded(tmp_path, child="{text: yes|no}", parent=parent)
    assert refused(machine) == ["`one`: input `text` takes `yes` or `no`; `Hi` is not"]


def test_a_case_with_such_an_input_is_told_to_be_wrong(desk: Desk) -> None:
    loaded(desk.folder)
    cases = {"twice": {"input": {"tasks": [{"id": "a"}, {"id": "a"}]}, "expect": {}}}
    written = {"scenario": 1, "machine": "parent.yaml", "cases": cases}
    path = desk.write("parent.scenario.yaml", json.dumps(written))
    with pytest.raises(ProblemsFound, match="`a` is a key already"):
        load_suite(path)


def test_machines_inside_each_other_have_a_limit(tmp_path: Path) -> None:
    """Each level names the next one twice, so that what is kept would double."""
    (tmp_path / "m12.yaml").write_text(CHILD.replace("INPUT", "{text: {type: str, default: x}}"))
    for level in range(12):
        write_running(tmp_path / f"m{level}.yaml", [f"m{level + 1}.yaml"] * 2)
    with pytest.raises(ProblemsFound, match="is inside more than 10 other machines"):
        load(tmp_path / "m0.yaml")
    with pytest.raises(ProblemsFound, match="more than 100 machines are inside"):
        load(tmp_path / "m4.yaml")
    assert load(tmp_path / "m8.yaml").size == 31


@pytest.mark.parametrize("first", ["deep", "shallow"])
def test_levels_count_also_below_a_machine_that_was_read_before(tmp_path: Path, first: str) -> None:
    """Two ways lead to the same machines, one of them over more levels than there may be."""
    (tmp_path / "m6.yaml").write_text(CHILD.replace("INPUT", "{text: {type: str, default: x}}"))
    ways = [("m", "m6.yaml"), ("d", "m0.yaml")]
    for name, last in ways:
        for level in range(6):
            inner = f"{name}{level + 1}.yaml" if level < 5 else last
            write_running(tmp_path / f"{name}{level}.yaml", [inner])
    both = ["d0.yaml", "m0.yaml"]
    write_running(tmp_path / "top.yaml", both if first == "deep" else both[::-1])
    with pytest.raises(ProblemsFound, match="is inside more than 10 other machines"):
        load(tmp_path / "top.yaml")
    write_running(tmp_path / "top.yaml", ["m0.yaml", "d2.yaml"])
    with pytest.raises(ProblemsFound, match="is inside more than 10 other machines"):
        load(tmp_path / "top.yaml")
    write_running(tmp_path / "top.yaml", ["m0.yaml", "d3.yaml"])
    assert load(tmp_path / "top.yaml").levels == 11


def write_running(path: Path, inner: Sequence[str]) -> None:
    """A machine that runs others, one after the other."""
    steps = {f"run{n}": {"machine": file, "next": f"run{n + 1}"} for n, file in enumerate(inner)}
    states = {**steps, f"run{len(inner)}": {"final": "success"}}
    path.write_text(json.dumps({"loopkit": 1, "states": states}))


def test_lists_of_a_child_are_judged_with_the_input_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "leaf.yaml").write_text(CHILD.replace("INPUT", "{text: str}"))
    middle = PARENT.replace("child.yaml", "leaf.yaml").replace("MORE", "")
    (tmp_path / "middle.yaml").write_text(middle)
    parent = PARENT.replace("child.yaml", "middle.yaml").replace(
        '{text: "{{ task.id }}"}', '{tasks: "{{ task.parts }}"}'
    )
    machine = loaded(tmp_path, parent=parent)
    assert refused(machine, tasks=[{"id": "a", "parts": [{"id": "x"}, {"id": "x"}]}]) == [
        "`all`: `input.tasks[0]`: `all`: `input.tasks[1].id`: `x` is a key already, at"
        " `input.tasks[0].id`"
    ]


def test_a_part_of_an_input_is_judged_as_far_as_it_is_given(tmp_path: Path) -> None:
    needed = PARENT.replace("{type: str, default: Hi}", "str")
    machine = loaded(tmp_path, parent=needed).machine
    assert partial_input(machine, {"tasks": [{"id": "a"}]}) == {"tasks": [{"id": "a"}]}
    with pytest.raises(InvalidInput, match="a key already"):
        partial_input(machine, {"tasks": [{"id": "a"}, {"id": "a"}], "note": "x"})


# -- checks --------------------------------------------------------------------------------


def codes(folder: Path, text: str) -> list[tuple[str, str]]:
    """The problems of a parent, each with its path; notes are about the test itself."""
    (folder / "parent.yaml").write_text(text)
    problems = check(load(folder / "parent.yaml"))
    return [(problem.code, problem.path) for problem in problems if problem.severity != "note"]


MADE = """
loopkit: 1
agents:
  writer: {model: openai/gpt-5-mini, schema: {text: str, kind: a|b, more: any}}
states:
  plan: {agent: writer, prompt: Plan., on_error: {content: failed}, next: told}
  told: {render: "{{ plan.text }}", next: once}
  once: {machine: child.yaml, input: {text: WRITTEN}, next: done}
  done: {final: success}
  failed: {final: failure}
"""


def test_of_a_value_that_a_child_never_takes_all_is_told(tmp_path: Path) -> None:
    """Also a `;` in what it may be, and letters as they were written."""
    (tmp_path / "child.yaml").write_text(
        CHILD.replace("INPUT", "{text: {type: string, enum: [one; two, three]}}")
    )

    def told(written: str) -> list[str]:
        (tmp_path / "parent.yaml").write_text(MADE.replace("WRITTEN", written))
        problems = check(load(tmp_path / "parent.yaml"))
        return [each.message for each in problems if each.code == "child-input"]

    assert told('"{{ plan }}"') == ["`text` takes `one; two` or `three`, and `plan` is fields"]
    assert told("[Köln]") == ['`text` takes `one; two` or `three`; `["Köln"]` is not']


@pytest.mark.parametrize(
    ("takes", "written", "may_misfit"),
    [
        ("any", "{{ plan.more }}", False),
        ("str", "{{ told }}", False),
        ("str", "{{ plan.text }}", False),
        ("str", "{{ plan.more }} and more", False),
        ("a|b", "{{ plan.kind }}", False),
        ("a|b", "{{ plan.text }}", True),
        ("a|b", "{{ told }}", True),
        ("str", "{{ plan.more }}", True),
        ("a|b", "{{ plan.kind }}!", True),
        ("{a: str}", "{{ plan }}", True),
    ],
)
def test_what_a_run_makes_and_a_child_may_not_take_has_to_be_handled(
    tmp_path: Path, takes: str, written: str, *, may_misfit: bool
) -> None:
    (tmp_path / "child.yaml").write_text(CHILD.replace("INPUT", f"{{text: {takes}}}"))
    text = MADE.replace("WRITTEN", f'"{written}"')
    told = [("input-unhandled", "states.once")] if may_misfit else []
    assert [each for each in codes(tmp_path, text) if each[0] == "input-unhandled"] == told
    handled = text.replace("}, next: done}", "}, on_error: {content: failed}, next: done}")
    assert "input-unhandled" not in dict(codes(tmp_path, handled))


def test_a_child_whose_own_items_are_made_by_its_parent_may_not_take_them(tmp_path: Path) -> None:
    (tmp_path / "leaf.yaml").write_text(CHILD.replace("INPUT", "{text: str}"))
    middle = PARENT.replace("child.yaml", "leaf.yaml").replace("MORE", "")
    (tmp_path / "child.yaml").write_text(middle)
    text = MADE.replace("{text: WRITTEN}", '{tasks: ["{{ plan.more }}"]}')
    assert codes(tmp_path, text) == [("input-unhandled", "states.once")]


def test_a_machine_is_checked_once_for_all_who_run_it(desk: Desk, cli: CommandLine) -> None:
    loaded(desk.folder)
    desk.write("child.yaml", CHILD.replace("INPUT", "{txt: str}"))
    assert cli(1, "check", str(desk.folder)).out.count("`input` has no field `text`") == 1


EDGES = {"tasks": [{"id": "a"}, {"id": "b"}, {"id": 3}]}


@pytest.mark.parametrize("path", ["input.edges", "input.edges[]"])
def test_items_wait_as_edges_beside_them_say(tmp_path: Path, path: str) -> None:
    state = each(tmp_path, after=(path,))
    edges = [{"from": "a", "to": "b"}, ["a", 3], {"source": "b", "target": 3}, ["a", 3]]
    found = items_of(state, {"input": {**EDGES, "edges": edges}})
    assert [item.after for item in found] == [(), ("a",), ("a", "b")]
    assert [item.after for item in items_of(state, {"input": EDGES})] == [(), (), ()]


def test_edges_that_lead_nowhere_or_in_a_circle_are_faults(tmp_path: Path) -> None:
    state = each(tmp_path, after=("input.edges",))
    edges = [["a", "b"], ["b", "a"], ["a", "bb"], ["c", "b"], {"to": "a"}, ["b", "b"]]
    assert faults(state, {"input": {**EDGES, "edges": edges}}) == [
        '`input.edges[4]`: `{"to": "a"}` is not an edge; '
        "write it as [FROM, TO] or {from: FROM, to: TO}",
        "`input.edges[5]`: `b` waits for itself",
        "`input.edges[3]`: there is no task `c`; allowed: `a`, `b`, `3`",
        "`input.edges[2]`: there is no task `bb`; did you mean `b`?",
        "`input.tasks`: these wait for each other: a → b → a",
    ]


@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("input.edge", "`input` has no field `edge`"),
        ("other.edges", "does not start with the item"),
    ],
)
def test_paths_to_edges_are_checked(tmp_path: Path, after: str, told: str) -> None:
    declared = "input: {edges: {type: [{a: str, to: str}], default: []}, "
    parent = PARENT.replace("input: {", declared, 1)
    found = check(loaded(tmp_path, f"after: {after}", parent=parent))
    [message] = [problem.message for problem in found if problem.severity == "error"]
    assert told in message
    sound = parent.replace("{a: str", "{from: str")
    found = check(loaded(tmp_path, "after: input.edges", parent=sound))
    assert [problem for problem in found if problem.severity == "error"] == []
