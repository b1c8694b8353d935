"""Writing: values as YAML as a person would, or set in a file where all else stays byte by byte.

Long texts become blocks, short values stand on one line. Files are replaced as a whole or not at
all.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from loopkit.document.document import DocPath, Document, Entry, Node, UnusableNumber, resolve
from loopkit.document.problems import ProblemsFound
from loopkit.document.reading import decode, read, read_bytes
from loopkit.document.text import SourceText
from loopkit.text.json_text import canonical, entries_of
from loopkit.values import Value

WIDTH = 100
"""Characters of a line; a text is not broken."""
# Compiled on first use, because `check` rarely writes anything.
_PLAIN = r"(?a)-{0,2}[A-Za-z_…][\w…/.+()%?!'-]*(?: [\w…/.+()%?!'-]+)*|\d+(?:\.\d+)?(?:ms|s|m|h)"
_ESCAPED = "[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"
_UNFIT_FOR_BLOCK = "\\A[ \t\n]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|[ \t]\\Z"


def to_yaml(value: Mapping[str, Any] | Sequence[Any], indent: int = 0) -> str:
    """A collection as lines of YAML behind `indent` blanks; reading it gives the same value."""
    pad = " " * indent
    return "".join(f"{pad}{line}\n" if line else "\n" for line in _below(value, indent))


def inline(value: Any) -> str:
    """A value on one line, as it may stand inside of brackets."""
    match value:
        case str():
            return value if _is_plain(value) else _quote(value)
        case Mapping():
            fields = (f"{inline(key)}: {inline(item)}" for key, item in value.items())
            return "{" + ", ".join(fields) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value)


def _is_plain(text: str) -> bool:
    if not re.fullmatch(_PLAIN, text) or text.lower() in _WORDS:
        return False
    try:
        return isinstance(resolve(text), str)
    except UnusableNumber:
        return False


_WORDS = frozenset({"yes", "no", "on", "off", "y", "n", "true", "false", "null"})
"""Words that some YAML readers do not read as text."""


def _quote(text: str) -> str:
    is_quiet = text.isprintable() and "'" not in text and not re.search(_ESCAPED, text)
    if is_quiet and ("\\" in text or '"' in text):
        return f"'{text}'"
    return as_json(text)


def as_json(value: Any) -> str:
    """A value as JSON on one line that is YAML too."""
    written = json.dumps(value, ensure_ascii=False)
    return re.sub(_ESCAPED, lambda found: f"\\u{ord(found[0]):04x}", written)


def _behind(head: str, value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and not re.search(_UNFIT_FOR_BLOCK, value):
        yield from _block_text(head, value)
        return
    if _is_line(head, value, depth):
        yield f"{head} {inline(value)}"
    elif head == "-":
        first, *rest = _indent(_below(value, depth + 2))
        yield from (f"- {first.lstrip()}", *rest)
    else:
        yield head
        yield from _indent(_below(value, depth + 2))


def _is_line(head: str, value: Any, depth: int) -> bool:
    if not value or not isinstance(value, Mapping | list | tuple):
        return True
    return not _has_blocks(value) and depth + len(f"{head} {inline(value)}") <= WIDTH


def _below(value: Mapping[str, Any] | Sequence[Any], depth: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _behind(f"{inline(key)}:", item, depth)
    else:
        for item in value:
            yield from _behind("-", item, depth)


def _block_text(head: str, text: str) -> Iterator[str]:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    yield f"{head} |" + ("-", "", "+")[min(ends, 2)]
    yield from _indent([*body.split("\n"), *([""] * (ends - 1))])


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" if line else "" for line in lines)


def _has_blocks(value: Any) -> bool:
    """Whether a value reads badly on one line."""
    match value:
        case str():
            return "\n" in value
        case Mapping():
            inner = [item for item in value.values() if item]
            is_nested = any(isinstance(item, Mapping | list | tuple) for item in inner)
            return (is_nested and len(value) > 1) or any(map(_has_blocks, inner))
        case list() | tuple():
            return any(map(_has_blocks, value))
        case _:
            return False


class NotWritable(Exception):
    """A file that can't be written; the message says why."""


def refuse_unwritable(path: Path) -> None:
    """Raise NotWritable where `replace_file` would fail or should."""
    real = Path(os.path.realpath(path))
    if os.path.isdir(real):
        raise NotWritable(f"`{path}` is a folder")
    if not os.path.isdir(real.parent):
        raise NotWritable(f"`{path}` can't be written: there is no folder `{path.parent}`")
    is_locked = os.path.exists(real) and not real.stat().st_mode & 0o222
    if is_locked or not os.access(real if os.path.exists(real) else real.parent, os.W_OK):
        raise NotWritable(f"`{path}` can't be written: it is read-only")


def refuse_hard_link(path: Path) -> None:
    """Raise NotWritable where a file has another name."""
    if os.path.exists(path) and path.stat().st_nlink > 1:
        raise NotWritable(f"`{path}` is a hard link to another file; put a copy there")


def replace_file(path: Path, text: str | bytes) -> None:
    """Write a file as a whole or not at all; raises NotWritable. Line ends stay as they are."""
    refuse_unwritable(path)
    real = Path(os.path.realpath(path))
    beside = real.with_name(f".{real.name}.{os.urandom(4).hex()}")
    try:
        try:
            with beside.open("xb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
                file.flush()
                os.fsync(file.fileno())
            if os.path.exists(real):
                beside.chmod(real.stat().st_mode)
            beside.replace(real)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(f"`{path}` can't be written: {error.strerror}") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder when nobody else does; raises NotWritable."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise NotWritable(f"`{folder}` can't be opened: {error.strerror}") from error
    try:
        # The kernel frees it, whatever becomes of the process.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """How many bytes a file has; none where there is no file. Raises NotWritable."""
    refuse_unwritable(path)
    return path.stat().st_size if os.path.exists(path) else 0


def add_to_file(path: Path, text: str, after: int) -> None:
    """Add a text to a file that had `after` bytes before, unless it is there already.

    Nobody else may add the same text meanwhile: it would count as this one. Of what was added in
    part before a stop the rest is added. Raises NotWritable.
    """
    refuse_unwritable(path)
    refuse_hard_link(path)
    data = text.encode()
    try:
        with path.open("ab+") as file:
            file.seek(after)
            found = file.read()
            if data not in found:
                file.write(data.removeprefix(found))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise NotWritable(f"`{path}` can't be written: {error.strerror}") from error


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
