"""Programs of Python that start at once: forks of a process that has imported loopkit and waits.

What an interpreter and its imports take is most of what a short command does. A fork of one that
has done both is a process of its own like any other: with its arguments, environment, folder and
standard streams, its signals, and an end of the interpreter. What is tested of the start itself
(imports, how strings are hashed, closed streams) starts an interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import io
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryFile, mkdtemp
from typing import IO, Any

ROOT = Path(__file__).parents[1]
SHARED = "TESTS_WARM_SERVER"
"""The variable with the address of the server that several workers of pytest share."""
NOT_IMPORTED = (
    "loopkit.__main__",
    "loopkit.observability.otel.library",
    "loopkit.observability.otel.observer",
    "loopkit.observability.otel.sdk",
    "loopkit.properties",
    "loopkit.pytest_plugin",
    "loopkit.serving.http",
    "loopkit.serving.mcp",
)
"""What no command imports, or only one that serves over MCP or sends traces."""


class Process:
    """A program that runs: `python -m loopkit`, or what else stands behind `python`."""

    def __init__(
        self,
        argv: Sequence[str],
        streams: Sequence[int] = (),
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        given: str = "",
        is_terminal: bool = False,
        has_litellm: bool = False,
        under: Sequence[str] = (),
    ) -> None:
        """Reads and writes the `streams`, of which a terminal becomes the one that controls it.

        Without any it reads what it is given, and what it writes is kept for `communicate`. LiteLLM
        is imported when it starts where it has to be, and when it is first needed otherwise. All
        that run `under` a command line, such as `setpriv`, are forks of one that it has started.
        """
        self.args = argv
        self.returncode: int | None = None
        self._files = [] if streams else [TemporaryFile() for _ in range(3)]  # noqa: SIM115
        if self._files:
            self._files[0].write(given.encode())
            self._files[0].seek(0)
        self._told = socket.socket(socket.AF_UNIX)
        self._told.connect(_server(has_litellm, tuple(under)))
        wanted = {
            "argv": list(map(str, argv)),
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "is_terminal": is_terminal,
        }
        passed = [*streams, *(file.fileno() for file in self._files)]
        socket.send_fds(self._told, [b"."], passed)
        self._lines = self._told.makefile("rw", encoding="utf-8")
        print(json.dumps(wanted), file=self._lines, flush=True)
        self.pid = int(self._lines.readline())

    def send_signal(self, number: int) -> None:
        """Does nothing to one that has ended, as `subprocess` does nothing."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """The exit code, where it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, or the signal that ended it as a number below zero."""
        if self.returncode is None:
            if not select.select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._told.close()
            _, *self._written = map(_read, self._files) if self._files else ("", "", "")
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All that it wrote, once it has ended."""
        self.wait(timeout)
        out, err = self._written
        return out, err


def _read(file: IO[bytes]) -> str:
    with file:
        file.seek(0)
        return file.read().decode()


def ran(argv: Sequence[str], timeout: float = 120, **more: Any) -> CompletedProcess[str]:
    """What came of a program, as `subprocess.run` tells it."""
    process = Process(argv, **more)
    out, err = process.communicate(timeout)
    return CompletedProcess(argv, process.wait(), out, err)


def ran_loopkit(*argv: str, **more: Any) -> CompletedProcess[str]:
    """What came of a command."""
    return ran(["-m", "loopkit", *argv], **more)


IN_ITS_PLACE = """
import json, os, signal, socket, sys

address, *argv = sys.argv[1:]
wanted = {"argv": argv, "cwd": os.getcwd(), "env": {**os.environ}, "is_terminal": False}
told = socket.socket(socket.AF_UNIX)
told.connect(address)
socket.send_fds(told, [b"."], [0, 1, 2])
lines = told.makefile("rw", encoding="utf-8")
print(json.dumps(wanted), file=lines, flush=True)
process = int(lines.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(process, number))
code = int(lines.readline())
os._exit(code if code >= 0 else 128 - code)
"""


def command(*argv: str) -> list[str]:
    """The command line of such a program for others to start, who have its streams and its code."""
    return [sys.executable, "-I", "-S", "-c", IN_ITS_PLACE, _server(False, ()), *argv]


def share() -> None:
    """Let the processes that this one starts ask the same server as this one."""
    os.environ[SHARED] = _server(False, ())


@cache
def _server(has_litellm: bool, under: tuple[str, ...]) -> str:
    """The address where a process is asked for; one of each kind for each process that asks."""
    if (shared := os.environ.get(SHARED)) and not has_litellm and not under:
        return shared
    address = f"{mkdtemp()}/asked"
    alive, ours = os.pipe()
    with socket.socket(socket.AF_UNIX) as asked:
        asked.bind(address)
        asked.listen(100)
        numbers = [asked.fileno(), alive]
        server = subprocess.Popen(
            [
                *under, sys.executable, "-m", "tests.warm",
                *map(str, numbers), str(int(has_litellm)),
            ],
            cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=numbers,
        )  # fmt: skip
    os.close(alive)

    def end() -> None:
        os.close(ours)
        server.wait()

    atexit.register(end)
    return address


# -- in the process that waits -----------------------------------------------------------------


def main(asked: socket.socket, alive: int, has_litellm: bool) -> None:
    """Wait to be asked; returns in no process but those that are asked for."""
    for module in pkgutil.walk_packages(import_module("loopkit").__path__, "loopkit."):
        if not module.name.startswith(NOT_IMPORTED):
            import_module(module.name)
    if has_litellm:
        asyncio.run(import_module("loopkit.agents.model.client").ready())
    # What is made once a process, and the same in each: patterns, tables, readers.
    cases = str(ROOT / "machines/plan_review.scenario.yaml")
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as told:
        assert import_module("loopkit.cli").invoke(["test", cases]) == 0, told.getvalue()
    gc.collect()
    gc.freeze()
    _serve(asked, alive)


def _serve(asked: socket.socket, alive: int) -> None:
    """Start what is asked for and tell how it ends; returns in the processes themselves.

    All ends when the other end of the pipe `alive` is closed.
    """
    # What ends wakes the loop by a byte in this pipe.
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    tellers: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([asked, woken, alive], [], [])
        if woken in ready:
            os.read(woken, 1 << 16)
            _tell_ends(tellers)
        if alive in ready:
            shutil.rmtree(Path(asked.getsockname()).parent)
            os._exit(0)
        if asked not in ready:
            continue
        teller, _ = asked.accept()
        _, streams, _, _ = socket.recv_fds(teller, 1, 3)
        with teller.makefile("rb") as lines:
            wanted = json.loads(lines.readline())
        if not (process := os.fork()):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for each in (asked, teller, *tellers.values()):
                each.close()
            for descriptor in (woken, waking, alive):
                os.close(descriptor)
            _become(wanted, streams)
            return
        teller.sendall(b"%d\n" % process)
        tellers[process] = teller
        for descriptor in streams:
            os.close(descriptor)


def _tell_ends(tellers: dict[int, socket.socket]) -> None:
    """Tell of each process that has ended how it did."""
    while tellers:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        # Nobody may want to hear it any more.
        with tellers.pop(process) as teller, suppress(BrokenPipeError):
            teller.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(wanted: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Be as an interpreter that was started like this."""
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in set(streams) - {0, 1, 2}:
        os.close(descriptor)
    if wanted["is_terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = _stream(0, "r", "strict")
    sys.stdout = _stream(1, "w", "strict")
    sys.stderr = _stream(2, "w", "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    kind, program, *arguments = wanted["argv"]
    sys.orig_argv = [sys.executable, *wanted["argv"]]
    sys.path[0] = wanted["cwd"]
    sys.argv = [kind if kind == "-c" else program, *arguments]


def _stream(number: int, mode: str, errors: str) -> io.TextIOWrapper:
    is_line_wise = number == 2 or os.isatty(number)
    stream = open(  # noqa: SIM115 - closed by the end of the interpreter
        number, mode, encoding=os.environ.get("PYTHONIOENCODING", "utf-8"), errors=errors,
        closefd=False,
        buffering=1 if is_line_wise and mode == "w" else -1,
    )  # fmt: skip
    assert isinstance(stream, io.TextIOWrapper)
    return stream


def play() -> None:
    """Be what was asked for, up to the end of the interpreter.

    All that an interpreter does in the end is done, but that it frees what there is: to touch all
    that was imported, and so to copy it, takes longer than most commands.
    """
    kind, program, *_ = sys.orig_argv[1:]
    code = 0
    try:
        if kind == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(program, {"__name__": "__main__"})
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        code = ended.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), sys.argv[3] == "1")
    play()
