"""A journal that an earlier version wrote: its runs are refused with the reason, and are unharmed.

`data/journal_0_1.sql` is the dump of one that loopkit wrote when revisions were counted for each
edge: a run that waits for a person, one that a limit suspended, and one whose process ended in a
call.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import ROOT, CommandLine

DUMP = ROOT / "tests/data/journal_0_1.sql"
REASON = "has version 1, this loopkit reads version 2, which counts revisions for each author"
RECORDS = "SELECT run_id, seq, data FROM records WHERE type <> 'claimed' ORDER BY run_id, seq"


@pytest.fixture
def journal(own_folder: Path) -> Path:
    place = own_folder / ".loopkit/journal.db"
    with closing(sqlite3.connect(place)) as db:
        db.executescript(DUMP.read_text(encoding="utf-8"))
    return place


@pytest.mark.parametrize(
    ("machine", "command"),
    [
        ("letters", ("answer", "RUN", "send")),
        ("short_letters", ("resume", "RUN", "--set", "limits.agent_calls=4")),
        ("lost_letters", ("resume", "RUN")),
        ("letters", ("runs", "show", "RUN")),
    ],
)
def test_a_run_of_an_earlier_version_is_refused_with_the_reason_and_stays_as_it_is(
    journal: Path, machine: str, command: tuple[str, ...], cli: CommandLine
) -> None:
    with closing(sqlite3.connect(journal)) as db:
        ids = dict(db.execute("SELECT machine, run FROM runs").fetchall())
        before = db.execute(RECORDS).fetchall()
    told = cli(4, *(ids[machine] if word == "RUN" else word for word in command)).err
    assert f"run {ids[machine]!r} is of an earlier version of loopkit: record" in told
    assert (REASON in told, "use that version, or start a new run" in told) == (True, True)
    with closing(sqlite3.connect(journal)) as db:
        assert db.execute(RECORDS).fetchall() == before
    assert REASON in cli(4, "runs", "ls").err
