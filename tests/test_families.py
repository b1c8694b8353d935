"""Families at the command line: a run and the runs that it has begun, seen, answered and ended."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.warm import ran_loopkit

TASK = """
loopkit: 1
name: task
input: {text: str}
states:
  draft: {render: "About {{ input.text }}.", next: ask}
  ask:
    human: "Is {{ input.text }} fine?"
    choices: [approve, reject]
    transitions:
      - {guard: choice == "approve", target: done}
      - {target: failed}
  done: {final: success, result: draft}
  failed: {final: failure}
"""
PARENT = """
loopkit: 1
name: parent
input: {parts: {type: [str], default: [tea, milk, sugar]}}
states:
  parts:
    each: input.parts
    as: part
    key: part
    max_items: 1000
    parallel: 2
    machine: task.yaml
    input: {text: "{{ part }}"}
    transitions:
      - {guard: failed == 0, target: done}
      - {target: attention}
  done: {final: success, result: parts}
  attention: {final: failure, result: parts}
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".loopkit").mkdir()
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")


def table(*arguments: str) -> list[list[str]]:
    """The cells of the table of runs, without its headings."""
    listed = ran_loopkit("runs", "ls", *arguments)
    assert listed.returncode == 0, listed.stderr
    return [re.split(r"  +", line) for line in listed.stdout.splitlines()[1:]]


def family(*arguments: str) -> tuple[CompletedProcess[str], str, list[str]]:
    """A run of the parent as it stopped, its id, and those of its children in list order."""
    ran = ran_loopkit("run", "parent.yaml", *arguments)
    [[root, *_]] = table()
    return ran, root, [cells[1] for cells in table(root)]


def test_a_run_whose_children_wait_for_a_person_waits_and_says_how_each_is_answered() -> None:
    ran, root, (tea, milk, sugar) = family()
    assert ran.returncode == 5
    assert "3 items wait for a person: tea, milk, sugar" in ran.stderr
    for key, child in {"tea": tea, "milk": milk, "sugar": sugar}.items():
        told = f"parts[{key}]: Is {key} fine? (approve, reject)\n  loopkit answer {child} approve\n"
        assert told in ran.stderr
    assert f"loopkit answer {root} approve --all" in ran.stderr


def test_only_roots_are_listed_unless_the_children_of_one_are_asked_for() -> None:
    _, root, children = family()
    assert [cells[:3] for cells in table()] == [[root, "waiting", "parts"]]
    keys = [f"parts[{key}]" for key in ("tea", "milk", "sugar")]
    assert [cells[:4] for cells in table(root)] == [
        [key, child, "waiting", "ask"] for key, child in zip(keys, children, strict=True)
    ]
    assert "has begun no other runs" in ran_loopkit("runs", "ls", children[0]).stderr


def test_the_beginning_of_an_id_never_means_the_children_of_that_run() -> None:
    _, root, children = family()
    assert f"{root}: waiting" in ran_loopkit("runs", "show", root[:-2]).stdout
    assert f"{children[0]}: waiting" in ran_loopkit("runs", "show", children[0][:-4]).stdout


def test_a_run_shows_its_children_and_a_child_shows_its_root() -> None:
    _, root, children = family()
    ran_loopkit("answer", children[1], "reject")
    shown = ran_loopkit("runs", "show", root).stdout
    assert "parts: 3 items, 2 not ended, 1 failed" in shown
    rows = [re.split(r"  +", line.strip()) for line in shown.splitlines() if "parts[" in line]
    assert [row[:2] for row in rows if len(row) > 2] == [
        ["parts[tea]", "waiting at ask"],
        ["parts[milk]", "failed (failure)"],
        ["parts[sugar]", "waiting at ask"],
    ]
    assert f"part of: loopkit runs show {root}" in ran_loopkit("runs", "show", children[0]).stdout


def test_an_answer_to_a_child_drives_the_whole_family() -> None:
    Path("parent.yaml").write_text(
        PARENT.replace("parallel: 2", "parallel: 1").replace(
            "key: part\n", "key: part\n    stop_on: [failed]\n"
        ),
        encoding="utf-8",
    )
    _, root, children = family()
    ended = ran_loopkit("answer", children[2], "reject")
    assert ended.returncode == 1
    assert table()[0][1:3] == ["finished", "attention (failure)"]
    assert [cells[2] for cells in table(root)] == ["cancelled", "cancelled", "finished"]


def test_an_answer_to_a_root_goes_to_the_one_child_that_waits() -> None:
    _, root, (tea, milk, _) = family()
    ran_loopkit("answer", tea, "approve")
    ran_loopkit("answer", milk, "approve")
    assert ran_loopkit("answer", root, "approve").returncode == 0
    assert table()[0][2] == "done (success)"


def test_an_answer_to_a_root_with_several_questions_is_refused_with_a_line_for_each() -> None:
    _, root, children = family()
    refused = ran_loopkit("answer", root, "approve")
    assert refused.returncode == 2
    assert f"error: `{root}` has 3 open questions" in refused.stderr
    assert all(f"  loopkit answer {child} approve" in refused.stderr for child in children)
    assert [cells[2] for cells in table(root)] == ["waiting"] * 3


def test_one_answer_can_be_given_to_all_children_that_wait() -> None:
    _, root, _ = family()
    assert ran_loopkit("answer", root, "maybe", "--all").returncode == 2
    assert ran_loopkit("answer", root, "approve", "--all").returncode == 0
    assert [cells[3] for cells in table(root)] == ["done (success)"] * 3


def test_a_child_is_neither_cancelled_nor_removed_alone() -> None:
    _, root, children = family()
    for command in (("cancel",), ("runs", "rm")):
        refused = ran_loopkit(*command, children[0])
        assert refused.returncode == 2
        assert f"for the whole family: loopkit {' '.join(command)} {root}" in refused.stderr
    assert [cells[2] for cells in table(root)] == ["waiting"] * 3


def test_a_family_is_cancelled_as_a_whole() -> None:
    _, root, _ = family()
    assert ran_loopkit("cancel", root).returncode == 0
    assert table()[0][1] == "cancelled"
    assert [cells[2] for cells in table(root)] == ["cancelled"] * 3


def test_a_family_is_removed_as_a_whole() -> None:
    _, root, children = family()
    assert ran_loopkit("runs", "rm", root).returncode == 0
    assert "no runs yet" in ran_loopkit("runs", "ls").stderr
    assert "no run" in ran_loopkit("runs", "show", children[0]).stderr


def test_to_resume_a_child_is_to_resume_its_root() -> None:
    _, root, children = family()
    assert ran_loopkit("resume", children[0]).returncode == 5
    assert "resumed" in ran_loopkit("runs", "logs", root).stdout
    assert ran_loopkit("resume", f"{root}/none").returncode == 2
