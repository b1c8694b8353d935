"""The results of a batch: a line of JSON for each run that ended, the first one first."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from loopkit.cli.batch.lines import Line
from loopkit.drive.notify import outcome_of
from loopkit.engine.events import Usage
from loopkit.engine.records import Record, read_record
from loopkit.engine.state import RunState

LET_GO_S = 2.0
"""Seconds that are waited for the file. Of a process that was killed, a program that it was about
to start has it open for a moment longer."""


class Result(Record, frozen=True, kw_only=True):
    """The facts that a batch needs about a line that ended."""

    run: str
    digest: str
    """The digest of the line's input."""
    definition: str
    """Digest of the definition with which the run ended."""
    outcome: str | None
    """The final state; none where the run was cancelled."""
    success: bool | None
    usage: Usage


class UnfitResults(Exception):
    """A results file that is not this batch's; the message says why, and what to do."""


class Results:
    """The destination of results, and those that are there already."""

    def __init__(self, stream: BinaryIO, known: Mapping[str, Result]) -> None:
        self.known = known
        """The results that were there when the batch began, by run."""
        self._stream = stream

    def add(self, line: Line, state: RunState) -> None:
        """Write the result of a run that ended; raises NotWritten and BrokenPipeError."""
        told = {
            "line": line.number,
            "key": line.key,
            "digest": line.digest,
            "definition": state.definition,
            **outcome_of(state),
        }
        try:
            self._stream.write(json.dumps(told, ensure_ascii=False).encode() + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            lost = f"the result of line {line.number} can't be written: {error.strerror}"
            raise NotWritten(f"{lost}; it is in the journal: run the same command again") from error


class NotWritten(Exception):
    """A result that could not be written; nothing of its run is lost."""


@contextmanager
def open_results(path: Path | None, batch: str) -> Iterator[Results]:
    """The results of the batch of this name, in a file or on standard output.

    Raises UnfitResults and OSError.
    """
    if path is None:
        yield Results(sys.stdout.buffer, {})
        return
    if path.exists() and not path.is_file():
        raise UnfitResults(f"`{path}` is not a regular file; leave out `-o` for standard output")
    # Opened to append, so that nothing that is there is ever written over.
    with path.open("a+b") as stream:
        _lock(path, stream)
        yield Results(stream, _read_results(path, stream, batch))


def _lock(path: Path, stream: BinaryIO) -> None:
    """Keep others from writing the file; raises UnfitResults where somebody writes it."""
    until = time.monotonic() + LET_GO_S
    while True:
        try:
            return fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                busy = f"another process is writing `{path}`; wait until it ends"
                raise UnfitResults(busy) from error
            time.sleep(LET_GO_S / 100)


def _read_results(path: Path, stream: BinaryIO, batch: str) -> dict[str, Result]:
    """The results in a file. A last line that was cut off while it was written is removed."""
    known: dict[str, Result] = {}
    stream.seek(0)
    for number, raw in enumerate(stream, 1):
        if not raw.endswith(b"\n"):
            # Its run has ended, so that it is written again from the journal.
            os.ftruncate(stream.fileno(), stream.tell() - len(raw))
            break
        result = _result(path, number, raw)
        if not result.run.startswith(f"{batch}-"):
            raise _unfit(path, number, "is the result of another batch")
        known[result.run] = result
    return known


def _result(path: Path, number: int, raw: bytes) -> Result:
    try:
        return read_record(Result, raw)
    except (ValueError, RecursionError) as error:
        raise _unfit(path, number, "is not the result of a batch") from error


def _unfit(path: Path, number: int, what: str) -> UnfitResults:
    return UnfitResults(f"{path}:{number} {what}; name another file with `-o`")
