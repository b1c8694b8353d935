"""The difference of two trees as text, in the form of git, which `git apply` takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from loopkit.outside.trees.tree import Entry, Tree
from loopkit.text.line_diff import hunks

Load = Callable[[str], bytes]
"""The content of a digest."""
MODES = {"file": "100644", "program": "100755", "link": "120000", "other": "000000"}
NOWHERE = "/dev/null"
MOST_BYTES = 10_000_000
"""The maximum size of a file that is compared line by line."""


class TooLong(Exception):
    """The difference has more characters than are kept of a text."""


def changed_paths(before: Tree, after: Tree) -> list[str]:
    """The paths at which two trees differ, sorted as trees are."""
    both = before.entries.keys() | after.entries.keys()
    found = (path for path in both if before.entries.get(path) != after.entries.get(path))
    return sorted(found, key=os.fsencode)


def printable_path(path: str) -> str:
    """A path as text; bytes that are not UTF-8 and characters that break a line are escaped."""
    whole = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)


def diff(before: Tree, after: Tree, load: Load, most: int, within: str = "") -> str:
    """The changes from one tree to another; binary files are only named.

    `within` is what precedes every path. Raises TooLong where that has more than `most` characters.
    """
    lines: list[str] = []
    room = most
    for path in changed_paths(before, after):
        old, new = before.entries.get(path), after.entries.get(path)
        for line in _of_file(printable_path(within + path), old, new, load):
            room -= len(line) + 1
            if room < 0:
                raise TooLong
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _of_file(path: str, old: Entry | None, new: Entry | None, load: Load) -> Iterator[str]:
    # A file that becomes a link, or the other way round, goes and comes.
    if old and new and "link" in (old.kind, new.kind) and old.kind != new.kind:
        yield from _of_file(path, old, None, load)
        yield from _of_file(path, None, new, load)
        return
    yield f"diff --git a/{path} b/{path}"
    yield from _modes(old, new)
    if old and new and old.digest == new.digest:
        return
    texts = _text(old, load), _text(new, load)
    from_ = f"a/{path}" if old else NOWHERE
    to = f"b/{path}" if new else NOWHERE
    if texts[0] is None or texts[1] is None:
        yield f"Binary files {from_} and {to} differ"
        return
    found = list(hunks(texts[0], texts[1]))
    yield from (f"--- {from_}", f"+++ {to}", *found) if found else ()


def _modes(old: Entry | None, new: Entry | None) -> Iterator[str]:
    if old is None and new is not None:
        yield f"new file mode {MODES[new.kind]}"
    elif new is None and old is not None:
        yield f"deleted file mode {MODES[old.kind]}"
    elif old and new and old.kind != new.kind:
        yield f"old mode {MODES[old.kind]}"
        yield f"new mode {MODES[new.kind]}"


def _text(entry: Entry | None, load: Load) -> str | None:
    """The content as text; None where it is binary or too long to be compared."""
    if entry is None:
        return ""
    content = load(entry.digest)
    if len(content) > MOST_BYTES or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
