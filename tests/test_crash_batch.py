"""kill -9 at every commit of a batch whose lines run at the same time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.test_crash_children import TASK
from tests.warm import ran

MACHINE = TASK.replace("{id: str}", "{topic: str}").replace("input.id", "input.topic")
TOPICS = ("tea", "mate", "cocoa")


@pytest.fixture(scope="module")
def told(every: int, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the host tells of the unharmed batch and of each point."""
    folder: Path = tmp_path_factory.mktemp("crash")
    (folder / "machine.yaml").write_text(MACHINE, encoding="utf-8")
    lines = "".join(f"{json.dumps({'topic': topic})}\n" for topic in TOPICS)
    (folder / "in.jsonl").write_text(lines, encoding="utf-8")
    paths = [str(folder / name) for name in ("machine.yaml", "in.jsonl", "work")]
    host = ran(["-m", "tests.crash.batch_host", *paths, str(every)], cwd=ROOT, timeout=600)
    assert host.returncode == 0, host.stderr
    return [json.loads(line) for line in host.stdout.splitlines()]


def test_the_unharmed_batch_asks_for_each_line_once(every: int, told: list[dict[str, Any]]) -> None:
    assert (told[0]["runs"], told[0]["calls"], told[0]["replies"]) == (3, 6, 6)
    assert len(told) > 2 * 6 / every


def test_wherever_it_is_killed_each_line_has_one_run_and_the_same_result(
    told: list[dict[str, Any]],
) -> None:
    for point in told[1:]:
        assert point["ended"] == -9
        assert (point["results"], point["runs"]) == (told[0]["results"], 3), point


def test_no_committed_call_of_a_batch_is_made_twice(told: list[dict[str, Any]]) -> None:
    for point in told[1:]:
        assert point["replies"] == 6, point
        assert point["replies"] <= point["calls"] <= point["replies"] + point["in_doubt"], point
