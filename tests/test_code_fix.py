"""The code-fix loop: a coding program changes a folder, pytest judges, the best version is kept."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from loopkit.cli import invoke
from tests.support import ROOT, CommandLine
from tests.test_merging import git, write

CODER = """#!/bin/sh
cat > .prompt
echo >> .turns
case $(wc -l < .turns) in
1) sed -i "s/a - b/FIRST/" src/calc.py ;;
2) sed -i "s/a + 2/a * 2/" src/calc.py ;;
3) sed -i "s/def double/def doubled/" src/calc.py ;;
esac
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "Done."}'
"""
FAULTY = """def add(a, b):
    return a - b


def double(a):
    return a + 2
"""
TESTS = """from src.calc import add, double


def test_of_two():
    assert add(2, 3) == 5


def test_of_zero():
    assert add(0, 1) == 1


def test_of_double():
    assert double(5) == 10
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose tests fail, and a coding program that is a script."""
    files = {
        "src__calc.py": FAULTY,
        "tests__test_calc.py": TESTS,
        ".gitignore": ".prompt\n.turns\n",
    }
    folder = write(tmp_path / "project", **files)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "One")
    write(tmp_path / "bin", claude=CODER)
    (tmp_path / "bin/claude").chmod(0o755)
    python = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{python}:{os.environ['PATH']}")
    monkeypatch.chdir(folder)
    return folder


def coding(project: Path, first: str) -> int:
    """The exit code of the code-fix loop, with what the coder writes first."""
    program = project.parent / "bin/claude"
    program.write_text(CODER.replace("FIRST", first))
    return invoke(["run", str(ROOT / "machines/code_fix.yaml"), "--workspace", "."])


def test_the_code_fix_loop_repairs_a_project_in_its_second_attempt(
    project: Path, cli: CommandLine
) -> None:
    assert coding(project, "a + b") == 0
    told = cli.said()
    assert "- tests/test_calc.py:13: assert 7 == 10" in told.err
    assert "merged 1 file into the workspace" in told.err
    assert (project / "src/calc.py").read_text() == FAULTY.replace("a - b", "a + b").replace(
        "a + 2", "a * 2"
    )
    assert git(project, "status", "--porcelain") == " M src/calc.py\n"


def test_the_code_fix_loop_keeps_the_best_version_of_a_project_that_it_cannot_repair(
    project: Path, cli: CommandLine
) -> None:
    assert coding(project, "b - a") == 1
    told = cli.said().err
    assert "revision 3 of 3" in told
    [place] = re.findall("its work is left in (.*)", told)
    # Two tests fail at first, one in the second attempt, and then none can be collected.
    best = FAULTY.replace("a - b", "b - a").replace("a + 2", "a * 2")
    assert (Path(place) / "src/calc.py").read_text() == best
    assert git(project, "status", "--porcelain") == ""


def test_the_code_fix_loop_has_at_most_25_lines() -> None:
    assert len((ROOT / "machines/code_fix.yaml").read_text().splitlines()) <= 25
