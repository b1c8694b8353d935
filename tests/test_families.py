"""Families at the command line: a run and the runs that it has begun, seen, answered and ended."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

import pytest

import loopkit
from loopkit import AnswerRefused
from loopkit.app import App
from loopkit.cli import invoke
from tests.machines import loop
from tests.terminal import Terminal
from tests.waiting import LONG_S, until
from tests.warm import Process, ran_loopkit

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
SLOW_TASK = TASK.replace(
    """  draft: {render: "About {{ input.text }}.", next: ask}
""",
    """  start:
    transitions:
      - {guard: input.text == "milk", target: draft}
      - {target: ask}
  draft: {run: [sh, -c, "touch begun; while ! test -e go; do sleep 0.05; done"], next: ask}
""",
).replace(", result: draft", "")
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
def _machines(own_folder: Path) -> None:
    Path("task.yaml").write_text(TASK, encoding="utf-8")
    Path("parent.yaml").write_text(PARENT, encoding="utf-8")


def table(*arguments: str) -> list[list[str]]:
    """The cells of the table of runs, without its headings."""
    with redirect_stdout(io.StringIO()) as listed:
        assert invoke(["runs", "ls", *arguments]) == 0
    return [re.split(r"  +", line) for line in listed.getvalue().splitlines()[1:]]


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


def test_each_line_about_a_child_begins_with_its_place() -> None:
    ran, _, (tea, *_) = family("--output", "plain")
    lines = ran.stderr.splitlines()
    assert f"parts[tea] run {tea}" in lines
    assert "parts[sugar] ask            waits for a person: Is sugar fine?" in lines


def test_a_child_that_ended_is_told_once_with_what_it_took() -> None:
    _, root, _ = family()
    told = ran_loopkit("answer", root, "approve", "--all").stderr.splitlines()
    assert "  parts          tea: done (success) · 0 calls" in told
    assert not [line for line in told if line.startswith("parts[tea] done")]
    logged = ran_loopkit("runs", "logs", root).stdout.splitlines()
    assert "  parts          tea: done (success) · 0 calls" in [line[10:] for line in logged]


def test_every_event_names_its_run_and_the_result_has_all_open_questions() -> None:
    ran, root, children = family("--output", "jsonl")
    *events, result = map(json.loads, ran.stdout.splitlines())
    assert {event["run"] for event in events} == {root, *children}
    for run in (root, *children):
        seqs = [event["seq"] for event in events if event["run"] == run]
        assert seqs == list(range(2, len(seqs) + 2))
    assert (result["status"], result["exit"], result["question"]) == ("waiting", 5, None)
    assert [(one["run"], one["item"], one["text"]) for one in result["questions"]] == [
        (child, f"parts[{key}]", f"Is {key} fine?")
        for key, child in zip(("tea", "milk", "sugar"), children, strict=True)
    ]


def test_a_person_at_the_terminal_answers_one_child_after_the_other() -> None:
    terminal = Terminal(["run", "parent.yaml"], columns=80)
    for number, key in enumerate(("tea", "milk", "sugar"), 1):
        asked = terminal.wait_for("Your choice: ")
        assert f"parts[{key}] ({number} of 3)" in asked
        assert f"Is {key} fine?" in asked
        terminal.type("approve\n")
    terminal.wait_for(": 0 calls\r\n")
    assert terminal.end() == 0
    assert table()[0][2] == "done (success)"


def test_what_a_person_has_answered_is_kept_when_the_next_question_is_left_open() -> None:
    terminal = Terminal(["run", "parent.yaml"], columns=80)
    terminal.wait_for("Your choice: ")
    terminal.type("reject\n")
    terminal.wait_for("Your choice: ")
    terminal.type("\x03")
    terminal.wait_for("your answers are kept")
    assert terminal.end() == 130
    [[root, *_]] = table()
    assert ran_loopkit("resume", root).returncode == 5
    assert [cells[3] for cells in table(root)] == ["failed (failure)", "ask", "ask"]


@pytest.fixture
def driven() -> Iterator[tuple[Process, str, list[str]]]:
    """A family of which one child waits for a person while another one is at work."""
    Path("task.yaml").write_text(SLOW_TASK, encoding="utf-8")
    Path("parent.yaml").write_text(
        PARENT.replace("parallel: 2", "parallel: 3\n    serial: [draft]"), encoding="utf-8"
    )
    driving = Process(["-m", "loopkit", "run", "parent.yaml"])
    try:
        until(lambda: Path("begun").exists())
        [[root, *_]] = table()
        until(lambda: table(root)[0][2] == "waiting")
        yield driving, root, [cells[1] for cells in table(root)]
    finally:
        Path("go").touch()
        driving.communicate(LONG_S)


def test_an_answer_to_a_child_is_taken_by_the_process_that_drives_the_family(
    driven: tuple[Process, str, list[str]],
) -> None:
    driving, root, children = driven
    answered = ran_loopkit("answer", children[0], "approve")
    assert answered.returncode == 0
    assert "it takes the answer after the step in hand" in answered.stderr
    until(lambda: table(root)[0][2] == "finished")
    assert driving.poll() is None


def test_a_family_that_is_driven_is_cancelled_by_its_process(
    driven: tuple[Process, str, list[str]],
) -> None:
    driving, root, _ = driven
    assert "it ends the work in hand and cancels the run" in ran_loopkit("cancel", root).stderr
    driving.communicate(LONG_S)
    assert driving.returncode == 1
    assert {cells[2] for cells in table(root)} == {"cancelled"}


def test_a_family_that_is_driven_is_not_removed(driven: tuple[Process, str, list[str]]) -> None:
    _, root, children = driven
    assert ran_loopkit("runs", "rm", root).returncode == 4
    assert [cells[1] for cells in table(root)] == children


def test_a_signal_stops_the_family_after_the_steps_in_hand(
    driven: tuple[Process, str, list[str]],
) -> None:
    driving, root, _ = driven
    driving.send_signal(signal.SIGINT)
    Path("go").touch()
    _, told = driving.communicate(LONG_S)
    assert "the steps in hand are finished first" in told
    assert driving.returncode == 130
    assert table()[0][1] == "suspended"
    assert ran_loopkit("resume", root).returncode == 5


TIMED_TASK = """
loopkit: 1
name: task
input: {text: str}
states:
  first: {run: [sleep, "0.6"], next: second}
  second: {run: [sh, -c, "touch begun; test -e go || sleep 20"], on_in_doubt: retry, next: done}
  done: {final: success}
"""
GRANDPARENT = """
loopkit: 1
name: grandparent
states:
  family:
    machine: parent.yaml
    input: {parts: [tea]}
    transitions: [{guard: outcome == "done", target: done}, {target: failed}]
  done: {final: success}
  failed: {final: failure}
"""


def kill_in_second_step(*command: str) -> None:
    driving = Process(["-m", "loopkit", *command])
    until(Path("begun").exists, "a second step")
    driving.send_signal(signal.SIGKILL)
    driving.wait(LONG_S)
    Path("begun").unlink()


def time_of(run: str) -> float:
    """The seconds of work of a run, as its records tell."""

    async def read() -> float:
        async with App.open(Path(".loopkit")) as app:
            return (await app.state_of(run)).usage.time_s

    return asyncio.run(read())


@pytest.mark.parametrize("machine", ["parent.yaml", "grandparent.yaml"])
@pytest.mark.parametrize("kills", [1, 2])
def test_what_children_worked_before_a_kill_is_time_of_all_above(machine: str, kills: int) -> None:
    Path("task.yaml").write_text(TIMED_TASK, encoding="utf-8")
    one_of_one = PARENT.replace("parallel: 2", "parallel: 1").replace(", milk, sugar", "")
    Path("parent.yaml").write_text(one_of_one, encoding="utf-8")
    Path("grandparent.yaml").write_text(GRANDPARENT, encoding="utf-8")
    kill_in_second_step("run", machine)
    [[run, *_]] = table()
    for _ in range(kills - 1):
        kill_in_second_step("resume", run)
    Path("go").touch()
    assert ran_loopkit("resume", run).returncode == 0
    assert time_of(run) >= 0.6


def test_a_family_that_was_killed_does_not_pass_its_limit_on_time() -> None:
    Path("task.yaml").write_text(TIMED_TASK, encoding="utf-8")
    one_by_one = PARENT.replace("parallel: 2", "parallel: 1")
    Path("parent.yaml").write_text(one_by_one, encoding="utf-8")
    kill_in_second_step("run", "parent.yaml")
    [[run, *_]] = table()
    resumed = ran_loopkit("resume", run, "--set", "limits.time=500ms")
    assert resumed.returncode == 3
    assert "the limit `time` leaves no room" in resumed.stderr
    assert not Path("begun").exists()


def test_the_notifier_is_told_once_of_a_family_with_all_that_is_asked() -> None:
    script = Path("tell.sh")
    script.write_text("#!/bin/sh\ncat >> told; echo >> told\n", encoding="utf-8")
    script.chmod(0o755)
    _, root, children = family("--notify", "./tell.sh")
    [told] = map(json.loads, Path("told").read_text(encoding="utf-8").splitlines())
    assert (told["run"], told["status"]) == (root, "waiting")
    assert [one["run"] for one in told["questions"]] == children


def test_python_sees_the_questions_of_children_and_answers_them() -> None:
    waiting = loopkit.run("parent.yaml", {"parts": ["tea", "milk"]})
    assert (waiting.status, waiting.question) == ("waiting", None)
    assert [asked.text for asked in waiting.questions.values()] == ["Is tea fine?", "Is milk fine?"]
    with pytest.raises(AnswerRefused, match="has 2 open questions"):
        loopkit.answer(waiting.run, "approve")
    one_left = loopkit.answer(next(iter(waiting.questions)), "approve")
    assert (one_left.run, len(one_left.questions)) == (waiting.run, 1)
    assert loopkit.answer(waiting.run, "approve").outcome == "done"


def test_a_batch_counts_families_whose_children_wait_and_goes_on_with_them() -> None:
    Path("lines.jsonl").write_text('{"parts": ["tea"]}\n{"parts": ["milk"]}\n', encoding="utf-8")
    batch = ("run", "parent.yaml", "--batch", "lines.jsonl", "-o", "out.jsonl")
    waits = ran_loopkit(*batch)
    assert (waits.returncode, "2 waiting for a person" in waits.stderr) == (5, True)
    for cells in table():
        ran_loopkit("answer", cells[0], "approve")
    assert ran_loopkit(*batch).returncode == 0
    results = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [result["outcome"] for result in results] == ["done", "done"]


def test_another_machine_is_for_the_children_that_begin_from_then_on() -> None:
    Path("parent.yaml").write_text(
        PARENT.replace("parallel: 2", "parallel: 2\n    after: part.after")
        .replace("[str]", "[{id: str, after: [str]}]")
        .replace("[tea, milk, sugar]", "[{id: tea, after: []}, {id: milk, after: [tea]}]")
        .replace("key: part\n", "key: part.id\n")
        .replace("{{ part }}", "{{ part.id }}"),
        encoding="utf-8",
    )
    _, root, _ = family()
    Path("task.yaml").write_text(TASK.replace("fine?", "good?"), encoding="utf-8")
    assert ran_loopkit("resume", root, "--machine", "parent.yaml").returncode == 5
    asked = ran_loopkit("answer", root, "approve")
    assert "Is milk good?" in asked.stderr
    assert "Is tea good?" not in asked.stderr


def test_another_machine_with_other_items_does_not_fit_while_children_are_under_way() -> None:
    _, root, children = family()
    other = PARENT.replace("input: {parts", "input: {others: {type: [str], default: [x]}, parts")
    Path("parent.yaml").write_text(
        other.replace("each: input.parts", "each: input.others"), encoding="utf-8"
    )
    refused = ran_loopkit("resume", root, "--machine", "parent.yaml")
    assert refused.returncode == 2
    assert "error[does-not-fit]: items of `parts` have begun, and would be others" in refused.stderr
    assert "keep `each: input.parts`" in refused.stderr
    assert [cells[1] for cells in table(root)] == children


def test_a_child_that_reached_a_limit_of_its_own_goes_on_with_a_raised_one() -> None:
    Path("task.yaml").write_text(
        loop(
            "[{matches: good, message: It is not good.}]",
            {"valid": "done"},
            "{revise: one}",
            "{target: failed}",
            top="""
name: task
input: {text: str}
limits: {agent_calls: 1, revisions: 1}
agents: {writer: {command: [sh, -c, "cat > /dev/null; echo bad"]}}
""",
            draft='one: {agent: writer, prompt: "Write.{{ feedback }}"}',
            judge="check",
        ),
        encoding="utf-8",
    )
    Path("parent.yaml").write_text(PARENT.replace("parallel: 2", "parallel: 1"), encoding="utf-8")
    ran, root, children = family("--set-json", 'parts=["tea"]')
    assert ran.returncode == 3
    assert ran_loopkit("resume", root).returncode == 3
    raised = ran_loopkit("resume", children[0], "--set", "limits.agent_calls=2")
    assert raised.returncode == 1
    assert table(root)[0][2:4] == ["finished", "failed (failure)"]


def test_one_answer_serves_many_calls_in_doubt() -> None:
    judge = "echo >> calls; if [ -e go ]; then echo {}; else while [ $(wc -l < calls) -lt 2 ]; do "
    judge += "sleep 0.05; done; kill -9 $PPID; sleep 9; fi"
    answer = json.dumps({"verdict": "pass", "findings": []})
    command = json.dumps(["sh", "-c", judge.replace("{}", f"'{answer}'")])
    Path("doubts.yaml").write_text(
        f"""
loopkit: 1
name: doubts
agents: {{one: {{command: {command}}}, two: {{command: {command}}}}}
states:
  note: {{render: A note., next: check}}
  check:
    validate: note
    by: [{{judge: one, rubric: [It is one.]}}, {{judge: two, rubric: [It is one.]}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{target: failed}}
  done: {{final: success}}
  failed: {{final: failure}}
""",
        encoding="utf-8",
    )
    assert ran_loopkit("run", "doubts.yaml").returncode == -signal.SIGKILL
    [[root, *_]] = table()
    Path("go").touch()
    assert ran_loopkit("resume", root).returncode == 5
    answered = ran_loopkit("answer", root, "retry", "--all")
    assert answered.returncode == 0, answered.stderr


def test_what_a_grandchild_asks_is_told_with_its_whole_place() -> None:
    Path("grandparent.yaml").write_text(GRANDPARENT, encoding="utf-8")
    ran = ran_loopkit("run", "grandparent.yaml")
    assert ran.returncode == 5
    [[root, *_]] = table()
    assert (
        f"family/parts[tea]: Is tea fine? (approve, reject)\n  loopkit answer {root}/" in ran.stderr
    )
