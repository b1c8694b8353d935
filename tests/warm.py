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
from tempfile import TemporaryFile
from typing import IO, Any

ROOT = Path(__file__).parents[1]
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
        self._told, theirs = socket.socketpair()
        wanted = {
            "argv": list(map(str, argv)),
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "is_terminal": is_terminal,
        }
        with theirs:
            passed = [*streams, *(file.fileno() for file in self._files)]
            socket.send_fds(_server(has_litellm, tuple(under)), [b"."], [theirs.fileno(), *passed])
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


@cache
def _server(has_litellm: bool, under: tuple[str, ...]) -> socket.socket:
    """Where a process is asked for; one of each kind for each process that asks."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [
                *under, sys.executable, "-m", "tests.warm",
                str(theirs.fileno()), str(int(has_litellm)),
            ],
            cwd=ROOT, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
        )  # fmt: skip

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours


# -- in the process that waits -----------------------------------------------------------------


def main(asked: socket.socket, has_litellm: bool) -> None:
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
    while True:
        data, descriptors, _, _ = socket.recv_fds(asked, 1, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            asked.close()
            _keep(*descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        _forget_the_dead()


def _forget_the_dead() -> None:
    while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
        pass


def _keep(teller: int, *streams: int) -> None:
    """Start the process and tell how it ended; returns in the process itself."""
    with socket.socket(fileno=teller) as told, told.makefile("rw", encoding="utf-8") as lines:
        wanted = json.loads(lines.readline())
        process = os.fork()
        if process:
            print(process, file=lines, flush=True)
            for descriptor in streams:
                os.close(descriptor)
            ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            print(ended, file=lines, flush=True)
            os._exit(0)
    _become(wanted, streams)


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
        number, mode, encoding="utf-8", errors=errors, closefd=False,
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
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2] == "1")
    play()
