"""Connections of a run that takes hours: LiteLLM forgets them, and nothing is said of that."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import aiohttp
import pytest

from loopkit.agents.model import client
from loopkit.agents.model.received import Received
from tests.providers.hostile import HostileServer

HELLO = [{"role": "user", "content": "Hello"}]


def open_sessions() -> set[int]:
    """What says on the terminal, once it is thrown away, that nobody closed it."""
    gc.collect()
    kept = (each for each in gc.get_objects() if isinstance(each, aiohttp.ClientSession))
    return {id(session) for session in kept if not session.closed}


def test_no_connector_is_left_open_when_the_clients_of_an_hour_are_forgotten(
    hostile: HostileServer, litellm: Any, caplog: pytest.LogCaptureFixture, capfd: Any
) -> None:
    async def calls() -> None:
        sent = {"model": hostile.model, "messages": HELLO, "api_key": "sk-of-no-account"}
        for _ in range(3):
            hostile.say("Good morning")
            await client.complete({**sent, "base_url": hostile.base_url}, Received())
            forgotten = litellm.in_memory_llm_clients_cache
            forgotten.ttl_dict.update(dict.fromkeys(forgotten.ttl_dict, 0.0))
            gc.collect()
        await client.close()

    before = open_sessions()
    asyncio.run(calls())
    assert len(hostile.requests()) == 3
    assert open_sessions() - before == set()
    gc.collect()
    assert "Unclosed" not in caplog.text + "".join(capfd.readouterr())
