"""Connections of a run that takes hours: LiteLLM forgets them, and nothing is said of that."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopkit import arun
from loopkit.agents.model import client
from loopkit.agents.model.failure_cause import Received
from tests.providers.conftest import KEY_VARIABLE
from tests.providers.hostile import Answer, HostileServer
from tests.waiting import until

HELLO = [{"role": "user", "content": "Hello"}]
NOTE = f"""
loopkit: 1
agents:
  writer:
    model: {HostileServer.model}
    base_url: URL
    api_key_env: {KEY_VARIABLE}
    retry: {{attempts: 1}}
states:
  write: {{agent: writer, prompt: Write a line., on_error: {{content: failed}}, next: done}}
  done: {{final: success, result: write}}
  failed: {{final: failure}}
"""


def open_sockets() -> int:
    """How many sockets this process has: its own, and those of the server in it."""
    return sum(path.is_socket() for path in Path("/proc/self/fd").iterdir())


def test_no_connection_is_left_open_when_the_clients_of_an_hour_are_forgotten(
    hostile: HostileServer, litellm: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    async def calls() -> None:
        sent = {"model": hostile.model, "messages": HELLO, "api_key": "sk-of-no-account"}
        for _ in range(3):
            hostile.say("Good morning")
            await client.complete({**sent, "base_url": hostile.base_url}, Received())
            kept = litellm.in_memory_llm_clients_cache
            for key in [*kept.cache_dict]:
                kept.delete_cache(key)
            gc.collect()
        await client.close()

    before = open_sockets()
    asyncio.run(calls())
    assert len(hostile.requests()) == 3
    gc.collect()
    until(lambda: open_sockets() == before, "the end of the connections")
    assert "Unclosed" not in caplog.text + "".join(capfd.readouterr())


def sent_to(server: HostileServer) -> dict[str, Any]:
    return {
        "model": server.model,
        "messages": HELLO,
        "api_key": "sk-of-no-account",
        "base_url": server.base_url,
    }


async def test_who_closes_leaves_the_next_call_of_the_same_loop_its_connections(
    hostile: HostileServer,
) -> None:
    hostile.say("Good morning", "Good morning")
    for _ in range(2):
        await client.complete(sent_to(hostile), Received())
        await client.close()
    assert len(hostile.requests()) == 2


async def test_who_closes_leaves_the_calls_that_others_are_making(hostile: HostileServer) -> None:
    hostile.say("Good morning")
    await client.complete(sent_to(hostile), Received())
    hostile.queue(Answer(hang=True))
    made = asyncio.ensure_future(client.complete(sent_to(hostile), Received()))
    await asyncio.to_thread(until, lambda: len(hostile.requests()) == 2, "the request")
    await client.close()
    hostile.say("Good night")
    await client.complete(sent_to(hostile), Received())
    assert not made.done()
    made.cancel()
    await asyncio.gather(made, return_exceptions=True)
    await client.close()


async def test_who_closes_leaves_the_connections_of_other_loops(hostile: HostileServer) -> None:
    async def call() -> None:
        hostile.say("Good morning")
        await client.complete(sent_to(hostile), Received())

    async def call_and_close() -> None:
        await call()
        await client.close()

    await call()
    await asyncio.to_thread(asyncio.run, call_and_close())
    await call()
    await client.close()


@pytest.mark.usefixtures("provider_key")
def test_runs_share_an_event_loop_one_after_the_other_and_at_once(
    hostile: HostileServer, tmp_path: Path
) -> None:
    """Each app closes its connections when its run is over, the others' calls being under way."""
    machine = tmp_path / "note.yaml"
    machine.write_text(NOTE.replace("URL", hostile.base_url))

    async def one() -> str | None:
        return (await arun(machine, state=tmp_path / ".loopkit")).outcome

    async def all_of_them() -> list[str | None]:
        first = [await one(), await one()]
        return [*first, *await asyncio.gather(*(one() for _ in range(8)))]

    hostile.say(*["A line"] * 10)
    assert asyncio.run(all_of_them()) == ["done"] * 10
    assert len(hostile.requests()) == 10


def test_calls_in_several_threads_leave_nothing_behind_that_is_said_on_stderr(
    hostile: HostileServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def calls() -> None:
        for _ in range(5):
            hostile.say("Good morning")
            await client.complete(sent_to(hostile), Received())
        await client.close()

    with ThreadPoolExecutor(5) as threads:
        for done in [threads.submit(asyncio.run, calls()) for _ in range(5)]:
            done.result()
    gc.collect()
    assert len(hostile.requests()) == 25
    assert caplog.text == ""
