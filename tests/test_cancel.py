"""`cancel` ends the work in hand, in the process that drives the run and for all of its family."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from loopkit.app import App
from loopkit.engine.events import Cancelled, Failed, Intended, Waiting
from loopkit.machine.inputs import complete_input
from tests.support import Desk, scenario, sound
from tests.warm import Process

WORKS = """#!/bin/sh
cd "$(dirname "$0")"
echo $$ >> pids
sleep 300 & echo $! >> pids
wait
"""
"""A program with a child, which both are at work for minutes."""
AGENT = """
loopkit: 1
agents: {w: {command: [./works], price_per_run: 2.5}}
states:
  draft: {agent: w, prompt: Write., output: post, on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""
RUN = """
loopkit: 1
states: {work: {run: [./works], next: done}, done: {final: success}}
"""
RULE = """
loopkit: 1
validators: {checked: {command: [./works]BASELINE}}
states:
  draft: {render: A post., output: post, next: check}
  check: {validate: post, by: [checked], transitions: [{guard: valid, target: done}, {target: no}]}
  done: {final: success}
  no: {final: failure}
"""
TOOL = """
loopkit: 1
agents: {w: {model: openai/gpt-5-mini, tools: {look: {command: [./works]}}}}
states:
  draft: {agent: w, prompt: Write., output: post, on_error: {content: failed}, next: done}
  done: {final: success}
  failed: {final: failure}
"""
FAMILY = """
loopkit: 1
input: {parts: {type: [str], default: [a, b]}}
states:
  all:
    each: input.parts
    as: part
    key: part
    machine: machine.yaml
    max_items: 2
    parallel: 2
    isolate: copy
    next: done
  done: {final: success}
"""
GRANDPARENT = """
loopkit: 1
states: {all: {machine: family.yaml, next: done}, done: {final: success}}
"""
CALLS_TOOL = scenario(agents={"w": [[{"tool_calls": [{"name": "look", "input": {}}]}, "A post."]]})


def prepared(desk: Desk, machine: str) -> Desk:
    """A desk with the program and the machine, and families around that."""
    works = desk.write("works", WORKS)
    works.chmod(0o755)
    desk.write("machine.yaml", machine.replace("./works", str(works)))
    desk.write("family.yaml", FAMILY)
    desk.write("grandparent.yaml", GRANDPARENT)
    return desk


async def cancelled(app: App, run: str, driving: asyncio.Task[object]) -> None:
    """Cancel a driven run as another process does; it has to end at once."""
    async with App.open(app.folder / ".loopkit") as other:
        said = await other.cancel(run, "Enough.")
    assert "ends the work in hand and cancels the run" in said
    async with asyncio.timeout(30):
        await driving


async def driven(desk: Desk, app: App, name: str, script: str) -> tuple[str, asyncio.Task[object]]:
    """A run that is being driven."""
    loaded = sound(desk.folder / name)
    inputs = complete_input(loaded.machine, {})
    active = await app.start(loaded, inputs, desk.script(script or None))
    await active.append()
    return active.state.run, asyncio.create_task(app.drive(active))


async def until_so(happened: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await happened():  # noqa: ASYNC110 - it happens elsewhere
            await asyncio.sleep(0.02)


def pids_in(folder: Path) -> list[str]:
    """Those of the programs that are at work, and of their children."""
    return (folder / "pids").read_text().split() if (folder / "pids").exists() else []


async def begun(folder: Path, programs: int) -> None:
    """Wait until so many programs are at work."""

    async def is_begun() -> bool:
        return len(pids_in(folder)) == 2 * programs

    await until_so(is_begun)


def is_alive(pid: str) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    return False


@pytest.mark.parametrize(
    ("name", "machine", "programs"),
    [
        ("machine.yaml", AGENT, 1),
        ("machine.yaml", RUN, 1),
        ("machine.yaml", RULE.replace("BASELINE", ""), 1),
        ("machine.yaml", RULE.replace("BASELINE", ", baseline: true, parse: lines"), 1),
        ("machine.yaml", TOOL, 1),
        ("family.yaml", AGENT, 2),
        ("grandparent.yaml", RUN, 2),
    ],
    ids=["agent", "run", "rule", "baseline", "tool", "children", "grandchildren"],
)
async def test_a_program_at_work_is_ended_with_all_that_it_has_started(
    durable: Desk, name: str, machine: str, programs: int
) -> None:
    desk = prepared(durable, machine)
    async with App.open(desk.state_folder) as app:
        run, driving = await driven(desk, app, name, CALLS_TOOL if machine is TOOL else "")
        await begun(desk.folder, programs)
        await cancelled(app, run, driving)
        pids = pids_in(desk.folder)
        assert [pid for pid in pids if is_alive(pid)] == []
        assert len(pids) == 2 * programs
        events = await app.events(run)
        assert isinstance(events[-1].event, Cancelled)
        assert not any(isinstance(stored.event, Waiting) for stored in events)
        for row in await app.journal.runs(children=True):
            assert (await app.state_of(row.run)).status == "cancelled"
        used = await app.usage_of(await app.state_of(run))
        priced = 2.5 * programs if machine is AGENT else 0.0
        assert (used.cost_usd, used.held_usd) == (priced, priced)


PATIENT = AGENT.replace("[./works]", "[none], retry: {backoff: 5m, max_backoff: 5m}")
MODEL = AGENT.replace("command: [./works], price_per_run: 2.5", "model: openai/gpt-5-mini")
SLOW = [{"reply": "A post.", "delay": "5m", "reserved": {"cost_usd": 0.25, "tokens": 9}}]


@pytest.mark.parametrize(
    ("machine", "calls", "held"),
    [
        (PATIENT, [{"fault": "connection"}, "A post."], 0.0),
        (MODEL, [{"fault": "rate_limit", "retry_after": "50s"}, "A post."], 0.0),
        (MODEL, SLOW, 0.25),
    ],
    ids=["back-off", "retry-after", "model"],
)
async def test_who_waits_for_a_try_or_a_model_is_ended_and_asks_nobody_again(
    durable: Desk, machine: str, calls: list[object], held: float
) -> None:
    durable.write("machine.yaml", machine)
    script = scenario(agents={"w": [calls]})
    async with App.open(durable.state_folder) as app:
        run, driving = await driven(durable, app, "machine.yaml", script)
        awaited = Failed if held == 0 else Intended

        async def is_waiting() -> bool:
            return any(isinstance(stored.event, awaited) for stored in await app.events(run))

        await until_so(is_waiting)
        await cancelled(app, run, driving)
        events = [stored.event for stored in await app.events(run)]
        assert sum(isinstance(event, Intended) for event in events) == 1
        state = await app.state_of(run)
        assert (state.status, state.usage.held_usd) == ("cancelled", held)


@pytest.mark.usefixtures("own_folder")
async def test_a_run_that_was_killed_while_it_was_cancelled_is_cancelled_with_its_children(
    durable: Desk,
) -> None:
    prepared(durable, AGENT)
    process = Process(["-m", "loopkit", "run", "family.yaml", "--output", "quiet"])
    await begun(durable.folder, 2)
    process.send_signal(signal.SIGSTOP)
    async with App.open(durable.state_folder) as other:
        [root] = await other.journal.runs()
        assert "ends the work in hand" in await other.cancel(run := root.run, "Enough.")
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    async with App.open(durable.state_folder) as app:
        assert (await app.drive(await app.resume(run))).status == "cancelled"
        children = await app.journal.runs(children=True)
        assert len(children) == 3
        for child in children:
            events = [stored.event for stored in await app.events(child.run)]
            assert isinstance(events[-1], Cancelled)
            assert not any(isinstance(event, Waiting) for event in events)
        assert (await app.usage_of(await app.state_of(run))).held_usd == 5.0
