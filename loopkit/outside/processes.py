"""Commands: started without a shell, in a process group of their own that is ended as a whole.

Its stdin is complete before it starts, and its output is bounded.

Two ends are not left to the code that runs a command: that of a signal handler, and SIGKILL. For
the first the groups are kept where a handler can read them without any lock. For the second a
watcher process learns of each group; `PR_SET_PDEATHSIG` fires at the end of the thread that started
the command, and reaches no descendant.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, cast

from loopkit.outside import watcher
from loopkit.outside.workspace import is_behind_link
from loopkit.plugins import CALL, CALL_VARIABLE

_DRAIN_S = 0.5
"""The time that descendants may go on writing after the command itself has exited."""
_REAP_S = 5.0
"""How long the system may take to end a process after SIGKILL."""

_PLACES = {"HOME", "PATH", "SHELL", "SYSTEMROOT", "TMPDIR", "VIRTUAL_ENV"}
_PERSON = {"LANG", "LANGUAGE", "LOGNAME", "TERM", "TZ", "USER"}
# The locale's categories one by one: `LC_*` is what ssh lets through, so people carry tokens under
# names of that shape.
_POSIX_LOCALE = ("ALL", "COLLATE", "CTYPE", "MESSAGES", "MONETARY", "NUMERIC", "TIME")
_GNU_LOCALE = ("ADDRESS", "IDENTIFICATION", "MEASUREMENT", "NAME", "PAPER", "TELEPHONE")
_INHERITED = _PLACES | _PERSON | {f"LC_{category}" for category in _POSIX_LOCALE + _GNU_LOCALE}

_REASONS = {
    errno.ENOENT: (
        "the interpreter in its first line does not exist",
        "install that, or correct the line",
    ),
    errno.EACCES: (
        "permission denied",
        "make the program executable (chmod +x) and its working folder accessible",
    ),
    errno.ENOEXEC: (
        "it is not a program that the system can execute",
        "name its interpreter in the command, or give it a first line such as #!/bin/sh",
    ),
    errno.E2BIG: (
        "its arguments are longer than the system accepts",
        "pass long text through stdin or a file",
    ),
}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended and what it wrote; a non-zero exit is a result, not an error."""

    exit_code: int
    """As the command gave it; below 0, the number of the signal that ended it."""
    stdout: str
    stderr: str
    truncated: bool
    """Whether text was left out of `stdout` or `stderr`."""
    workspace: str = ""
    """Of a played command: the mark of the files that it left; "" if the real files count."""
    folder: Mapping[str, Any] | None = None
    """Of a played command: the content of its output folder; none if the real folder counts."""


class CommandNotStarted(Exception):
    """The command never ran; the message has the cause and the remedy."""


class ArgumentsRefused(CommandNotStarted):
    """The command never ran because its arguments or its stdin are too long or not possible."""


@dataclass(eq=False)
class CommandTimeout(Exception):
    """The command was ended at its deadline; `stdout` and `stderr` have its output until then."""

    program: str
    timeout_s: float
    stdout: str
    stderr: str
    message: str = ""
    """That of a scenario, if it has one of its own."""

    def __str__(self) -> str:
        return self.message or (
            f"command {_quote(self.program)} took longer than {self.timeout_s:g} s; "
            "give it more time, or less to do"
        )


def command_environment(
    allow: Iterable[str] = (), extra: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The variables that a command gets: where things are and how to talk, and no secrets.

    Of our own environment that is a fixed list (paths, user, locale, terminal) and the names in
    `allow`; a name that is not set is left out. `extra` is added last and wins.
    """
    names = _INHERITED.union(allow)
    inherited = {name: value for name, value in os.environ.items() if name in names}
    return {**inherited, **extra}


TREES = "trees"
"""The folder of the state folder in which runs have trees of their own to work in."""
ALL_IGNORED = b"*\n"
"""The ignore file of that folder, by which it is known."""
_CEILINGS = "GIT_CEILING_DIRECTORIES"


def environment_in(folder: Path, env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables of a program that works in a folder: in a tree of a run's own, git stays there.

    The repository above the tree knows neither its files nor what was changed in them.
    """
    ceilings = [env[_CEILINGS]] if env.get(_CEILINGS) else []
    for above in folder.absolute().parents:
        with suppress(OSError):
            if above.name == TREES and (above / ".gitignore").read_bytes() == ALL_IGNORED:
                ceilings.append(str(above))
    return {**env, _CEILINGS: os.pathsep.join(ceilings)} if ceilings else env


def worker_command(module: str) -> tuple[str, ...]:
    """The command that starts a module, without bytecode.

    The working folder is not on its module path, because an agent may write there.
    """
    return (sys.executable, "-P", "-B", "-X", "utf8", "-m", module)


def worker_environment(allow: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: this process's module path, harmless and allowed variables.

    Texts are hashed alike in each, so that sets have one order.
    """
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path if folder)
    return command_environment(allow, {"PYTHONPATH": path, "PYTHONHASHSEED": "0"})


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str],
    stdin: str | None,
    timeout_s: float,
    idle_s: float | None = None,
    on_output: Callable[[bytes], Awaitable[None]] | None = None,
    output_limit: int = 10_000_000,
    grace_s: float = 2.0,
) -> CommandResult:
    """Run `argv` without a shell and return its exit code and output.

    `env` is the whole environment, but for the key of the call; the program is looked up on its
    PATH. `stdin` is sent as
    UTF-8, and need not be read; None is an empty input. Of stdout and of stderr `output_limit`
    bytes are kept, half from the beginning and half from the end, with a line between them that
    says how much is missing; bytes that are not UTF-8 become U+FFFD.

    The command leads a session of its own. When it has exited, descendants may write for another
    half second; then all that is left of the group is killed. Only a process that made itself a new
    session survives, and nobody waits for it.

    `on_output` gets what it writes to stdout as it comes, and is awaited before the next piece.

    After `timeout_s` seconds, after `idle_s` seconds without any output, or when the awaiting task
    is cancelled, the group gets SIGTERM, and
    SIGKILL once it has exited and closed its output, at the latest after `grace_s` seconds. A
    second cancellation skips the rest of that grace. Where this process is killed, the group is
    killed too. Raises `CommandTimeout` and `CommandNotStarted`.
    """
    if call := CALL.get():
        env = {**env, CALL_VARIABLE: call}
    if cwd is not None:
        env = environment_in(cwd, env)
    is_followed = idle_s is not None or on_output is not None
    process = _Process(_start(argv, cwd, env, stdin), output_limit, is_followed=is_followed)
    try:
        if is_followed:
            await process.follow(timeout_s, idle_s or timeout_s, on_output)
        else:
            await asyncio.wait([process.exited], timeout=timeout_s)
        in_time = process.exited.done()
        if in_time:
            await asyncio.wait(process.closed, timeout=_DRAIN_S)
    finally:
        await process.end(grace_s)
    if on_output is not None and (rest := process.streams[0].take()):
        await on_output(rest)
    stdout, stderr = (stream.text() for stream in process.streams)
    if not in_time:
        idle = f"command {_quote(argv[0])} printed nothing for {idle_s:g} s" if idle_s else ""
        raise CommandTimeout(argv[0], timeout_s, stdout, stderr, idle if process.is_idle else "")
    truncated = any(stream.missing > 0 for stream in process.streams)
    return CommandResult(process.exit_code, stdout, stderr, truncated)


class _Process:
    """A started command: its output so far, and the moments of its end.

    Used instead of `asyncio.subprocess`, which tells the number of a process only some turns of
    the loop after its start, and whose `wait` lasts while a descendant keeps a pipe open.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], output_limit: int, *, is_followed: bool
    ) -> None:
        self._process = process
        self.is_idle = False
        """Whether it was given up because it wrote nothing."""
        self._wrote = asyncio.Event() if is_followed else None
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # One thread for each, the only way on all systems that does not interfere with signals.
        reaping = (process, self.exited)
        threading.Thread(target=_reap, args=reaping, name="loopkit-reap", daemon=True).start()
        outputs = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
        self.streams = [Captured(pipe, output_limit, self._wrote) for pipe in outputs]
        self.closed = [stream.closed for stream in self.streams]

    @property
    def exit_code(self) -> int:
        """As the system gave it; only once `exited` is done."""
        return cast("int", self._process.returncode)

    async def follow(
        self, timeout_s: float, idle_s: float, on_output: Callable[[bytes], Awaitable[None]] | None
    ) -> None:
        """Wait until it has exited, or is to be ended, and hand on what it writes meanwhile."""
        now, wrote = asyncio.get_running_loop().time, self._wrote
        assert wrote is not None
        ends, wrote_at = now() + timeout_s, now()
        while not self.exited.done() and now() < ends:
            self.is_idle = now() >= wrote_at + idle_s
            if self.is_idle:
                return
            writing: asyncio.Future[Any] = asyncio.ensure_future(wrote.wait())
            try:
                left_s = min(ends, wrote_at + idle_s) - now()
                await asyncio.wait(
                    [self.exited, writing], timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                writing.cancel()
            if wrote.is_set():
                wrote.clear()
                wrote_at = now()
                if on_output is not None and (piece := self.streams[0].take()):
                    await on_output(piece)

    async def end(self, grace_s: float) -> None:
        """Kill the rest of the group, reap the command and close the pipes."""
        try:
            if not self.exited.done():
                self._signal(signal.SIGTERM)
                ends: list[asyncio.Future[Any]] = [self.exited, *self.closed]
                await asyncio.wait(ends, timeout=grace_s)
        finally:
            await self._kill()

    async def _kill(self) -> None:
        # No stranger is hit: any member of the group keeps its number from being given away, and
        # an empty group lost its leader within the last moment.
        self._signal(signal.SIGKILL)
        try:
            await asyncio.wait([self.exited], timeout=_REAP_S)
            await asyncio.wait(self.closed, timeout=_DRAIN_S)
        finally:
            GROUPS.remove(self._process.pid)
            for stream in self.streams:
                stream.close()

    def _signal(self, number: signal.Signals) -> None:
        # No such process: the group is empty. Not permitted: a program that changed its user, such
        # as sudo, or a zombie on macOS; there is nothing that we may end.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _reap(process: subprocess.Popen[bytes], exited: asyncio.Future[None]) -> None:
    process.wait()
    # Nothing waits any more in a closed loop.
    with suppress(RuntimeError):
        exited.get_loop().call_soon_threadsafe(exited.set_result, None)


def _start(
    argv: Sequence[str], cwd: Path | None, env: Mapping[str, str], stdin: str | None
) -> subprocess.Popen[bytes]:
    if cwd is not None and is_behind_link(cwd):
        cause = f"the folder {str(cwd)!r} in which it works is a link now"
        raise CommandNotStarted(_message(argv[0], cause, "put the folder back"))
    try:
        with holding(stdin) as source, _piped() as (reader, output), GROUPS.start(output) as add:
            process = subprocess.Popen(  # noqa: S603 - commands are what this is about
                argv,
                executable=_on_path(argv[0], env),
                cwd=cwd,
                env=env,
                stdin=source,
                stdout=output,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            add(process.pid)
            process.stdout = open(reader, "rb", buffering=0)  # noqa: SIM115
    except (OSError, ValueError) as error:
        cause, remedy = _explain(argv[0], cwd, env, error)
        is_of_arguments = isinstance(error, ValueError) or error.errno == errno.E2BIG
        refused = ArgumentsRefused if is_of_arguments else CommandNotStarted
        raise refused(_message(argv[0], cause, remedy)) from error
    return process


def may_start(program: str, env: Mapping[str, str]) -> bool:
    """Whether a bare name is on PATH; of a path nobody knows before."""
    return os.sep in program or _on_path(program, env) is not None


def _on_path(program: str, env: Mapping[str, str]) -> str | None:
    """The file that a bare name stands for, or None, which leaves the search to the system.

    Starting the file, and not the name, keeps a forbidden folder on PATH from hiding the error.
    """
    found = None if os.sep in program else shutil.which(program, path=env.get("PATH", os.defpath))
    return found if found and os.path.isabs(found) else None


def _explain(
    program: str, cwd: Path | None, env: Mapping[str, str], error: OSError | ValueError
) -> tuple[str, str]:
    number = error.errno if isinstance(error, OSError) else None
    if cwd is not None and not os.path.isdir(cwd):
        return f"its working folder {_quote(str(cwd))} is not a folder", "create or correct it"
    file = program if os.sep in program else _on_path(program, env)
    if file is None and number in (errno.ENOENT, errno.EACCES):
        return "no folder on PATH has an executable of that name", "install it, or write its path"
    if number == errno.ENOENT and not os.path.exists(os.path.join(cwd or "", file or "")):
        return "there is no such file", "correct the path, which starts at the working folder"
    if number in _REASONS:
        return _REASONS[number]
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"the system refused it ({reason})", "correct the command or free what it lacks"


def _message(program: str, cause: str, remedy: str) -> str:
    return f"command {_quote(program)} was not started: {cause}; {remedy}"


def _quote(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


_READ_BYTES = 262_144


@contextmanager
def _piped() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe for an output; the reading one stays open unless the start fails."""
    reader, writer = os.pipe()
    try:
        yield reader, writer
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


@contextmanager
def holding(text: str | None) -> Iterator[int]:
    """A descriptor that holds the whole text as UTF-8 before a command starts with it.

    So a process that is killed meanwhile leaves no command that takes the beginning of its input
    for all of it. A pipe, which programs expect, as far as a pipe has room; else a file without a
    name. Raises `OSError`.
    """
    if text is None:
        yield subprocess.DEVNULL
        return
    content = text.encode()
    reader, writer = os.pipe()
    try:
        if _fits(writer, content):
            yield reader
            return
    finally:
        os.close(reader)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _fits(writer: int, content: bytes) -> bool:
    """Whether a pipe has room for all of the content, which is in it then; the end is closed."""
    try:
        os.set_blocking(writer, False)
        return not content or os.write(writer, content) == len(content)
    except BlockingIOError:
        return False
    finally:
        os.close(writer)


class Captured:
    """The output written to a pipe: its first and last bytes, at most `limit` together."""

    def __init__(self, pipe: IO[bytes], limit: int, wrote: asyncio.Event | None = None) -> None:
        """Begin to read; it goes on until all who could write are gone, or `close`.

        `wrote` is set whenever something has come.
        """
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._tail_limit = max(limit, 0) // 2
        self._head_limit = max(limit, 0) - self._tail_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.missing = 0
        self._limit, self._wrote, self._new = limit, wrote, bytearray()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    def close(self) -> None:
        """Close the pipe; a second call changes nothing."""
        if not self.closed.done():
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
            self.closed.set_result(None)

    def text(self) -> str:
        head, tail = bytes(self._head), bytes(self._tail)
        if self.missing:
            # The note has its own line, or two halves of different lines would read as one.
            tail = b"\n[%d bytes left out]\n" % self.missing + tail
        return (head + tail).decode(errors="replace")

    def take(self) -> bytes:
        """What has come since it was last asked for."""
        new, self._new = bytes(self._new), bytearray()
        return new

    def _read(self) -> None:
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._feed(data)
        else:
            self.close()

    def _feed(self, data: bytes) -> None:
        if self._wrote is not None:
            self._new += data[: max(0, self._limit - len(self._new))]
            self._wrote.set()
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        surplus = max(0, len(self._tail) - self._tail_limit)
        del self._tail[:surplus]
        self.missing += surplus


class Groups:
    """The groups of this process, each named by the number of its leader."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Reset the state, also in a fork: the groups and the watcher belong to its parent."""
        self._alive: set[int] = set()
        self._starts = 0
        self._leave: Callable[[], None] | None = None
        self._telling = threading.Lock()
        self._watcher: int | None = None
        self._sign = ""

    def after_fork(self) -> None:
        """Close the pipe to the parent's watcher, which would wait for this process too."""
        if self._watcher is not None:
            os.close(self._watcher)
        self._forget()

    @contextmanager
    def start(self, output: int | None = None) -> Iterator[Callable[[int], None]]:
        """Guard the start of a command; by the pipe that is its output, the watcher can find it.

        Gives the function that registers its group. Raises `OSError` where no watcher can be
        started.
        """
        pipe = f"pipe:[{os.fstat(output).st_ino}]\n" if output is not None else ""
        self._tell(pipe and f"?{pipe}")
        self._starts += 1
        try:
            yield self._add
        finally:
            self._starts -= 1
            self._tell(pipe and f"!{pipe}")
            if self._leave is not None:
                self.end(self._leave)

    def _add(self, group: int) -> None:
        self._alive.add(group)
        self._tell(f"+{group}\n")

    def show_life(self, seconds: float) -> None:
        """Let all groups be killed if this is not called again within these seconds; 0: never."""
        self._sign = f"~{seconds}\n" if seconds else ""
        if self._watcher is not None:
            self._tell(f"~{seconds}\n")

    def remove(self, group: int) -> None:
        self._alive.discard(group)
        self._tell(f"-{group}\n")

    def end(self, leave: Callable[[], None]) -> None:
        """Kill all groups, then call `leave`; safe in a signal handler.

        A handler that has interrupted the start of a command comes too early to know its group:
        `leave` is called when that is known then. A second call does not wait for it.
        """
        if self._starts and self._leave is None:
            self._leave = leave
            return
        for group in tuple(self._alive):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        leave()

    def _tell(self, change: str) -> None:
        with self._telling:
            if self._watcher is None:
                self._watcher = _start_watcher()
                change = self._sign + change
            try:
                os.write(self._watcher, change.encode())
            except BrokenPipeError:
                # Somebody has ended the watcher. The next one gets all groups.
                os.close(self._watcher)
                self._watcher = _start_watcher()
                known = "".join(f"+{group}\n" for group in self._alive)
                os.write(self._watcher, f"{self._sign}{known}".encode())


def _start_watcher() -> int:
    """Start a watcher; the descriptor on which it learns of groups. No command inherits it."""
    reader, writer = os.pipe()
    devnull = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    try:
        # A session of its own keeps Ctrl-C away from it; our streams would be held open by it.
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", watcher.__file__],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), devnull, (os.POSIX_SPAWN_DUP2, 1, 2)],
            setsid=True,
        )
    except OSError:
        os.close(writer)
        raise
    finally:
        os.close(reader)
    return writer


GROUPS = Groups()
os.register_at_fork(after_in_child=GROUPS.after_fork)
