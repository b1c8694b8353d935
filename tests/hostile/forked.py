"""Jobs in a forked process that is killed where one takes too long."""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import struct
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

WALL_S = 240.0
"""How long a job may take on a machine that is busy with others."""
HEADER = struct.Struct("!I")

HANGS, ENDED = object(), object()

Job = Callable[[], Any]


@dataclass(frozen=True)
class Outcome:
    """How one job went."""

    value: Any = None
    fault: str = ""
    """Why there is no value."""
    work_s: float = 0.0
    """Time of the processor, the programs that it started included."""


def forked(jobs: Sequence[Job], deadline_s: float) -> Iterator[Outcome]:
    """What comes of each job, in order; after one that fails the rest gets a process of its own."""
    done = 0
    while done < len(jobs):
        reader, process = _fork(jobs[done:], deadline_s)
        with os.fdopen(reader, "rb", buffering=0) as told:
            outcome = _told(told.fileno())
            while isinstance(outcome, Outcome):
                yield outcome
                done += 1
                outcome = _told(told.fileno())
        ended = _end(process, hangs=outcome is HANGS)
        if done < len(jobs):
            yield Outcome(fault=ended, work_s=deadline_s)
            done += 1


def within(deadline_s: float, job: Job) -> Any:
    """The value of one job, which has to come in so many seconds of work."""
    [outcome] = forked([job], deadline_s)
    assert not outcome.fault, outcome.fault
    return outcome.value


def fork(work: Callable[[], int]) -> int:
    """Start a process that does this work and nothing else of the parent's; its number."""
    with warnings.catch_warnings():
        # pytest has threads; what is forked here uses none of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        code = 1
        try:
            code = work()
        finally:
            # Whatever happens, nothing of the parent's is run here.
            os._exit(code)
    return process


def _fork(jobs: Sequence[Job], deadline_s: float) -> tuple[int, int]:
    reader, writer = os.pipe()

    def work() -> int:
        os.close(reader)
        _work(jobs, deadline_s, writer)
        return 0

    process = fork(work)
    os.close(writer)
    return reader, process


def _work(jobs: Sequence[Job], deadline_s: float, writer: int) -> None:
    os.setpgid(0, 0)
    # Counts work of this process, and ends it wherever it is, in C as well.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    for job in jobs:
        signal.setitimer(signal.ITIMER_PROF, deadline_s)
        before = worked()
        try:
            outcome = Outcome(job(), work_s=worked() - before)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
            outcome = Outcome(fault=traceback.format_exc(), work_s=worked() - before)
        signal.setitimer(signal.ITIMER_PROF, 0)
        data = pickle.dumps(outcome)
        os.write(writer, HEADER.pack(len(data)))
        view = memoryview(data)
        while view:
            view = view[os.write(writer, view) :]


def worked() -> float:
    """Time of the processor that this process took, and all that it started and waited for."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def _told(descriptor: int) -> Outcome | object:
    """The next outcome, or what there is instead where the process ended or hangs."""
    ends = time.monotonic() + WALL_S
    header = _read(descriptor, HEADER.size, ends)
    data = _read(descriptor, HEADER.unpack(header)[0], ends) if header else header
    return pickle.loads(data) if data else HANGS if data is None else ENDED


def _read(descriptor: int, size: int, ends: float) -> bytes | None:
    """So many bytes; none of them at the end, and nothing where they do not come in time."""
    data = b""
    while len(data) < size:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, ends - time.monotonic()))
        if not ready:
            return None
        piece = os.read(descriptor, size - len(data))
        if not piece:
            return b""
        data += piece
    return data


def _end(process: int, *, hangs: bool) -> str:
    """Wait for the process, or end it with all that it started; what it ended by."""
    if hangs:
        os.killpg(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if hangs:
        return f"it hung for {WALL_S:g} s"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
        return "it worked longer than it may"
    return f"its process ended with status {status}"
