"""Writing: values as YAML as a person would, and files that are replaced as a whole or not at all.

Long texts become blocks, short values stand on one line.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loopkit.document.document import UnusableNumber, resolve

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
