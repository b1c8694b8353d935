"""Notifiers: programs that are told when a run starts to wait, fails or ends."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import loopkit
from loopkit.cli import invoke as run
from tests.waiting import LONG_S, until
from tests.warm import Process, ran_loopkit

pytestmark = pytest.mark.usefixtures("own_folder")
MACHINE = """
loopkit: 1
notify: NOTIFIER
states:
  note: {render: A note., next: ask}
  ask:
    human: Is it good?
    choices: [good, bad]
    transitions: [{guard: choice == "good", target: done}, {target: refused}]
  done: {final: success, result: note}
  refused: {final: failure}
"""
BROKEN = """
loopkit: 1
notify: NOTIFIER
agents: {nobody: {command: [sh, -c, "echo no such file >&2; exit 3"]}}
states:
  one: {agent: nobody, prompt: Write., next: done, on_error: {content: done}}
  done: {final: success}
"""
KEEP = "[sh, -c, 'cat >> told; echo >> told']"


def started(machine: str, *argv: str, notifier: str = KEEP) -> int:
    Path("m.yaml").write_text(machine.replace("NOTIFIER", notifier), encoding="utf-8")
    return run(["run", "m.yaml", *argv])


def told(file: str = "told") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def test_a_run_that_waits_and_one_that_ends_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert started(MACHINE) == 5
    (waits,) = told()
    assert (waits["machine"], waits["status"], waits["state"]) == ("m", "waiting", "ask")
    assert waits["question"]["text"] == "Is it good?"
    assert [choice["name"] for choice in waits["question"]["choices"]] == ["good", "bad"]
    assert run(["answer", waits["run"], "good"]) == 0
    _, ended = told()
    assert (ended["status"], ended["outcome"], ended["success"]) == ("finished", "done", True)
    assert ended["result"] == {"note": "A note."}
    assert "notified" not in capsys.readouterr().err


def test_a_run_that_still_waits_with_the_same_question_is_told_once() -> None:
    assert started(MACHINE) == 5
    (waits,) = told()
    assert run(["resume", waits["run"]]) == 5
    assert len(told()) == 1


def test_a_run_that_fails_is_told_with_its_error() -> None:
    assert started(BROKEN) == 4
    (failed,) = told()
    assert failed["status"] == "suspended"
    assert "exit code 3: no such file" in failed["error"]


def test_the_command_line_names_another_notifier() -> None:
    assert started(MACHINE, "--notify", "sh -c 'cat > \"other file\"'") == 5
    assert told("other file")[0]["status"] == "waiting"
    assert not Path("told").exists()


def test_a_run_that_a_scenario_plays_notifies_nobody() -> None:
    Path("s.yaml").write_text("scenario: 1\nanswers: {ask: [good]}\n")
    assert started(MACHINE, "--script", "s.yaml") == 0
    assert not Path("told").exists()
    assert started(MACHINE, "--script", "s.yaml", "--notify", "sh -c 'cat > told'") == 0
    assert told()[0]["outcome"] == "done"


@pytest.mark.parametrize(
    ("notifier", "why"),
    [
        ("[sh, -c, 'echo no route >&2; exit 7']", "`sh` ended with exit code 7: no route"),
        ("[./no-such-program]", "no-such-program"),
    ],
)
def test_a_notifier_that_fails_costs_the_run_nothing(
    notifier: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert started(MACHINE, notifier=notifier) == 5
    err = capsys.readouterr().err
    assert "the notifier failed: " in err
    assert why in err
    assert run(["runs", "ls"]) == 0
    assert "waiting" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("written", "why"), [("'", "No closing quotation"), (" ", "names no program")]
)
def test_a_command_line_that_is_none_is_refused(
    written: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert started(MACHINE, "--notify", written) == 2
    assert why in capsys.readouterr().err
    assert ran_loopkit("runs", "ls").stdout == ""


def test_a_run_from_python_is_told_as_well() -> None:
    Path("m.yaml").write_text(MACHINE.replace("NOTIFIER", KEEP), encoding="utf-8")
    result = loopkit.run("m.yaml")
    assert (result.status, told()[0]["status"]) == ("waiting", "waiting")
    Path("m.yaml").write_text(MACHINE.replace("NOTIFIER", "[sh, -c, exit 1]"), encoding="utf-8")
    with pytest.warns(RuntimeWarning, match="the notifier failed"):
        assert loopkit.run("m.yaml").status == "waiting"


def test_a_webhook_is_one_program_away() -> None:
    """As the documents show it, with a client that is always there."""
    posted: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    post = "import sys, urllib.request as r; r.urlopen(sys.argv[1], sys.stdin.buffer.read())"
    Path("post.py").write_text(post, encoding="utf-8")
    try:
        url = f"http://127.0.0.1:{server.server_port}/hook"
        assert started(MACHINE, "--notify", f"{sys.executable} post.py {url}") == 5
    finally:
        server.shutdown()
        server.server_close()
    assert [one["question"]["text"] for one in posted] == ["Is it good?"]


COSTS = """
loopkit: 1
notify: NOTIFIER
input: {cost: num, code: {type: int, default: 0}}
agents:
  worker:
    command:
      - sh
      - -c
      - printf '{"type":"result","result":"x","total_cost_usd":%s}' "$0"; exit "$1"
      - "{{ input.cost }}"
      - "{{ input.code }}"
    reply: stream_json
states:
  work: {agent: worker, prompt: Work., on_error: {content: done}, next: done}
  done: {final: success, result: work}
"""
BY_THRESHOLD = """
import json, pathlib, sys
told = json.load(sys.stdin)
if not told["success"] or told["usage"]["cost_usd"] >= 1:
    with pathlib.Path("told").open("a") as file:
        file.write(json.dumps(told) + "\\n")
"""


def test_a_notifier_tells_of_each_failure_and_of_a_success_from_a_threshold_on() -> None:
    """S1.63: it knows how the run ended and what it has cost."""
    Path("tell.py").write_text(BY_THRESHOLD, encoding="utf-8")
    for cost, code in ((0.5, 0), (0.5, 3), (2, 0)):
        started(COSTS, "--set", f"cost={cost}", "--set", f"code={code}",
                notifier=json.dumps([sys.executable, "tell.py"]))  # fmt: skip
    assert [(one["status"], one["usage"]["cost_usd"]) for one in told()] == [
        ("suspended", 0.5), ("finished", 2.0)
    ]  # fmt: skip


INTERRUPTED = """
loopkit: 1
notify: NOTIFIER
states:
  one: {run: [sh, -c, "kill -INT $PPID; sleep 0.2"], next: two}
  two: {run: [sh, -c, "echo Done."], next: done}
  done: {final: success}
"""


def test_nobody_is_told_of_a_run_that_somebody_interrupts() -> None:
    """Whoever presses Ctrl-C knows it."""
    Path("m.yaml").write_text(INTERRUPTED.replace("NOTIFIER", KEEP), encoding="utf-8")
    stopped = ran_loopkit("run", "m.yaml")
    assert "stopped before its end" in stopped.stderr
    assert not Path("told").exists()


HANGS = "[sh, -c, 'echo > began; sleep 600']"


@pytest.fixture
def hanging() -> Iterator[Process]:
    """A run that waits for a person, whose notifier has begun and does not end."""
    Path("m.yaml").write_text(MACHINE.replace("NOTIFIER", HANGS), encoding="utf-8")
    process = Process(["-m", "loopkit", "run", "m.yaml"])
    until(Path("began").exists, "the notifier")
    yield process
    process.send_signal(signal.SIGKILL)
    process.wait(LONG_S)


def test_a_run_whose_notifier_hangs_can_be_answered(
    hanging: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runs", "ls"]) == 0
    assert "waiting" in (listed := capsys.readouterr().out)
    assert run(["answer", listed.splitlines()[1].split()[0], "good", "--notify", "true"]) == 0
    assert hanging.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_notifier_that_hangs_and_nothing_else(
    number: int, hanging: Process
) -> None:
    hanging.send_signal(number)
    _, err = hanging.communicate(LONG_S)
    assert hanging.returncode == 5
    assert err.endswith("the notifier is ended; the run is not affected\n")
    assert "the step in hand" not in err


@pytest.mark.long
def test_a_notifier_has_half_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    assert started(MACHINE, notifier=HANGS) == 5
    assert "the notifier failed: `sh` took longer than 30 s\n" in capsys.readouterr().err
