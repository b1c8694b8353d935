"""State folders and journals that are none: told by every command, and left as they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.support import CommandLine

MACHINE = """
loopkit: 1
name: m
states:
  note: {render: "A note.", next: done}
  done: {final: success}
"""
STATE = Path("state/.loopkit")
JOURNAL = STATE / "journal.db"
COMMANDS: Sequence[Sequence[str]] = (
    ("runs", "ls"),
    ("runs", "show", "m-1"),
    ("runs", "logs", "m-1"),
    ("runs", "record", "m-1", "recorded.scenario.yaml"),
    ("diagram", "--run", "m-1"),
    ("resume", "m-1"),
    ("answer", "m-1", "yes"),
    ("cancel", "m-1"),
    ("run", "machine.yaml"),
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOOPKIT_STATE", str(STATE))
    STATE.mkdir(parents=True)
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")


def no_database() -> None:
    JOURNAL.write_text("Dear diary, " * 1000, encoding="utf-8")


def half_a_page() -> None:
    assert run(["run", "machine.yaml"]) == 0
    JOURNAL.write_bytes(JOURNAL.read_bytes()[:2000])


def other_tables() -> None:
    with closing(sqlite3.connect(JOURNAL)) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")


def newer_tables() -> None:
    assert run(["run", "machine.yaml"]) == 0
    with closing(sqlite3.connect(JOURNAL)) as db:
        db.execute("PRAGMA user_version = 7")


def tables_before_the_first_release() -> None:
    with closing(sqlite3.connect(JOURNAL)) as db:
        db.executescript(
            "PRAGMA application_id = 0x6C6F6F70; PRAGMA user_version = 3;"
            "CREATE TABLE runs (id INTEGER PRIMARY KEY, run TEXT NOT NULL UNIQUE) STRICT;"
            "INSERT INTO runs (run) VALUES ('m-1')"
        )


def folder_for_the_database() -> None:
    JOURNAL.mkdir()


def file_for_the_folder() -> None:
    STATE.rmdir()
    STATE.write_text("", encoding="utf-8")


def link_to_nowhere() -> None:
    STATE.rmdir()
    STATE.symlink_to("nowhere/else")


PLACES: dict[Callable[[], None], str] = {
    no_database: "the file is not a SQLite database",
    half_a_page: "the file is damaged",
    other_tables: "is the database of another program",
    newer_tables: "by another loopkit (tables of version 7, this one knows 4); use that one",
    tables_before_the_first_release: "by another loopkit (tables of version 3, this one",
    folder_for_the_database: "there is a folder where a file is needed",
    file_for_the_folder: "there is a file where a folder is needed",
    link_to_nowhere: "there is a file where a folder is needed",
}


@pytest.mark.parametrize("make", PLACES, ids=lambda make: make.__name__)
def test_what_is_no_journal_is_told_by_every_command_and_left_as_it_is(
    make: Callable[[], None], cli: CommandLine
) -> None:
    make()
    before = JOURNAL.read_bytes() if JOURNAL.is_file() else b""
    for argv in COMMANDS:
        code, told = cli.ends(*argv)
        assert (code, told.out, told.err.count("\n")) == (4, "", 1), (argv, told.err)
        assert told.err.startswith("error: the journal "), argv
        assert PLACES[make] in told.err, argv
        assert "; " in told.err, argv
    assert (JOURNAL.read_bytes() if JOURNAL.is_file() else b"") == before


def test_looking_for_runs_makes_no_folder_that_would_get_those_of_projects_below(
    cli: CommandLine,
) -> None:
    STATE.rmdir()
    STATE.parent.rmdir()
    assert [run(["runs", "ls"]), run(["stats"])] == [0, 0]
    for argv in (*COMMANDS[1:-1], ("runs", "rm", "m-1"), ("report", "m-1", "-o", "m.md")):
        assert "there is no run `m-1`" in cli(2, *argv).err, argv
    assert not STATE.parent.exists()


def test_an_empty_file_is_a_journal_without_runs(cli: CommandLine) -> None:
    JOURNAL.touch()
    assert cli(0, "runs", "ls").err == "no runs yet\n"
    for argv in COMMANDS[1:-1]:
        assert "there is no run `m-1`" in cli(2, *argv).err, argv
    assert run(["run", "machine.yaml"]) == 0


def test_a_table_that_is_gone_is_told(cli: CommandLine) -> None:
    assert run(["run", "machine.yaml"]) == 0
    with closing(sqlite3.connect(JOURNAL)) as db:
        name = db.execute("SELECT run FROM runs").fetchone()[0]
        db.execute("DROP TABLE records")
    for argv in COMMANDS:
        told = cli(4, *(name if word == "m-1" else word for word in argv)).err
        assert "the file is damaged (no such table: " in told, argv


@pytest.mark.parametrize("name", ["locks", ".gitignore", ".gitignore.draft", "journal.db-wal"])
def test_something_else_in_the_place_of_a_file_beside_the_journal_is_no_bug(
    name: str, cli: CommandLine
) -> None:
    assert run(["run", "machine.yaml"]) == 0
    place = STATE / name
    if name == "locks":
        place.rmdir()
        place.touch()
    else:
        place.unlink(missing_ok=True)
        place.mkdir()
    for code, told in (cli.ends(*argv) for argv in COMMANDS):
        assert code in {0, 2, 4}
        assert "Traceback" not in told.err
