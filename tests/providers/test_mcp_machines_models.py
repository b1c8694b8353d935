"""Machines as tools whose agents are models, over real HTTP: what they cost, and who hears keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.mcp_client import McpServer, Told
from tests.providers.conftest import KEY, KEY_VARIABLE
from tests.providers.openai_mock import OpenAIMock
from tests.providers.test_machines import machine

pytestmark = pytest.mark.usefixtures("provider_key")


def test_a_tool_runs_a_machine_whose_author_is_a_model(
    openai_server: OpenAIMock, tmp_path: Path
) -> None:
    (tmp_path / "line.yaml").write_text(machine(openai_server), encoding="utf-8")
    openai_server.say("This line is much longer than it may be.", "A short line")
    env = {name: value for name, value in os.environ.items() if name != "LOOPKIT_STATE"}
    server = McpServer(tmp_path, ["machines"], env={**env, KEY_VARIABLE: KEY})
    told: list[Told] = []
    try:
        done = server.data("line", {}, told)
        openai_server.fail(401, times=1, message=f"the key {KEY} is not known")
        failed = server.data("line", {})
        went_on = server.data("status", {"run": failed["run"]})
    finally:
        errors = server.close()
    assert (done["outcome"], done["result"]) == ("done", {"line": "A short line"})
    assert done["calls"] == 2
    assert 0 < done["cost_usd"] < 0.01
    messages = [str(message) for _, _, message in told]
    assert [message for message in messages if message.startswith("check ")] == [
        message for message in messages if message.startswith(("check fail · 1", "check pass"))
    ]
    assert len([message for message in messages if "asks `writer`" in message]) == 2
    assert (failed["status"], failed["state"]) == ("suspended", "write")
    assert went_on == failed
    assert f"loopkit resume {failed['run']}" in failed["message"]
    assert KEY not in str((done, failed, told))
    assert "Traceback" not in errors
