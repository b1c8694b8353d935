"""The machine for a plan of tasks: with real commands, and with plans that can't be used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.language.input_faults import InvalidInput
from loopkit.language.load import load
from loopkit.language.machine import Machine
from loopkit.machine.inputs import complete_input
from tests.support import ROOT, Desk

MACHINE = ROOT / "machines/task_validation.yaml"
PLAN = """\
meta:
  name: rows
  source_item: backlog/rows.md
  owner: Ada
  validation: {enabled: true, validators: [validator]}
sections:
  - id: '1'
    name: Build
    status: in_progress
    tasks:
      - id: '1.1'
        name: Count
        agent: coder
        status: pending
        target_acs: [AC1]
        description: Let `count` count the rows of a text.
        estimate: 2h
"""
AGENT = '''
"""A coding program that gets it right once it is told what is wrong."""
import json, sys

prompt, system = sys.stdin.read(), sys.argv[sys.argv.index("--append-system-prompt") + 1]
if system.startswith("You judge"):
    code = prompt.rpartition("The code of this question is `")[2].partition("`")[0]
    said = f"- [PASS] It counts rows.\\n\\n{code}\\n\\n**Verdict: PASS**"
elif "PREVIOUS VALIDATION FAILED" in prompt and "test_empty" in prompt:
    open("rows.py", "w").write("def count(text):\\n    return len(text.splitlines())\\n")
    said = "An empty text has no rows now."
else:
    open("rows.py", "w").write("def count(text):\\n    return text.count(chr(10)) + 1\\n")
    said = "It counts line breaks."
print(json.dumps({"type": "result", "result": said, "total_cost_usd": 0.25}))
'''
TESTS = """
from rows import count

def test_two():
    assert count("a\\nb") == 2

def test_empty():
    assert count("") == 0
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small repository with a plan, in which the command line works."""
    files = {
        "plan.yaml": PLAN,
        "agent.py": AGENT,
        "test_rows.py": TESTS,
        "backlog/rows.md": "# Rows\n",
        ".gitignore": ".loopkit\n__pycache__\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "{tmp_path}/agent.py" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Begin"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str) -> int:
    return invoke(["run", str(MACHINE), "--set", "plan=plan.yaml", "--workspace", ".", *options])


def test_a_task_is_built_until_its_tests_pass_and_merged_with_its_findings_noted(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    said = ["--set", f"test_command={tests}"]
    builds = f"build_command={sys.executable} -m compileall -q rows.py"
    assert run(*said, "--set", builds) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    of_task = told["1.1"]
    assert (of_task["outcome"], of_task["rounds"], of_task["calls"]) == ("verified", 2, 3)
    assert of_task["cost"] == 0.75
    assert "splitlines" in (project / "rows.py").read_text()
    log = (project / "backlog/rows.md").read_text()
    assert log.startswith("# Rows\n\n### Task 1.1 - FAIL (attempt 1)\n")
    assert "test_empty" in log
    assert log.rstrip().endswith("\n\n### Task 1.1 - PASS (attempt 2)")
    kept, _, written = (project / "plan.yaml").read_text().partition("        estimate: 2h\n")
    assert kept == PLAN.partition("        estimate")[0].replace(
        "status: pending", "status: verified"
    )
    assert "attempts: 2\n" in written
    assert run(*said) == 0
    assert '"done_before"' in capsys.readouterr().out


def test_a_test_command_that_cannot_be_started_asks_a_person_and_not_the_coder(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ["--set", "test_command=no-such-program"]
    assert run(*said) == 5
    told = capsys.readouterr()
    assert "was built, but not judged" in told.out + told.err
    assert not (project / "rows.py").exists()


def test_a_validator_that_answers_for_another_task_passes_nothing_and_a_person_is_asked(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.22: neither a pass nor a reason to build again."""
    (project / "agent.py").write_text(AGENT.replace("{code}", "0123456789ab"))
    assert run() == 5
    told = capsys.readouterr()
    assert "was built, but not judged" in told.out + told.err
    assert "does not repeat" in told.out + told.err
    assert not (project / "rows.py").exists()


SIDE_BY_SIDE = '''
"""A coding program that leaves a note in a file of a fixed name, and reads it when it is done."""
import json, re, sys, time

prompt = sys.stdin.read()
task = re.search(r"(?m)^Task (\\S+):", prompt)[1]
open(sys.argv[0] + ".log", "a").write(task + ("!" if "left in: same.txt" in prompt else ""))
open("status.txt", "w").write(task)
time.sleep(1)
open(f"FILE", "w").write(f"made by {task}\\n")
print(json.dumps({"type": "result", "result": "I did " + open("status.txt").read()}))
'''
BOTH = """\
sections:
  - tasks:
      - {id: a, parallel_group: g}
      - {id: b, parallel_group: g}
      - {id: c, depends_on: [b]}
"""


def side_by_side(project: Path, file: str) -> int:
    """Run two tasks at the same time, and one after them; each writes this file."""
    (project / "agent.py").write_text(SIDE_BY_SIDE.replace("FILE", file))
    (project / "plan.yaml").write_text(BOTH)
    with (project / ".gitignore").open("a") as ignored:
        ignored.write("status.txt\n*.log\n")
    return run()


def test_tasks_at_the_same_time_share_no_file_and_their_work_comes_together(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.46, S1.47: what one agent writes, the other does not read."""
    assert side_by_side(project, "{task}.txt") == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [task["outcome"] for task in told.values()] == ["not_applicable"] * 3
    assert [task["result"]["work"] for task in told.values()] == ["I did a", "I did b", "I did c"]
    assert [(project / f"{name}.txt").read_text() for name in "abc"] == [
        "made by a\n", "made by b\n", "made by c\n"
    ]  # fmt: skip


def test_of_two_tasks_that_write_the_same_file_one_is_carried_out_again_on_the_work_of_the_other(
    project: Path,
) -> None:
    """S1.46: nothing is overwritten by somebody who has not seen it."""
    assert side_by_side(project, "same.txt") == 0
    assert sorted((project / "agent.py.log").read_text()) == [*"!abbc"]
    assert (project / "same.txt").read_text() == "made by c\n"


def failed(**fields: Any) -> str:
    """The script of a program whose last record has these fields."""
    record = {"type": "result", "subtype": "success", "is_error": True, "result": "", **fields}
    return f"echo '{json.dumps(record)}'; exit 1"


CAUSES = {
    "its turns": (failed(subtype="error_max_turns"), 1, "attempts: 3"),
    "no cause that is known": ("echo 'No module named x' >&2; exit 1", 4, "status: in_progress"),
    "a key": (failed(result="Bad key", api_error_status=401), 4, "status: in_progress"),
    "a quota": (failed(result="Usage limit reached", api_error_status=429), 4, "in_progress"),
    "an outage": (failed(result="Overloaded", api_error_status=529), 4, "status: in_progress"),
    "a kill": ("kill -KILL $$", 4, "status: in_progress"),
}


@pytest.mark.parametrize(("code", "exit_code", "written"), CAUSES.values(), ids=CAUSES)
def test_a_coder_that_gives_no_answer_has_used_an_attempt_unless_something_else_failed(
    project: Path, code: str, exit_code: int, written: str
) -> None:
    (project / "bin/claude").write_text(f"#!/bin/sh\n{code}\n")
    assert run() == exit_code
    plan = (project / "plan.yaml").read_text()
    assert (written in plan, "attempts:" in plan) == (True, exit_code == 1)


CHANGED = """\
sections:
  - tasks:
      - {id: a, description: Begin.}
      - {id: b, description: Remove me.}
      - {id: c, description: Skip me.}
      - {id: d, attempts: 1, description: Old.}
"""
CHANGES = """
import json, pathlib, re, sys

prompt, plan = sys.stdin.read(), pathlib.Path(sys.argv[0]).with_name("plan.yaml")
if "Begin." in prompt:
    text = re.sub(".*Remove me.*\\n", "", plan.read_text()).replace("Old.", "New.")
    plan.write_text(text.replace("Skip me.", "Skip me., status: skipped"))
print(json.dumps({"type": "result", "result": re.search("Begin|Old|New", prompt)[0]}))
"""


def test_a_plan_that_a_coder_changes_is_read_again_and_its_tasks_are_found_by_id(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.57: our counters stay; what has vanished or has another status is refused by name."""
    (project / "agent.py").write_text(CHANGES)
    (project / "plan.yaml").write_text(CHANGED)
    assert run() == 1
    said = capsys.readouterr()
    told: dict[str, Any] = json.loads(said.out)
    outcomes = ["not_applicable", "refused", "refused", "not_applicable"]
    assert [task["outcome"] for task in told.values()] == outcomes
    assert told["d"]["result"]["work"] == "New"
    assert 'no `sections[].tasks[]`, id "b"' in said.err
    assert '`status` is "skipped" instead of null or "in_progress"' in said.err
    assert (project / "plan.yaml").read_text().splitlines()[2:] == [
        "      - {id: a, description: Begin., status: completed, attempts: 1}",
        "      - {id: c, description: Skip me., status: skipped}",
        "      - {id: d, attempts: 2, description: New., status: completed}",
    ]


RECORDS = """
loopkit: 1
input: {record: any}
agents:
  validator:
    command: [cat, status.json]
    retry: {attempts: 1}
    errors: [{stdout: nothing was written|out of credit, class: transient}]
validators:
  record:
    judge: validator
    prompt: Judge it.
    reask: 0
    map:
      verdict: verdict
      verdicts: {PASS: pass, WARN: warn, FAIL: fail}
      met: requirements_met
      checked: requirements_checked
  message:
    judge: validator
    prompt: Judge it.
    reask: 0
    verdict: {pattern: 'VERDICT: (PASS|FAIL)'}
states:
  write:
    render: "{{ input.record | tojson }}"
    output: {name: record, file: status.json}
    next: check
  check:
    validate: record
    by: [record]
    transitions: [{guard: incomplete, target: reread}, {target: done}]
  reread:
    validate: record
    by: [message]
    transitions: [{guard: incomplete, target: error}, {target: done}]
  done: {final: success}
  error: {final: failure}
"""
COUNTS = {"requirements_checked": None, "requirements_met": None}
RECORD_ROWS = [
    ({"verdict": "PASS", **COUNTS, "message": "Fine."}, ["pass", 0, 0]),
    ({"verdict": "PASS", "requirements_checked": 4, "requirements_met": 3}, ["warn", 0, 1]),
    ({"verdict": "WARN", "message": "An old script is gone."}, ["warn", 0, 1]),
    ({"verdict": "FAIL", **COUNTS, "message": "nothing was written"}, None),
    ({"verdict": "FAIL", "message": "out of credit, comes back at 3"}, None),
    ({"verdict": "FAIL", "findings": ["[PASS] a", "[FAIL] b", "[WARN] c"]}, ["fail", 1, 1]),
    ({"status": "completed", "message": "VERDICT: PASS. It rains."}, ["pass", 0, 0]),
    ({"status": "completed", "message": "It rains."}, None),
]


@pytest.mark.parametrize(("record", "judged"), RECORD_ROWS, ids=lambda row: json.dumps(row)[:50])
def test_the_records_that_validators_leave_are_read(
    desk: Desk, record: dict[str, Any], judged: list[Any] | None
) -> None:
    """States are no verdicts, and failures of a validator neither; null is no number."""
    played = desk.play(RECORDS, inputs={"record": record})
    report = played.reports[-1]
    if judged is None:
        assert played.outcome == "error"
    else:
        assert [
            report.verdict,
            len(report.blocking),
            len(report.findings) - len(report.blocking),
        ] == judged


SECOND = "{id: '1.2', name: Two, agent: coder, description: Two., depends_on: ['1.1']}"
BROKEN = {
    "a cycle": (
        "        estimate: 2h\n",
        f"        dependencies: ['1.2']\n      - {SECOND}\n",
        "these wait for each other: 1.1 → 1.2 → 1.1",
    ),
    "an unknown task": (
        "agent: coder",
        "agent: coder\n        depends_on: ['9.9']",
        "`input.plan.data.sections[0].tasks[0].depends_on[0]`: there is no task `9.9`",
    ),
    "the same id twice": (
        "        estimate: 2h\n",
        "      - {id: '1.1', name: Again, agent: coder, description: Again.}\n",
        "`1.1` is a key already, at `input.plan.data.sections[0].tasks[0].id`",
    ),
    "conflict markers": ("meta:\n", "<<<<<<< HEAD\nmeta:\n=======\n>>>>>>> main\n", "plan.yaml:1"),
    "broken YAML": ("meta:\n", "meta: [\n", "plan.yaml:"),
    "no tasks": (PLAN[PLAN.index("    tasks:") :], "    tasks: []\n", "0 items, where at least 1"),
    "validation that is no mapping": (
        "{enabled: true, validators: [validator]}",
        "true",
        "validation",
    ),
    "a misspelt key of validation": (
        "{enabled: true,",
        "{enabled: true, run_befor: [],",
        "run_befor",
    ),
    "a wrong type in validation": ("{enabled: true,", "{enabled: maybe,", "enabled"),
    "an unknown validator": ("validators: [validator]", "validators: [critic]", "critic"),
}


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load(MACHINE).machine


@pytest.mark.parametrize(("old", "new", "told"), BROKEN.values(), ids=BROKEN)
def test_a_plan_that_cannot_be_used_is_refused_before_anything_starts(
    machine: Machine, tmp_path: Path, old: str, new: str, told: str
) -> None:
    """S1.4, S1.45, S1.58: no part of a plan that is not understood is passed over."""
    assert old in PLAN
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    complete_input(machine, {"plan": str(plan)})
    plan.write_text(PLAN.replace(old, new))
    with pytest.raises(InvalidInput) as refused:
        complete_input(machine, {"plan": str(plan)})
    assert told in str(refused.value)


def test_a_plan_that_is_refused_costs_nothing_and_stays_as_it_is(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a wrong type in validation", "conflict markers"):
        old, new, told = BROKEN[name]
        plan = PLAN.replace(old, new)
        (project / "plan.yaml").write_text(plan)
        assert run() == 2
        said = capsys.readouterr()
        assert told in said.err
        assert "Traceback" not in said.err
        assert (project / "plan.yaml").read_text() == plan
        assert not (project / "rows.py").exists()
    assert not list(project.glob(".loopkit/**/*.db"))


def test_what_a_plan_would_take_is_told_without_a_call_and_a_key_that_is_one_slip_away(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S1.10: nothing is asked, nothing is stored, and no verdict is given."""
    (project / "plan.yaml").write_text(PLAN.replace("estimate: 2h", "dependancies: ['1.0']"))
    assert invoke(["plan", str(MACHINE), "--set", "plan=plan.yaml"]) == 0
    told = capsys.readouterr()
    said = " ".join(told.out.split())
    assert "for each task of input.plan.data.sections[].tasks[], 1 to 2 times" in said
    assert "Commands that can run: " in said
    assert "coder (your login, no key is passed): claude -p" in said
    assert "verify · builds: sh -c" in said
    assert "[0].dependancies`; did you mean `dependencies`?" in told.err
    assert not (project / "rows.py").exists()
    assert not list(project.glob(".loopkit/**/*.db"))
