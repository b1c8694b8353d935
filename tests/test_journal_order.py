"""The order of the records of all runs: who follows it has each of them once."""

# ruff: noqa: ASYNC240 - nothing else runs in these tests' event loops
from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from loopkit.journal.errors import JournalUnusable
from loopkit.journal.journal import Journal, open_journal
from loopkit.journal.records import CLAIMED, NewRecord, Place, Placed
from tests.created import Opens, created

START = Place()
"""Before all records."""


@pytest.fixture
async def journal(stores: Iterator[Opens]) -> AsyncIterator[Journal]:
    journal = next(stores)()
    yield journal
    await journal.close()


def record(number: int) -> NewRecord:
    return NewRecord("worked", 1.0, str(number))


async def written(journal: Journal, run: str, *numbers: int) -> None:
    """Give a run records, in a claim of its own, whether there is one of this name or not."""
    records = [record(number) for number in numbers]
    if await journal.has(run):
        claim = await journal.claim(run)
        await claim.append(records, releases=True)
    else:
        claim = await created(journal, run, *records)
        await claim.release()


async def behind(journal: Journal, after: Place, family: str | None = None) -> list[Placed]:
    """Everything behind a place, read bit by bit."""
    found: list[Placed] = []
    while more := await journal.records_after(found[-1].place if found else after, family):
        found += more
    return found


def numbers(found: list[Placed]) -> list[tuple[str, int]]:
    return [(one.run, int(one.record.data)) for one in found if one.record.type != CLAIMED]


async def test_the_records_of_all_runs_come_in_the_order_in_which_they_were_written(
    journal: Journal,
) -> None:
    await written(journal, "a", 1, 2)
    await written(journal, "b", 3)
    await written(journal, "a", 4)
    found = await behind(journal, START)
    assert numbers(found) == [("a", 1), ("a", 2), ("b", 3), ("a", 4)]
    assert [one.place for one in found] == sorted({one.place for one in found})
    assert await journal.newest() == found[-1].place
    assert await behind(journal, found[-1].place) == []
    assert await behind(journal, found[2].place) == found[3:]
    assert [one.record for one in found if one.run == "a"] == await journal.read("a")
    assert [journal.place_in(str(one.place)) for one in found] == [one.place for one in found]
    assert [journal.place_in(text) for text in ("", "x", "-1", "1.", "1" * 40)] == [None] * 5


async def test_a_family_is_a_run_and_its_children_and_no_run_that_begins_like_it(
    journal: Journal,
) -> None:
    for number, run in enumerate(["a", "a/x.1", "a-b", "a/x.1/y.1", "ab", "a0", "a"], 1):
        await written(journal, run, number)
    found = await behind(journal, START, "a")
    assert numbers(found) == [("a", 1), ("a/x.1", 2), ("a/x.1/y.1", 4), ("a", 7)]
    assert numbers(await behind(journal, found[2].place, "a")) == [
        ("a/x.1", 2), ("a/x.1/y.1", 4), ("a", 7),
    ]  # fmt: skip
    assert await behind(journal, START, "nobody") == []


async def test_what_is_read_at_once_is_bounded_in_number_and_size(journal: Journal) -> None:
    await written(journal, "many", *range(1200))
    large = [NewRecord("worked", 1.0, "1" * 3_000_000) for _ in range(4)]
    await (await created(journal, "large", *large)).release()
    for family in (None, "large", "many"):
        for_each, place = [], START
        while more := await journal.records_after(place, family):
            place = more[-1].place
            for_each.append((len(more), sum(len(one.record.data) for one in more)))
        assert max(count for count, _ in for_each) <= 500
        assert max(size for _, size in for_each) < 8_000_000
        assert len(for_each) >= 2


async def test_nothing_is_missed_or_told_twice_where_the_newest_runs_are_removed(
    journal: Journal,
) -> None:
    await written(journal, "stays", 1)
    await written(journal, "goes", 2, 3, 4)
    place = (await behind(journal, START))[-1].place
    early = (await behind(journal, START))[0].place
    await journal.remove("goes")
    assert await behind(journal, place) == []
    await written(journal, "new", 5)
    # SQLite would give the new record the row of one that was removed.
    [_, found] = await behind(journal, place)
    assert numbers([found]) == [("new", 5)]
    await journal.remove("new")
    assert await journal.newest() >= found.place
    await written(journal, "newer", 6)
    assert numbers(await behind(journal, found.place)) == [("newer", 6)]
    assert numbers(await behind(journal, place)) == [("newer", 6)]
    assert numbers(await behind(journal, early)) == [("stays", 1), ("newer", 6)]


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.long) for n in range(4, 20))]
)
async def test_followers_have_every_record_once_and_in_order_whatever_is_removed(
    journal: Journal, seed: int
) -> None:
    dice, names = random.Random(seed), ["a", "b", "c", "a/x.1", "b/x.1"]
    places = dict.fromkeys(("quick", "slow", "a"), START)
    seen: dict[str, list[tuple[str, int]]] = {name: [] for name in places}
    wrote: list[tuple[str, int]] = []
    removed: set[int] = set()

    async def follow(name: str) -> None:
        found = await behind(journal, places[name], name if name == "a" else None)
        seen[name] += numbers(found)
        if found:
            places[name] = found[-1].place

    for number in range(150):
        run = dice.choice(names)
        if dice.random() < 0.2:
            if await journal.has(run):
                removed |= {n for r, n in wrote if r == run or r.startswith(f"{run}/")}
                await journal.remove(run)
        else:
            await written(journal, run, number)
            wrote.append((run, number))
        await follow("quick")
        for name in ("slow", "a"):
            if dice.random() < 0.1:
                await follow(name)
    for name in places:
        await follow(name)
    assert seen["quick"] == wrote
    for name, records in (("slow", wrote), ("a", [w for w in wrote if w[0][:1] == "a"])):
        assert len(set(seen[name])) == len(seen[name])
        assert [w for w in records if w in seen[name]] == seen[name]
        assert {n for _, n in records} - {n for _, n in seen[name]} <= removed


async def test_a_list_of_runs_goes_on_before_a_run(journal: Journal) -> None:
    for run in ("a", "b", "b/x.1", "c"):
        await written(journal, run, 1)
    assert [row.run for row in await journal.runs(before="c")] == ["b", "a"]
    assert [row.run for row in await journal.runs(before="c", limit=1)] == ["b"]
    assert await journal.runs(before="unknown") == []


async def test_a_view_sees_what_others_write_and_writes_nothing_itself(folder: Path) -> None:
    journal = open_journal(folder)
    await written(journal, "a", 1)
    files = sorted(folder.rglob("*"))
    view = open_journal(folder, readonly=True)
    assert numbers(await behind(view, START)) == [("a", 1)]
    await written(journal, "a", 2)
    assert numbers(await behind(view, START)) == [("a", 1), ("a", 2)]
    claim = await journal.claim("a")
    assert [row.is_driven for row in await view.runs()] == [True]
    await claim.release()
    for change in (view.claim("a"), view.remove("a"), view.post("a", "cancel", "x", "", 1.0)):
        with pytest.raises(JournalUnusable, match="opened only to be read"):
            await change
    await view.close()
    assert sorted(folder.rglob("*")) == files
    await journal.close()
