"""What goes with runs that are removed from the journal: the definitions that no run names."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loopkit.app import App
from loopkit.cli import invoke as run
from loopkit.journal.journal import open_journal
from loopkit.language.load import load
from tests.support import CommandLine, Desk, scenario
from tests.support_postgres import url_of
from tests.test_runs import BROKEN, SHORT_OF_WORDS, rows, started

pytestmark = pytest.mark.usefixtures("own_folder")
ENDS = "loopkit: 1\nstates: {a: {render: Tea, next: b}, b: {final: success}}\n"
WORDS = ("A note", "exit 3", "exit 0", "A scripted reply")


def definitions() -> set[str]:
    """The words of all definitions in the journal."""
    with closing(sqlite3.connect(".loopkit/journal.db")) as db:
        texts = [text for (text,) in db.execute("SELECT text FROM definitions")]
    told = [[word for word in WORDS if word in text] for text in texts]
    assert all(len(words) == 1 for words in told)
    return {word for [word] in told}


def test_definitions_go_with_the_last_run_that_names_them() -> None:
    """Those with which runs began, with which they were repaired, and their scenarios."""
    first, second = started(SHORT_OF_WORDS), started(SHORT_OF_WORDS)
    repaired = started(BROKEN, "broken")
    Path("broken.yaml").write_text(BROKEN.replace("exit 3", "exit 0"), encoding="utf-8")
    run(["resume", repaired, "--machine", "broken.yaml", "--output", "quiet"])
    Path("s.yaml").write_text(
        "scenario: 1\nagents: {nobody: [A scripted reply]}\n", encoding="utf-8"
    )
    run(["run", "broken.yaml", "--script", "s.yaml", "--output", "quiet"])
    played = rows()[0][0]
    every = set(WORDS)
    for removed, gone in (
        (first, set()),
        (second, {"A note"}),
        (played, {"A scripted reply"}),
        (repaired, {"exit 3", "exit 0"}),
    ):
        assert definitions() == every
        assert run(["runs", "show", repaired]) == 0
        assert run(["runs", "rm", removed]) == 0
        every -= gone
    assert definitions() == set()


def test_a_definition_stays_for_whoever_is_about_to_begin_a_run_with_it() -> None:
    """The run is stored with what it does first, its definition before."""
    asyncio.run(removed_meanwhile(started(SHORT_OF_WORDS)))


async def removed_meanwhile(old: str) -> None:
    """One run is removed while another begins, by another process and by the same one."""
    folder = Path(".loopkit")
    async with App.open(folder) as starting:
        active = await starting.start(load(Path("note.yaml")), {})
        async with App.open(folder) as removing:
            await removing.journal.remove(old)
        state = await starting.drive(active)
        again = await starting.start(load(Path("note.yaml")), {})
        await starting.journal.remove(state.run)
        assert await starting.machine_of(await starting.drive(again))
    async with App.open(folder) as alone:
        await alone.journal.remove(again.state.run)
    assert definitions() == set()


def test_of_several_runs_none_is_removed_where_one_is_not_there() -> None:
    name = started(SHORT_OF_WORDS)
    assert run(["runs", "rm", name, "ghost"]) == 2
    assert [listed for listed, *_ in rows()] == [name]


def test_what_a_removed_run_may_still_have_to_pay_is_said(
    durable: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini}}
states:
  draft: {agent: writer, prompt: Write., next: done, on_error: {content: lost}}
  done: {final: success}
  lost: {final: failure}
"""
    name = durable.abort(machine, scenario(agents={"writer": ["text"]})).state.run
    assert run(["runs", "rm", name]) == 0
    said = f"run {name} is removed; it had asked `writer` without an answer, and that call may have"
    assert said in capsys.readouterr().err


LARGE = """
loopkit: 1
states:
  draft: {run: [sh, -c, "head -c 2000000 /dev/urandom | od -An -tx1"], output: big, next: done}
  done: {final: success}
"""


def places() -> list[tuple[str, int]]:
    """The places of the records in a stream."""
    with closing(sqlite3.connect(".loopkit/journal.db")) as db:
        return db.execute(
            "SELECT run, records.rowid FROM records, runs WHERE id = run_id"
        ).fetchall()


@pytest.mark.parametrize("is_open", [False, True])
def test_the_room_of_a_removed_run_is_free_for_others(is_open: bool) -> None:
    first, large, last = started(SHORT_OF_WORDS), started(LARGE, "large"), started(SHORT_OF_WORDS)

    def size() -> int:
        return sum(path.stat().st_size for path in Path(".loopkit").glob("journal.db*"))

    full, before = size(), places()

    async def remove() -> int:
        beside = App.open(Path(".loopkit") if is_open else None)
        async with beside, App.open(Path(".loopkit")) as app:
            await app.remove(large)
            return size()

    left = asyncio.run(remove())
    assert full > 10_000_000
    assert left < full / 20
    assert run(["runs", "rm", last]) == 0
    assert size() < full / 20
    assert places() == [(one, place) for one, place in before if one == first]


@pytest.mark.parametrize("store", ["file", "postgres"])
def test_runs_that_ended_before_a_time_are_removed_and_no_others(
    store: str, tmp_path: Path, cli: CommandLine
) -> None:
    place = url_of(tmp_path) if store == "postgres" else Path(".loopkit")
    there = ("--journal", place) if isinstance(place, str) else ()
    for script in (BROKEN, ENDS, ENDS):
        Path("m.yaml").write_text(script, encoding="utf-8")
        cli.ends(*there, "run", "m.yaml", "--output", "quiet")
    held, ended, stopped = (
        line.split()[0] for line in cli(0, *there, "runs", "ls").out.splitlines()[1:]
    )
    removing = (*there, "runs", "rm")
    for wrong in ((), (ended, "--ended-before", "1d"), ("--ended-before", "2999-01-01")):
        cli(2, *removing, *wrong)
    assert "an age such as 30d" in cli(2, *removing, "--ended-before", "tea").err
    assert cli(0, *removing, "--ended-before", "1h").err == "runs removed: 0\n"
    told = asyncio.run(said_while_held(cli, place, held, (*removing, "--ended-before", "0s")))
    assert f"run {held} is left: a process has it in hand" in told
    assert f"run {ended} is removed" in told
    assert told.endswith("runs removed: 1\n")
    kept = [line.split()[0] for line in cli(0, *there, "runs", "ls").out.splitlines()[1:]]
    assert kept == [held, stopped]


async def said_while_held(
    cli: CommandLine, place: Path | str, run: str, command: tuple[str, ...]
) -> str:
    journal = open_journal(place)
    claim = await journal.claim(run)
    said = await asyncio.to_thread(cli, 0, *command)
    await claim.release()
    await journal.close()
    return said.err
