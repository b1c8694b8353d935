"""Signals to a real process at a pseudo-terminal, whatever it is busy with."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopkit.cli import invoke
from tests.terminal import Terminal
from tests.test_cli import only_run
from tests.test_processes import HOLD, alive
from tests.test_progress import left_on

ENDS_S = 100
"""What an ending process is given on a busy machine; unharmed it would go on for longer."""

MODEL = """
loopkit: 1
agents: {writer: {model: openai/gpt-5-mini, base_url: "http://127.0.0.1:PORT/v1", price: 0}}
states:
  draft: {agent: writer, prompt: Write., on_error: {content: done}, next: done}
  done: {final: success, result: draft}
"""
COMMAND = f"""
loopkit: 1
states:
  sit: {{run: {json.dumps([sys.executable, "-c", HOLD, "lock", "stubborn"])}, next: done}}
  done: {{final: success}}
"""
SLOW_RULES = ", ".join(["{not_matches: '(?:a|aa|aaa)+$b'}"] * 300)
"""Each of them takes as long as a pattern may."""
RULES = f"""
loopkit: 1
validators: {{slow: [{SLOW_RULES}]}}
states:
  start: {{render: {"a" * 60}, output: text, next: check}}
  check:
    validate: text
    by: [slow]
    transitions: [{{guard: valid, target: done}}, {{target: done}}]
  done: {{final: success}}
"""
PERSON = """
loopkit: 1
states:
  ask: {human: Go on?, choices: [yes, no], next: done}
  done: {final: success}
"""


@pytest.fixture(autouse=True)
def _in_a_folder(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def begun(machine: str, shown: str, program: str = "", *, has_litellm: bool = False) -> Terminal:
    """A run in a terminal that has come to where something is shown, begun by a program if any."""
    Path("machine.yaml").write_text(machine, encoding="utf-8")
    begins = ("-c", program) if program else ("-m", "loopkit")
    terminal = Terminal(["run", "machine.yaml"], begins, columns=200, has_litellm=has_litellm)
    terminal.wait_for(shown)
    return terminal


def ended(terminal: Terminal, number: int) -> int:
    """The exit code after two signals."""
    started_s = time.monotonic()
    terminal.signal(number)
    time.sleep(0.5)
    terminal.signal(number)
    code = terminal.end()
    assert time.monotonic() - started_s < ENDS_S
    return code


def assert_resumable(terminal: Terminal) -> None:
    """That the screen is in order and the journal knows where the run stands."""
    left = left_on(terminal)
    assert left[-2] == f"aborted; resume with: loopkit resume {only_run()}"
    assert re.findall(r"\x1b\[\?7[lh]", terminal.output)[-1] == "\x1b[?7h"
    assert invoke(["runs", "show", only_run()]) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_process_whose_model_never_answers(
    number: int, code: int, silent: int
) -> None:
    terminal = begun(MODEL.replace("PORT", str(silent)), "asks writer", has_litellm=True)
    assert ended(terminal, number) == code
    assert_resumable(terminal)


def test_a_second_signal_ends_a_command_that_ignores_signals(tmp_path: Path) -> None:
    """S1.40: nobody waits for a program that does not stop."""
    terminal = begun(COMMAND, "sit")
    while not (tmp_path / "lock.held").exists():
        terminal.wait_for(".")
    assert ended(terminal, signal.SIGTERM) == 143
    assert not alive(tmp_path / "lock")
    assert_resumable(terminal)


def test_a_second_signal_ends_a_process_whose_rules_judge() -> None:
    terminal = begun(RULES, "check")
    time.sleep(1)  # while the first pattern is at work
    assert ended(terminal, signal.SIGINT) == 130
    assert_resumable(terminal)


def test_a_second_signal_ends_a_process_that_loads_its_client_of_models(silent: int) -> None:
    terminal = begun(MODEL.replace("PORT", str(silent)), "draft")
    started_s = time.monotonic()
    for _ in range(2):
        terminal.signal(signal.SIGTERM)
        time.sleep(0.05)
    assert terminal.end() == 143
    assert time.monotonic() - started_s < ENDS_S
    assert_resumable(terminal)


def test_signals_while_a_person_is_asked_leave_the_question_open() -> None:
    terminal = begun(PERSON, "Your choice: ")
    # The first one is enough; the second may come when the handlers are gone.
    assert ended(terminal, signal.SIGTERM) in (143, -signal.SIGTERM)
    assert invoke(["answer", only_run(), "yes"]) == 0


NOTICED_LATE = """
import signal, sys, threading, time
from loopkit.cli import main

def interrupt_nothing():
    # A signal that another thread takes interrupts no system call of the first one, as one that
    # comes right before the call doesn't.
    waited = 0
    while waited < 20:
        time.sleep(0.01)
        frame = sys._current_frames()[threading.main_thread().ident]
        waited = waited + 1 if frame.f_code.co_name == WHERE else 0
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=interrupt_nothing, daemon=True).start()
main()
"""


def test_a_signal_right_before_a_person_is_waited_for_leaves_the_question_open() -> None:
    terminal = begun(PERSON, "Your choice: ", NOTICED_LATE.replace("WHERE", "'_line'"))
    assert terminal.end() == 130
    assert invoke(["answer", only_run(), "yes"]) == 0


def test_a_signal_right_before_a_program_is_waited_for_is_noticed_at_once() -> None:
    Path("machine.yaml").write_text(COMMAND, encoding="utf-8")
    program = ("-c", NOTICED_LATE.replace("WHERE", "'select'"))
    # Where the status is drawn the loop wakes up for that, ten times a second.
    terminal = Terminal(["run", "machine.yaml", "--output", "plain"], program)
    terminal.wait_for("is finished first")
    terminal.signal(signal.SIGINT)
    assert terminal.end() == 130
    assert invoke(["runs", "show", only_run()]) == 0


INTERRUPTED = """
import os, signal, sys
from loopkit.cli import main

# A shell lets what it runs in the background ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

class Ends:
    def __del__(self):
        interrupt()

class Arguments(list):
    def __getitem__(self, key):
        ends.clear()
        return super().__getitem__(key)

ends = [Ends()]
"""


def interrupted(when: str) -> tuple[int, str, str]:
    """How a process of ours ends that is sent SIGINT at a moment that it chooses itself."""
    done = subprocess.run(
        [sys.executable, "-c", f"{INTERRUPTED}\n{when}\nmain()"],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_an_interruption_where_python_drops_exceptions_ends_the_process() -> None:
    ended = interrupted("sys.argv = Arguments(['loopkit', 'schema'])")
    assert ended == (130, "", "stopped\n")


def test_an_interruption_of_a_process_that_is_done_says_nothing() -> None:
    code, out, err = interrupted("import atexit; atexit.register(interrupt)\nsys.argv[1:] = ['-h']")
    assert (code, err) == (-signal.SIGINT, "")
    assert out.startswith("Usage: loopkit")
