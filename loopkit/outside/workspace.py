"""Files of a workspace: paths that stay inside, what an attempt has written, and their text.

The input of a run is one too, for a program that cannot take it as an argument.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from loopkit.text import flaw_of_path, up_in


class OutsideWorkspace(Exception):
    """A path that does not name a place inside the workspace."""


class UnusableWorkspace(Exception):
    """The folder of the workspace can be neither found nor created."""


class UnreadableArtifact(Exception):
    """A file that cannot be taken as text; the message has the cause and the remedy."""


def resolve_inside(root: Path, relative: str) -> Path:
    """The absolute path of `relative` in the workspace `root`, with every symlink resolved.

    Nothing has to exist and nothing is created. Raises `OutsideWorkspace` for an empty, absolute
    or home path, for any `..`, and for a symlink that leads out. It says where the path leads
    now: it is no sandbox against a process that replaces folders by symlinks later.
    """
    flaw = flaw_of_path(relative)
    if flaw:
        raise OutsideWorkspace(_outside(root, relative, flaw))
    base = os.path.realpath(root)
    path = Path(os.path.realpath(os.path.join(base, relative)))
    if not path.is_relative_to(base):
        raise OutsideWorkspace(_outside(root, relative, f"is a symlink to {str(path)!r}"))
    return path


def from_above(root: Path, relative: str, written: str) -> tuple[Path, str]:
    """The folder at which the path of a workspace starts, and the rest of it, which stays inside.

    The `..` at its beginning lead up, as far as they are `written` and not filled in.
    """
    up = up_in(written)
    return Path(os.path.normpath(root / up)), relative[len(up) :] or "."


PATHS_START = "paths start at the machine file"


MAKE_IT = "make the folder, correct `path:`, or add `create: true`"


def existing(place: Path) -> Path:
    """The folder of a workspace; raises UnusableWorkspace."""
    if place.is_dir():
        return Path(os.path.realpath(place))
    raise UnusableWorkspace(f"workspace {place} does not exist: {PATHS_START}; {MAKE_IT}")


def is_behind_link(folder: Path) -> bool:
    """Whether a folder, or one above it, is a link."""
    return os.path.realpath(folder) != os.path.normpath(folder.absolute())


def make_folder(root: Path, relative: str) -> None:
    """Make a folder of a workspace; `root` has no link in it.

    Raises OutsideWorkspace where a link is on the way, also one that leads to another place inside,
    and UnusableWorkspace where something else is.
    """
    path = resolve_inside(root, relative)
    if path != root / os.path.normpath(relative):
        raise OutsideWorkspace(_outside(root, relative, f"leads through a link to {str(path)!r}"))
    prepare(path)


def _outside(root: Path, relative: str, flaw: str) -> str:
    return (
        f"path {relative!r} {flaw}; "
        f"write a path that starts at the workspace {str(root)!r} and stays inside it"
    )


def prepare(root: Path) -> Path:
    """The folder `root`, created with its parents where missing; absolute, symlinks resolved."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        return Path(os.path.realpath(root))
    except (OSError, ValueError) as error:
        raise UnusableWorkspace(
            f"workspace {str(root)!r} can't be created ({_reason(error)}); "
            "name a folder that can be created or a folder that exists"
        ) from error


def mark(path: Path) -> str:
    """What `was_written_since` compares with the state of `path` after the attempt.

    It has the digest, the time, the size and the inode. The file is read to its end, however long
    it is, since its time alone is too coarse on many file systems. Empty for a path that is not
    there or leads nowhere.
    """
    try:
        info = path.stat()
    except (OSError, ValueError):
        return ""
    return f"{_digest(path)} {info.st_mtime_ns} {info.st_size} {info.st_ino}"


def _digest(path: Path) -> str:
    """The SHA-256 of a readable file; else empty."""
    try:
        with open(path, "rb", opener=_open_regular) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def was_written_since(path: Path, before: str) -> bool:
    """Whether this attempt wrote `path`: it exists, and is new or has another content or time.

    The same bytes written again count. A file that was only left in place does not count, nor does
    one that was deleted. A rewrite with the same bytes within one tick of the file system's clock
    looks like a file left in place. Of a folder only its own entries are compared.
    """
    now = mark(path)
    return bool(now) and now.rpartition(" ")[0] != before.rpartition(" ")[0]


def read_text(path: Path, limit: int = 10_000_000, known: str = "") -> str:
    """The text of a UTF-8 file of at most `limit` bytes, without byte order mark.

    Line ends stay as they are. Raises `UnreadableArtifact` for anything else, also for a file that
    has another name, unless it is the one of the mark `known`; it never waits, whatever stands
    at `path`.
    """
    data = _content(path, limit, known)
    if len(data) > limit:
        flaw = f"has {max(len(data), path.stat().st_size):,} bytes, and at most {limit:,} are read"
        raise _unreadable(path, flaw, "write a shorter one")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        flaw = f"is not UTF-8 text (byte {error.start})"
        raise _unreadable(path, flaw, "save it as UTF-8") from error
    if "\0" in text:
        raise _unreadable(path, "is binary (it contains a NUL)", "write text")
    return text.removeprefix("\ufeff")


def _content(path: Path, limit: int, known: str) -> bytes:
    """The first bytes of a regular file, one more than `limit` if there are so many."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            with open(path, "rb", opener=_open_regular) as file:
                info = os.fstat(file.fileno())
                if info.st_nlink > 1 and known.rpartition(" ")[2] != str(info.st_ino):
                    raise _unreadable(path, "is a hard link to another file", "put a copy there")
                return file.read(limit + 1)
    except FileNotFoundError as error:
        raise _unreadable(path, "does not exist", "write it") from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, f"can't be read ({_reason(error)})", "make it readable") from error
    kind = "a folder" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
    raise _unreadable(path, f"is {kind}", "write a file")


def _open_regular(name: str, flags: int) -> int:
    # Non-blocking, since to open a pipe is to wait for its writer.
    descriptor = os.open(name, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file")


def _unreadable(path: Path, flaw: str, remedy: str) -> UnreadableArtifact:
    return UnreadableArtifact(f"file {str(path)!r} {flaw}; {remedy}")


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


_PREFIX = "loopkit-input-"


@contextmanager
def input_file(
    name: str, data: Mapping[str, Any], names: frozenset[str]
) -> Iterator[dict[str, str]]:
    """The path of the file under its `name`, if that is among `names`; it goes with the program.

    Nobody else can read it.
    """
    if name not in names:
        yield {}
        return
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        path = Path(folder, "input.json")
        path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")
        yield {name: str(path)}


@contextmanager
def scratch_file() -> Iterator[Path]:
    """The path of a file that a program may write while it runs, and nobody else can read."""
    with TemporaryDirectory(prefix=_PREFIX) as folder:
        yield Path(folder, "written.json")


def without_folders(text: str) -> str:
    """The output of a program with the input file by its name alone: its folder always differs."""
    return re.sub(rf"{re.escape(gettempdir())}/{_PREFIX}\w{{1,20}}/", "", text)
