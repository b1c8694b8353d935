"""Nothing that reads text from outside takes longer than its length explains."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.hostile.scanners import PARSING, SCANNERS
from tests.support import ROOT

QUICK = [name for name in SCANNERS if name not in PARSING]
SHARES = [QUICK[start::4] for start in range(4)]


def refuse_slow(names: list[str] | tuple[str, ...], size: int, seconds: float, around: int) -> None:
    """Read hard texts in another process, which no pattern can keep from ending."""
    arguments = [str(size), str(seconds), str(around), *names]
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.scanners", *arguments],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{done.returncode} in {last}: {done.stderr[-500:]}"


@pytest.mark.parametrize("names", SHARES, ids=["first", "second", "third", "fourth"])
def test_no_text_keeps_one_of_our_patterns_busy(names: list[str]) -> None:
    """What grows with the square of so many characters takes longer."""
    refuse_slow(names, 15_000, 0.25, 3)


def test_no_text_keeps_the_reader_of_markdown_busy() -> None:
    refuse_slow(("section", "json_in_text"), 10_000, 1.0, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", SCANNERS)
def test_no_long_text_keeps_anything_busy(name: str) -> None:
    refuse_slow([name], 100_000, 10.0 if name in PARSING else 2.0, 7)
