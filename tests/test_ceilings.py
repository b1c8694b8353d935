"""The ceilings of size, as CI holds them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

SIZES = {
    "modules": 1, "lines": 3, "longest-module": 3, "text-bytes": 22, "bytes-per-line": 5.5,
    "test-lines": 2, "golden-lines": 1,
}  # fmt: skip
"""Of the small tree below: a module of three lines with a page of one, a test of two, a case."""


def run_with(folder: Path, ceilings: dict[str, float]) -> tuple[int, str]:
    rows = "".join(f"{name} = {value}\n" for name, value in ceilings.items())
    files = {
        "pyproject.toml": f"[tool.loopkit.ceilings]\n{rows}",
        "loopkit/a.py": "x = 1\n\ny = 2\n",
        "loopkit/page.html": "<p>hi</p>",
        "tests/test_a.py": "a = 1\nb = 2\n",
        "tests/cases/a.yaml": "a: 1\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/ceilings.py", folder / ".ci")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "loopkit", "tests"], cwd=folder, check=True)
    (folder / "loopkit/untracked.py").write_text("z = 3\n" * 100, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, ".ci/ceilings.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_what_is_at_its_ceiling_passes_and_what_git_does_not_track_is_not_counted(
    tmp_path: Path,
) -> None:
    code, told = run_with(tmp_path, SIZES)
    assert (code, "ABOVE" in told) == (0, False), told


@pytest.mark.parametrize("name", SIZES)
def test_what_is_above_its_ceiling_fails_by_name(name: str, tmp_path: Path) -> None:
    code, told = run_with(tmp_path, SIZES | {name: SIZES[name] - 0.1})
    above = [line.split()[0] for line in told.splitlines() if "ABOVE THE CEILING" in line]
    assert (code, above) == (1, [name])


def test_a_size_without_a_ceiling_is_an_error(tmp_path: Path) -> None:
    code, told = run_with(tmp_path, {"modules": 1})
    assert code == 1
    assert "golden-lines" in told
