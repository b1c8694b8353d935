"""Mistakes of templates: what is wrong and where, and the budget that ends a rendering's loops."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

_LINE_END = re.compile(r"\r\n|\r|\n")
_INSIDE = re.compile(r"\{[{%].*?(?:[}%]\}|$)")


@dataclass(eq=False)
class TemplateError(Exception):
    """A mistake in a template's text, or in the data that it was given."""

    code: str
    message: str
    line: int = 1
    """Line and column count from 1, in characters of the template's text."""
    column: int = 1
    length: int = 1
    help: str = ""

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"

    def at(self, text: str, line: int, words: str = "") -> TemplateError:
        """The same at the last of the dotted `words` in line `line` of `text`.

        Jinja knows lines only: of words that the line has twice, the first inside `{{ }}` or
        `{% %}` is taken; without them the place is the line.
        """
        rows = _LINE_END.split(text)
        line = min(max(line, 1), len(rows))
        column, length = _columns(rows[line - 1], words)
        return replace(self, line=line, column=column, length=length)


def limit(message: str, remedy: str) -> TemplateError:
    return TemplateError("template-limit", message, help=remedy)


def _columns(row: str, words: str) -> tuple[int, int]:
    regions = [*(match.span() for match in _INSIDE.finditer(row)), (0, len(row))]
    for pattern in _patterns(words):
        for start, end in regions:
            match = pattern.search(row, start, end)
            if match:
                return match.start(1) + 1, max(1, match.end(1) - match.start(1))
    shown = row.strip()
    return len(row) - len(row.lstrip()) + 1 if shown else 1, max(1, len(shown))


def _patterns(words: str) -> Iterator[re.Pattern[str]]:
    """How the words may be written: as they are, the last one as a field, or anywhere."""
    if not words:
        return
    *before, last = words.split(".")
    path = "".join(rf"{re.escape(word)}\s*\.\s*" for word in before)
    yield re.compile(rf"(?<![\w.]){path}({re.escape(last)})(?!\w)")
    yield re.compile(rf"(?:\.\s*|[\[=(]\s*[\"'])({re.escape(last)})(?!\w)")
    yield re.compile(rf"({re.escape(last)})")


MAX_ITERATIONS = 100_000
MAX_LOOPS_S = 5.0
"""The CPU time that the loops of one rendering may take, in seconds."""


class _Budget:
    def __init__(self) -> None:
        self.iterations = MAX_ITERATIONS
        self.ends_s = time.thread_time() + MAX_LOOPS_S


_current: ContextVar[_Budget] = ContextVar("budget of the rendering")


@contextmanager
def fresh_budget() -> Iterator[None]:
    """Give the code that runs inside a full budget of its own."""
    token = _current.set(_Budget())
    try:
        yield
    finally:
        _current.reset(token)


def count_rounds(values: Iterable[object]) -> Iterator[object]:
    """The values, each a round of a loop; raises TemplateError where the budget ends."""
    budget = _current.get()
    for value in values:
        budget.iterations -= 1
        if budget.iterations < 0:
            raise limit(f"the template loops more than {MAX_ITERATIONS:,} times", "loop over less")
        if time.thread_time() > budget.ends_s:
            raise limit(f"the template loops for more than {MAX_LOOPS_S:g} s", "loop over less")
        yield value
