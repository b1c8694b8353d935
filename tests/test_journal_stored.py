"""A journal that an earlier version wrote: its runs go on as if that version did.

`data/journal_0_1.sql` is the dump of one that loopkit wrote when records were checked as they were
made, before they became plain: a run that waits for a person, one that a limit suspended, and one
whose process ended in a call.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.support import ROOT, CommandLine

DUMP = ROOT / "tests/data/journal_0_1.sql"
LETTER = "Dear Sir, thank you.\n"


@pytest.fixture(autouse=True)
def runs(own_folder: Path) -> dict[str, str]:
    """The ids of the stored runs, by their machines."""
    with closing(sqlite3.connect(own_folder / ".loopkit/journal.db")) as db:
        db.executescript(DUMP.read_text(encoding="utf-8"))
        return dict(db.execute("SELECT machine, run FROM runs").fetchall())


def test_a_stored_run_that_waits_takes_its_answer(runs: dict[str, str], cli: CommandLine) -> None:
    assert run(["answer", runs["letters"], "again", "--comment", "Thank more."]) == 5
    told = cli(0, "answer", runs["letters"], "send", "--output", "quiet").out
    assert told.endswith("Dear Sir, thank you so much.\n")


def test_a_stored_run_that_was_suspended_goes_on_under_a_higher_limit(
    runs: dict[str, str], cli: CommandLine
) -> None:
    name = runs["short_letters"]
    assert run(["resume", name, "--set", "limits.agent_calls=4"]) == 5
    told = cli(0, "answer", name, "send")
    assert (told.out, f"{name}: 4 calls" in told.err) == (LETTER, True)


def test_a_stored_call_in_doubt_is_made_again_where_the_machine_says_so(
    runs: dict[str, str], cli: CommandLine
) -> None:
    events = [
        json.loads(line)
        for line in cli(0, "resume", runs["lost_letters"], "--output", "jsonl").out.splitlines()
    ]
    assert "in_doubt" in [event["type"] for event in events]
    assert events[-1]["usage"]["agent_calls"] == 2
