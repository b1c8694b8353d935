"""One table of what real providers and servers answer where they refuse a call."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from loopkit.agents.model.client import close, complete
from loopkit.agents.model.errors import as_agent_error
from loopkit.agents.model.failure_cause import Received
from loopkit.agents.port import AgentError
from tests.providers.conftest import KEY
from tests.providers.hostile import Answer, HostileServer

TABLE = YAML(typ="safe").load(Path(__file__).parents[1] / "data" / "refusals.yaml")
HELLO = [{"role": "user", "content": "Hello"}]


def filled(text: str) -> str:
    """The text with moments in place of `{s+30}`, `{ms+30}` and `{iso+30}`."""

    def moment(found: re.Match[str]) -> str:
        at = datetime.now(UTC) + timedelta(seconds=int(found[2]))
        if found[1] == "iso":
            return f"{at:%Y-%m-%dT%H:%M:%SZ}"
        return str(int(at.timestamp() * (1000 if found[1] == "ms" else 1)))

    return re.sub(r"\{(s|ms|iso)\+(\d+)\}", moment, text)


async def refusal(server: HostileServer, said: Mapping[str, Any]) -> AgentError:
    """The error of a call that gets this answer."""
    error = said.get("error")
    body = said.get("body") or {"error": {"message": error} if isinstance(error, str) else error}
    headers = {name: filled(value) for name, value in said.get("headers", {}).items()}
    server.queue(Answer(filled(json.dumps(body)).encode(), said.get("status", 400), headers))
    sent = {"model": said.get("model", server.model), "messages": HELLO, "api_key": KEY}
    received = Received()
    try:
        await complete({**sent, "base_url": server.base_url}, received)
    except Exception as raised:  # noqa: BLE001 - whatever LiteLLM raises
        return as_agent_error(raised, received, has_schema=True, has_tools=True)
    finally:
        await close()
    raise AssertionError("the call brought a reply")


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(
    ("means", "said"),
    [
        pytest.param(group["is"], said, id=f"{meaning}: {name}")
        for meaning, group in TABLE.items()
        for name, said in group["answers"].items()
    ],
)
async def test_what_a_provider_says_is_sorted_by_what_it_means(
    hostile: HostileServer, means: Mapping[str, Any], said: Mapping[str, Any]
) -> None:
    error = await refusal(hostile, said)
    assert error.message.startswith(means["says"])
    assert (error.error_class, error.session_lost, error.unavailable) == (
        means["class"], means.get("session_lost", False), means.get("unavailable", False),
    )  # fmt: skip
    if "wait" in said:
        assert error.retry_after_s == pytest.approx(said["wait"], abs=5 if "{" in str(said) else 0)
    elif means["says"].endswith("rate of calls"):
        assert error.retry_after_s is None
    assert len(hostile.requests()) == 1
