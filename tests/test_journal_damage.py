"""Journals that something happened to: every command tells what and where, and how to go on."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.support import CommandLine
from tests.test_cli import HUMAN

pytestmark = pytest.mark.usefixtures("own_folder")
LOOKING = """next: look}
  look: {run: [sh, -c, "echo looked >> looks"], next: ask}"""
MACHINE = HUMAN.replace("loopkit: 1", "loopkit: 1\nname: NAME").replace("next: ask}", LOOKING, 1)
MACHINE = MACHINE.replace("{final: success}", "{final: success, result: note}")
JOURNAL = Path(".loopkit/journal.db")

READS: Sequence[Sequence[str]] = (
    ("runs", "show", "RUN"),
    ("runs", "logs", "RUN"),
    ("runs", "logs", "--jsonl", "--follow", "RUN"),
    ("runs", "record", "RUN", "recorded.scenario.yaml"),
    ("diagram", "--run", "RUN"),
)
WRITES: Sequence[Sequence[str]] = (
    ("resume", "RUN"),
    ("resume", "RUN", "--set", "limits.total_revisions=3", "--output", "jsonl"),
    ("answer", "RUN", "yes"),
    ("cancel", "RUN"),
)
COMMANDS = (*READS, *WRITES)


@pytest.fixture
def waiting() -> str:
    """A run that waits for a person."""
    return started("hurt")


def started(name: str) -> str:
    Path(f"{name}.yaml").write_text(MACHINE.replace("NAME", name), encoding="utf-8")
    assert run(["run", f"{name}.yaml", "--output", "quiet"]) == 5
    with closing(sqlite3.connect(JOURNAL)) as db:
        found = db.execute("SELECT run FROM runs WHERE machine = ?", [name]).fetchone()
    return str(found[0])


def change(statement: str, *values: object) -> int:
    """Change the journal behind loopkit's back; how many rows it changed."""
    with closing(sqlite3.connect(JOURNAL, isolation_level=None)) as db:
        return db.execute(statement, values).rowcount


def stored() -> tuple[int, int]:
    """How many records there are, and how many messages."""
    with closing(sqlite3.connect(JOURNAL)) as db:
        records, messages = (
            db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("records", "inbox")
        )
    return records, messages


def place_of(kind: str) -> int:
    with closing(sqlite3.connect(JOURNAL)) as db:
        row = db.execute("SELECT max(seq) FROM records WHERE type = ?", [kind]).fetchone()
    return int(row[0])


def told_of(argv: Sequence[str], name: str, cli: CommandLine) -> tuple[int, str]:
    """The exit code of a command and what it says to stderr."""
    code, told = cli.ends(*(name if word == "RUN" else word for word in argv))
    return code, told.err


def cut(kind: str) -> None:
    """Keep the first half of a record's text."""
    assert change(
        "UPDATE records SET data = substr(data, 1, length(data) / 2) WHERE type = ?", kind
    )


def rewritten(kind: str, data: str) -> Callable[[], None]:
    def rewrite() -> None:
        assert change("UPDATE records SET data = ? WHERE type = ?", data, kind)

    return rewrite


def keyed(kind: str, key: str, value: object) -> Callable[[], None]:
    """Set one key in the records of a type."""

    def rewrite() -> None:
        statement = "UPDATE records SET data = json_set(data, ?, json(?)) WHERE type = ?"
        assert change(statement, f"$.{key}", json.dumps(value), kind)

    return rewrite


def removed(kind: str) -> Callable[[], None]:
    return lambda: check(change("DELETE FROM records WHERE type = ?", kind))


def check(changed: int) -> None:
    assert changed


def renamed(kind: str, to: str) -> Callable[[], None]:
    return lambda: check(change("UPDATE records SET type = ? WHERE type = ?", to, kind))


RESTORE = "restore the journal from a copy"
DAMAGES: dict[str, tuple[Callable[[], object], str]] = {
    "a missing record": (removed("worked"), "is missing"),
    "the first records missing": (removed("claimed"), "record 1 is missing"),
    "a record that is no JSON": (rewritten("worked", "nonsense"), "(`worked`) cannot be read"),
    "a truncated record": (lambda: cut("replied"), "(`replied`) cannot be read"),
    "an empty record": (rewritten("started", ""), "(`started`) cannot be read"),
    "a record of another shape": (rewritten("entered", "[]"), "(`entered`) cannot be read"),
    "a record without its keys": (rewritten("waiting", "{}"), "(`waiting`) cannot be read"),
    "a key of another type": (keyed("decided", "bits", "x"), "(`decided`) cannot be read"),
    "an unknown type": (renamed("decided", "divined"), "there is no type `divined`"),
    "a reply to no call": (keyed("replied", "key", "nobody"), "does not follow"),
    "another run's start": (keyed("started", "run", "other"), "`other`"),
    "no start": (rewritten("started", '{"pid": 1}'), "(`started`) cannot be read"),
    "no start but a claim": (renamed("started", "claimed"), "nothing says how it started"),
    "text that is not UTF-8": (
        lambda: change("UPDATE records SET data = CAST(X'7B22FF' AS TEXT) WHERE type = 'worked'"),
        "(`worked`) cannot be read",
    ),
    "a run without records": (lambda: change("DELETE FROM records"), "has no records"),
    "a definition that is gone": (lambda: change("DELETE FROM definitions"), "definition"),
    "a definition cut short": (
        lambda: change("UPDATE definitions SET text = substr(text, 1, length(text) / 2)"),
        "definition",
    ),
    "a definition that somebody changed": (
        lambda: change("UPDATE definitions SET text = replace(text, 'Go on?', 'Stop?')"),
        "definition",
    ),
    "a definition of another form": (lambda: change("UPDATE definitions SET text = '[]'"), "defin"),
}
UNSEEN_IN_LOGS = [name for name in DAMAGES if "definition" in name]
"""The events of a run can be read without its machine."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_command_tells_a_damaged_run_with_its_place_and_a_remedy(
    waiting: str, damage: str, cli: CommandLine
) -> None:
    hurt, place = DAMAGES[damage]
    hurt()
    before = stored()
    for argv in COMMANDS:
        is_unseen = "logs" in argv and damage in UNSEEN_IN_LOGS
        code, told = told_of(argv, waiting, cli)
        if is_unseen:
            assert (code, told) == (0, ""), (argv, told)
            continue
        assert (code, told.count("\n")) == (4, 1), (argv, told)
        assert told.startswith(f"error: run {waiting!r} is damaged: "), (argv, told)
        assert place in told, (argv, told)
        assert RESTORE in told, (argv, told)
    assert stored() == before
    assert not Path("recorded.scenario.yaml").exists()
    assert Path("looks").read_text(encoding="utf-8") == "looked\n"


def test_a_run_that_lost_its_question_is_suspended_with_a_remedy(
    waiting: str, cli: CommandLine
) -> None:
    """Each record that is left follows from those before it."""
    assert change("DELETE FROM records WHERE type = 'waiting'")
    code, told = told_of(("resume", "RUN"), waiting, cli)
    assert code == 4
    assert "`ask` is active and has no work to do" in told
    assert RESTORE in told


def listed(cli: CommandLine, *argv: str) -> tuple[int, dict[str, str], str]:
    """The exit code of `runs ls`, what it says of each run, and what it says to stderr."""
    code, told = cli.ends("runs", "ls", *argv)
    rows = [line.split() for line in told.out.splitlines()[1:]]
    return code, {name: " ".join(row) for name, *row in rows}, told.err


ROWS = {
    "a missing record": "damaged record ",
    "a run without records": "damaged it has no records",
    "a record without its keys": "damaged record 12 (`waiting`) cannot be read",
}


@pytest.mark.parametrize("damage", ROWS)
def test_a_damaged_run_is_told_in_its_row_and_hides_no_other(damage: str, cli: CommandLine) -> None:
    hurt = started("hurt")
    DAMAGES[damage][0]()
    sound = started("sound")
    code, rows, told = listed(cli)
    assert code == 4
    assert list(rows) == [sound, hurt]
    assert rows[sound].startswith("waiting ask ")
    assert rows[hurt].startswith(ROWS[damage])
    assert told.startswith(f"error: run {hurt!r} is damaged: ")
    assert (told.count("\n"), RESTORE in told) == (1, True)
    assert listed(cli, "--machine", "sound") == (0, {sound: rows[sound]}, "")
    assert told_of(("answer", "RUN", "yes"), sound, cli)[0] == 0


@pytest.mark.parametrize("version", [7, 1])
@pytest.mark.parametrize("way", ["$.nothing", "$.text"])
def test_a_record_of_another_version_is_refused_by_its_number_whether_it_would_fit_or_not(
    waiting: str, way: str, version: int, cli: CommandLine
) -> None:
    place = place_of("waiting")
    keyed("waiting", "version", version)()
    change("UPDATE records SET data = json_remove(data, ?) WHERE type = 'waiting'", way)
    number = f"record {place} has version {version}, this loopkit reads version 2"
    for argv in COMMANDS:
        code, told = told_of(argv, waiting, cli)
        assert code == 4
        assert told.startswith(f"error: run {waiting!r} is of another version of loopkit: {number}")
        assert "upgrade this one; else start a new run" in told
    code, rows, told = listed(cli)
    assert (code, number in told) == (4, True)
    assert rows[waiting].startswith("unreadable record")


def test_a_type_of_record_that_came_with_a_newer_version_is_refused_by_its_number(
    waiting: str, cli: CommandLine
) -> None:
    keyed("decided", "version", 3)()
    renamed("decided", "divined")()
    code, told = told_of(("runs", "show", "RUN"), waiting, cli)
    assert (code, "has version 3, this loopkit reads version 2" in told) == (4, True)


def test_keys_that_a_version_did_not_have_are_passed_over(waiting: str, cli: CommandLine) -> None:
    assert change("UPDATE records SET data = json_set(data, '$.added', json('{\"a\": [1]}'))")
    keyed("replied", "usage.added", 1)()
    keyed("waiting", "choices[0].added", "x")()
    for argv in READS:
        assert told_of(argv, waiting, cli)[0] == 0, argv
    assert told_of(("answer", "RUN", "yes"), waiting, cli)[0] == 0
    assert listed(cli)[1][waiting].startswith("finished done")


def test_a_definition_that_another_version_wrote_is_told_as_that(
    waiting: str, cli: CommandLine
) -> None:
    with closing(sqlite3.connect(JOURNAL)) as db:
        text = str(db.execute("SELECT text FROM definitions").fetchone()[0])
    definition = json.loads(text)
    definition["machine"]["states"]["note"]["oracle"] = "x"
    other = json.dumps(definition)
    digest = hashlib.sha256(other.encode()).hexdigest()
    change("UPDATE definitions SET text = ?, digest = ?", other, digest)
    keyed("started", "definition", digest)()
    for argv in COMMANDS:
        code, told = told_of(argv, waiting, cli)
        if "logs" not in argv and "record" not in argv:
            assert code == 4, argv
            assert f"run {waiting!r} is of another version of loopkit: its definition" in told
            assert "oracle" in told
            assert told.count("\n") == 1
