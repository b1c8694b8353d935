"""What runs keep of folders goes on elsewhere, or they are never offered elsewhere."""

from __future__ import annotations

import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

import loopkit
from loopkit.journal.contents import host_label
from loopkit.journal.errors import LostContent
from loopkit.journal.postgres.database import Database
from loopkit.journal.postgres.store import PostgresJournal, SharedContents, open_postgres
from loopkit.journal.records import NOW
from loopkit.outside.trees import Folder, Tree
from tests.created import created
from tests.support_postgres import server, url_of
from tests.test_contents import fill, look


@pytest.fixture
def url(tmp_path: Path) -> str:
    return url_of(tmp_path)


@pytest.fixture
async def hosts(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[PostgresJournal]]:
    """The journal as two hosts have it, each with a state folder of its own."""
    journals = []
    for name in ("one", "two"):
        monkeypatch.setenv("LOOPKIT_STATE", str(tmp_path / name / ".loopkit"))
        journals.append(open_postgres(url, time.time))
    yield journals
    for journal in journals:
        await journal.close()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    fill(random.Random(3), work)
    (work / "text").write_text("one\ntwo\n", encoding="utf-8")
    (work / "program").write_bytes(os.urandom(300_000))
    (work / "program").chmod(0o755)
    return work


async def test_a_folder_that_one_host_keeps_is_the_same_on_another(
    hosts: list[PostgresJournal], work: Path, tmp_path: Path
) -> None:
    here, there = (journal.contents for journal in hosts)
    first = here.keep("r", Folder(work))
    before = look(work)
    (work / "text").write_text("one\ntwo\nthree\n", encoding="utf-8")
    second = here.keep("r", Folder(work), first)
    target = tmp_path / "target"
    target.mkdir()
    assert there.tree(first.digest) == first
    there.write(target, Tree(), first)
    assert look(target) == before
    assert "+three" in there.diff(first, second, 10_000)
    merged = there.merge("r/each.1", first, second, first)
    assert merged.tree.entries == second.entries
    assert here.tree(merged.tree.digest).entries == second.entries
    assert (tmp_path / "two/.loopkit/.gitignore").read_text(encoding="utf-8") == "*\n"


async def test_what_a_removed_run_has_kept_goes_unless_another_keeps_it(
    hosts: list[PostgresJournal], work: Path, url: str
) -> None:
    schema, (here, _) = Database.of(url).schema, hosts
    for run in ("r", "other"):
        await (await created(here, run)).release()
    kept = here.contents.keep("other", Folder(work))
    (work / "new").write_text("of r alone", encoding="utf-8")
    here.contents.keep("r", Folder(work), kept)
    with psycopg.connect(server(), autocommit=True) as db:

        def count() -> int:
            [found] = db.execute(f"SELECT count(*) FROM {schema}.objects").fetchone() or (0,)
            return int(found)

        before = count()
        # Somebody who has seen an object may be about to name it.
        await here.remove("r")
        assert count() == before
        here.contents.keep("q", Folder(work), kept)
        await created(here, "q")
        db.execute(f"UPDATE {schema}.objects SET kept_at = now() - interval '3 hours'")
        db.execute(f"UPDATE {schema}.runs SET owner = NULL")
        await here.remove("q")
        assert count() < before
    assert hosts[1].contents.tree(kept.digest).entries == kept.entries


async def test_a_run_that_keeps_too_much_goes_on_only_where_it_was(
    hosts: list[PostgresJournal], work: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = hosts
    claim = await created(here)
    await here.submit("r", ["gpu"])
    monkeypatch.setenv("LOOPKIT_STATE", str(here.contents.folder.parent))  # type: ignore[union-attr]
    contents = SharedContents(Database.of(url), most_bytes=200_000)
    kept = contents.keep("r/each.1", Folder(work))
    await claim.release(due=NOW)
    assert await there.due(10, ["gpu"]) == []
    # Whoever submits it again does not know what it keeps.
    await there.submit("r", ["cpu"])
    assert await there.due(10, ["cpu"]) == []
    assert [one.run for one in await here.due(10, ["cpu", host_label()])] == ["r"]
    assert contents.tree(kept.digest) == kept
    with pytest.raises(LostContent):
        there.contents.tree(kept.digest)
    contents.close()


async def test_a_copy_of_a_project_has_no_part_of_the_state_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".loopkit").mkdir()
    (tmp_path / ".loopkit/journal.db").write_text("That of others.", encoding="utf-8")
    (tmp_path / "m.yaml").write_text(COPY, encoding="utf-8")
    result = await loopkit.arun("m.yaml", state=url)
    assert result.result == {"seen": "m.yaml\n"}


COPY = """
loopkit: 1
workspace: {path: ., isolate: copy}
states:
  look: {run: [sh, -c, "ls -A"], output: seen, next: done}
  done: {final: success, result: seen}
"""
