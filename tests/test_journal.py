"""What a journal promises in a file and in memory: whole records in order, one owner, an inbox."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopkit.engine.events import Entered
from loopkit.journal.errors import (
    ClaimLost,
    JournalError,
    MessageWaits,
    Owner,
    RunBusy,
    RunExists,
    RunOfOtherVersion,
    UnknownDefinition,
    UnknownRun,
)
from loopkit.journal.journal import Claim, Journal, open_journal
from loopkit.journal.records import CLAIMED, MAX_TEXT_BYTES, InboxMessage, NewRecord, Record
from loopkit.journal.records import NOW as AT_ONCE
from tests.created import STORES, Opens, created
from tests.support_postgres import told, url_of

ROOT = Path(__file__).parent.parent
NOW = 1_790_000_000.0
ENTERED = Entered(state="draft", visit=1, attempt=1, by=None)


def worked(number: int = 0) -> NewRecord:
    return NewRecord("worked", NOW + number, json.dumps({"number": number}))


async def data_of(journal: Journal, run: str = "r") -> list[str]:
    return [record.data for record in await journal.read(run) if record.type != CLAIMED]


@asynccontextmanager
async def opened(place: Path | Opens | None) -> AsyncIterator[Journal]:
    """A journal in a file, in memory, or as a store opens it."""
    opens = place if callable(place) else partial(open_journal, place)
    journal = opens(clock=partial(float, NOW))
    try:
        yield journal
    finally:
        await journal.close()


@pytest.fixture
async def journal(stores: Iterator[Opens]) -> AsyncIterator[Journal]:
    async with opened(next(stores)) as journal:
        yield journal


@pytest.fixture
async def claim(journal: Journal) -> Claim:
    """The claim on a new run `r`."""
    return await created(journal)


async def test_a_new_run_holds_its_claim_and_then_the_given_records(journal: Journal) -> None:
    claim = await created(journal, "r", worked(1), worked(2))
    claimed, *others = await journal.read("r")
    assert (claimed.seq, claimed.epoch, claimed.type, claimed.at) == (1, 1, CLAIMED, NOW)
    assert json.loads(claimed.data) == {"pid": os.getpid(), "host": os.uname().nodename}
    assert others == [
        Record(2, 1, NOW + 1, "worked", '{"number": 1}'),
        Record(3, 1, NOW + 2, "worked", '{"number": 2}'),
    ]
    assert (claim.run, claim.epoch, claim.seq) == ("r", 1, 3)


@pytest.mark.parametrize(("after", "seqs"), [(-5, [1, 2]), (1, [2]), (2, []), (10**30, [])])
async def test_reading_gives_what_is_behind_a_number(
    journal: Journal, after: int, seqs: list[int]
) -> None:
    await created(journal, "r", worked())
    assert [record.seq for record in await journal.read("r", after)] == seqs


@pytest.mark.parametrize(
    ("limit", "seqs"), [(0, []), (2, [2, 3]), (9, [2, 3, 4]), (None, [2, 3, 4])]
)
async def test_reading_ends_at_a_limit(
    journal: Journal, limit: int | None, seqs: list[int]
) -> None:
    await created(journal, "r", worked(), worked(), worked())
    assert [record.seq for record in await journal.read("r", 1, limit)] == seqs


async def test_a_run_is_created_once(journal: Journal) -> None:
    await created(journal, "r", worked(1))
    with pytest.raises(RunExists, match="run 'r' exists already"):
        await created(journal, "r", worked(2))
    assert await data_of(journal) == ['{"number": 1}']


async def test_a_journal_has_the_runs_that_were_created_in_it(journal: Journal) -> None:
    assert not await journal.has("r")
    await created(journal)
    assert await journal.has("r")
    assert not await journal.has("s")


async def test_runs_that_do_not_exist_are_named(journal: Journal) -> None:
    for request in (
        journal.claim("ghost"),
        journal.read("ghost"),
        journal.post("ghost", "answer", "a", "{}", NOW),
    ):
        with pytest.raises(UnknownRun, match="there is no run `ghost`"):
            await request


async def test_each_record_has_the_epoch_of_the_claim_that_wrote_it(journal: Journal) -> None:
    record = NewRecord("worked", NOW, "{}")
    claim = await created(journal, "r", record)
    await claim.release()
    again = await journal.claim("r")
    await again.append([record, record])
    assert [kept.epoch for kept in await journal.read("r")] == [1, 1, 2, 2, 2]


async def test_data_that_was_not_written_is_read_as_its_text(journal: Journal) -> None:
    claim = await created(journal, "r", NewRecord("entered", NOW, ENTERED))
    await claim.append([NewRecord("entered", NOW, ENTERED)])
    assert await data_of(journal) == [ENTERED.to_json()] * 2


async def test_a_released_run_can_be_claimed_at_once_with_a_new_epoch(journal: Journal) -> None:
    first = await created(journal, "r", worked())
    await first.release()
    second = await journal.claim("r")
    assert (second.epoch, second.seq) == (2, 3)
    assert [(r.seq, r.epoch, r.type) for r in await journal.read("r", after=2)] == [(3, 2, CLAIMED)]
    with pytest.raises(RunBusy):
        await journal.claim("r")


async def test_a_busy_run_names_its_present_owner_and_since_when() -> None:
    times = [NOW]
    journal = open_journal(None, clock=lambda: times[-1])
    await (await created(journal)).release()
    times.append(NOW + 100.0)
    await journal.claim("r")
    with pytest.raises(RunBusy) as busy:
        await journal.claim("r")
    here = os.getpid(), os.uname().nodename
    assert busy.value.owner == Owner(journal.owner, *here, NOW + 100.0)
    await journal.close()


def test_an_owners_time_has_a_date_unless_it_is_today() -> None:
    now, then = (str(Owner("n", 7, "h", at)) for at in (time.time(), 1e9))
    assert re.fullmatch(r"process 7 on h since \d\d:\d\d:\d\d", now)
    assert re.search(r"since 2001-09-0\d \d\d:\d\d:\d\d$", then)


async def test_a_released_claim_cannot_append(journal: Journal, claim: Claim) -> None:
    await claim.release()
    with pytest.raises(ClaimLost, match="was released"):
        await claim.append([worked()])
    assert await data_of(journal) == []


async def test_the_last_append_lets_go_of_the_run_in_the_same_commit(journal: Journal) -> None:
    first = await created(journal)
    seq = await first.append([worked()], releases=True)
    with pytest.raises(ClaimLost, match="was released"):
        await first.append([worked()])
    second = await journal.claim("r")
    assert (second.epoch, second.seq) == (2, seq + 1)


async def test_an_append_that_fails_lets_go_of_nothing(journal: Journal, claim: Claim) -> None:
    with pytest.raises(JournalError, match="does not wait in the inbox"):
        await claim.append([worked()], ["never posted"], releases=True)
    with pytest.raises(RunBusy):
        await journal.claim("r")
    await claim.append([worked()], releases=True)


async def test_a_second_release_takes_nothing_from_the_next_owner(journal: Journal) -> None:
    first = await created(journal)
    await first.release()
    await journal.claim("r")
    await first.release()
    with pytest.raises(RunBusy):
        await journal.claim("r")


async def test_a_message_waits_until_an_append_consumes_it(journal: Journal, claim: Claim) -> None:
    assert await journal.post("r", "answer", "b", '"yes"', NOW) is None
    assert await journal.post("r", "cancel", "a", "{}", NOW - 1) is None
    answer = InboxMessage("answer", "b", '"yes"', NOW)
    cancel = InboxMessage("cancel", "a", "{}", NOW - 1)
    assert await claim.inbox() == [answer, cancel]
    await claim.append([worked()], consumes=["b"])
    assert await claim.inbox() == [cancel]
    await claim.append([], consumes=["a"])
    assert await claim.inbox() == []


async def test_a_message_keeps_a_claim_from_being_let_go_until_it_was_read(
    journal: Journal, claim: Claim
) -> None:
    await journal.post("r", "cancel", "a", "{}", NOW)
    with pytest.raises(MessageWaits, match="run 'r': nothing was written"):
        await claim.append([worked()], releases=True, unless=["cancel"])
    assert not await claim.release(["answer", "cancel"])
    assert [record.type for record in await journal.read("r")] == [CLAIMED]
    # One of another kind, and one that this very append takes, keep nobody.
    await claim.append([worked()], unless=["answer"])
    await claim.append([worked()], consumes=["a"], releases=True, unless=["cancel"])
    claim = await journal.claim("r")
    assert await claim.release(["cancel"])
    assert await claim.release(["cancel"])
    await journal.claim("r")


async def test_the_same_message_twice_is_one_even_when_it_was_consumed(
    journal: Journal, claim: Claim
) -> None:
    assert await journal.post("r", "answer", "a", "1", NOW) is None
    assert await journal.post("r", "answer", "a", "2", NOW) == "1"
    assert [message.data for message in await claim.inbox()] == ["1"]
    await claim.append([], consumes=["a"])
    assert await journal.post("r", "answer", "a", "3", NOW) == "1"
    assert await claim.inbox() == []


async def test_runs_have_inboxes_of_their_own(journal: Journal) -> None:
    one, two = await created(journal, "one"), await created(journal, "two")
    assert await journal.post("one", "answer", "a", "1", NOW) is None
    assert await journal.post("two", "answer", "a", "2", NOW) is None
    await one.append([], consumes=["a"])
    assert [message.data for message in await two.inbox()] == ["2"]
    # Which of them hold something, of those that this process has in hand, is one question.
    assert await journal.mailed() == ["two"]
    await two.release()
    assert await journal.mailed() == []


async def test_an_append_that_consumes_what_does_not_wait_writes_nothing(
    journal: Journal, claim: Claim
) -> None:
    await journal.post("r", "answer", "a", "1", NOW)
    with pytest.raises(JournalError, match="message 'ghost' does not wait in the inbox"):
        await claim.append([worked()], consumes=["a", "ghost"])
    with pytest.raises(JournalError, match="message 'a' does not wait in the inbox"):
        await claim.append([worked()], consumes=["a", "a"])
    assert len(await claim.inbox()) == 1
    assert await data_of(journal) == []
    assert await claim.append([worked()], consumes=["a"]) == 2
    with pytest.raises(JournalError, match="consumed before"):
        await claim.append([worked()], consumes=["a"])
    assert claim.seq == 2


async def due(journal: Journal, *labels: str, **options: bool) -> list[str]:
    return [one.run for one in await journal.due(10, labels, **options)]


@pytest.mark.parametrize("is_last_append", [False, True])
async def test_a_run_is_due_when_who_releases_it_says_so(
    journal: Journal, is_last_append: bool
) -> None:
    times = {"never": None, "at once": AT_ONCE, "long ago": 1.0, "later": 4e9}
    for run, at in times.items():
        claim = journal.begin(run, machine="m", definition="d", needs=())
        await claim.append([worked()])
        if is_last_append:
            await claim.append([worked()], releases=True, due=at)
        else:
            assert await claim.release(due=at)
    assert sorted(await due(journal)) == ["at once", "long ago"]
    again = await journal.claim("later")
    assert again.due == 4e9
    await again.release(due=AT_ONCE)
    assert len(await due(journal)) == 3
    assert len(await journal.due(2)) == 2
    claim = await journal.claim("long ago")
    assert sorted(await due(journal)) == ["at once", "later"]
    await claim.release()
    assert sorted(await due(journal)) == ["at once", "later"]


async def test_only_submitted_runs_are_due_where_the_labels_that_they_need_are(
    journal: Journal,
) -> None:
    for run, needs in (("own", None), ("any", ()), ("gpu", ["gpu"]), ("both", ["gpu", "é"])):
        claim = journal.begin(run, machine="m", definition="d", needs=needs)
        await claim.append([worked()])
        await claim.release(due=AT_ONCE)
    names = ("own", "any", "both", "ghost")
    assert [await journal.is_submitted(run) for run in names] == [False, True, True, False]
    assert await due(journal) == ["any"]
    assert sorted(await due(journal, "gpu", "x")) == ["any", "gpu"]
    assert sorted(await due(journal, "é", "gpu", every=True)) == ["any", "both", "gpu", "own"]
    await journal.submit("own", ["gpu"])
    assert sorted(await due(journal, "gpu")) == ["any", "gpu", "own"]
    with pytest.raises(UnknownRun):
        await journal.submit("ghost")


async def test_a_submitted_run_is_due_as_long_as_a_message_waits_for_it(journal: Journal) -> None:
    for run in ("r", "own"):
        await (await created(journal, run)).release()
    await journal.submit("r")
    claim = await journal.claim("r")
    await claim.release()
    assert await due(journal) == []
    for run in ("r", "own"):
        await journal.post(run, "answer", "a", "1", NOW)
    assert await due(journal, every=True) == ["r"]
    claim = await journal.claim("r")
    # Another one comes while somebody has the run.
    await journal.post("r", "answer", "b", "2", NOW)
    await claim.append([], consumes=["a"])
    await claim.release(due=4e9)
    assert await due(journal) == ["r"]
    claim = await journal.claim("r")
    await claim.append([], consumes=["b"], releases=True)
    assert await due(journal) == []


async def test_runs_are_counted_by_their_last_record_and_whether_they_are_due(
    journal: Journal,
) -> None:
    for run in ("r", "s", "waits"):
        claim = await created(journal, run, NewRecord("waiting", 1.0, ""))
        # Whoever looks in is no step of the run.
        await claim.release(due=2.0)
        await (await journal.claim(run)).release(due=4e9)
    for run in ("r", "s"):
        await journal.submit(run)
    await (await journal.claim("s")).release(due=2.0)
    await created(journal, "driven", worked())
    await (await created(journal, "driven/each.1", worked())).release(due=2.0)
    found = sorted(await journal.standings())
    assert [(*one[:4], one.since is not None) for one in found] == [
        ("waiting", False, False, 1, False),
        ("waiting", False, True, 2, True),
        ("worked", True, False, 1, True),
    ]
    assert found[1].since == (await journal.due())[0].since


async def test_a_run_is_due_with_its_child_unless_somebody_has_it(journal: Journal) -> None:
    root = await created(journal, "r")
    child = await created(journal, "r/each.1")
    await child.append([worked()], due=2.0)
    await child.append([worked()])
    await (await created(journal, "r2")).release(due=4e9)
    assert await due(journal, every=True) == []
    await root.release()
    assert await due(journal, every=True) == ["r"]
    await child.release()
    assert await due(journal, every=True) == []


@pytest.mark.parametrize("store", ["file", "postgres"])
async def test_a_run_of_a_newer_format_is_left_to_newer_processes(
    store: str, tmp_path: Path
) -> None:
    journal = STORES[store](tmp_path)()
    await (await created(journal, "r")).release(due=AT_ONCE)
    await (await created(journal, "newer")).release(due=AT_ONCE)
    statement = "UPDATE runs SET format = 2 WHERE run = 'newer'"
    if store == "file":
        with closing(sqlite3.connect(tmp_path / "journal.db")) as db, db:
            db.execute(statement)
    else:
        told(url_of(tmp_path), statement.replace("runs", "@runs"))
    assert await due(journal, every=True) == ["r"]
    with pytest.raises(RunOfOtherVersion, match=r"format 2, .* knows 1; .* upgrade this one"):
        await journal.claim("newer")
    assert len(await journal.read("newer")) == 1
    await journal.remove("newer")
    await journal.close()


async def test_runs_are_listed_newest_first_with_where_they_stand(journal: Journal) -> None:
    claim = await created(journal, "one", worked(1), worked(2), worked(3))
    await created(journal, "two", worked(4), machine="other", definition="e")
    await claim.release()
    two, one = await journal.runs()
    assert (one.run, one.machine, one.definition) == ("one", "m", "d")
    assert (one.created_at, one.updated_at, one.seq) == (NOW + 1, NOW + 3, 4)
    assert (two.run, two.machine, two.definition) == ("two", "other", "e")
    assert (one.is_driven, two.is_driven) == (False, True)
    assert [row.run for row in await journal.runs(machine="m")] == ["one"]
    assert [row.run for row in await journal.runs(limit=1)] == ["two"]
    assert [row.run for row in await journal.runs(run="one")] == ["one"]
    assert await journal.runs(run="three") == []


async def test_runs_whose_last_record_is_of_certain_types_are_left_out(journal: Journal) -> None:
    ended = NewRecord("ended", NOW, "{}")
    await created(journal, "works", worked(1))
    await created(journal, "went on", ended, worked(2))
    await created(journal, "is over", worked(3), ended)
    await created(journal, "is over as well", ended)
    await created(journal, "has begun")
    rows = await journal.runs(skipping=["ended", "no such type"])
    assert [row.run for row in rows] == ["has begun", "went on", "works"]
    assert [row.run for row in await journal.runs(limit=1, skipping=["claimed"])] == [
        "is over as well"
    ]
    assert await journal.runs(run="is over", skipping=["ended"]) == []


async def test_runs_are_read_with_all_their_records_bit_by_bit(journal: Journal) -> None:
    for run in ("a", "b", "b/c:1:x", "d"):
        await (await created(journal, run, worked(1), worked(2))).release()
    await journal.remove("d")
    await created(journal, "d", worked(3))
    first = await journal.histories(limit=2)
    assert [history.row.run for history in first] == ["d", "b/c:1:x"]
    assert [record.type for record in first[1].records] == ["claimed", "worked", "worked"]
    assert first[0].row == (await journal.runs(run="d"))[0]
    rest = await journal.histories(before=first[-1].place, limit=10)
    assert [history.row.run for history in rest] == ["b", "a"]
    assert await journal.histories(before=rest[-1].place) == []
    assert await journal.histories("other") == []


async def test_ids_are_found_by_their_beginning(journal: Journal) -> None:
    for run in ("plan-1a", "plan-1b", "plan_x", "poem-2"):
        await created(journal, run)
    assert await journal.find_runs("plan-") == ["plan-1b", "plan-1a"]
    assert await journal.find_runs("plan_") == ["plan_x"]
    assert await journal.find_runs("", limit=1) == ["poem-2"]
    assert await journal.find_runs("PLAN") == []
    assert await journal.find_runs("%") == []


async def test_a_run_that_nobody_drives_is_removed_with_all_it_has(journal: Journal) -> None:
    claim, other = await created(journal, "r", worked()), await created(journal, "other", worked())
    await journal.post("r", "answer", "a", "1", NOW)
    with pytest.raises(RunBusy, match="'r' is being driven"):
        await journal.remove("r")
    await claim.release()
    await journal.remove("r")
    with pytest.raises(UnknownRun, match="`r`"):
        await journal.remove("r")
    with pytest.raises(UnknownRun):
        await journal.read("r")
    again = await created(journal, "r")
    assert await data_of(journal, "r") == []
    assert await again.inbox() == []
    assert await other.append([worked()]) == 3


async def test_a_run_that_nobody_asked_for_is_removed_with_its_children(journal: Journal) -> None:
    family = [await created(journal, run, worked()) for run in ("r", "r/each.1", "r2")]
    for claim in family[:2]:
        await claim.append([worked()], releases=True)
    await journal.remove("r")
    assert [await journal.has(run) for run in ("r", "r/each.1", "r2")] == [False, False, True]
    assert (await created(journal, "r", worked())).seq == 2
    assert [row.run for row in await journal.runs(children=True)] == ["r", "r2"]


async def test_a_run_is_not_removed_while_its_child_is_driven(journal: Journal) -> None:
    await (await created(journal, "r", worked())).release()
    child = await created(journal, "r/each.1", worked())
    with pytest.raises(RunBusy):
        await journal.remove("r")
    assert await child.append([worked()], releases=True) == 3
    assert await journal.has("r")


async def test_a_run_goes_on_where_it_was_when_somebody_asked_for_it(journal: Journal) -> None:
    claim = await created(journal, "r", worked(1))
    assert await data_of(journal) == ['{"number": 1}']
    await claim.append([worked(2)])
    await journal.post("r", "answer", "a", "1", NOW)
    with pytest.raises(MessageWaits):
        await claim.append([worked(3)], unless=["answer"])
    assert await claim.append([worked(4)], ["a"], releases=True, unless=["answer"]) == 4
    assert await data_of(journal) == [f'{{"number": {n}}}' for n in (1, 2, 4)]
    assert (await journal.claim("r")).epoch == 2


class _Unwritable:
    def to_json(self) -> str:
        raise ValueError("it has no text")


async def test_a_run_in_memory_that_cannot_be_written_keeps_nobody_else_from_the_journal() -> None:
    claims: dict[str, Claim] = {}
    async with opened(None) as journal:
        for run, data in (("a", "{}"), ("bad", _Unwritable()), ("c", "{}")):
            claims[run] = journal.begin(run, machine="m", definition="d")
            await claims[run].append([NewRecord("worked", NOW, data)])
        for request in (journal.read("a"), claims["bad"].append([worked()])):
            with pytest.raises(JournalError, match="run 'bad' cannot be stored: it has no text"):
                await request
        assert [len(await journal.read(run)) for run in ("a", "c")] == [2, 2]


async def test_a_definition_is_stored_once_under_its_digest(journal: Journal) -> None:
    await journal.store_definition("abc", "loopkit: 1")
    await journal.store_definition("abc", "loopkit: 1")
    assert await journal.definition("abc") == "loopkit: 1"
    with pytest.raises(UnknownDefinition, match="'xyz'"):
        await journal.definition("xyz")


async def test_concurrent_appends_on_one_claim_follow_one_another(
    journal: Journal, claim: Claim
) -> None:
    await asyncio.gather(*(claim.append([worked(n), worked(n)]) for n in range(20)))
    numbers = [json.loads(text)["number"] for text in await data_of(journal)]
    assert numbers == [n for n in range(20) for _ in range(2)]
    assert claim.seq == 41


async def test_what_fails_for_one_run_touches_no_other_of_its_group(journal: Journal) -> None:
    claims = [await created(journal, f"r{n}") for n in range(10)]
    outcomes = await asyncio.gather(
        *(
            claim.append([worked(n)], consumes=["ghost"] if n == 4 else [])
            for n, claim in enumerate(claims)
        ),
        return_exceptions=True,
    )
    assert [n for n, outcome in enumerate(outcomes) if outcome != 2] == [4]
    assert [len(await data_of(journal, f"r{n}")) for n in range(10)] == [1] * 4 + [0] + [1] * 5


async def test_a_cancelled_append_leaves_the_claim_in_step_with_the_run(
    journal: Journal, claim: Claim
) -> None:
    for number in range(30):
        task = asyncio.create_task(claim.append([worked(number)]))
        await asyncio.sleep(0 if number % 3 else 0.001)
        task.cancel()
        await asyncio.wait([task])
        assert claim.seq == len(await journal.read("r"))
    assert await claim.append([worked()]) == len(await journal.read("r"))


async def test_a_closed_journal_says_so_and_closes_again(journal: Journal, claim: Claim) -> None:
    await journal.close()
    await journal.close()
    await claim.release()
    for request in (journal.read("r"), journal.runs(), claim.append([worked()])):
        with pytest.raises(JournalError, match="is closed"):
            await request


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (NewRecord("worked", NOW, '"\ud800"'), "half a surrogate pair at character 1"),
        (NewRecord("wor\udfffked", NOW, "{}"), "the type of record 2 contains half"),
        (NewRecord("worked", NOW, "\0"), "zero character at 0"),
        (NewRecord("worked", NOW, "x" * (MAX_TEXT_BYTES + 1)), "50,000,001 bytes"),
        (NewRecord("worked", NOW, "é" * (MAX_TEXT_BYTES // 2 + 1)), "50,000,002 bytes"),
    ],
    ids=["data", "type", "zero", "ascii-size", "utf8-size"],
)
async def test_records_that_no_store_could_keep_are_refused_whole(
    journal: Journal, claim: Claim, record: NewRecord, message: str
) -> None:
    with pytest.raises(JournalError, match=message):
        await claim.append([worked(), record])
    with pytest.raises(JournalError, match=message):
        await created(journal, "other", worked(), record)
    assert await data_of(journal) == []
    assert len(await journal.runs()) == 1


async def test_names_that_no_store_could_keep_are_refused(journal: Journal) -> None:
    claim, bad = await created(journal), "\udc80"
    for request in (
        created(journal, bad),
        journal.claim(bad),
        journal.read(bad),
        journal.runs(run=bad),
        journal.find_runs(bad),
        journal.remove(bad),
        journal.runs(machine=bad),
        journal.definition(bad),
        journal.store_definition("d", bad),
        journal.post("r", "answer", bad, "{}", NOW),
        journal.post("r", "answer", "a", bad, NOW),
        claim.append([], consumes=[bad]),
    ):
        with pytest.raises(JournalError, match=r"half a surrogate|a text that was given"):
            await request


async def test_a_record_of_fifty_megabytes_comes_back_whole(journal: Journal, claim: Claim) -> None:
    await claim.append([NewRecord("worked", NOW, "x" * MAX_TEXT_BYTES)])
    assert [len(text) for text in await data_of(journal)] == [MAX_TEXT_BYTES]


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
new_records = st.builds(NewRecord, texts, st.floats(-1e11, 1e11), texts)


examples = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(run=texts, records=st.lists(new_records, max_size=5))
@examples
def test_any_text_and_time_comes_back_as_it_was(
    stores: Iterator[Opens], run: str, records: list[NewRecord]
) -> None:
    async def scenario() -> None:
        async with opened(next(stores)) as journal:
            await created(journal, run, *records)
            back = [NewRecord(r.type, r.at, r.data) for r in await journal.read(run, after=1)]
            assert back == records

    asyncio.run(scenario())


class Model:
    """What a journal with one reader should hold, in plain lists."""

    def __init__(self) -> None:
        self.records: dict[str, list[str]] = {}
        self.waiting: dict[str, list[str]] = {}
        self.posted: dict[str, set[str]] = {}

    def create(self, run: str) -> bool:
        if run in self.records:
            return False
        self.records[run], self.waiting[run], self.posted[run] = [CLAIMED], [], set()
        return True

    def post(self, run: str, message_id: str) -> bool:
        if message_id in self.posted[run]:
            return False
        self.posted[run].add(message_id)
        self.waiting[run].append(message_id)
        return True

    def append(self, run: str, data: str, consumes: Sequence[str]) -> bool:
        if len(set(consumes)) < len(consumes) or not set(consumes) <= set(self.waiting[run]):
            return False
        self.records[run].append(data)
        self.waiting[run] = [m for m in self.waiting[run] if m not in consumes]
        return True


names = st.sampled_from(["a", "b"])
steps = st.tuples(
    st.sampled_from(["create", "post", "append", "append", "hand over"]),
    names,
    st.lists(names, max_size=2),
)


@given(plan=st.lists(steps, max_size=25))
@examples
def test_any_sequence_of_requests_leaves_what_plain_lists_would(
    stores: Iterator[Opens], plan: list[tuple[str, str, list[str]]]
) -> None:
    asyncio.run(_compare_with_model(next(stores), plan))


async def _compare_with_model(opens: Opens, plan: list[tuple[str, str, list[str]]]) -> None:
    model, claims = Model(), dict[str, Claim]()
    async with opened(opens) as journal:
        for number, (verb, run, messages) in enumerate(plan):
            if verb == "create":
                assert (await _done(_create(journal, claims, run))) == model.create(run)
            elif run not in model.records:
                continue
            elif verb == "post":
                for message in messages:
                    expected = model.post(run, message)
                    assert (
                        await journal.post(run, "answer", message, "{}", NOW) is None
                    ) == expected
            elif verb == "append":
                request = claims[run].append([NewRecord("worked", NOW, str(number))], messages)
                assert await _done(request) == model.append(run, str(number), messages)
            else:
                await claims[run].release()
                claims[run] = await journal.claim(run)
                model.records[run].append(CLAIMED)
        for run, expected_records in model.records.items():
            found = await journal.read(run)
            assert [CLAIMED if r.type == CLAIMED else r.data for r in found] == expected_records
            assert [r.seq for r in found] == list(range(1, len(found) + 1))
            assert claims[run].seq == len(found)
            assert [m.message_id for m in await claims[run].inbox()] == model.waiting[run]


async def _create(journal: Journal, claims: dict[str, Claim], run: str) -> None:
    claims[run] = await created(journal, run)


async def _done(request: Awaitable[object]) -> bool:
    try:
        await request
    except JournalError:
        return False
    return True
