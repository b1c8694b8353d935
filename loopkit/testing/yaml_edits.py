"""Edits of YAML text: new values are put in, and everything around them is unchanged.

No command uses it at present: it is kept for files that loopkit writes into while a person edits
them, such as plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from loopkit.document.document import DocPath, Document, Node
from loopkit.document.writing import inline, to_yaml
from loopkit.scenario.cases import GAPS

WIDTH = 100

Names = Sequence[str]


class NotWritten(Exception):
    """A value can't be changed in place; the message says why."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A piece of the text, by its offsets, and its replacement."""

    start: int
    end: int
    text: str


class YamlEditor:
    """Makes the edits for new values in one document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._rows = document.text.splitlines(keepends=True)
        self._starts = [0]
        for row in self._rows:
            self._starts.append(self._starts[-1] + len(row))

    def edits(self, path: DocPath, value: Any) -> Iterator[Edit]:
        """The edits that put a value at a path; raises NotWritten."""
        written = self._document.as_written(path)
        node = self._document.node(written)
        if node is None:
            raise NotWritten("it is not in the file")
        _, uses = self._document.places(written)
        if uses:
            raise NotWritten("it comes from an alias or a merge key")
        listed = isinstance(node.value, tuple) and isinstance(value, list)
        if listed and node.style == "block" and value:
            yield from self._block_list(node, value)
        else:
            yield self._replacement(node, value)

    def fill_mapping(self, path: DocPath, value: dict[str, Any]) -> Edit:
        """The edit that gives a key without a value, or with an empty one, a mapping.

        Raises NotWritten.
        """
        node, key = self._document.node(path), self._document.span(path, key=True)
        holder = self._document.node(path[:-1])
        if node is None or holder is None or node.used_at is not None or node.value:
            raise NotWritten("it is not an empty value")
        # A value that is not written at all belongs somewhere after the colon.
        behind_key = self._starts[key.end_line - 1] + key.end_column - 1
        start = self._document.text.index(":", behind_key) + 1
        written_out = self._text(node).strip()
        end = self._offsets(node)[1] if written_out else start
        if holder.style == "flow":
            return Edit(start, end, f" {inline(value)}")
        body = to_yaml(value, key.column + 1).rstrip("\n")
        return Edit(start, end, "\n" + body)

    def _replacement(self, node: Node, value: Any) -> Edit:
        start, end = self._offsets(node)
        before = self._document.text[start:end]
        if isinstance(node.value, tuple) and "\n" in before and "#" in before:
            raise NotWritten("there are comments inside of it")
        return Edit(start, end, self._yaml_text(node, value))

    def _yaml_text(self, node: Node, value: Any) -> str:
        column = node.span.column - 1
        if isinstance(value, list):
            return self._flow(self._items(node, value), column)
        if isinstance(value, str) and node.style in ("literal", "folded"):
            indent = len(self._row(node)) - len(self._row(node).lstrip())
            block = to_yaml({"x": value if value.endswith("\n") else f"{value}\n"}, indent)
            return block.removeprefix(" " * indent).removeprefix("x: ").removesuffix("\n")
        if isinstance(value, str) and node.style == "single" and value.isprintable():
            doubled = value.replace("'", "''")
            return f"'{doubled}'"
        if isinstance(value, str) and node.style == "double":
            # A character that has to be escaped keeps the quotes; only that one is removed again.
            return inline(f"{value}\0").removesuffix('\\u0000"') + '"'
        return inline(value)

    def _flow(self, items: Names, column: int) -> str:
        lines, line = [], "["
        for index, item in enumerate(items):
            part = item + ("]" if index == len(items) - 1 else ",")
            is_first = line in ("[", " ")
            if not is_first and column + len(line) + 1 + len(part) > WIDTH:
                lines.append(line)
                line = " "
                is_first = True
            line += part if is_first else f" {part}"
        return ("\n" + " " * column).join([*lines, line if items else "[]"])

    def _items(self, node: Node, names: Names) -> list[str]:
        """The names as they are already written, or newly written."""
        known = node.value if isinstance(node.value, tuple) else ()
        as_written = {_name(item): self._text(item) for item in reversed(known)}
        return [as_written.get(_plain(name), inline(name)) for name in names]

    def _block_list(self, node: Node, names: list[Any]) -> Iterator[Edit]:
        items = node.value if isinstance(node.value, tuple) else ()
        if any(not isinstance(item.value, str) for item in items):
            yield self._replacement(node, names)
            return
        row = self._row(items[0])
        dash = row[: items[0].span.column - 1]
        shown = self._items(node, names)
        before, after = [_name(item) for item in items], [_plain(name) for name in names]
        moves = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        for kind, i1, i2, j1, j2 in moves:
            if kind == "equal":
                continue
            is_inside = i1 < len(items)
            start = self._starts[items[i1].span.line - 1] if is_inside else self._end_of(items[-1])
            end = self._end_of(items[i2 - 1]) if i2 > i1 else start
            yield Edit(start, end, "".join(f"{dash}{text}\n" for text in shown[j1:j2]))

    def _offsets(self, node: Node) -> tuple[int, int]:
        span = node.span
        start = self._starts[span.line - 1] + span.column - 1
        return start, self._starts[span.end_line - 1] + span.end_column - 1

    def _text(self, node: Node) -> str:
        start, end = self._offsets(node)
        return self._document.text[start:end]

    def _row(self, node: Node) -> str:
        return self._rows[node.span.line - 1]

    def _end_of(self, node: Node) -> int:
        return self._starts[node.span.end_line]


def _name(node: Node) -> Any:
    return _plain(node.value)


def _plain(name: Any) -> Any:
    """A name, or the gap in any of its forms."""
    return "…" if isinstance(name, str) and name in GAPS else name


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits applied."""
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        new = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
        text = text[: edit.start] + new + text[edit.end :]
    return text
