"""A run → a case in a scenario file, played once to see that it comes to the same events."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from loopkit.document import NotWritable, replace_file
from loopkit.document.problems import ProblemsFound
from loopkit.drive.active import Stored
from loopkit.engine.state import fold
from loopkit.language import Machine
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redactor
from loopkit.testing.playing import play
from loopkit.testing.recording.case import NotRecordable, make_case
from loopkit.testing.recording.target import Target
from loopkit.testing.run_comparison import Difference, difference
from loopkit.testing.suites import SUFFIX, load_suite
from loopkit.text import one_line

_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'`]+@")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}")


@dataclass(frozen=True)
class Recording:
    """A case that was written."""

    path: Path
    case: str
    difference: Difference | None
    """Where its replay parts from the run, if it does."""
    notes: tuple[str, ...] = ()
    """What of the run no case can play."""


def record(target: Target, program: Program, events: Sequence[Stored]) -> Recording:
    """Write the case of a run into its file; raises NotRecordable, and then nothing is written.

    A replay that differs is written all the same, with a comment that says where.
    """
    redact = _redactor_for(program.machine)
    state = fold(stored.event for stored in events)
    name = target.name or state.run
    case, notes = make_case(program, events, redact)
    comments = [f"Recorded from run {state.run}.", *(f"Not played: {note}." for note in notes)]
    text = target.text(name, case, comments)
    parted = _difference(target.path, text, name, events, redact)
    if parted is not None:
        comments.append(one_line(f"Its replay differs in {parted}", 200))
        text = target.text(name, case, comments)
    try:
        replace_file(target.path, text)
    except NotWritable as error:
        raise NotRecordable(str(error)) from error
    return Recording(target.path, name, parted, tuple(notes))


def _difference(
    path: Path, text: str, name: str, events: Sequence[Stored], redact: Redact
) -> Difference | None:
    try:
        with _beside(path, text) as written:
            replayed = play(load_suite(written), name)
    except ProblemsFound as found:
        told = "; ".join(problem.message for problem in found.problems[:3])
        raise NotRecordable(f"no case of `{path}` can play this run: {told}") from found
    except OSError as error:
        raise NotRecordable(f"`{path}` can't be written: {error.strerror}") from error
    return difference(_plain(events), _plain(replayed.events), redact)


@contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """A file with the text in the folder where it will be, because its paths start there."""
    folder = path.resolve().parent
    with NamedTemporaryFile("w", dir=folder, prefix=".", suffix=SUFFIX, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def _plain(events: Sequence[Stored]) -> list[Any]:
    return [stored.event for stored in events]


def _redactor_for(machine: Machine) -> Redact:
    """A function that takes the environment's secrets, and credentials of addresses, out."""
    redact = redactor(os.environ, machine.key_names)

    def cleaned(text: str) -> str:
        return _BEARER.sub(r"\1 [credentials]", _IN_ADDRESS.sub("[credentials]@", redact(text)))

    return cleaned
