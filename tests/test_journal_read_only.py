"""Journals that cannot be written: what reads them works, what would write to them says why not."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from loopkit.cli import invoke as run
from tests.support import CommandLine
from tests.test_cli import HUMAN
from tests.warm import Process, ran, ran_loopkit

MACHINE = HUMAN.replace("loopkit: 1", "loopkit: 1\nname: m")
CHILD = """
import contextlib, io, json, os, sys
from loopkit.cli import invoke
for argv in json.loads(sys.argv[1]):
    if isinstance(argv, str):
        os.system(argv)
        continue
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(argv)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""
FORBIDDEN = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if not os.geteuid() else []
"""Root may write everywhere, unless it gives that up."""
MOUNTED = [
    "unshare", "--map-root-user", "--mount", "sh", "-c",
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
]  # fmt: skip
"""Followed by the folder in which nothing can be written."""
STATE = Path(".loopkit")
Done = tuple[int, str, str]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    STATE.mkdir()
    Path("machine.yaml").write_text(MACHINE, encoding="utf-8")


@pytest.fixture(params=["forbidden", "mounted"])
def under(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[str]]:
    """What a command line starts with to find the state folder read-only."""
    if request.param == "mounted":
        # The folder of all tests, so that one process that waits there serves each of them.
        yield usable([*MOUNTED, str(tmp_path_factory.getbasetemp())])
        return
    usable(FORBIDDEN)
    yield FORBIDDEN
    _allow(0o755, 0o644)


def usable(prefix: list[str]) -> list[str]:
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        pytest.skip(f"`{prefix[0]}` is not allowed here")
    return prefix


def _allow(of_folders: int, of_files: int) -> None:
    for path in (STATE, *STATE.rglob("*")):
        path.chmod(of_folders if path.is_dir() else of_files)


def commanded(under: Sequence[str], *commands: Sequence[str]) -> list[Done]:
    """What each command line comes to, in one process that can write nothing."""
    if under == FORBIDDEN:
        _allow(0o555, 0o444)
    done = ran(["-c", CHILD, json.dumps(commands)], under=under)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def only_run() -> str:
    with closing(sqlite3.connect(STATE / "journal.db")) as db:
        return str(db.execute("SELECT run FROM runs").fetchone()[0])


def reads(name: str) -> list[list[str]]:
    return [
        ["runs", "ls"],
        ["runs", "show", name],
        ["runs", "logs", name],
        ["runs", "logs", "--jsonl", "--follow", name],
        ["diagram", "--run", name],
    ]


def without_age(out: str) -> str:
    """The text without what the time changes: ages, and the width of their column."""
    return re.sub(" {2,}", "  ", re.sub(r"\b\d+ (?:s|min)\b", "AGE", out, flags=re.MULTILINE))


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in STATE.rglob("*") if path.is_file()}


def test_what_reads_a_journal_that_cannot_be_written_says_the_same(
    under: list[str], cli: CommandLine
) -> None:
    assert run(["run", "machine.yaml", "--output", "quiet"]) == 5
    name = only_run()
    expected = []
    for argv in reads(name):
        code, (out, err) = cli.ends(*argv)
        expected.append((code, without_age(out), err))
    before = contents()
    found = [(code, without_age(out), err) for code, out, err in commanded(under, *reads(name))]
    assert found == expected
    assert contents() == before
    assert {code for code, _, _ in expected} == {0}


def test_what_would_write_to_such_a_journal_says_why_not_and_how_it_could(
    under: list[str], cli: CommandLine
) -> None:
    assert run(["run", "machine.yaml", "--output", "quiet"]) == 5
    name = only_run()
    writes = [["answer", name, "yes"], ["resume", name], ["cancel", name], ["run", "machine.yaml"]]
    for (code, out, err), argv in zip(commanded(under, *writes), writes, strict=True):
        assert (code, out) == (4, ""), argv
        assert err.startswith("error: the journal "), argv
        assert f"{STATE.absolute()} cannot be used: it cannot be written (" in err
        assert "check who owns it and its permissions" in err
        assert err.count("\n") == 1
    _allow(0o755, 0o644)
    assert run(["answer", name, "yes"]) == 0


HANGING = """
import asyncio
from loopkit.cli import invoke
from loopkit.journal.journal import open_journal
from pathlib import Path
invoke(["run", "machine.yaml", "--output", "quiet"])
async def hold():
    journal = open_journal(Path(".loopkit"))
    [row] = await journal.runs()
    await journal.claim(row.run)
    print(row.run, flush=True)
    await asyncio.Event().wait()
asyncio.run(hold())
"""


@pytest.fixture
def held() -> Iterator[tuple[str, Process]]:
    """A run and the process that holds it, with its last record in no file but the log."""
    reader, writer = os.pipe()
    with Path(os.devnull).open("r+b") as nothing, os.fdopen(reader) as told:
        process = Process(["-c", HANGING], [nothing.fileno(), writer, nothing.fileno()])
        os.close(writer)
        name = told.readline().strip()
        assert (STATE / "journal.db-wal").stat().st_size > 0
        try:
            yield name, process
        finally:
            kill(process)


def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)


@pytest.mark.parametrize("is_killed", [False, True])
def test_what_the_database_does_not_hold_yet_is_read_as_well(
    under: list[str], held: tuple[str, Process], is_killed: bool
) -> None:
    name, writer = held
    if is_killed:
        kill(writer)
    [(code, out, err)] = commanded(under, ["runs", "logs", "--jsonl", name])
    assert (code, err) == (0, "")
    assert [json.loads(line)["type"] for line in out.splitlines()][-2:] == ["waiting", "claimed"]


def test_a_log_that_cannot_be_read_is_told_and_never_left_out(
    under: list[str], held: tuple[str, Process]
) -> None:
    kill(held[1])
    (STATE / "journal.db-shm").unlink()
    [(code, out, err)] = commanded(under, ["runs", "ls"])
    assert (code, out) == (4, "")
    assert "cannot be used: it cannot be written" in err
    _allow(0o755, 0o644)
    assert run(["runs", "ls"]) == 0


ON_A_SMALL_DISK = """
set -e
mkdir small && mount -t tmpfs -o size=$MIB"m" none small
export LOOPKIT_STATE="$PWD/small/.loopkit"
exec "$PYTHON" -c "$CHILD" "$COMMANDS"
"""
FILL = "cat /dev/zero > small/filler 2> filled || true"


def on_a_small_disk(mib: int, *commands: list[str] | str) -> list[Done]:
    """What each command line comes to where the state folder is on a disk of its own."""
    prefix = usable(["unshare", "--map-root-user", "--mount"])
    done = subprocess.run(
        [*prefix, "sh", "-c", ON_A_SMALL_DISK],
        env={
            **os.environ, "PYTHON": sys.executable, "CHILD": CHILD, "MIB": str(mib),
            "COMMANDS": json.dumps(commands),
        },
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_a_full_disk_stops_what_writes_with_the_remedy_and_nothing_that_reads() -> None:
    answer = ["answer", "m", "yes"]
    first, ls, show, answered, ran, again = on_a_small_disk(
        1, ["run", "machine.yaml"], FILL, ["runs", "ls"], ["runs", "show", "m"],
        answer, ["run", "machine.yaml"], "rm small/filler", answer,
    )  # fmt: skip
    assert (first[0], ls[0], show[0], again[0]) == (5, 0, 0, 0)
    assert ls[1].splitlines()[1].split()[1:3] == ["waiting", "ask"]
    for code, out, err in (answered, ran):
        assert (code, out) == (4, "")
        assert err.startswith("error: the journal ")
        assert "space" in err
        assert "what was acknowledged is safe" in err


PAID = """
loopkit: 1
name: m
agents:
  writer: {command: [sh, FOLDER/write.sh], on_in_doubt: retry}
states:
  draft: {agent: writer, prompt: One., on_error: {content: stopped}, next: polish}
  polish: {agent: writer, prompt: Two., on_error: {content: stopped}, next: done}
  done: {final: success}
  stopped: {final: failure}
"""
WRITE = """
cd "$(dirname "$0")"
echo paid >> paid
[ -e roomy ] || cat /dev/zero > small/filler 2> filled || truncate -s -1000000 small/filler
head -c 1400000 /dev/zero | tr '\\0' x
"""
"""Costs, and fills the disk before it answers: what says that it is asked still fits."""
ROOM = "rm small/filler; touch roomy"
RUN, RESUME = ["run", "machine.yaml"], ["resume", "m"]


def test_a_run_whose_disk_fills_while_it_calls_stops_whole_and_goes_on_when_there_is_room() -> None:
    Path("machine.yaml").write_text(PAID.replace("FOLDER", str(Path.cwd())), encoding="utf-8")
    Path("write.sh").write_text(WRITE, encoding="utf-8")
    logs = ["runs", "logs", "m", "--jsonl"]
    refused, stored, again, ended = on_a_small_disk(
        100, [*RUN, "--output", "jsonl"], logs, RESUME, ROOM, RESUME
    )
    for code, _, err in (refused, again):
        assert code == 4, err
        assert "free some space; what was acknowledged is safe" in err
        assert "Traceback" not in err
    told, kept = ([json.loads(line)["seq"] for line in done[1].splitlines()]
                  for done in (refused, stored))  # fmt: skip
    # The first record is the claim, which the journal makes itself.
    assert told == kept[1:]
    assert ended[0] == 0, ended


@pytest.mark.parametrize(
    "harm", ["rm -r .loopkit", "rm .loopkit/journal.db", "mv .loopkit away",
             "cp .loopkit/journal.db copy && mv copy .loopkit/journal.db"],
)  # fmt: skip
def test_a_journal_that_is_taken_away_stops_the_run_before_the_next_call(harm: str) -> None:
    Path("machine.yaml").write_text(PAID.replace("FOLDER", str(Path.cwd())), encoding="utf-8")
    write = f'cd "$(dirname "$0")"; echo paid >> paid; {harm}; echo text'
    Path("write.sh").write_text(write, encoding="utf-8")
    done = ran_loopkit("run", "machine.yaml")
    assert done.returncode == 4, done.stderr
    assert "journal.db was removed, moved or replaced while it was open; put it" in done.stderr
    assert "Traceback" not in done.stderr
    assert Path("paid").read_text() == "paid\n"
