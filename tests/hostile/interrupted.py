"""A run that gets signals, and is resumed until it is over."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from loopkit.cli import main
from tests.hostile.called import CODES, called, run_id, undocumented
from tests.hostile.forked import fork, worked

Signals = Sequence[tuple[float, int]]
"""Each after so many seconds."""

SIGNALLED = CODES | {128 + signal.SIGINT, 128 + signal.SIGTERM}
ENDS_S = 120.0
"""How long a process may go on after the last signal, on a machine that is busy with others."""
RESUMES = 4


def interrupted(call: Sequence[str], signals: Signals, deadline_s: float) -> str:
    """What is wrong with how the run ended, or could be resumed."""
    before_s = worked()
    code, said = _signalled(call, signals)
    sent = ", ".join(f"{signal.Signals(number).name} after {s:.2f} s" for s, number in signals)
    if wrong := undocumented(code, said, SIGNALLED) or _resumed():
        return f"{sent}: {wrong}"
    if (spent_s := worked() - before_s) > deadline_s:
        return f"{sent}: it took {spent_s:.1f} s"
    return ""


def _signalled(call: Sequence[str], signals: Signals) -> tuple[int, str]:
    """The exit code and all that was printed; the code of a shell, where a signal ended it."""
    said = Path("said.txt")
    said.touch()
    reader, writer = os.pipe()
    process = fork(lambda: _run(call, said, writer))
    os.close(writer)
    # A fork has work to do before ours.
    os.read(reader, 1)
    os.close(reader)
    for after_s, number in signals:
        time.sleep(after_s)
        with suppress(ProcessLookupError):
            os.kill(process, number)
    ended, status = 0, 0
    ends = time.monotonic() + ENDS_S
    while not ended and time.monotonic() < ends:
        time.sleep(0.005)
        ended, status = os.waitpid(process, os.WNOHANG)
    if not ended:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    if not ended:
        return -1, f"it did not end within {ENDS_S:g} s"
    return 128 - code if code < 0 else code, said.read_text(encoding="utf-8", errors="replace")


def _run(call: Sequence[str], said: Path, begun: int) -> int:
    with said.open("wb") as out, Path(os.devnull).open("rb") as nothing:
        for number, file in enumerate((nothing, out, out)):
            os.dup2(file.fileno(), number)
    sys.argv = ["loopkit", *call]
    os.close(begun)
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 1


def _resumed() -> str:
    """Why the run does not come to its end, as the person brings it there who interrupted it."""
    for _ in range(RESUMES):
        _, status = called(["runs", "ls"])
        if "no runs" in status or " finished " in status:
            return ""
        next_ = ("answer", run_id(), "retry") if " waiting " in status else ("resume", run_id())
        if wrong := undocumented(*called(next_)):
            return f"{' '.join(next_)}: {wrong}"
    return f"after {RESUMES} resumes: {called(['runs', 'show', run_id()])}"
