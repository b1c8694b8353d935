"""Differences of texts: what `patch` makes of them, and what they cost."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.text.editing import hunks

LINES = st.lists(st.sampled_from(["a", "b", "c", "", " x", "d\r", "e\u2028f"]), max_size=12)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


@settings(deadline=None, max_examples=150)
@given(TEXTS, TEXTS)
def test_patch_makes_the_new_text_of_the_old_one(
    tmp_path_factory: pytest.TempPathFactory, old: str, new: str
) -> None:
    found = list(hunks(old, new))
    assert bool(found) == (old != new)
    if found:
        file = tmp_path_factory.mktemp("patched") / "file"
        assert patched(file, old, found) == new


def patched(file: Path, old: str, found: list[str]) -> str:
    file.write_bytes(old.encode())
    text = "--- file\n+++ file\n" + "\n".join(found) + "\n"
    command = ("patch", "-s", "--binary", "--no-backup-if-mismatch", str(file))
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)
    return file.read_bytes().decode() if file.exists() else ""


def test_only_the_changed_lines_of_a_long_file_are_shown() -> None:
    old = [f"line {n}" for n in range(50_000)]
    new = ["first", *old[1:25_000], "inserted", *old[25_000:-1], "last"]
    found = list(hunks("\n".join(old), "\n".join(new)))
    changed = [line for line in found if line[0] in "+-"]
    assert changed == ["-line 0", "+first", "+inserted", "-line 49999", "+last"]


@pytest.mark.parametrize("kind", ["shuffled", "reversed", "equal lines", "pairs"])
def test_no_text_takes_long(kind: str) -> None:
    lines = [f"{n}" for n in range(60_000)]
    shuffled = random.Random(1).sample(lines, len(lines))
    old, new = {
        "shuffled": (lines, shuffled),
        "reversed": (lines, lines[::-1]),
        "equal lines": (["a"] * 60_000, ["b", "a"] * 30_000),
        "pairs": ([line[:-1] for line in lines], [line[:-1] for line in shuffled]),
    }[kind]
    started = time.process_time()
    assert list(hunks("\n".join(old), "\n".join(new)))
    assert time.process_time() - started < 20
