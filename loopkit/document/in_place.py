"""Values set in a YAML or JSON file; all else in it stays, byte by byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from loopkit.document.document import DocPath, Document, Entry, Node
from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import decode, read, read_bytes
from loopkit.document.text import SourceText
from loopkit.document.writing import (
    as_json,
    inline,
    locked,
    refuse_hard_link,
    replace_file,
    to_yaml,
)
from loopkit.text.json_text import canonical, entries_of
from loopkit.values import Value

EACH = "[]"
"""The step of a path to each item of a list, or each value of a mapping."""
_BOM = b"\xef\xbb\xbf"
_Edit = tuple[int, int, str]
"""A start, an end, and what replaces the text between."""


class NotSet(Exception):
    """What stands in the file does not allow it; the message says why."""


class ToSet(Value, frozen=True):
    """Values for keys of one mapping of a file."""

    steps: Sequence[str]
    """The keys from the root to it, and `[]` for all items on the way."""
    where: Mapping[str, Any]
    """Its keys that tell it from the other items."""
    values: Mapping[str, Any]
    expect: Mapping[str, Any]
    """What has to stand under keys; a list has all that may."""

    def place_in(self, document: Document, *, again: bool) -> DocPath:
        """Where that mapping is.

        Raises NotSet if that is not one place, or has something else than is expected; `again` says
        that it may have the new values.
        """
        places = list(self._places(document))
        found = [(place, data) for place, data in places if _fits(data, self.where)]
        if again and not found:
            done = {**self.where, **self.values}
            found = [(place, data) for place, data in places if _fits(data, done)]
        if len(found) != 1:
            named = "".join(f", {key} {as_json(value)}" for key, value in self.where.items())
            what = f"`{'.'.join(self.steps).replace('.[]', '[]')}`{named}"
            lines = " and ".join(str(document.span(place).line) for place, _ in found)
            told = f"more than one {what}: see lines {lines}" if found else f"no {what}"
            raise NotSet(f"`{document.file}` has {told}")
        [(place, data)] = found
        allowed = {k: v if isinstance(v, list) else [v] for k, v in self.expect.items()}
        wrong = [k for k, v in allowed.items() if not any(_fits(data, {k: one}) for one in v)]
        if wrong and not (again and _fits(data, self.values)):
            key = wrong[0]
            line = document.span((*place, wrong[0])).line
            raise NotSet(
                f"{document.file}:{line}: `{key}` is {as_json(data.get(key))} instead of "
                f"{' or '.join(map(as_json, allowed[key]))}, so somebody else has changed it"
            )
        return place

    def _places(self, document: Document) -> Iterator[tuple[DocPath, Any]]:
        places: list[tuple[DocPath, Any]] = [((), document.plain())]
        for step in self.steps:
            places = [
                ((*place, key), inner)
                for place, data in places
                for key, inner in entries_of(data)
                if step in (EACH, key)
            ]
        yield from ((place, data) for place, data in places if isinstance(data, dict))


def set_in_file(
    path: Path, to_set: ToSet, fit: Callable[[object], Any], *, again: bool = False
) -> tuple[Any, str]:
    """Set values in a file; its data then, and the SHA-256 of its bytes.

    It is replaced as a whole or not at all. `fit` completes the data, or raises NotSet. `again`
    says that this may have been done before. Others who do it in this folder wait. Raises NotSet,
    NotWritable.
    """
    if not path.parent.is_dir():
        raise NotSet(f"`{path}` can't be read: there is no folder `{path.parent}`")
    with locked(path.parent):
        try:
            content = read_bytes(path, str(path))
            document = read(decode(content, str(path)), str(path))
        except ProblemsFound as found:
            raise NotSet(str(found)) from found
        text = with_values(document, to_set.place_in(document, again=again), to_set.values)
        data = fit(read(text, str(path)).plain())
        if text != document.text:
            refuse_hard_link(path)
            content = (_BOM if content.startswith(_BOM) else b"") + text.encode()
            replace_file(path, content)
    return data, hashlib.sha256(content).hexdigest()


def with_values(document: Document, place: DocPath, values: Mapping[str, Any]) -> str:
    """The text of a document with other values under keys of a mapping.

    A key that is not there is added behind the last one. Raises NotSet.
    """
    wanted = document.plain()
    holder: Any = reduce(getitem, place, wanted)
    changed = {key: new for key, new in values.items() if not _fits(holder, {key: new}, key)}
    holder |= changed
    fault = ""
    for is_short in (False, True):
        text = _Editor(document, is_short=is_short).text_with(place, changed)
        if not (fault := _fault(text, wanted)):
            return text
    keys = ", ".join(f"`{key}`" for key in changed)
    raise NotSet(f"{document.file}:{document.span(place).line}: {keys} can't be set{fault}")


def _fault(text: str, wanted: object) -> str:
    """Why a text does not hold the wanted data; else empty."""
    try:
        is_same = read(text, "").plain() == wanted
    except ProblemsFound as found:
        return f", because then {found.problems[0].message}"
    remedy = "write it here without an anchor, an alias or a merge key"
    return "" if is_same else f" without changing something else; {remedy}"


def _fits(data: Mapping[str, Any], wanted: Mapping[str, Any], *needed: str) -> bool:
    """Whether these values stand under keys of a mapping; only of `needed` ones null must."""
    is_same = (canonical(data.get(key)) == canonical(value) for key, value in wanted.items())
    return all(is_same) and all(key in data for key in needed)


class _Editor:
    """Puts values into one document; with `is_short` each stands on one line."""

    def __init__(self, document: Document, *, is_short: bool) -> None:
        self._text = document.text
        self._document = document
        self._is_short = is_short
        self._source = SourceText.of(document.text, document.file)
        self._write = as_json if document.root.style == "flow" else inline

    def text_with(self, place: DocPath, values: Mapping[str, Any]) -> str:
        holder = self._document.node(place)
        assert holder is not None
        assert isinstance(holder.value, Mapping)
        entries = holder.value
        known = values.keys() & entries.keys()
        edits = [self._replacement(holder, entries[key], values[key]) for key in known]
        if added := {key: value for key, value in values.items() if key not in known}:
            edits.append(self._addition(holder, list(entries.values()), added))
        text = self._text
        for start, end, new in sorted(edits, reverse=True):
            new_lines = new.replace("\n", "\r\n") if "\r\n" in text else new
            text = text[:start] + new_lines + text[end:]
        return text

    def _replacement(self, holder: Node, entry: Entry, value: Any) -> _Edit:
        node, key = entry.node, entry.key
        behind_key = self._text.index(":", self._source.offsets(key)[1]) + 1
        start = end = behind_key
        if not node.is_unwritten:
            start, end = self._source.offsets(node.span)
        is_below = node.style == "block"
        if is_below and value and isinstance(value, list | dict) and not self._is_short:
            # Items and keys stand where those before them did.
            return start, end, to_yaml(value, node.span.column - 1).strip()
        is_text = isinstance(value, str) and "\n" not in value
        if holder.style == "flow" or (is_text and node.style in ("single", "double")):
            made = f" {self._with_quotes_of(node, value)}"
        else:
            made = self._behind_key(value, key.column - 1)
        between = self._text[behind_key:start].strip()
        if is_below:
            return behind_key, end, f"{made}  {between}" if between else made
        if start == behind_key or (made.startswith("\n") and not between):
            return behind_key, end, made
        return start, end, made.lstrip(" ")

    def _addition(self, holder: Node, entries: Sequence[Entry], added: Mapping[str, Any]) -> _Edit:
        pairs = [f"{self._write(key)}: {self._write(value)}" for key, value in added.items()]
        if not entries:
            start = self._source.offsets(holder.span)[0] + 1
            return start, start, ", ".join(pairs)
        last = max(map(self._end, entries))
        if holder.style == "block":
            start, line = self._source.line_around(last)
            end = start + len(line)
            indent = holder.span.column - 1
            behind = ((key, self._behind_key(value, indent)) for key, value in added.items())
            gap = "\n" + " " * indent
            return end, end, "".join(f"{gap}{self._write(key)}:{made}" for key, made in behind)
        key = entries[-1].key
        _, line = self._source.line_around(self._source.offsets(key)[0])
        before = line[: key.column - 1]
        gap = " " if before.strip() else f"\n{before}"
        return last, last, "".join(f",{gap}{pair}" for pair in pairs)

    def _end(self, entry: Entry) -> int:
        """Where a key of a mapping ends, with its value."""
        span = entry.key if entry.node.is_unwritten else entry.node.used_at or entry.node.span
        _, end = self._source.offsets(span)
        return self._text.index(":", end) + 1 if entry.node.is_unwritten else end

    def _behind_key(self, value: Any, indent: int) -> str:
        if self._is_short:
            return f" {self._write(value)}"
        return to_yaml({"x": value}, indent).removeprefix(f"{' ' * indent}x:").rstrip("\n")

    def _with_quotes_of(self, node: Node, value: Any) -> str:
        """A value on one line, a text with the quotes of the one before."""
        if not isinstance(value, str) or (node.style == "single" and not value.isprintable()):
            return self._write(value)
        doubled = value.replace("'", "''")
        quoted = {"double": as_json(value), "single": f"'{doubled}'"}
        return quoted.get(node.style, self._write(value))
