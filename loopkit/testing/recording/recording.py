"""A run → a case in a scenario file, played once to check that it gives the same events."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

from loopkit.document import NotWritable, replace_file
from loopkit.document.problems import ProblemsFound
from loopkit.language import Machine
from loopkit.machine.program import Program
from loopkit.outside.redaction import Redact, redactor
from loopkit.testing.family import FamilyRun
from loopkit.testing.judging import run_case
from loopkit.testing.playing import play
from loopkit.testing.recording.case import NotRecordable, make_case
from loopkit.testing.recording.target import Target
from loopkit.testing.run_comparison import Difference, family_difference
from loopkit.testing.suites import SUFFIX, Machines, Suite, load_suite
from loopkit.text import one_line

Playing = TypeVar("Playing")
_IN_ADDRESS = re.compile(r"(?<=://)[^\s/@\"'`]+@")
_BEARER = re.compile(r"\b(Bearer|Basic) +[A-Za-z0-9._~+/=-]{8,}")


@dataclass(frozen=True)
class Recording:
    """A case that was written."""

    path: Path
    case: str
    difference: Difference | None
    """Where its replay differs from the run, if it does."""
    notes: tuple[str, ...] = ()
    """What no case can play of the run."""
    is_repaired: bool = False
    """Whether the run had several definitions: its case plays it with the last of them."""


def record(
    target: Target, program: Program, run: FamilyRun, machines: Machines | None = None
) -> Recording:
    """Write the case of a run into its file; raises NotRecordable, and then nothing is written.

    A replay that differs is written all the same, with a comment that says where. To record many
    runs, pass the same `machines` each time, so that each machine is checked once.
    """
    machines = machines or Machines()
    redact = _redactor_for(program.machine)
    state = run.state
    name = target.case_of(state.run)
    if state.repairs:
        return _record_repaired(target, program, run, redact, machines)
    case, notes = make_case(program, run, redact)
    comments = [f"Recorded from run {state.run}.", *(f"Not played: {note}." for note in notes)]
    text = target.text(name, case, comments)
    replayed = _play_beside(target.path, text, lambda suite: play(suite, name), machines)
    found = family_difference(run, replayed, redact)
    if found is not None:
        comments.append(one_line(f"Its replay differs in {found}", 200))
        text = target.text(name, case, comments)
    _write(target.path, text)
    return Recording(target.path, name, found, tuple(notes))


def _record_repaired(
    target: Target, program: Program, run: FamilyRun, redact: Redact, machines: Machines
) -> Recording:
    """The case of a repaired run, which has to pass with the machine as it is now.

    The reason for the repair may stop the case as well, such as an unavailable model, or not, such
    as an exit code that had no meaning.
    """
    state, reason = run.state, ""
    name = target.case_of(state.run)
    for stops_again in (True, False):
        case, notes = make_case(program, run, redact, stops_again=stops_again)
        comments = [
            f"Recorded from run {state.run}, which was repaired, for the machine as it is now.",
            *(f"Not played: {note}." for note in notes),
        ]
        text = target.text(name, case, comments)
        result = _play_beside(target.path, text, lambda suite: run_case(suite, name), machines)
        if result.passed:
            _write(target.path, text)
            return Recording(target.path, name, None, tuple(notes), is_repaired=True)
        reason = reason or one_line(result.failures[0].problem.message, 200)
    raise NotRecordable(
        f"run `{state.run}` was repaired, and with the machine as it is now, its replies "
        f"lead to another path: {reason}; start a new run with this machine, and record that"
    )


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text)
    except NotWritable as error:
        raise NotRecordable(str(error)) from error


def _play_beside(
    path: Path, text: str, playing: Callable[[Suite], Playing], machines: Machines
) -> Playing:
    """Play a text in place of a file, and return the result; raises NotRecordable."""
    try:
        with _beside(path, text) as written:
            return playing(load_suite(written, machines))
    except ProblemsFound as found:
        messages = "; ".join(problem.message for problem in found.problems[:3])
        raise NotRecordable(f"no case of `{path}` can play this run: {messages}") from found
    except OSError as error:
        raise NotRecordable(f"`{path}` can't be written: {error.strerror}") from error


@contextmanager
def _beside(path: Path, text: str) -> Iterator[Path]:
    """A file with the text in the folder of `path`, because its paths start there."""
    folder = path.resolve().parent
    with NamedTemporaryFile("w", dir=folder, prefix=".", suffix=SUFFIX, encoding="utf-8") as file:
        file.write(text)
        file.flush()
        yield Path(file.name)


def _redactor_for(machine: Machine) -> Redact:
    """A function that removes the environment's secrets, and the credentials in addresses."""
    redact = redactor(os.environ, machine.key_names)

    def clean(text: str) -> str:
        return _BEARER.sub(r"\1 [credentials]", _IN_ADDRESS.sub("[credentials]@", redact(text)))

    return clean
