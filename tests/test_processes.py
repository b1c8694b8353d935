"""Real commands: `python -c` and `sh`, never a stand-in."""

import asyncio
import fcntl
import functools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.outside.processes import (
    CommandNotStarted,
    CommandResult,
    CommandTimeout,
    Groups,
    command_environment,
    run_command,
)

SOON_S = 60.0
"""Long before the ten minutes that these commands would sleep, on a machine as busy as can be."""
HOLD = """
import fcntl, os, signal, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(os.getpid(), file=lock, flush=True)
open(sys.argv[1] + ".held", "w").close()
time.sleep(600)
"""
"""A descendant that holds a lock while it lives; the system takes it back even from a zombie."""

PARENT = """
import os, subprocess, sys, time
path, what_next, *how = sys.argv[1:]
pipes = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
alone = dict(start_new_session=True) if "escape" in how else {}
if "quiet" in how:
    alone |= pipes
subprocess.Popen([sys.executable, "-c", os.environ["HOLD"], path, *how], **alone)
while not os.path.exists(path + ".held"):
    time.sleep(0.01)
print("ready", flush=True)
if what_next == "stay":
    time.sleep(600)
"""


async def command(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout_s: float = 20.0,
    output_limit: int = 10_000_000,
    grace_s: float = 2.0,
    extra: dict[str, str] | None = None,
) -> CommandResult:
    return await run_command(
        argv,
        cwd=cwd,
        env=command_environment(extra={"HOLD": HOLD, **(extra or {})}),
        stdin=stdin,
        timeout_s=timeout_s,
        output_limit=output_limit,
        grace_s=grace_s,
    )


def run(argv: Sequence[str], **how: Any) -> CommandResult:
    return asyncio.run(command(argv, **how))


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def late(
    argv: Sequence[str], had_come_to: Callable[[CommandTimeout], bool], **how: Any
) -> CommandTimeout:
    """How a command is told that took too long, once it was given the time to come somewhere."""
    for timeout_s in (1.0, 10.0, SOON_S):
        with pytest.raises(CommandTimeout) as caught:
            run(argv, timeout_s=timeout_s, **how)
        assert caught.value.timeout_s == timeout_s
        if had_come_to(caught.value):
            break
    return caught.value


def family(lock: Path, *how: str) -> list[str]:
    """A command with a descendant that holds `lock`."""
    return python(PARENT, str(lock), *how)


def alive(lock: Path) -> bool:
    """Whether the descendant that held `lock` still lives, long after it had to end."""
    assert Path(f"{lock}.held").exists(), "the descendant never started"
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
            else:
                return False
    return True


def ends(reader: int) -> bool:
    """Whether the last process that could write to the pipe ends."""
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        try:
            return os.read(reader, 1) == b""
        except BlockingIOError:
            time.sleep(0.02)
    return False


def children() -> set[int]:
    """The processes that this one has started and not waited for, of all its threads."""
    while True:
        listed = Path("/proc/self/task").glob("*/children")
        # Where a thread has ended meanwhile, its children are another one's.
        with suppress(FileNotFoundError):
            return {int(pid) for path in listed for pid in path.read_text().split()}


OTHERS: set[int] = set()
"""Servers that other tests of this worker have started."""


@pytest.fixture(autouse=True)
def _others() -> None:
    # Any command, so that the watcher of all of them is there, and its descriptor.
    run(["true"])
    OTHERS.clear()
    OTHERS.update(children())


def no_child_is_left() -> bool:
    return children() <= OTHERS


def end(lock: Path) -> None:
    """Ends the descendant that a test let live."""
    os.kill(int(lock.read_text()), signal.SIGKILL)


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


# Results


def test_a_result_has_the_exit_code_and_both_streams() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); exit(3)"
    result = run(python(code))
    assert (result.exit_code, result.stdout, result.stderr) == (3, "out\n", "err\n")
    assert not result.truncated


def test_a_signal_that_ends_the_command_is_a_negative_exit_code() -> None:
    assert run(["sh", "-c", "kill -9 $$"]).exit_code == -9


_ANY_CHARACTER = st.characters(exclude_categories=())


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(_ANY_CHARACTER, max_size=20), max_size=4))
def test_every_argument_arrives_as_it_is_or_is_refused(arguments: list[str]) -> None:
    argv = [sys.executable, "-S", "-E", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    try:
        assert json.loads(run([*argv, *arguments]).stdout) == arguments
    except CommandNotStarted:
        assert re.search("[\0\ud800-\udfff]", "".join(arguments))


def test_a_program_path_starts_at_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "tool").chmod(0o755)
    assert run(["./tool"], cwd=tmp_path).stdout == "found\n"


def test_the_program_is_looked_up_on_the_path_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "ls").write_text("#!/bin/sh\necho another ls\n")
    (tmp_path / "ls").chmod(0o755)
    assert run(["ls"], extra={"PATH": str(tmp_path)}).stdout == "another ls\n"


def test_bytes_that_are_no_text_are_replaced() -> None:
    result = run(python(r"import sys; sys.stdout.buffer.write(b'a\xff\xfeb\x00')"))
    assert result.stdout == "a��b\0"


def test_two_commands_at_once_do_not_wait_for_each_other(tmp_path: Path) -> None:
    meet = "touch $0; until [ -e $1 ]; do sleep 0.02; done"

    async def both() -> None:
        pairs = (["one", "other"], ["other", "one"])
        await asyncio.gather(*(command(["sh", "-c", meet, *pair], cwd=tmp_path) for pair in pairs))

    asyncio.run(both())


def test_commands_run_outside_the_main_thread_too() -> None:
    async def in_thread() -> CommandResult:
        return await asyncio.to_thread(run, ["echo", "hi"])

    assert asyncio.run(in_thread()).stdout == "hi\n"


# Input and output


def test_without_stdin_the_command_reads_nothing_not_even_ours(tmp_path: Path) -> None:
    (tmp_path / "ours").write_text("ours")
    saved = os.dup(0)
    ours = os.open(tmp_path / "ours", os.O_RDONLY)
    try:
        os.dup2(ours, 0)
        assert run(["cat"], stdin=None).stdout == ""
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(ours)


def test_an_empty_stdin_ends_at_once() -> None:
    assert run(["cat"], stdin="").stdout == ""


def test_stdin_arrives_as_utf_8() -> None:
    code = "import sys; print(sys.stdin.buffer.read())"
    assert run(python(code), stdin="é\r\n").stdout == "b'\\xc3\\xa9\\r\\n'\n"


def test_large_input_and_output_at_once_do_not_block() -> None:
    text = "0123456789abcdef" * 300_000
    assert run(["cat"], stdin=text).stdout == text


def test_both_streams_are_read_at_once() -> None:
    write = "[print('x' * 999, file=stream) for _ in range(999) for stream in (stderr, stdout)]"
    result = run(python(f"from sys import stderr, stdout; {write}"))
    assert (len(result.stdout), len(result.stderr)) == (999_000, 999_000)


@pytest.mark.parametrize("code", ["pass", "import os, time; os.close(0); time.sleep(0.3)"])
def test_a_command_need_not_read_its_stdin(code: str) -> None:
    assert run(python(code), stdin="x" * 5_000_000).exit_code == 0


def test_a_descendant_that_never_reads_the_stdin_does_not_hold_us_up(tmp_path: Path) -> None:
    started_s = time.monotonic()
    run(family(tmp_path / "lock", "leave", "escape"), stdin="x" * 5_000_000)
    end(tmp_path / "lock")
    assert time.monotonic() - started_s < SOON_S


def test_output_beyond_the_limit_loses_its_middle() -> None:
    code = "print('head' + 'x' * 5_000_000 + 'tail', end='')"
    result = run(python(code), output_limit=1000)
    assert result.truncated
    head, note, tail = result.stdout.split("\n")
    assert (head, tail) == ("head" + "x" * 496, "x" * 496 + "tail")
    assert note == "[4999008 bytes left out]"


@pytest.mark.parametrize("limit", [1000, 1001])
def test_output_of_exactly_the_limit_is_whole(limit: int) -> None:
    result = run(python(f"print('x' * {limit}, end='')"), output_limit=limit)
    assert (result.stdout, result.truncated) == ("x" * limit, False)


@pytest.mark.parametrize("limit", [-1, 0, 1])
def test_the_smallest_limits_keep_what_they_say(limit: int) -> None:
    result = run(["printf", "abc"], output_limit=limit)
    assert result.stdout == "a"[: max(limit, 0)] + f"\n[{3 - max(limit, 0)} bytes left out]\n"
    assert result.truncated


def test_each_stream_has_its_own_limit() -> None:
    result = run(["sh", "-c", "printf 1234567; printf ok >&2"], output_limit=4)
    assert (result.stdout, result.stderr) == ("12\n[3 bytes left out]\n67", "ok")
    assert result.truncated


# Ends


def test_a_command_that_takes_too_long_is_ended_and_keeps_what_it_said() -> None:
    started_s = time.monotonic()
    said = late(
        ["sh", "-c", "echo so far; echo why >&2; sleep 600"], lambda said: bool(said.stderr)
    )
    assert time.monotonic() - started_s < 3 * SOON_S
    assert (said.stdout, said.stderr) == ("so far\n", "why\n")
    assert f"took longer than {said.timeout_s:g} s; give it more time" in str(said)
    assert no_child_is_left()


def test_a_timeout_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(CommandTimeout("tool", 1.5, "out", "err")))
    assert (error.timeout_s, error.stdout, error.stderr) == (1.5, "out", "err")
    assert "'tool'" in str(error)


def test_a_command_may_tidy_up_when_it_is_asked_to_stop(tmp_path: Path) -> None:
    tidy = "trap 'sleep 0.5; echo tidy; exit 0' TERM; echo on; while :; do sleep 0.1; done"
    said = late(["sh", "-c", tidy], lambda said: bool(said.stdout), grace_s=SOON_S)
    assert said.stdout == "on\ntidy\n"


def test_a_command_that_ignores_the_request_is_killed_after_the_grace() -> None:
    started_s = time.monotonic()
    with pytest.raises(CommandTimeout):
        run(["sh", "-c", "trap '' TERM; sleep 600"], timeout_s=1.0, grace_s=0.5)
    assert 1.5 <= time.monotonic() - started_s < SOON_S
    assert no_child_is_left()


@pytest.mark.parametrize("how", [[], ["stubborn"], ["quiet"], ["stubborn", "quiet"]], ids=" ".join)
def test_no_descendant_outlives_a_timeout(tmp_path: Path, how: list[str]) -> None:
    held = tmp_path / "lock.held"
    late(family(tmp_path / "lock", "stay", *how), lambda _: held.exists(), grace_s=0.3)
    assert not alive(tmp_path / "lock")


@pytest.mark.parametrize("how", [[], ["stubborn"], ["quiet"], ["stubborn", "quiet"]], ids=" ".join)
def test_no_descendant_outlives_its_command(tmp_path: Path, how: list[str]) -> None:
    started_s = time.monotonic()
    result = run(family(tmp_path / "lock", "leave", *how))
    assert (result.exit_code, result.stdout) == (0, "ready\n")
    assert time.monotonic() - started_s < SOON_S
    assert not alive(tmp_path / "lock")


def test_nobody_waits_for_a_descendant_in_a_session_of_its_own(tmp_path: Path) -> None:
    started_s = time.monotonic()
    result = run(family(tmp_path / "lock", "leave", "escape"))
    end(tmp_path / "lock")
    assert result.stdout == "ready\n"
    assert time.monotonic() - started_s < SOON_S


def test_what_a_descendant_writes_just_after_the_exit_is_kept() -> None:
    # It has half a second, in which a busy machine may not let it write.
    tries = (run(["sh", "-c", "(sleep 0.1; echo late) & echo early"]).stdout for _ in range(20))
    assert "early\nlate\n" in tries


@pytest.mark.parametrize("how", [[], ["stubborn"]], ids=" ".join)
def test_a_cancelled_command_is_ended_with_its_descendants(tmp_path: Path, how: list[str]) -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(command(family(tmp_path / "lock", "stay", *how), grace_s=0.3))
        await asyncio.to_thread(wait_for, tmp_path / "lock.held")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not alive(tmp_path / "lock")
    assert no_child_is_left()


def test_a_second_cancellation_skips_the_grace(tmp_path: Path) -> None:
    async def cancelled_twice() -> float:
        argv = family(tmp_path / "lock", "stay", "stubborn")
        task = asyncio.create_task(command(argv, grace_s=600))
        await asyncio.to_thread(wait_for, tmp_path / "lock.held")
        started_s = time.monotonic()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.3)
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started_s

    assert asyncio.run(cancelled_twice()) < SOON_S
    assert not alive(tmp_path / "lock")
    assert no_child_is_left()


@pytest.mark.parametrize("turns", range(12))
def test_a_command_cancelled_while_it_starts_leaves_nothing(
    turns: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "held")
    reader = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    hold = ["sh", "-c", "exec 3>held; sleep 600 & sleep 600"]
    loop_stands_still = functools.partial(time.sleep, 0.05)

    async def cancelled_early() -> None:
        task = asyncio.create_task(command(hold, cwd=tmp_path, stdin="x" * 1_000_000))
        for _ in range(turns):
            await asyncio.sleep(0)
        loop_stands_still()  # and the child gets ahead of what we know about its start
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled_early())
    assert no_child_is_left()
    assert ends(reader)
    assert not caplog.records
    os.close(reader)


def test_an_outer_timeout_ends_the_command(tmp_path: Path) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(None) as limit:
            ends = asyncio.create_task(end_when_held(limit))
            await command(family(tmp_path / "lock", "stay"))
        await ends

    async def end_when_held(limit: asyncio.Timeout) -> None:
        await asyncio.to_thread(wait_for, tmp_path / "lock.held")
        limit.reschedule(asyncio.get_running_loop().time())

    with pytest.raises(TimeoutError):
        asyncio.run(bounded())
    assert not alive(tmp_path / "lock")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _ordinary(_: Path) -> None:
    await command(["cat"], stdin="x" * 100_000)


async def _refused(_: Path) -> None:
    with pytest.raises(CommandNotStarted):
        await command(["no-such-program"], stdin="x")


async def _too_long(_: Path) -> None:
    with pytest.raises(CommandTimeout):
        await command(["sleep", "600"], stdin="x" * 1_000_000, timeout_s=0.05)


async def _left_behind(lock: Path) -> None:
    await command(family(lock, "leave", "escape"), stdin="x" * 1_000_000)
    end(lock)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors as Linux does")
@pytest.mark.parametrize("use", [_ordinary, _refused, _too_long, _left_behind])
def test_no_descriptor_stays_open(tmp_path: Path, use: Callable[[Path], Awaitable[None]]) -> None:
    async def growth() -> int:
        before = open_descriptors()
        await use(tmp_path / "lock")
        return open_descriptors() - before

    assert asyncio.run(growth()) == 0


# Where the process that runs commands is killed

KILLED = """
import asyncio, os, signal, sys, time
from pathlib import Path
from loopkit.outside.processes import command_environment, run_command

async def main(program, turns):
    env = command_environment(extra={"HOLD": os.environ.get("HOLD", "")})
    command = run_command(
        [sys.executable, "-c", program, *sys.argv[3:]],
        cwd=None, env=env, stdin="x" * 300_000, timeout_s=60,
    )
    task = asyncio.create_task(command)
    for _ in range(turns):
        await asyncio.sleep(0)
    if (sign := os.environ.get("BUSY_UNTIL")) is None:
        time.sleep(0.5)
    while sign is not None and not os.path.exists(sign):
        time.sleep(0.01)
    for held in [Path(name + ".held") for name in sys.argv[3:4]]:
        while not held.exists():
            await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
"""Runs a command, is busy with something else after some turns of the loop, and is killed."""


def killed(program: str, *arguments: str, **more: str) -> int:
    argv = [sys.executable, "-c", KILLED, program, *arguments]
    env = {**os.environ, "HOLD": HOLD, **more}
    return subprocess.run(argv, env=env, timeout=240, check=False).returncode


@pytest.mark.parametrize("turns", range(6))
def test_a_command_gets_its_whole_stdin_or_is_not_started(turns: int, tmp_path: Path) -> None:
    got = tmp_path / "got"
    read = "import os, sys; open('GOT.new', 'w').write(str(len(sys.stdin.read())))"
    note = f"{read}; os.rename('GOT.new', 'GOT')".replace("GOT", str(got))
    # After two turns it was started, and notes what it got while its caller is busy.
    busy = {"BUSY_UNTIL": str(got)} if turns >= 2 else {}
    assert killed(note, str(turns), **busy) == -signal.SIGKILL
    assert got.exists() or not busy
    assert not got.exists() or got.read_text() == "300000"


@pytest.mark.parametrize("how", [[], ["stubborn"]], ids=" ".join)
def test_a_command_and_its_descendants_end_with_the_process_that_ran_them(
    how: list[str], tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    assert killed(PARENT, "1", str(lock), "stay", *how) == -signal.SIGKILL
    assert not alive(lock)


@pytest.fixture
def output() -> Iterator[int]:
    """The end of a pipe that a command gets."""
    reader, writer = os.pipe()
    yield writer
    os.close(reader)
    os.close(writer)


def test_a_command_ends_whose_process_was_killed_before_it_could_register_it(output: int) -> None:
    groups = Groups()
    with groups.start(output):
        sleeper = subprocess.Popen(["sleep", "600"], stdout=output, start_new_session=True)
        # As the end of this process would.
        groups.after_fork()
        assert sleeper.wait(SOON_S) == -signal.SIGKILL
    groups.after_fork()


def test_a_watcher_that_was_ended_is_replaced() -> None:
    groups = Groups()
    sleepers = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
    before = children()
    for sleeper in sleepers:
        with groups.start() as add:
            for watcher in children() - before:
                os.kill(watcher, signal.SIGKILL)
                os.waitid(os.P_PID, watcher, os.WEXITED)
            add(sleeper.pid)
    # As the end of this process would.
    groups.after_fork()
    assert [sleeper.wait(SOON_S) for sleeper in sleepers] == [-signal.SIGKILL] * 2


# What cannot be started


def refusal(argv: Sequence[str], **how: Any) -> CommandNotStarted:
    with pytest.raises(CommandNotStarted) as caught:
        run(argv, **how)
    return caught.value


def test_an_empty_command_is_refused() -> None:
    assert "command '' was not started: no folder on PATH has" in str(refusal([""]))


def test_an_unknown_program_is_refused_with_its_name_and_the_system_s_own_error() -> None:
    error = refusal(["no-such-program", "x"])
    assert str(error) == (
        "command 'no-such-program' was not started: "
        "no folder on PATH has an executable of that name; install it, or write its path"
    )
    assert isinstance(error.__cause__, OSError)


def test_no_command_starts_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    for folder in ("link", "link/inner"):
        assert "is a link now; put the folder back" in str(refusal(["ls"], cwd=tmp_path / folder))


@pytest.mark.parametrize(
    ("program", "cwd", "cause"),
    [
        ("./absent", "", "there is no such file; correct the path"),
        ("./file", "", "make the program executable (chmod +x)"),
        ("./folder", "", "permission denied"),
        ("./words", "", "name its interpreter in the command"),
        ("ls", "/no/such/folder", "its working folder '/no/such/folder' is not a folder"),
        ("ls", "file", "is not a folder; create or correct it"),
    ],
)
def test_what_is_no_program_or_no_folder_is_refused(
    tmp_path: Path, program: str, cwd: str, cause: str
) -> None:
    (tmp_path / "file").write_text("#!/bin/sh\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "words").write_text("echo hi\n")
    (tmp_path / "words").chmod(0o755)
    assert cause in str(refusal([program], cwd=tmp_path / cwd))


def test_a_file_on_the_path_that_is_not_executable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    error = refusal(["tool"], extra={"PATH": str(tmp_path)})
    assert "no folder on PATH has an executable of that name" in str(error)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_forbidden_folder_on_the_path_does_not_hide_the_cause(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    path = {"PATH": f"{tmp_path / 'closed'}:{os.environ['PATH']}"}
    assert "no folder on PATH" in str(refusal(["no-such-program"], extra=path))
    assert "pass long text" in str(refusal(["echo", "x" * 5_000_000], extra=path))


@pytest.mark.parametrize("program", ["./tool", "tool"])
def test_a_missing_interpreter_is_named_as_the_cause(tmp_path: Path, program: str) -> None:
    (tmp_path / "tool").write_text("#!/no/such/interpreter\n")
    (tmp_path / "tool").chmod(0o755)
    error = refusal([program], cwd=tmp_path, extra={"PATH": str(tmp_path)})
    assert "the interpreter in its first line does not exist" in str(error)


def test_arguments_that_are_too_long_are_refused_with_a_way_out() -> None:
    assert "pass long text through stdin or a file" in str(refusal(["echo", "x" * 5_000_000]))


def test_a_program_name_that_is_too_long_is_cut_in_the_message() -> None:
    error = refusal(["x" * 10_000])
    assert "File name too long" in str(error)
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("argv", "extra", "said"),
    [
        (["echo", "a\0b"], {}, "embedded null byte"),
        (["env"], {"A": "x\0"}, "embedded null byte"),
        (["env"], {"A=B": "x"}, "illegal environment variable name"),
    ],
)
def test_what_no_system_can_pass_on_is_refused(
    argv: list[str], extra: dict[str, str], said: str
) -> None:
    assert f"the system refused it ({said})" in str(refusal(argv, extra=extra))


def test_a_variable_that_cannot_be_encoded_is_refused() -> None:
    assert "the system refused it" in str(refusal(["env"], extra={"A": "\ud800"}))


def test_a_variable_that_is_not_utf_8_is_passed_on() -> None:
    code = "import os; print(os.environb[b'NAME'])"
    assert run(python(code), extra={"NAME": "caf\udce9"}).stdout == "b'caf\\xe9'\n"


# The environment


def test_the_environment_has_what_programs_need_and_nothing_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "TZ": "UTC", "VIRTUAL_ENV": "/v"}
    secret = {"OPENAI_API_KEY": "k", "LC_GITHUB_TOKEN": "t", "PATH_TOKEN": "t", "AWS_PROFILE": "p"}
    for name, value in {**needed, **secret}.items():
        monkeypatch.setenv(name, value)
    environment = command_environment()
    assert needed.items() <= environment.items()
    assert not secret.keys() & environment.keys()


def test_a_secret_is_passed_on_only_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a")
    monkeypatch.delenv("NOT_SET", raising=False)
    environment = command_environment(allow=["OPENAI_API_KEY", "NOT_SET"])
    assert environment["OPENAI_API_KEY"] == "k"
    assert not {"ANTHROPIC_API_KEY", "NOT_SET"} & environment.keys()


def test_extra_variables_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    assert command_environment(extra={"HOME": "/other"})["HOME"] == "/other"
