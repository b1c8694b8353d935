"""The short form of `benchmarks/chaos.py`, and that its counts see what they are there for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest

from tests.support import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
counting: Any = import_module("chaos_counts")
Step = tuple[str, dict[str, Any]]
CLAIMED: Step = ("claimed", {})
STARTED: Step = ("started", {"input": {"rounds": 1}})
ENDED: Step = ("finished", {"success": True})


def call(task: str, said: str = "", what: str = "replied", number: int = 1) -> list[Step]:
    key = f"{task}:{number}"
    ends: Step = (what, {"key": key, "text": f"{said} last\n"})
    return [("intended", {"key": key, "task": task}), ends]


def noted(what: str, at: float, name: str, state: str = "work", **more: Any) -> dict[str, Any]:
    return {"what": what, "at": at, "id": name, "state": state, "round": 1, **more}


WORK, MEASURE = call("work:1:author", "a"), call("measure:1:run", "b")
SOUND: list[Step] = [CLAIMED, STARTED, *WORK, *MEASURE, ENDED]
MADE = [
    noted("called", 3.1, "a", alone=True),
    noted("ended", 3.2, "a"),
    noted("called", 5.1, "b", "measure", alone=True),
    noted("ended", 5.2, "b", "measure"),
]
AGAIN = noted("called", 9, "c", alone=True)


def found_in(
    folder: Path, steps: Sequence[Step], log: Sequence[dict[str, Any]], **changes: Any
) -> list[str]:
    """What is not zero; the time of each record is its number, and a claim begins an epoch."""
    run, epoch = counting.Run("r", changes.get("is_at_rest", True)), 0
    for number, (kind, data) in enumerate(steps, 1):
        epoch += kind == "claimed"
        seq = number + (changes.get("gap", 0) if number > 2 else 0)
        run.records.append((seq, changes.get("epoch", epoch), number, kind, data))
    text = "".join(f"{json.dumps(line)}\n" for line in log)
    (folder / "r.log").write_text(text, encoding="utf-8")
    counts = counting.count([run], folder).counts
    return [what for what in counting.ZERO if counts[what]]


def test_a_run_that_was_taken_over_in_the_middle_of_a_call_is_sound(tmp_path: Path) -> None:
    lost = call("work:1:author", what="in_doubt", number=2)
    steps = [CLAIMED, STARTED, lost[0], CLAIMED, lost[1], *WORK, *MEASURE, ENDED]
    log = [noted("called", 3.1, "x", alone=True), *({**one, "at": one["at"] + 3} for one in MADE)]
    assert found_in(tmp_path, steps, log) == []


@pytest.mark.parametrize(
    ("steps", "log", "changes", "told"),
    [
        (SOUND[:-1], MADE, {}, "runs that did not end"),
        (SOUND, MADE, {"is_at_rest": False}, "runs that somebody still owns or is to continue"),
        (SOUND, MADE, {"gap": 1}, "gaps in seq"),
        (SOUND, MADE, {"epoch": 2}, "epochs out of order"),
        (SOUND, [*MADE, AGAIN], {}, "committed calls made again"),
        (SOUND, MADE[:-1], {}, "replies lost"),
        ([CLAIMED, STARTED, *WORK, ENDED], MADE[:2], {}, "replies lost"),
        ([CLAIMED, STARTED, *WORK, ENDED], MADE, {}, "calls that no record intends"),
        ([*SOUND[:-1], *WORK, ENDED], [*MADE, AGAIN], {}, "intended after the reply"),
        ([*SOUND[:-1], call("more:1:run")[0], ENDED], MADE, {}, "intended that are neither"),
        (SOUND, [{**MADE[0], "alone": False}, *MADE[1:]], {}, "programs beside another"),
        (
            [CLAIMED, STARTED, CLAIMED, *SOUND[2:]],
            [noted("called", 2.5, "a", alone=True), noted("lives", 3.5, "a"), *MADE[1:]],
            {},
            "programs alive after the next claim",
        ),
    ],
)
def test_what_must_not_be_is_counted(
    steps: list[Step], log: list[dict[str, Any]], changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    assert any(what.startswith(told) for what in found_in(tmp_path, steps, log, **changes))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the user of the database may enter."""
    folder = Path(mkdtemp(prefix="loopkit-chaos-"))
    folder.chmod(0o755)
    yield folder
    rmtree(folder, ignore_errors=True)


def test_every_run_ends_whatever_is_killed(open_folder: Path) -> None:
    command = [
        sys.executable, "benchmarks/chaos.py", "--out", str(open_folder), "--parts", "1",
        "--runs", "4", "--kills", "2", "--database-kills", "1", "--stops", "1", "--workers", "2",
        "--in-flight", "4", "--rounds", "2", "--seconds", "1", "--ttl", "3", "--between", "3",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [result] = open_folder.glob("part-*/result.json")
    found = json.loads(result.read_text(encoding="utf-8"))
    assert found["counts"]["runs"] == 4
    assert found["faults"]["kill"] >= 1
    assert found["counts"]["claims"] > 4
