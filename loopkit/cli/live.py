"""The live view: what happens scrolls, and the last line of the terminal says where the run stands.

The line is drawn with the cursor put back to its beginning. So it can be erased whatever the
terminal has done to it since, and a process that dies at any instant leaves nothing to restore.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from loopkit.cli.watching import ERASE, PlainLines
from loopkit.drive.stored_runs import Stored
from loopkit.text import printable
from loopkit.text.run_ids import is_child
from loopkit.views.console import Line
from loopkit.views.steps import LineTone

TICK_S = 0.25
UNBROKEN, BROKEN = "\x1b[?7l", "\x1b[?7h"
"""Whether the terminal breaks lines: it may count the cells of a character otherwise than we do."""
STYLES: dict[LineTone, str] = {
    "plain": "", "good": "green", "bad": "red", "odd": "yellow", "faint": "dim",
}  # fmt: skip
MARK = "▸ "
BULLET = "- "
DEFAULT_WIDTH = 80
LEAST_ROOM = 20
"""Columns; where a text has less, the terminal may break it."""


class LiveLines(PlainLines):
    erased = f"{BROKEN}{ERASE}"

    def __init__(self, terminal: TextIO) -> None:
        super().__init__()
        self._terminal = terminal
        self._console = Console(file=terminal, force_terminal=True, highlight=False)
        self._drawn = ""
        self._is_live = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell(self, run: str, stored: Stored) -> None:
        lines = self._progress.few_lines(run, stored)
        rows = [row for line in lines for row in self._rows(line)]
        self._progress.take(run, stored)
        # Many children cause many events, so the line is only redrawn by the clock for them.
        if rows or not is_child(run):
            self._write(rows)

    def say_in_signal(self, text: str) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._write, [Text(text)])

    @contextmanager
    def running(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        ticking = self._loop.create_task(self._tick())
        self._is_live = True
        try:
            yield
        finally:
            ticking.cancel()
            self._hide()

    @contextmanager
    def pause(self) -> Iterator[None]:
        was_live = self._is_live
        self._hide()
        try:
            yield
        finally:
            self._is_live = was_live

    async def _tick(self) -> None:
        while True:
            if self._is_live and self._status() != self._drawn:
                self._write([])
            await asyncio.sleep(TICK_S)

    def _hide(self) -> None:
        self._is_live = False
        self._write([])

    def _write(self, rows: list[Text]) -> None:
        """Erase the status, print lines, draw it again: in one write, so that nothing flickers."""
        erased = ERASE if self._drawn else ""
        with self._console.capture() as captured:
            for row in rows:
                self._console.print(row, soft_wrap=True)
        self._drawn = self._status() if self._is_live else ""
        self._terminal.write(f"{erased}{captured.get()}{self._drawn}")
        self._terminal.flush()

    def _rows(self, line: Line) -> list[Text]:
        """A line with its tone, broken between words and indented to where its text begins."""
        before = _safe(line.before)
        body = Text.assemble((_safe(line.word), STYLES[line.tone]), _safe(line.after))
        mark = BULLET if body.plain.startswith(BULLET) else ""
        room = _width(self._terminal) - cell_len(before + mark)
        if room < LEAST_ROOM:
            return [Text(before) + body]
        rows = body[len(mark) :].wrap(self._console, room)
        heads = [before + mark] + [" " * cell_len(before + mark)] * (len(rows) - 1)
        return [Text(head) + row for head, row in zip(heads, rows, strict=True)]

    def _status(self) -> str:
        room = _width(self._terminal) - 1
        line = Text(MARK + self._progress.status(time.time()), style="cyan")
        line.truncate(room, overflow="ellipsis")
        with self._console.capture() as captured:
            self._console.print(line, end="\r", soft_wrap=True)
        return f"{UNBROKEN}{captured.get()}{BROKEN}"


def _safe(text: str) -> str:
    return " ".join(printable(text).splitlines())


def _width(terminal: TextIO) -> int:
    """The columns of a terminal, asked each time, because a window may change."""
    try:
        columns = os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        columns = 0
    return columns or DEFAULT_WIDTH
