"""Nothing that reads text from outside takes longer than its length explains."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.hostile.scanners import PARSING, SCANNERS
from tests.support import ROOT
from tests.warm import ran

QUICK = [name for name in SCANNERS if name not in PARSING]
SHARES = [QUICK[start::2] for start in range(2)]


def refuse_slow(
    names: Sequence[str], size: int, seconds: float, around: int, each: str = "all"
) -> None:
    """Read hard texts in another process, which no pattern can keep from ending."""
    arguments = [str(size), str(seconds), str(around), each, *names]
    done = ran(["-m", "tests.hostile.scanners", *arguments], cwd=ROOT, timeout=600)
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"{done.returncode} in {last}: {done.stderr[-500:]}"


@pytest.mark.parametrize("names", SHARES, ids=["first", "second"])
def test_no_text_keeps_one_of_our_patterns_busy(names: list[str]) -> None:
    """What grows with the square of so many characters takes longer."""
    refuse_slow(names, 15_000, 0.25, 3, each="turn")


def test_no_text_keeps_the_reader_of_markdown_busy() -> None:
    refuse_slow(("section", "json_in_text"), 10_000, 1.0, 1)


@pytest.mark.long
@pytest.mark.parametrize("name", SCANNERS)
def test_no_long_text_keeps_anything_busy(name: str) -> None:
    refuse_slow([name], 100_000, 10.0 if name in PARSING else 2.0, 7)
