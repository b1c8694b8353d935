"""Whatever is changed in a record of a run, no command takes it for a bug of ours."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.damaged_records import Harm, said
from tests.support import PLAN_REVIEW

ENDS = (0, 1, 2, 3, 4, 5)


@pytest.fixture
def harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harm:
    monkeypatch.chdir(tmp_path)
    return a_waiting_run()


def a_waiting_run() -> Harm:
    """A run in the current folder that was revised twice and waits for a person."""
    Path(".loopkit").mkdir()
    shutil.copytree(PLAN_REVIEW.parent / "plan_review", "plan_review")
    shutil.copy(PLAN_REVIEW, ".")
    script = Path("plan_review/scenario.yaml")
    written, answers = script.read_text(encoding="utf-8"), "answers:\n  approval: [approve]\n"
    assert answers in written
    script.write_text(written.replace(answers, ""), encoding="utf-8")
    argv = ["run", "plan_review.yaml", "--script", str(script), "--set", "issue=x"]
    assert said(argv)[0] == 5
    return Harm(Path(".loopkit/journal.db"))


def astray(harm: Harm, seeds: range) -> list[tuple[int, Sequence[str], int, str]]:
    """Which commands ended as none may, for which changes."""
    return [
        (seed, argv, code, told)
        for seed in seeds
        for argv, code, told in harm.commands(seed)
        if code not in ENDS or "Traceback" in told
    ]


def test_no_change_of_a_record_is_taken_for_a_bug(harm: Harm) -> None:
    assert astray(harm, range(12)) == []


@pytest.mark.long
def test_no_change_of_any_record_is_taken_for_a_bug(harm: Harm) -> None:
    assert astray(harm, range(12, 1000)) == []
