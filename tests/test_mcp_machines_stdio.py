"""`loopkit mcp machines` in a process, spoken with by the client of the `mcp` package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.mcp_client import McpServer, Told
from tests.test_mcp_machines import NOTE

PLAIN = """
loopkit: 1
input: {words: {type: str, default: Tea.}}
states:
  write: {render: "{{ input.words }}", output: note, next: done}
  done: {final: success, result: note}
"""
CAKE = {"topic": "cake"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("machines")
    (made / "note.yaml").write_text(NOTE.replace("WORK", "tail -n 1"), encoding="utf-8")
    (made / "plain.yaml").write_text(PLAIN, encoding="utf-8")
    (made / "no_machine.yaml").write_text("a: 1\n", encoding="utf-8")
    return made


@pytest.fixture(scope="module", params=["auto", "legacy"])
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[McpServer]:
    """A server for all tests, spoken with in the newest protocol, and in the one before."""
    server = McpServer(folder, ["machines"], request.param)
    yield server
    errors = server.close()
    assert errors.splitlines()[0] == "serving `note`, `plain` over MCP until standard input ends"
    assert "Traceback" not in errors


def test_the_machines_of_a_folder_are_tools(server: McpServer) -> None:
    tools = server.tools()
    assert list(tools) == ["note", "plain", "status", "resume"]
    assert tools["note"].input_schema["required"] == ["topic"]
    assert tools["status"].annotations is not None
    assert tools["status"].annotations.read_only_hint


def test_a_machine_without_inputs_that_are_required_is_called_with_nothing(
    server: McpServer,
) -> None:
    assert server.data("plain", {})["result"] == {"note": "Tea."}
    long = "a long text " * 20_000
    assert server.data("plain", {"words": long})["result"] == {"note": long}


def test_progress_is_notified_and_rises(server: McpServer) -> None:
    told: list[Told] = []
    run = server.data("note", {"topic": "tea"}, told)["run"]
    messages = [message for _, _, message in told]
    assert messages[0] == f"run {run}"
    assert len([message for message in messages if str(message).startswith("check fail")]) == 3
    assert str(messages[-1]).startswith("ask waits for a person")
    assert all(before[0] < after[0] for before, after in pairwise(told))


def test_wrong_calls_are_answered_with_the_reason(server: McpServer) -> None:
    assert server.refused("note") == "error: input `topic` is missing"
    assert "did you mean `note`?" in server.refused("nte")
    assert "no run `gone-000000`" in server.refused("status", run="gone-000000")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_is_told_where_a_person_answers(folder: Path, mode: str) -> None:
    viewer = ["--viewer", "http://127.0.0.1:8421/"]
    server = McpServer(folder, ["machines", "note.yaml", *viewer], mode)
    try:
        told = server.data("note", CAKE)
    finally:
        server.close()
    assert told["status"] == "waiting"
    assert re.search(r"loopkit answer \S+ accept", told["message"])
    assert f"or at http://127.0.0.1:8421/runs/{told['run']}" in told["message"]
    assert told["questions"][0]["choices"] == ["accept", "revise", "burn"]
