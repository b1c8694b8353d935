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


def test_progress_is_notified_and_rises(served: McpServer) -> None:
    told: list[Told] = []
    run = served.data("note", {"topic": "tea"}, told)["run"]
    messages = [message for _, _, message in told]
    assert messages[0] == f"run {run}"
    assert len([message for message in messages if str(message).startswith("check fail")]) == 3
    assert str(messages[-1]).startswith("ask waits for a person")
    assert all(before[0] < after[0] for before, after in pairwise(told))


@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_progress_rises_over_the_answer_of_the_user(served: McpServer) -> None:
    served.answering = accept(GOOD)
    told: list[Told] = []
    served.data("note", CAKE, told)
    assert str(told[-1][2]) == "done (success)"
    assert all(before[0] < after[0] for before, after in pairwise(told))


def test_an_answer_that_is_refused_is_asked_for_again(served: McpServer) -> None:
    answers = iter([{"choice": "revise", "stars": 1}, {"choice": "accept", "stars": 9}, GOOD])
    served.answering = lambda _: types.ElicitResult(action="accept", content=next(answers))
    assert served.data("note", CAKE)["outcome"] == "done"
    assert [asked.message.partition("\n")[0] for asked in served.asked[1:]] == [
        "Your answer was not taken: `revise` needs a comment, which becomes the feedback",
        "Your answer was not taken: form field `stars` takes a whole number, at least 1, at most "
        "5; `9` is not",
    ]


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


def handed_back(
    served: McpServer,
    state: str | None,
    content: dict[str, Any],
    tool: str = "note",
    arguments: dict[str, Any] = CAKE,
) -> types.CallToolResult | types.InputRequiredResult:
    """What comes of a call that is made again with what the user said."""
    given = types.ElicitResult(action="accept", content=content)
    return served.ask(
        served.client.session.call_tool(
            tool,
            arguments,
            input_responses={"reply": given},
            request_state=state,
            allow_input_required=True,
        )
    )


@pytest.mark.parametrize("server", ["auto"], indirect=True)
def test_what_a_client_hands_back_has_to_be_what_it_was_given_for_the_same_call(
    served: McpServer,
) -> None:
    asked = served.ask(served.client.session.call_tool("note", CAKE, allow_input_required=True))
    assert isinstance(asked, types.InputRequiredResult)
    state = asked.request_state or ""
    [form] = (asked.input_requests or {}).values()
    assert isinstance(form, types.ElicitRequest)
    # Nobody reads in it what is asked about, or makes one up.
    assert "note" not in state
    changed = state[:-6] + ("A" if state[-6] != "A" else "B") + state[-5:]
    for wrong in (changed, "{}", '{"run": "note-000000", "question": "ask:1", "number": 1}'):
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            handed_back(served, wrong, GOOD)
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        handed_back(served, state, GOOD, arguments={"topic": "tea"})
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        handed_back(served, state, GOOD, "plain", {})
    with pytest.raises(MCPError, match="inputResponses without their requestState"):
        handed_back(served, None, GOOD)
    done = handed_back(served, state, GOOD)
    assert isinstance(done, types.CallToolResult)
    assert done.structured_content["outcome"] == "done"
    # The same again, and another answer, find the question answered.
    for content in (GOOD, {"choice": "revise", "stars": 1, "comment": "No."}):
        again = handed_back(served, state, content)
        assert isinstance(again, types.CallToolResult)
        assert again.structured_content == done.structured_content


@pytest.mark.parametrize("server", ["auto"], indirect=True)
def test_a_client_that_hands_nothing_back_says_nothing(served: McpServer) -> None:
    call = served.client.session.call_tool
    asked = served.ask(call("note", CAKE, allow_input_required=True))
    assert isinstance(asked, types.InputRequiredResult)
    told = served.ask(call("note", CAKE, request_state=asked.request_state))
    assert told.structured_content["status"] == "waiting"


@pytest.mark.parametrize("server", ["legacy"], indirect=True)
def test_a_client_that_has_shaken_hands_can_hand_back_nothing(served: McpServer) -> None:
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        handed_back(served, '{"run": "note-000000", "question": "ask:1", "number": 1}', GOOD)
    with pytest.raises(MCPError, match="inputResponses without their requestState"):
        handed_back(served, None, GOOD)
