"""`cancel` ends the work in hand, in the process that drives the run and for all of its family."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from loopkit.app import App
from loopkit.drive.active import Stopped
from loopkit.engine.events import Cancelled, Intended, Suspended, Waiting
from loopkit.engine.state import RunState
from loopkit.machine.inputs import complete_input
from tests.support import Desk, scenario, sound
from tests.waiting import is_alive, until
from tests.warm import Process

WORKS = """#!/bin/sh
cd "$(dirname "$0")"
echo $$ >> pids
sleep 300 & echo $! >> pids
wait
"""
"""A program with a child, which both are at work for minutes."""
ENDS = "done: {final: success}, no: {final: failure}"
DRAFT = f"states: {{draft: {{agent: w, prompt: Write., on_error: no, next: done}}, {ENDS}}}"
AGENT = f"agents: {{w: {{command: [./works], price_per_run: 2.5}}}}\n{DRAFT}"
MODEL = f"agents: {{w: {{model: openai/gpt-5-mini}}}}\n{DRAFT}"
TOOL = MODEL.replace("mini", "mini, tools: {look: {command: [./works]}}")
RUN = "states: {draft: {run: [./works], next: done}, done: {final: success}}"
RULE = """
validators: {checked: {command: [./works], parse: lines}}
states:
  draft: {render: A post., next: check}
  check: {validate: draft, by: [checked], transitions: [{guard: valid, target: done}, {target: no}]}
  done: {final: success}
  no: {final: failure}
"""
FAMILY = """
input: {parts: {type: [str], default: [a, b]}}
states:
  all: {each: input.parts, as: part, key: part, machine: machine.yaml, max_items: 2, parallel: 2,
    isolate: copy, next: done}
  done: {final: success}
"""
GRANDPARENT = "states: {all: {machine: family.yaml, next: done}, done: {final: success}}"
LOOKS = scenario(agents={"w": [[{"tool_calls": [{"name": "look", "input": {}}]}, "A post."]]})


def prepare(desk: Desk, machine: str) -> None:
    """Write the program and the machine, and families around that."""
    works = desk.write("works", WORKS)
    works.chmod(0o755)
    machine = machine.replace("./works", str(works))
    for name, text in (("machine", machine), ("family", FAMILY), ("grandparent", GRANDPARENT)):
        desk.write(f"{name}.yaml", f"loopkit: 1\n{text}")


async def until_so(happened: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    async with asyncio.timeout(60):
        while not await happened():  # noqa: ASYNC110 - it happens elsewhere
            await asyncio.sleep(0.02)


def pids_in(folder: Path) -> list[str]:
    """Those of the programs that have begun, and of their children."""
    return (folder / "pids").read_text().split() if (folder / "pids").exists() else []


async def cancelled_in_hand(
    desk: Desk, app: App, name: str, script: str, is_in_hand: Callable[[list[Any]], bool]
) -> RunState:
    """Cancel a run as another process does, once it is so far; it has to end at once."""
    loaded = sound(desk.folder / name)
    inputs = complete_input(loaded.machine, {})
    active = await app.start(loaded, inputs, desk.script(script or None))
    await active.append()
    driving, run = asyncio.create_task(app.drive(active)), active.state.run

    async def is_so_far() -> bool:
        return is_in_hand([stored.event for stored in await app.events(run)])

    await until_so(is_so_far)
    async with App.open(desk.state_folder) as other:
        assert "ends the work in hand and cancels the run" in await other.cancel(run, "Enough.")
    async with asyncio.timeout(30):
        await driving
    await assert_cancelled(app)
    return await app.state_of(run)


async def assert_cancelled(app: App) -> None:
    """Every run of a family has to be, and nobody may be asked anything."""
    for row in await app.journal.runs(children=True):
        events = [stored.event for stored in await app.events(row.run)]
        assert isinstance(events[-1], Cancelled)
        assert not any(isinstance(event, Waiting | Suspended) for event in events)


@pytest.mark.parametrize(
    ("name", "machine", "programs"),
    [
        ("machine.yaml", AGENT, 1),
        ("machine.yaml", RUN, 1),
        ("machine.yaml", RULE, 1),
        ("machine.yaml", RULE.replace("lines", "lines, baseline: true"), 1),
        ("machine.yaml", TOOL, 1),
        ("family.yaml", AGENT, 2),
        ("grandparent.yaml", RUN, 2),
    ],
    ids=["agent", "run", "rule", "baseline", "tool", "children", "grandchildren"],
)
async def test_a_program_at_work_is_ended_with_all_that_it_has_started(
    durable: Desk, name: str, machine: str, programs: int
) -> None:
    prepare(durable, machine)
    folder, script = durable.folder, LOOKS if machine is TOOL else ""
    async with App.open(durable.state_folder) as app:
        state = await cancelled_in_hand(
            durable, app, name, script, lambda _: len(pids_in(folder)) == 2 * programs
        )

        async def are_gone() -> bool:
            return not any(map(is_alive, pids_in(folder)))

        await until_so(are_gone)
        assert len(pids_in(folder)) == 2 * programs
        used, priced = await app.usage_of(state), 2.5 * programs if machine is AGENT else 0.0
        assert (used.cost_usd, used.held_usd) == (priced, priced)


PATIENT = AGENT.replace("[./works]", "[none], retry: {backoff: 5m, max_backoff: 5m}")
SLOW = {"reply": "A post.", "delay": "5m", "reserved": {"cost_usd": 0.25, "tokens": 9}}


@pytest.mark.parametrize(
    ("machine", "call", "last", "held"),
    [
        (PATIENT, {"fault": "connection"}, "failed", 0.0),
        (MODEL, {"fault": "rate_limit", "retry_after": "50s"}, "failed", 0.0),
        (MODEL, SLOW, "intended", 0.25),
    ],
    ids=["back-off", "retry-after", "model"],
)
async def test_a_wait_for_the_next_try_or_for_a_model_ends_and_no_call_follows(
    durable: Desk, machine: str, call: dict[str, Any], last: str, held: float
) -> None:
    prepare(durable, machine)
    script = scenario(agents={"w": [[call, "A post."]]})
    async with App.open(durable.state_folder) as app:
        state = await cancelled_in_hand(
            durable, app, "machine.yaml", script, lambda events: events[-1].type == last
        )
        assert state.usage.held_usd == held
        events = [stored.event for stored in await app.events(state.run)]
        assert sum(isinstance(event, Intended) for event in events) == 1


async def test_what_begins_after_the_cancellation_is_ended_too(
    durable: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-nobody-takes")
    prepare(durable, MODEL)
    async with App.open(durable.state_folder) as app:
        active = await app.start(sound(durable.folder / "machine.yaml"), {})
        active.abort()
        with pytest.raises(Stopped):
            async with active.in_hand(None):
                await asyncio.sleep(300)


@pytest.mark.usefixtures("own_folder")
async def test_a_run_that_was_killed_while_it_was_cancelled_is_cancelled_with_its_children(
    tmp_path: Path,
) -> None:
    # In a database that was just started nobody counts as dead yet.
    desk = Desk(tmp_path, in_memory=False)
    prepare(desk, AGENT)
    process = Process(["-m", "loopkit", "run", "family.yaml", "--output", "quiet"])
    until(lambda: len(pids_in(desk.folder)) == 4)
    process.send_signal(signal.SIGSTOP)
    async with App.open(desk.state_folder) as app:
        [root] = await app.journal.runs()
        assert "ends the work in hand" in await app.cancel(root.run, "Enough.")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        state = await app.drive(await app.resume(root.run))
        await assert_cancelled(app)
        assert (await app.usage_of(state)).held_usd == 5.0
