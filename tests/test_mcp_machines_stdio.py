"""`loopkit mcp machines` in a process, spoken with by the client of the `mcp` package."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError, types

from tests.mcp_client import McpServer, Told
from tests.mcp_http import NEWEST
from tests.test_mcp_machines import NOTE

PLAIN = """
loopkit: 1
input: {words: {type: str, default: Tea.}}
states:
  write: {render: "{{ input.words }}", output: note, next: done}
  done: {final: success, result: note}
"""
GOOD = {"choice": "accept", "stars": 5}
CAKE = {"topic": "cake"}


def accept(content: dict[str, Any]) -> Callable[[object], types.ElicitResult]:
    return lambda _: types.ElicitResult(action="accept", content=content)


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
    server = McpServer(folder, ["machines"], request.param, shows_forms=True)
    yield server
    errors = server.close()
    assert errors.splitlines()[0] == "serving `note`, `plain` over MCP until standard input ends"
    assert "Traceback" not in errors


@pytest.fixture
def served(server: McpServer) -> McpServer:
    """The server, whose user has not been asked yet and will not answer."""
    server.answering = lambda _: types.ElicitResult(action="cancel")
    server.asked.clear()
    return server


def test_the_machines_of_a_folder_are_tools(served: McpServer) -> None:
    tools = served.tools()
    assert list(tools) == ["note", "plain", "status", "resume"]
    assert tools["note"].input_schema["required"] == ["topic"]
    assert tools["status"].annotations is not None
    assert tools["status"].annotations.read_only_hint


def test_a_machine_without_inputs_that_are_required_is_called_with_nothing(
    served: McpServer,
) -> None:
    assert served.data("plain", {})["result"] == {"note": "Tea."}
    long = "a long text " * 20_000
    assert served.data("plain", {"words": long})["result"] == {"note": long}


def test_the_user_answers_the_question_of_a_run_in_a_form(served: McpServer) -> None:
    served.answering = accept(GOOD)
    told: list[Told] = []
    done = served.data("note", CAKE, told)
    assert (done["status"], done["outcome"]) == ("finished", "done")
    [asked] = served.asked
    assert "cake" in asked.message
    assert asked.requested_schema["properties"]["choice"]["enum"] == ["accept", "revise", "burn"]
    assert [message for _, _, message in told if "by the user of" in str(message)] == [
        "ask accept (by the user of mcp)"
    ]
    assert told[-1][2] == "done (success)"
    # By the newest protocol the answer comes with a call of its own, which counts anew.
    falls = sum(before[0] >= after[0] for before, after in pairwise(told))
    assert falls == (served.client.protocol_version == NEWEST)


def test_progress_is_notified_and_rises(served: McpServer) -> None:
    told: list[Told] = []
    run = served.data("note", {"topic": "tea"}, told)["run"]
    messages = [message for _, _, message in told]
    assert messages[0] == f"run {run}"
    assert len([message for message in messages if str(message).startswith("check fail")]) == 3
    assert str(messages[-1]).startswith("ask waits for a person")
    assert all(before[0] < after[0] for before, after in pairwise(told))


def test_wrong_calls_are_answered_with_the_reason(served: McpServer) -> None:
    assert served.refused("note") == "error: input `topic` is missing"
    assert "did you mean `note`?" in served.refused("nte")
    assert "no run `gone-000000`" in served.refused("status", run="gone-000000")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_shows_no_forms_is_told_where_a_person_answers(
    folder: Path, mode: str
) -> None:
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


@pytest.mark.parametrize("server", ["auto"], indirect=True)
def test_a_client_that_hands_nothing_back_says_nothing(served: McpServer) -> None:
    call = served.client.session.call_tool
    asked = served.ask(call("note", CAKE, allow_input_required=True))
    assert isinstance(asked, types.InputRequiredResult)
    told = served.ask(call("note", CAKE, request_state=asked.request_state))
    assert told.structured_content["status"] == "waiting"


@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_client_that_has_shaken_hands_can_hand_back_nothing(served: McpServer) -> None:
    given = {"reply": types.ElicitResult(action="accept", content=GOOD)}
    call, made_up = served.client.session.call_tool, '{"run": "note-000000", "question": "ask:1"}'
    for state, why in (
        (made_up, "Invalid or expired requestState"),
        (None, "inputResponses without their requestState"),
    ):
        with pytest.raises(MCPError, match=why):
            served.ask(call("note", CAKE, input_responses=given, request_state=state))
