"""A YAML document in memory: values, and the place of every key and every value.

Plain scalars follow the core schema of YAML 1.2: `yes`, `on`, `2001-01-01`, `1_000` and `1:30` are
text, `012` is twelve. Numbers that no JSON can carry (infinite, not a number, beyond 64 bits) are
refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from loopkit.document.problems import LINE_BREAK, Problem, Severity, Span
from loopkit.values import Value

Style = Literal["plain", "single", "double", "literal", "folded", "flow", "block"]
Path = Sequence[str | int]
DocPath = tuple[str | int, ...]
"""The keys and indexes that lead to a value of a document."""
Also = tuple[tuple[str, Span], ...]


class Entry(Value, frozen=True):
    """One field of a mapping: the place of its key, and its value."""

    key: Span
    node: Node


Scalar = str | int | float | bool | None


class Node(Value, frozen=True):
    """A value and where it is written."""

    span: Span
    """From its first character to behind its last, without an anchor."""
    value: Scalar | tuple[Node, ...] | Mapping[str, Entry]
    used_at: Span | None
    """Where an alias or a merge key brings it in from `span`, if one does."""
    style: Style
    raw: str = ""
    """The text of a scalar, before `1.10` was taken for a number; "" of anything else."""

    @property
    def is_unwritten(self) -> bool:
        """Whether nothing stands behind the key."""
        return self.style == "plain" and self.value is None and not self.raw


class Document(Value, frozen=True, dict=True):
    """One file: its text without a byte order mark, and the tree of its values.

    A path is a sequence of field names and list indexes from the root: `("states", "draft")`.
    """

    file: str
    text: str
    root: Node

    @cached_property
    def _rows(self) -> list[str]:
        return LINE_BREAK.split(self.text)

    def plain(self) -> Any:
        """The values alone, as in JSON, nothing shared."""
        return _plain(self.root)

    def as_written(self, path: Path) -> tuple[str | int, ...]:
        """The path without the indexes of lists that are written as their only item."""
        kept: tuple[str | int, ...] = ()
        for part in path:
            holder = self.node(kept) if isinstance(part, int) else None
            if not isinstance(part, int) or (holder and isinstance(holder.value, tuple)):
                kept = (*kept, part)
        return kept

    def node(self, path: Path) -> Node | None:
        """The value at `path`, or None where there is none."""
        steps = self._steps(path)
        return steps[-1][1] if len(steps) == len(path) + 1 else None

    def span(self, path: Path, *, key: bool = False) -> Span:
        """The place of the value at `path`, or of its key.

        Where the path does not exist, it is the place of its deepest part that does. An item of
        a list and the root have no key; their value stands for it. The key stands for a value
        that is not written where the next line begins: that is another's.
        """
        its_key, node = self._steps(path)[-1]
        if its_key is None:
            return node.span
        is_elsewhere = node.is_unwritten and node.span.line != its_key.line
        return its_key if key or is_elsewhere else node.span

    def places(self, path: Path, *, key: bool = False) -> tuple[Span, Also]:
        """The place as `span` does, and the further places of a `Problem`.

        Those are the aliases and merge keys that bring the value to `path`.
        """
        uses = dict.fromkeys(node.used_at for _, node in self._steps(path))
        return self.span(path, key=key), tuple(("used here", use) for use in uses if use)

    def problem(
        self, path: Path, code: str, message: str, remedy: str = "", *,
        key: bool = False, severity: Severity = "error",
    ) -> Problem:  # fmt: skip
        span, also = self.places(path, key=key)
        return Problem(code, message, span, ".".join(map(str, path)), remedy, severity, also)

    def inside(self, path: Path, line: int, column: int, length: int) -> Span:
        """The place in the file of a piece of the text at `path`.

        `line` and `column` count from 1 in the text. Exact for literal block scalars, and for text
        on one line without escapes; of any other value the whole place is returned.
        """
        node = self.node(path)
        is_here = node is not None and node.span.file == self.file
        written = self._locate_line(node, line) if node and is_here else None
        if node is None or written is None:
            return self.span(path)
        at, before, available = written
        start = min(max(column - 1, 0), available)
        end = min(start + max(length, 0), available)
        return Span(self.file, at, before + start + 1, at, before + end + 1)

    def _locate_line(self, node: Node, line: int) -> tuple[int, int, int] | None:
        """The line, the columns before the text on it, and the text's length."""
        if not isinstance(node.value, str):
            return None
        literal = node.style == "literal"
        texts = node.value.removesuffix("\n").split("\n") if literal else [node.value]
        at = node.span.line + (line if literal else 0)
        rows = self._rows
        if not (1 <= line <= len(texts) and at <= len(rows)):
            return None
        text, row = texts[line - 1], rows[at - 1]
        before = node.span.column - (1 if node.style == "plain" else 0)
        before = len(row) - len(text) if literal else before
        return (at, before, len(text)) if row[before : before + len(text)] == text else None

    def _steps(self, path: Path) -> list[tuple[Span | None, Node]]:
        steps: list[tuple[Span | None, Node]] = [(None, self.root)]
        for part in path:
            value = steps[-1][1].value
            if isinstance(value, Mapping) and isinstance(part, str) and part in value:
                steps.append((value[part].key, value[part].node))
            elif isinstance(value, tuple) and isinstance(part, int) and 0 <= part < len(value):
                steps.append((None, value[part]))
            else:
                break
        return steps


def _plain(node: Node) -> Any:
    if isinstance(node.value, Mapping):
        return {name: _plain(entry.node) for name, entry in node.value.items()}
    if isinstance(node.value, tuple):
        return [_plain(item) for item in node.value]
    return node.value


def looks_like_unquoted_colon(node: Node) -> str | None:
    """The text that was meant, where a colon in it made YAML see a mapping.

    `- The plan: has a colon` is a mapping of one plain field.
    """
    if node.style != "block" or not isinstance(node.value, Mapping) or len(node.value) != 1:
        return None
    ((name, entry),) = node.value.items()
    key, value = entry.key, entry.node
    unquoted = key.end_column - key.column == len(name) and value.style == "plain"
    one_line = key.line == value.span.line == value.span.end_line
    return f"{name}: {value.raw}".rstrip() if unquoted and one_line else None


_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMERIC_START = frozenset("+-.0123456789")
_INTEGERS = ((r"[-+]?[0-9]+", 10), (r"0o[0-7]+", 8), (r"0x[0-9a-fA-F]+", 16))
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
# More than 64 bits can need; Python itself refuses to convert thousands.
_DIGITS = 24
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class UnusableNumber(ValueError):
    """A number that YAML has and JSON has not; the text says which kind."""


def resolve(text: str) -> Scalar:
    """The value of the plain scalar `text`.

    Raises `UnusableNumber` where that is a number outside the range of data.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    return _number(text) if text[0] in _NUMERIC_START else text


def _number(text: str) -> str | int | float:
    for digits, base in _INTEGERS:
        if re.fullmatch(digits, text):
            is_long = len(text.lstrip("+-0ox")) > _DIGITS
            if is_long or not _SMALLEST <= int(text, base) <= _LARGEST:
                raise UnusableNumber("does not fit into 64 bits")
            return int(text, base)
    if _NOT_FINITE.fullmatch(text):
        raise UnusableNumber("is not a finite number")
    if not _FLOAT.fullmatch(text):
        return text
    if math.isinf(number := float(text)):
        raise UnusableNumber("is too large for a number")
    return number
