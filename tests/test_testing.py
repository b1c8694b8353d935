"""`loopkit test`, the pytest plug-in, and what they share: selecting, diffs, JUnit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopkit.scenario.cases import GAP
from loopkit.testing.suites import scenario_files
from loopkit.testing.trace import align, diff, fit
from tests.support import Desk
from tests.warm import command, ran, ran_loopkit

MACHINE = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [{min_chars: 5}]
    transitions: [{guard: valid, target: done}, {revise: draft, max: 1}, {target: dropped}]
  done: {final: success, result: text}
  dropped: {final: failure}
"""
CASES = """
scenario: 1
machine: machine.yaml
cases:
  good at once:
    agents: {writer: [long enough]}
    expect: {outcome: done, path: [draft, check, done]}
  good in the end:
    agents: {writer: [no, long enough]}
    expect: {outcome: done, path: [draft, check, draft, check, done]}
"""
FAILING = CASES.replace("path: [draft, check, done]", "path: [draft, check, dropped]")
FAILING_LINE = 6


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COVERAGE"))}


def loopkit(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """What came of a command in a folder."""
    return ran_loopkit(*arguments, cwd=folder, env=environment(), timeout=300)


def loopkit_test(desk: Desk, *arguments: str) -> CompletedProcess[str]:
    return loopkit(desk.folder, "test", *arguments)


def run_pytest(desk: Desk, *arguments: str) -> CompletedProcess[str]:
    # Its own configuration, so that none of a folder above counts.
    desk.write("pytest.ini", "[pytest]\n")
    # What else is installed here, those who use loopkit need not have.
    without = [
        option for name in ("hypothesispytest", "asyncio") for option in ("-p", f"no:{name}")
    ]
    program = ["-m", "pytest", "-p", "no:cacheprovider", *without, *arguments]
    return ran(program, cwd=desk.folder, env=environment(), timeout=300)


@pytest.fixture
def project(desk: Desk) -> Desk:
    """A folder outside of this repository that has a machine with two good cases."""
    desk.write("loops/machine.yaml", MACHINE)
    desk.write("loops/good.scenario.yaml", CASES.lstrip())
    return desk


def test_each_case_is_a_line_and_a_folder_is_searched(project: Desk) -> None:
    for folder in (".hidden", "env/lib"):
        project.write(f"loops/{folder}/bad.scenario.yaml", "broken: [")
    project.write("loops/env/pyvenv.cfg", "")
    result = loopkit_test(project)
    first, second = result.stdout.splitlines()
    assert first.startswith("loops/good.scenario.yaml: good at once: ok (")
    assert second.startswith("loops/good.scenario.yaml: good in the end: ok (")
    assert (result.stderr, result.returncode) == ("2 cases passed\n", 0)


def test_a_failure_names_the_line_and_shows_both_paths(project: Desk) -> None:
    project.write("loops/bad.scenario.yaml", FAILING.lstrip())
    result = loopkit_test(project, "-k", "ONCE bad")
    assert result.returncode == 1
    assert result.stderr == "1 case: 1 failed\n"
    assert f"--> loops/bad.scenario.yaml:{FAILING_LINE}:" in result.stdout
    assert "      draft\n      check\n    - dropped\n    + done\n" in result.stdout


def test_a_file_that_cannot_be_used_is_told_and_the_others_are_tested(project: Desk) -> None:
    project.write("loops/broken.scenario.yaml", CASES.lstrip().replace("draft, check", "drft"))
    result = loopkit_test(project, "--junitxml", "out.xml")
    assert (result.stderr, result.returncode) == ("2 cases passed, 1 file can't be used\n", 2)
    assert "did you mean `draft`?" in result.stdout
    suites = ET.parse(project.folder / "out.xml").getroot().findall("testsuite")
    assert [(suite.get("tests"), suite.get("errors")) for suite in suites] == [
        ("2", "0"),
        ("1", "1"),
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.scenario.yaml"], "check its name"),
        (["-k", "neither"], "names no case"),
        (["empty"], "no `*.scenario.yaml` lies below"),
        (["loops/machine.yaml"], "this is a machine, not a scenario"),
    ],
)
def test_a_test_of_nothing_is_wrong_usage(
    project: Desk, arguments: Sequence[str], told: str
) -> None:
    (project.folder / "empty").mkdir()
    result = loopkit_test(project, *arguments)
    assert (result.returncode, told in result.stdout + result.stderr) == (2, True), result


def test_junit_tells_of_each_case_whatever_its_texts_hold(project: Desk) -> None:
    odd = FAILING.replace("path: [draft, check, dropped]", "artifacts: {text: {lacks: <b>}}")
    odd = odd.replace("[long enough]", '["\\uffff & <b> ]]>"]')
    project.write("loops/odd.scenario.yaml", odd.lstrip())
    result = loopkit_test(project, "--junitxml", "out.xml")
    assert result.returncode == 1
    cases = list(ET.parse(project.folder / "out.xml").getroot().iter("testcase"))
    assert [case.get("name") for case in cases] == ["good at once", "good in the end"] * 2
    (failure,) = (case.find("failure") for case in cases if len(case))
    assert failure is not None
    assert str(failure.get("message")).startswith(f"loops/odd.scenario.yaml:{FAILING_LINE}:")
    assert "& <b> ]]>" in str(failure.text)


@pytest.mark.parametrize("option", ["--junitxml", "--coverage-json"])
def test_results_that_cannot_be_written_are_told_with_their_file(
    project: Desk, option: str
) -> None:
    result = loopkit_test(project, option, "nowhere/out")
    told = "error: cannot write nowhere/out: No such file or directory\n"
    assert (result.returncode, told in result.stderr) == (2, True), result


def test_a_reader_that_goes_away_is_no_failure_of_a_case(project: Desk) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    tests = subprocess.run(
        command("-m", "loopkit", "test", str(project.folder)),
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (tests.returncode, tests.stderr) == (4, b"")


def test_a_scenario_where_a_machine_belongs_is_told_with_its_machine(project: Desk) -> None:
    result = loopkit(project.folder, "check", "loops/good.scenario.yaml")
    assert result.returncode == 1
    assert "this is a scenario, not a machine" in result.stdout
    assert "name its machine, `machine.yaml`" in result.stdout
    assert result.stdout.count("error[") == 1


def test_a_case_plays_a_run_where_it_is_named(project: Desk) -> None:
    run = ["run", "machine.yaml", "--script", "good.scenario.yaml"]
    folder = project.folder / "loops"
    named = loopkit(folder, *run, "--case", "good in the end")
    assert (named.stdout, named.returncode) == ("long enough\n", 0)
    unnamed = loopkit(folder, *run)
    assert unnamed.returncode == 2
    assert "name one: `--case 'good at once'`" in unnamed.stderr
    unknown = loopkit(folder, *run, "--case", "good at onec")
    assert "did you mean `good at once`?" in unknown.stderr


def test_a_crash_that_a_script_plays_stops_the_run_and_a_resume_goes_on(
    project: Desk,
) -> None:
    script = "scenario: 1\nagents: {writer: [[{fault: crash}, long enough]]}\n"
    project.write("crash.yaml", script)
    run = loopkit(project.folder, "run", "loops/machine.yaml", "--script", "crash.yaml")
    assert (run.returncode, "the process dies while `writer` is asked" in run.stderr) == (4, True)
    name = (loopkit(project.folder, "runs", "ls")).stdout.split()
    run_id = next(word for word in name if word.startswith("machine-"))
    resumed = loopkit(project.folder, "resume", run_id)
    assert (resumed.stdout, resumed.returncode) == ("long enough\n", 0)


def test_pytest_collects_cases_of_a_project_that_only_installs_loopkit(
    project: Desk,
) -> None:
    project.write("loops/bad.scenario.yaml", FAILING.lstrip())
    result = run_pytest(project, "-q", "-n", "2", "--junitxml", "out.xml")
    assert result.returncode == 1, result
    assert "1 failed, 3 passed" in result.stdout
    assert f"--> loops/bad.scenario.yaml:{FAILING_LINE}:" in result.stdout
    assert "    - dropped\n    + done\n" in result.stdout
    assert "Traceback" not in result.stdout
    cases = ET.parse(project.folder / "out.xml").getroot().iter("testcase")
    assert sorted(str(case.get("name")) for case in cases) == [
        *["good at once"] * 2, *["good in the end"] * 2,
    ]  # fmt: skip


def test_pytest_lists_and_selects_cases_and_tells_of_broken_files(project: Desk) -> None:
    listed = run_pytest(project, "-q", "--collect-only", "-k", "end")
    assert "loops/good.scenario.yaml::good in the end\n" in listed.stdout
    assert "1/2 tests collected (1 deselected)" in listed.stdout
    one = run_pytest(project, "-q", "loops/good.scenario.yaml::good at once")
    assert "1 passed" in one.stdout
    project.write("loops/broken.scenario.yaml", CASES.lstrip().replace("draft, check", "drft"))
    broken = run_pytest(project, "-q")
    assert broken.returncode == 2
    assert f"--> loops/broken.scenario.yaml:{FAILING_LINE}:" in broken.stdout
    assert "did you mean `draft`?" in broken.stdout


def test_pytest_imports_nothing_of_loopkit_where_no_scenario_files_are(
    desk: Desk,
) -> None:
    desk.write(
        "test_other.py",
        "import sys\n\n\ndef test_it():\n"
        "    ours = {m for m in sys.modules if m.split('.')[0] in ('loopkit', 'litellm')}\n"
        "    assert ours == {'loopkit', 'loopkit.pytest_plugin'}\n",
    )
    # An interpreter of its own: the other tests fork one that has imported loopkit.
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    result = subprocess.run(
        program, cwd=desk.folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert "1 passed" in result.stdout, result


def test_named_files_and_those_below_folders_are_each_tested_once(tmp_path: Path) -> None:
    inner = tmp_path / "a"
    inner.mkdir()
    for name in ("two.scenario.yaml", "one.scenario.yaml", "scenario.yaml", "other.yaml"):
        (inner / name).write_text("")
    named = inner / "two.scenario.yaml"
    assert scenario_files([named, tmp_path]) == [named, inner / "one.scenario.yaml"]


def test_a_link_that_leads_nowhere_is_not_passed_over(tmp_path: Path) -> None:
    link = tmp_path / "a.scenario.yaml"
    link.symlink_to("gone.scenario.yaml")
    (tmp_path / "b.scenario.yaml").mkdir()
    assert scenario_files([tmp_path]) == [link]


NAMES = st.lists(st.sampled_from("abc"), max_size=7)
WITH_GAPS = st.lists(st.sampled_from(["a", "b", "c", GAP]), max_size=6)


def fits(expected: list[str], taken: list[str]) -> bool:
    """The meaning of a gap, in the plainest words."""
    if not expected:
        return not taken
    if expected[0] == GAP:
        return any(fits(expected[1:], taken[n:]) for n in range(len(taken) + 1))
    return bool(taken) and taken[0] == expected[0] and fits(expected[1:], taken[1:])


@given(WITH_GAPS, NAMES)
def test_a_gap_stands_for_anything_between(expected: list[str], taken: list[str]) -> None:
    assert fit(expected, taken) == fits(expected, taken)


@given(WITH_GAPS, NAMES)
def test_a_diff_holds_both_sides_whole_and_shows_where_they_differ(
    expected: list[str], taken: list[str]
) -> None:
    rows = align(expected, taken)
    assert [row.name for row in rows if row.sign in " +…"] == taken
    assert [row.name for row in rows if row.sign in " -"] == [e for e in expected if e != GAP]
    assert fit(expected, taken) or any(row.sign in "+-" for row in rows)


def test_what_was_taken_in_a_gap_is_on_one_line_of_the_diff() -> None:
    rows = align(["a", GAP, "d", "e"], ["a", "b", "c", "d", "f"])
    assert diff(rows) == ("  a", "… b c", "  d", "- e", "+ f")
