"""New runs: stored with what they do first, under an id of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.stored_runs import Stored
from loopkit.journal.errors import RunExists
from loopkit.journal.journal import open_journal
from loopkit.language.load import load
from tests.commits import Row, types_of, watched
from tests.machines import loop

LOOP = loop(
    "[decided]",
    {"valid": "done"},
    '{revise: write, max: 5, feedback: "revision {{ revision }}"}',
    "{target: failed}",
    top="""
agents: {writer: {command: [writer]}}
validators: {decided: [{matches: revision 2}]}
""",
    draft="write: {agent: writer, prompt: Write., output: note}",
    result="note",
)


def echo(prompt: str, _: Any) -> str:
    return prompt.rpartition("\n\n")[2]


def test_six_steps_are_seven_commits_and_nothing_is_asked_or_judged_before_one(
    tmp_path: Path,
) -> None:
    """The run is stored with its first intent, and let go of with its last event."""
    commits: list[list[str]] = []

    def observe(moment: str, rows: Sequence[Row]) -> None:
        if moment == "after":
            commits.append(types_of(rows))

    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)

    async def drive() -> None:
        with watched(observe):
            journal = open_journal(tmp_path / ".loopkit")
        app = App(journal, folder=tmp_path, functions={"writer": echo})
        state = await app.drive(await app.start(load(machine), {}))
        assert state.finished is not None
        await (await journal.claim(state.run)).release()
        await app.close()

    asyncio.run(drive())
    worked = ["replied", "worked", "decided", "entered"]
    judged = ["worked", "decided", "entered", "intended"]
    assert commits[:7] == [
        ["claimed", "started", "entered", "intended"],
        worked, judged, worked, judged, worked,
        ["worked", "decided", "entered", "finished"],
    ]  # fmt: skip
    assert commits[7:] == [["claimed"]]


PANEL = LOOP.replace(
    "{writer: {command: [writer]}}",
    "{writer: {command: [writer]}, quick: {command: [quick]}, slow: {command: [slow]}}",
).replace("[decided]", "[{judge: quick}, {judge: slow}]", 1)


async def test_a_reply_is_durable_before_it_is_judged_while_others_are_still_awaited(
    tmp_path: Path,
) -> None:
    """An opinion that is paid for is not lost if the process ends while another one is formed."""
    passed = '{"verdict": "pass", "findings": []}'
    stored: list[str] = []
    is_stored = asyncio.Event()

    def observe(moment: str, rows: Sequence[Row]) -> None:
        if moment == "after":
            stored.extend(types_of(rows))
            if stored.count("replied") == 2:
                is_stored.set()

    async def slow(prompt: str, _: Any) -> str:
        await asyncio.wait_for(is_stored.wait(), 30)
        assert stored[-1] == "replied"
        return passed

    machine = tmp_path / "machine.yaml"
    machine.write_text(PANEL)
    functions = {"writer": echo, "quick": lambda prompt, _: passed, "slow": slow}
    with watched(observe):
        app = App(open_journal(tmp_path / ".loopkit"), folder=tmp_path, functions=functions)
    state = await app.drive(await app.start(load(machine), {}))
    await app.close()
    assert state.finished is not None
    assert state.finished.outcome == "done"
    assert stored.count("replied") == 3


async def test_a_run_whose_id_another_process_took_meanwhile_asks_nobody(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    asked: list[str] = []

    def write(prompt: str, _: Any) -> str:
        asked.append(prompt)
        return prompt

    parts: dict[str, Any] = {"functions": {"writer": write}, "token": lambda: "aa"}
    first, second = (App.open(tmp_path / ".loopkit", **parts) for _ in range(2))
    begun = [await app.start(load(machine), {}) for app in (first, second)]
    await begun[0].append()
    with pytest.raises(RunExists, match="machine-aa"):
        await second.drive(begun[1])
    assert asked == []
    state = await first.drive(begun[0])
    assert (state.status, len(asked)) == ("finished", 3)
    await first.close()
    await second.close()


async def test_an_id_that_a_stored_run_has_is_drawn_again(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    tokens = iter(["aa", "aa", "bb"])
    parts: dict[str, Any] = {"functions": {"writer": echo}, "token": lambda: next(tokens)}
    app = App.open(tmp_path / ".loopkit", **parts)
    runs = [(await app.drive(await app.start(load(machine), {}))).run for _ in range(2)]
    assert runs == ["machine-aa", "machine-bb"]
    await app.close()


async def test_an_id_that_another_run_draws_at_the_same_time_is_drawn_again(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    tokens = iter(["aa", "bb", "cc", "cc", "dd"])
    parts: dict[str, Any] = {"functions": {"writer": echo}, "token": lambda: next(tokens)}
    app = App.open(tmp_path / ".loopkit", **parts)
    # Where several runs are driven the journal answers in the next turn of the event loop.
    for active in [await app.start(load(machine), {}) for _ in range(2)]:
        await active.append()
    begun = await asyncio.gather(*(app.start(load(machine), {}) for _ in range(2)))
    assert {active.state.run for active in begun} == {"machine-cc", "machine-dd"}
    await app.close()


BASED = LOOP.replace("{matches: revision 2}", "{command: [cat, todo], baseline: true}")


@pytest.mark.usefixtures("litellm")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LOOP.replace("command: [writer]", "model: some/model"), []),
        (BASED, [["baselined"]]),
    ],
    ids=["model", "baseline"],
)
async def test_a_run_that_takes_seconds_to_begin_can_be_seen_meanwhile(
    tmp_path: Path, text: str, told: list[list[str]]
) -> None:
    commits: list[list[str]] = []
    machine = tmp_path / "machine.yaml"
    machine.write_text(text)
    with watched(lambda moment, rows: commits.append(types_of(rows))):
        functions = {"writer": echo} if told else {}
        app = App.open(tmp_path / ".loopkit", functions=functions)
    active = await app.start(load(machine), {})
    if told:
        await app.drive(active)
    # Of each append the connection tells twice.
    assert commits[: 2 * (1 + len(told)) : 2] == [["claimed", "started"], *told]
    await app.close()


async def test_events_are_told_in_the_order_in_which_they_are_stored(tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text(LOOP)
    told: list[Stored] = []
    parts: dict[str, Any] = {"functions": {"writer": echo}, "listeners": [told.append]}
    app = App.open(tmp_path / ".loopkit", **parts)
    state = await app.drive(await app.start(load(machine), {}))
    assert told == (await app.events(state.run))[1:]
    assert all(after.seq == before.seq + 1 for before, after in pairwise(told))
    await app.close()
