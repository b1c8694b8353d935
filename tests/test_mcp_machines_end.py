"""`loopkit mcp machines` when clients go away, give up, do not read, or are many; and signals."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import loopkit
from loopkit.app import App
from loopkit.views.run_data import status_of
from tests.http_site import ASKED_IN_DOUBT
from tests.mcp_client import ABOUT, McpServer, RawServer
from tests.waiting import until
from tests.warm import command

NOTE = """
loopkit: 1
agents: {writer: {command: [echo, "A note."]}}
states:
  write: {agent: writer, prompt: "Tea.", output: note, next: done, on_error: {content: failed}}
  done: {final: success, result: note}
  failed: {final: failure}
"""
LONG = """
loopkit: 1
limits: {total_revisions: 1000}
states:
  write: {render: "Tea.", output: note, next: check}
  check:
    validate: note
    by: [{not_matches: Tea}]
    transitions: [{revise: write, max: 700}, {target: done}]
  done: {final: success, result: note}
"""


@pytest.fixture(autouse=True)
def _here(own_folder: Path) -> None:
    Path("slow.yaml").write_text(ASKED_IN_DOUBT, encoding="utf-8")
    Path("note.yaml").write_text(NOTE, encoding="utf-8")
    Path("long.yaml").write_text(LONG, encoding="utf-8")


def runs() -> dict[str, str]:
    """The status of each run, by its id."""
    return asyncio.run(_runs())


async def _runs() -> dict[str, str]:
    async with App.open(Path(".loopkit")) as app:
        rows = await app.journal.runs(limit=200)
        return {
            row.run: status_of(await app.state_of(row.run), is_driven=row.is_driven) for row in rows
        }


@contextmanager
def at_work() -> Iterator[RawServer]:
    """A server that drives a run, whose agent has begun."""
    with RawServer(Path.cwd(), "machines", "slow.yaml") as server:
        server.call(1, "slow", {})
        until(Path("begun").exists, "the agent")
        yield server


def test_a_run_whose_client_goes_away_stops_after_its_step_and_goes_on_in_a_later_session() -> None:
    with at_work() as server:
        server.stdin.close()
        # The server has heard it.
        assert server.answer(1)["error"]["message"] == "Connection closed"
        Path("go").touch()
        assert server.process.wait(300) == 0
    [(run, status)] = runs().items()
    assert status == "suspended"
    with RawServer(Path.cwd(), "machines", "slow.yaml") as again:
        told = again.data(1, "status", {"run": run})
        assert (told["status"], told["state"]) == ("suspended", "again")
        assert "the tool `resume` goes on with it" in told["message"]
        done = again.data(2, "resume", {"run": run})
        # Each prompt was sent once.
        assert (done["result"], done["calls"]) == ({"note": "Write again."}, 2)
        assert again.end()[0] == 0


def test_the_first_signal_finishes_the_step_in_hand() -> None:
    with at_work() as server:
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "a second SIGTERM aborts" in server.stderr.readline(), "the signal")
        # Nobody waits for the client, which is still there.
        Path("go").touch()
        assert server.process.wait(300) == 143
    assert list(runs().values()) == ["suspended"]


def test_a_second_signal_ends_the_server_and_its_programs_at_once() -> None:
    with at_work() as server:
        server.process.send_signal(signal.SIGINT)
        until(lambda: "a second Ctrl-C aborts" in server.stderr.readline(), "the first signal")
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(300) == 130
    assert list(runs().values()) == ["interrupted"]


def test_a_run_of_a_killed_server_goes_on_in_the_next_session_when_a_person_has_answered() -> None:
    with at_work() as server:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(300)
    [run] = runs()
    Path("go").touch()
    again = McpServer(Path.cwd(), ["machines", "slow.yaml"])
    try:
        told = again.data("status", {"run": run})
        assert (told["status"], told["message"]) == (
            "interrupted", "nobody drives the run now; the tool `resume` goes on with it",
        )  # fmt: skip
        [asked] = again.data("resume", {"run": run})["questions"]
        assert "The process ended while `writer` was being called" in asked["text"]
        assert loopkit.answer(run, "retry", state=".loopkit").outcome == "done"
        assert again.data("status", {"run": run})["calls"] == 3
    finally:
        again.close()


def test_a_call_that_is_cancelled_stops_its_run_after_the_step_and_the_server_goes_on() -> None:
    with at_work() as server:
        server.say(None, "notifications/cancelled", {"requestId": 1})
        [run] = runs()
        assert server.data(2, "status", {"run": run})["status"] == "running"
        Path("go").touch()
        until(lambda: runs()[run] == "suspended", "the end of the step")
        done = server.data(3, "resume", {"run": run})
        assert (done["outcome"], done["calls"]) == ("done", 2)
        code, out, errors = server.end()
    # It has no answer any more.
    assert (code, [line for line in out.splitlines() if json.loads(line).get("id") == 1]) == (0, [])
    assert "Traceback" not in errors


def test_runs_end_whether_their_client_reads_or_not_and_each_call_is_answered() -> None:
    with RawServer(Path.cwd(), "machines", "note.yaml") as server:
        for number in range(1, 101):
            server.call(number, "note", {}, token=f"t{number}")
        until(lambda: list(runs().values()).count("finished") == 100, "the end of the runs")
        # Nobody has read anything by now, and a pipe has no room for all of it.
        answers: dict[int, str] = {}
        told: dict[str, list[float]] = {}
        while len(answers) < 100:
            said = json.loads(server.stdout.readline())
            if said.get("id", 0) > 0:
                answers[said["id"]] = said["result"]["structuredContent"]["outcome"]
            elif "method" in said:
                progress = said["params"]
                told.setdefault(progress["progressToken"], []).append(progress["progress"])
        assert set(answers.values()) == {"done"}
        assert len(told) == 100
        assert all(done == sorted(set(done)) for done in told.values())
        assert server.end()[0] == 0


def test_a_client_that_reads_late_is_told_all_of_it() -> None:
    with RawServer(Path.cwd(), "machines", "long.yaml") as server:
        server.call(1, "long", {}, token="t")
        until(lambda: list(runs().values()) == ["finished"], "the end of the run")
        told: list[str] = []
        while (said := json.loads(server.stdout.readline())).get("id") != 1:
            if "method" in said:
                told.append(said["params"]["message"])
        assert said["result"]["structuredContent"]["outcome"] == "done"
    # Four for each revision, of which a pipe holds a part.
    assert len(told) > 4 * 700
    assert told[-1] == "done (success), although the last verdict on `note` is fail"


def test_a_client_that_hears_nothing_ends_the_server() -> None:
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": ABOUT}
    Path("asked").write_text(f"{json.dumps(asked)}\n", encoding="utf-8")
    with Path("asked").open("rb") as stdin, Path("/dev/full").open("wb") as stdout:
        done = subprocess.run(
            command("-m", "loopkit", "mcp", "machines", "note.yaml"),
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
