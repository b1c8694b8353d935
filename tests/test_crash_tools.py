"""kill -9 at any instant of a conversation with tools, by what server and tools really received."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.planner_server import SECOND, PlannerServer
from tests.crash.points import AGENT, HOST, assert_alike, begun, count_points
from tests.support import ROOT
from tests.warm import ran

MACHINE = f"""
loopkit: 1
limits: {{revisions: 1}}
agents:
  planner:
    model: openai/gpt-4o-mini
    base_url: URL/v1
    api_key_env: CRASH_KEY
    retry: {{attempts: 4, backoff: 10ms}}
    session: keep
    tools:
      check: {{by: [form], emit: rejected}}
      note: {{command: {json.dumps([*AGENT, "note"])}, input: {{word: str}}, on_in_doubt: retry}}
      send:
        command: {json.dumps([*AGENT, "send"])}
        stdin: "{{{{ word }}}}"
        input: {{word: str}}
        on_in_doubt: POLICY
    require_tool: check
validators:
  form: {{matches: ^Plan, message: It is not a plan.}}
  second: {{matches: two, message: It is the first one.}}
states:
  plan:
    agent: planner
    prompt: Plan it.
    on_error: {{fatal: in_doubt}}
    next: judge
  judge:
    validate: plan
    by: [form, second]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: plan, feedback: "revision {{{{ revision }}}}"}}
      - {{target: failed}}
  done: {{final: success, result: plan}}
  failed: {{final: failure}}
  in_doubt: {{final: failure}}
"""
IN_TOOLS = ("--only", "inside_program")
"""At which points a run is killed."""


@pytest.fixture(scope="module")
def server() -> Iterator[PlannerServer]:
    server = PlannerServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crash_tools")


def killed(
    folder: Path, server: PlannerServer, policy: str, doubt: str, *points: str
) -> list[dict[str, Any]]:
    """What the host tells of the unharmed run and of each point.

    `doubt` is what a person says of a call in doubt, where the policy asks one.
    """
    machine, scenario = folder / f"{policy}.yaml", folder / "scenario.yaml"
    text = MACHINE.replace("URL", server.url).replace("POLICY", policy)
    machine.write_text(text, encoding="utf-8")
    scenario.write_text("scenario: 1\nanswers: {}\n", encoding="utf-8")
    files = [str(machine), str(scenario), str(folder / f"{policy}_{doubt}")]
    options = ["--doubt", doubt, *points]
    host = ran(
        [*HOST, *files, server.url, *options], timeout=600, cwd=ROOT,
        env={**os.environ, "CRASH_KEY": "none"}, has_litellm=True,
    )  # fmt: skip
    assert host.returncode == 0, host.stderr
    return [json.loads(line) for line in host.stdout.splitlines()]


@pytest.fixture(scope="module")
def told(every: int, folder: Path, server: PlannerServer) -> list[dict[str, Any]]:
    """Of a run that is killed again and again, and a person who has doubtful calls made again."""
    return killed(folder, server, "ask", "retry", "--every", str(every))


def test_the_unharmed_run_talks_with_its_tools_in_two_attempts(told: Any) -> None:
    unharmed = told[0]
    assert (unharmed["outcome"], unharmed["attempts"]["plan"]) == ("done", 2)
    assert unharmed["result"] == {"plan": SECOND}
    assert unharmed["programs"] == ["note", "send", "send"]
    # Six rounds, of which the first is asked for twice, and seven calls, of a missing tool too.
    assert (unharmed["replies"], unharmed["failed"]) == (6 + 7, 1)
    assert len(unharmed["received"]) == 7
    assert unharmed["emitted"] == [["rejected", 1, ["It is not a plan."]]]
    assert unharmed["in_doubt"] == 0


def test_each_point_of_every_round_was_reached_by_the_signal(every: int, told: Any) -> None:
    assert len(told) == 1 + count_points(told[0], every) + len(told[0]["programs"])
    # The first call of a tool is written with the reply that asks for it.
    assert told[0]["appends"] >= 7 + 7
    assert [point["point"] for point in told[1:] if point["ended"] != -9] == []


def test_after_resume_a_run_ends_as_the_unharmed_one(told: Any) -> None:
    assert_alike(told)
    for point in begun(told):
        assert point["replies"] == told[0]["replies"], point


def test_after_resume_the_model_is_sent_the_same_bytes(told: Any) -> None:
    """A call that failed or is in doubt is made again, with nothing else in it."""
    conversation = list(dict.fromkeys(told[0]["received"]))
    assert len(conversation) == 6
    for point in begun(told):
        assert list(dict.fromkeys(point["received"])) == conversation, point["point"]


def test_no_call_of_the_model_that_was_committed_is_made_again(told: Any) -> None:
    for point in begun(told):
        sent = len(point["received"])
        doubtful = point["in_doubt"] - len(point["programs_in_doubt"])
        assert 6 + point["failed"] <= sent <= 6 + point["failed"] + doubtful, point["point"]


def test_no_call_of_a_tool_that_was_committed_is_made_again(told: Any) -> None:
    for point in begun(told):
        again = Counter(point["programs"]) - Counter(told[0]["programs"])
        doubtful = Counter(tool.partition(".")[2] for tool in point["programs_in_doubt"])
        assert Counter(told[0]["programs"]) <= Counter(point["programs"]), point["point"]
        assert again <= doubtful, point["point"]


def test_what_a_tool_emits_is_emitted_once(told: Any) -> None:
    for point in begun(told):
        assert point["emitted"] == told[0]["emitted"], point["point"]


def test_every_kind_of_call_was_in_doubt_somewhere(told: Any) -> None:
    tools = {tool for point in begun(told) for tool in point["programs_in_doubt"]}
    assert tools == {f"planner.{name}" for name in ("note", "send", "check", "nothing")}
    assert any(point["in_doubt"] and not point["programs_in_doubt"] for point in begun(told))


@pytest.mark.parametrize(("policy", "doubt"), [("ask", "fail"), ("fail", "")])
def test_a_call_that_must_not_be_made_again_is_not(
    folder: Path, server: PlannerServer, policy: str, doubt: str
) -> None:
    unharmed, *points = killed(folder, server, policy, doubt, *IN_TOOLS)
    assert [point["ended"] for point in points] == [-9] * 3
    in_note, *in_send = points
    assert (in_note["outcome"], in_note["programs"]) == ("done", ["note", *unharmed["programs"]])
    assert [point["outcome"] for point in in_send] == ["in_doubt"] * 2
    assert [point["programs"] for point in in_send] == [["note", "send"], ["note", "send", "send"]]
    assert [len(point["received"]) for point in in_send] == [3, 6]
