"""Mistakes of templates: what is wrong and where, and the meter that ends a rendering.

The meter counts work, not time: the same template always ends the same way. One unit is some 30 ns,
so a rendering ends within about a second. Operators and filters spend for what they read and twice
for what they make, which bounds the memory too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

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


@dataclass(eq=False)
class Refusal(Exception):
    """A mistake whose place is not known yet."""

    message: str
    help: str = ""
    code: str = "template-limit"


def error_at(what: Refusal, text: str, line: int, words: str = "") -> TemplateError:
    """The error at the last of the dotted `words` in line `line` of `text`.

    Jinja knows lines only: of words that the line has twice, the first inside `{{ }}` or `{% %}`
    is taken; without them the place is the line.
    """
    rows = _LINE_END.split(text)
    line = min(max(line, 1), len(rows))
    column, length = _columns(rows[line - 1], words)
    return TemplateError(what.code, what.message, line, column, length, what.help)


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
MAX_WORK = 16_000_000
NODE = 24
"""Units for one item of data, or one part of a template that is passed."""


class _Meter:
    iterations = MAX_ITERATIONS
    work = MAX_WORK


_current: ContextVar[_Meter] = ContextVar("meter of the rendering")


@contextmanager
def fresh_budget() -> Iterator[None]:
    """Give the code that runs inside a full budget of its own."""
    token = _current.set(_Meter())
    try:
        yield
    finally:
        _current.reset(token)


def spend(units: int) -> None:
    """Take `units` of work from the rendering's budget; raise Refusal where it has less."""
    meter = _current.get()
    meter.work -= max(0, units)
    if meter.work < 0:
        raise Refusal("the template does too much work", "loop over less, or print less")


def step(parts: int) -> bool:
    """Count one more round of a loop with `parts` in its body; true, so that tests can hold it."""
    meter = _current.get()
    meter.iterations -= 1
    if meter.iterations < 0:
        raise Refusal(f"the template loops more than {MAX_ITERATIONS:,} times", "loop over less")
    spend(NODE + parts)
    return True


def shallow_units(value: object) -> int:
    """The units for reading `value` without what its items hold."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, Mapping, range)):
        return NODE + NODE * len(value)
    return NODE


def deep_units(value: object) -> int:
    """The units for reading all of `value`, which may hold one thing exponentially often.

    Stops when there are more than the rendering has budget.
    """
    units, waiting, budget = 0, [value], _current.get().work
    while waiting and units <= budget:
        item = waiting.pop()
        if isinstance(item, str):
            units += len(item)
        elif isinstance(item, Mapping):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
        elif isinstance(item, range):
            units += NODE * len(item)
        units += NODE
    return units
