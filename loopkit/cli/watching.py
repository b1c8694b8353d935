"""Watchers of a run at the command line: nobody, a program that reads events, or a person."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from loopkit.cli.terminal import echo
from loopkit.drive.active import Listener
from loopkit.drive.stored_runs import Stored
from loopkit.views.console import FamilyProgress, event_line

STDERR = 2
REST = "\x1b[J"
"""Erases the text behind the cursor. Right at the beginning of a screen, it would be one more in
the history of some terminals."""
ERASE = f"\r{REST}"
"""To the beginning of the line, and everything behind it away: all rows of a line that a narrower
window has broken."""
OUTPUTS = ("auto", "plain", "jsonl", "quiet")


class Watcher:
    """Shows nothing of a run; the subclasses show each event as soon as it is durable."""

    erased = "\n"
    """The codes after which a last line may be written to the terminal."""
    fault: OSError | None = None
    """Why standard output takes no more of the run, which goes on all the same."""

    def listeners_of(self, run: str) -> Sequence[Listener]:
        """The listeners of a run, which may be a child of the driven one."""
        return [partial(self.tell, run)]

    def tell(self, run: str, stored: Stored) -> None:
        """Show an event."""

    def begin(self, run: str, events: Iterable[Stored]) -> None:
        """Note the earlier events of a run, whether they were shown or not."""

    def say_in_signal(self, text: str) -> None:
        """Show a line from within a signal handler, which must not wait for any lock."""
        # Nobody may be there to read it, or the line that was interrupted was being written: an
        # error here would end the step that is to be finished.
        with suppress(OSError, RuntimeError, AttributeError):
            sys.stderr.write(f"\n{text}\n")

    def say_at_the_end(self, text: str) -> None:
        """Show the last line of a process that ends within a signal handler."""
        # Past all buffers, which may be what was interrupted; and only where nobody has to be
        # waited for. A closed stream is None, and its number may be that of another file.
        with suppress(OSError):
            if sys.stderr is not None and select.select([], [STDERR], [], 0)[1]:
                os.write(STDERR, f"{self.erased}{text}\n".encode())

    @contextmanager
    def running(self) -> Iterator[None]:
        yield

    @contextmanager
    def pause(self) -> Iterator[None]:
        """While the terminal belongs to the person who is asked."""
        yield


class Events(Watcher):
    def tell(self, run: str, stored: Stored) -> None:
        if self.fault is None:
            try:
                echo(event_line(run, stored))
            except OSError as error:
                self.fault = error


class PlainLines(Watcher):
    def __init__(self) -> None:
        self._progress = FamilyProgress()

    def begin(self, run: str, events: Iterable[Stored]) -> None:
        self._progress.begin(run, events)

    def tell(self, run: str, stored: Stored) -> None:
        for line in self._progress.lines(run, stored):
            echo(line.text, err=True)
        self._progress.take(run, stored)


def is_watched() -> bool:
    """Whether standard error is a terminal that can redraw a line, and no log of a CI job."""
    # A closed stream is None.
    if sys.stderr is None or not sys.stderr.isatty():
        return False
    is_able = os.environ.get("TERM", "") not in ("", "dumb")
    is_unicode = (sys.stderr.encoding or "").lower().startswith("utf")
    return is_able and is_unicode and os.environ.get("CI", "") in ("", "0", "false")
