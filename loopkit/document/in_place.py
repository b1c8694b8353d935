"""Values set in a YAML or JSON file in place: all else in it stays as it is, byte by byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from loopkit.document.document import DocPath, Document, Entry, Node
from loopkit.document.problems import LINE_BREAK, ProblemsFound
from loopkit.document.reading import decode, read, read_bytes
from loopkit.document.writing import inline, locked, replace_file, to_yaml
from loopkit.values import Value

EACH = "[]"
"""The step of a path that goes to each item of a list, or to each value of a mapping."""
_BOM = b"\xef\xbb\xbf"


class NotSet(Exception):
    """Values can't be set because of what stands in the file; the message says why."""


class FileData(Value, frozen=True):
    """The data in a file, and the SHA-256 of its bytes."""

    data: Any
    digest: str


class ToSet(Value, frozen=True):
    """Values for keys of the one mapping in a file that a path and a condition select."""

    steps: Sequence[str]
    """The keys that lead to it from the root, and `[]` for all items on the way."""
    where: Mapping[str, Any]
    """Its keys that tell it from the other items."""
    values: Mapping[str, Any]
    expect: Mapping[str, Any]
    """What has to stand under some of its keys."""

    def place(self, document: Document) -> DocPath:
        """Where that mapping is; raises NotSet if there is none, or more than one."""
        places = [p for p in _places(document, self.steps) if _fits(document, p, self.where)]
        if len(places) == 1:
            return places[0]
        path = ".".join(self.steps).replace(".[]", "[]")
        item = ", ".join(f"{key} {_shown(value)}" for key, value in self.where.items())
        what = f"`{path}`" + (f" with {item}" if item else "")
        if not places:
            raise NotSet(f"`{document.file}` has no {what}")
        lines = " and ".join(str(document.span(place).line) for place in places[:2])
        raise NotSet(f"`{document.file}` has more than one {what}: see lines {lines}")

    def refuse_unexpected(self, document: Document, place: DocPath) -> None:
        """Raise NotSet where something else stands there than is expected."""
        for key, wanted in self.expect.items():
            if not _fits(document, place, {key: wanted}):
                node = document.node((*place, key))
                found = "missing" if node is None else _shown(plain_at(document, (*place, key)))
                where = f"{document.file}:{document.span((*place, key)).line}"
                raise NotSet(
                    f"{where}: `{key}` is {found} instead of {_shown(wanted)}, "
                    "so somebody else has changed it"
                )


def set_in_file(
    path: Path, to_set: ToSet, fit: Callable[[object], Any], *, again: bool = False
) -> FileData:
    """Set values in a file, which is replaced as a whole or not at all; what it holds then.

    `fit` completes the data, or raises NotSet if they do not fit their type. `again` says that this
    may have been done before: then values that stand there already are expected ones. Others who
    set values in files of this folder wait. Raises NotSet, NotWritable.
    """
    with locked(path.parent):
        try:
            content = read_bytes(path, str(path))
            document = read(decode(content, str(path)), str(path))
        except ProblemsFound as found:
            raise NotSet(str(found)) from found
        place = to_set.place(document)
        is_done = again and _fits(document, place, to_set.values)
        if not is_done:
            to_set.refuse_unexpected(document, place)
        text = with_values(document, place, to_set.values)
        data = fit(read(text, str(path)).plain())
        if text != document.text:
            content = (_BOM if content.startswith(_BOM) else b"") + text.encode()
            replace_file(path, content)
    return FileData(data, hashlib.sha256(content).hexdigest())


def with_values(document: Document, place: DocPath, values: Mapping[str, Any]) -> str:
    """The text of a document with other values under keys of the mapping at a place.

    A key that is not there is added behind the last one. Raises NotSet.
    """
    wanted = document.plain()
    holder = reduce(getitem, place, wanted)
    if not isinstance(holder, dict):
        raise NotSet(f"{document.file}:{document.span(place).line}: this is no mapping")
    holder |= values
    for is_short in (False, True):
        text = _Editor(document, is_short=is_short).text_with(place, values)
        if _plain(text) == wanted:
            return text
    line = document.span(place).line
    keys = ", ".join(f"`{key}`" for key in values)
    raise NotSet(
        f"{document.file}:{line}: {keys} can't be set without changing something else; "
        "write it here without an anchor, an alias or a merge key"
    )


def plain_at(document: Document, path: DocPath) -> Any:
    """The value at a path; None where there is none."""
    node = document.node(path)
    return None if node is None else document.replace(root=node).plain()


def _plain(text: str) -> object:
    try:
        return read(text, "").plain()
    except ProblemsFound:
        return None


def _places(document: Document, steps: Sequence[str]) -> Iterator[DocPath]:
    """The places to which a path leads."""
    places: list[DocPath] = [()]
    for step in steps:
        places = [(*place, key) for place in places for key in _steps(document.node(place), step)]
    yield from (place for place in places if document.node(place) is not None)


def _steps(node: Node | None, step: str) -> Sequence[str | int]:
    value = node.value if node is not None else None
    if step != EACH:
        return [step] if isinstance(value, Mapping) and step in value else []
    return range(len(value)) if isinstance(value, tuple) else list(value or ())  # type: ignore[arg-type]


def _fits(document: Document, place: DocPath, wanted: Mapping[str, Any]) -> bool:
    """Whether these values stand under keys of a mapping; a text fits what is written like it."""
    for key, value in wanted.items():
        node = document.node((*place, key))
        found = plain_at(document, (*place, key))
        if not _is(found, value) and (node is None or not node.raw or node.raw != value):
            return False
    return True


def _is(found: object, value: object) -> bool:
    return found == value and isinstance(found, bool) == isinstance(value, bool)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


class _Edit(Value, frozen=True):
    """A piece of the text, by its offsets, and its replacement."""

    start: int
    end: int
    text: str


class _Editor:
    """Puts values into one document; with `is_short` each stands on one line."""

    def __init__(self, document: Document, *, is_short: bool) -> None:
        self._text = document.text
        self._document = document
        self._is_short = is_short
        self._starts = [0, *(found.end() for found in LINE_BREAK.finditer(document.text))]
        self._write = _shown if document.root.style == "flow" else inline

    def text_with(self, place: DocPath, values: Mapping[str, Any]) -> str:
        holder = self._document.node(place)
        assert holder is not None
        assert isinstance(holder.value, Mapping)
        entries = holder.value
        edits = [
            self._replacement(holder, entries[key], value)
            for key, value in values.items()
            if key in entries and not _is(plain_at(self._document, (*place, key)), value)
        ]
        if added := {key: value for key, value in values.items() if key not in entries}:
            edits.append(self._addition(holder, list(entries.values()), added))
        text = self._text
        for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
            new = edit.text.replace("\n", "\r\n") if "\r\n" in text else edit.text
            text = text[: edit.start] + new + text[edit.end :]
        return text

    def _replacement(self, holder: Node, entry: Entry, value: Any) -> _Edit:
        node, key = entry.node, entry.key
        behind_key = self._text.index(":", self._offset(key.end_line, key.end_column)) + 1
        start = end = behind_key
        if not node.is_unwritten:
            start = self._offset(node.span.line, node.span.column)
            end = self._offset(node.span.end_line, node.span.end_column)
        between = self._text[behind_key:start]
        is_below = node.style == "block"
        if is_below and value and isinstance(value, list | dict) and not self._is_short:
            # Items and keys stand where those before them did.
            return _Edit(start, end, to_yaml(value, node.span.column - 1).strip())
        made = f" {self._on_a_line(node, value)}"
        if holder.style == "block" and not self._is_quoted(node, value):
            made = self._behind_key(value, key.column - 1)
            if "\n" in made and self._row_from(end).strip():
                made = f" {self._write(value)}"
        if is_below:
            return _Edit(behind_key, end, made + "  " * bool(between.strip()) + between.strip())
        if made.startswith("\n") and not between.strip():
            return _Edit(behind_key, end, made)
        return _Edit(start, end, made if start == behind_key else made.lstrip(" "))

    def _addition(self, holder: Node, entries: Sequence[Entry], added: Mapping[str, Any]) -> _Edit:
        """The edit that puts keys behind the last one of a mapping."""
        if holder.style == "flow":
            pairs = [f"{self._write(key)}: {self._write(value)}" for key, value in added.items()]
            if not entries:
                start = self._offset(holder.span.line, holder.span.column) + 1
                return _Edit(start, start, ", ".join(pairs))
            last = max(self._end(entry) for entry in entries)
            row = self._row_to(self._offset(entries[-1].key.line, entries[-1].key.column))
            gap = " " if row.strip() else f"\n{row}"
            return _Edit(last, last, "".join(f",{gap}{pair}" for pair in pairs))
        last = max(self._end(entry) for entry in entries)
        end = last + len(self._row_from(last))
        indent = holder.span.column - 1
        made = "".join(
            f"\n{' ' * indent}{self._write(key)}:{self._behind_key(value, indent)}"
            for key, value in added.items()
        )
        return _Edit(end, end, made)

    def _end(self, entry: Entry) -> int:
        """Where a key of a mapping ends, with its value."""
        span = entry.key if entry.node.is_unwritten else entry.node.used_at or entry.node.span
        end = self._offset(span.end_line, span.end_column)
        return self._text.index(":", end) + 1 if entry.node.is_unwritten else end

    def _behind_key(self, value: Any, indent: int) -> str:
        """What stands behind the colon of a key with a value, on the same line or below it."""
        if self._is_short:
            return f" {self._write(value)}"
        pad = " " * indent
        return to_yaml({"x": value}, indent).removeprefix(f"{pad}x:").rstrip("\n")

    def _is_quoted(self, node: Node, value: Any) -> bool:
        """Whether a text keeps the quotes of the one before."""
        return isinstance(value, str) and (
            (node.style == "single" and value.isprintable())
            or (node.style == "double" and "\n" not in value)
        )

    def _on_a_line(self, node: Node, value: Any) -> str:
        if not self._is_quoted(node, value) or self._write is _shown:
            return self._write(value)
        doubled = value.replace("'", "''")
        return f"'{doubled}'" if node.style == "single" else _shown(value)

    def _row_from(self, offset: int) -> str:
        """The rest of the line."""
        return LINE_BREAK.split(self._text[offset:], maxsplit=1)[0]

    def _row_to(self, offset: int) -> str:
        """The line up to here."""
        return self._text[max(start for start in self._starts if start <= offset) : offset]

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column - 1
