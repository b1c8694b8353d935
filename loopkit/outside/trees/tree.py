"""A tree: path, kind and content of every file below a folder, and one digest for all of it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from loopkit.outside.trees.listing import TooLarge, list_files

MOST_FILES = 50_000
MOST_BYTES = 500_000_000
Kind = Literal["file", "program", "link", "other"]
KINDS: Mapping[bytes, Kind] = {
    b"file": "file",
    b"program": "program",
    b"link": "link",
    b"other": "other",
}
"""The kind of an entry: a file, an executable file, a symlink, or something else."""


class Entry(NamedTuple):
    """The entry at one path."""

    kind: Kind
    digest: str
    """SHA-256 of the content; of a link, of where it leads to."""


@dataclass(frozen=True)
class Tree:
    """The files of a folder by relative path; bytes that are not UTF-8 are escaped."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    times: str = field(default="", compare=False)
    """A digest that changes whenever any file is written."""

    @cached_property
    def manifest(self) -> bytes:
        """The tree as bytes: sorted by path, and the same for the same files alone."""
        lines: list[bytes] = [
            b"%s %s %s\0" % (entry.kind.encode(), entry.digest.encode(), os.fsencode(path))
            for path, entry in self.entries.items()
        ]
        lines.sort(key=_path_in)
        return b"".join(lines)

    @cached_property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @classmethod
    def of_manifest(cls, manifest: bytes) -> Tree:
        """The tree of its manifest; raises ValueError if the bytes are not a manifest."""
        lines = (line.split(b" ", 2) for line in manifest.split(b"\0") if line)
        known = {os.fsdecode(path): (KINDS.get(kind), digest) for kind, digest, path in lines}
        entries = {
            path: Entry(kind, digest.decode("ascii"))
            for path, (kind, digest) in known.items()
            if kind is not None
        }
        if len(entries) != len(known):
            raise ValueError("it names a kind of file that this version does not know")
        return cls(entries)


def _path_in(line: bytes) -> bytes:
    return line.split(b" ", 2)[2]


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_tree(
    folder: Path,
    origin: Path | None = None,
    *,
    without: Path | None = None,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> Tree:
    """The tree of a folder as it is now. Links are not followed.

    `without` is a file that is left out; `origin` is the folder that this one is a copy of.
    Raises TooLarge, and OSError where a file can't be read.
    """
    top, room, times = os.fsencode(folder), _Room(most_files, most_bytes), hashlib.sha256()
    entries: dict[str, Entry] = {}
    for path in _files(top, origin):
        if without is not None and path == os.fsencode(without):
            continue
        name = os.path.relpath(path, top)
        try:
            info = os.lstat(path)
            room.take(info.st_size)
            entries[os.fsdecode(name)] = _entry(path, info)
        except FileNotFoundError:
            # Somebody has removed it since the folder was listed.
            continue
        times.update(b"%s\0%d\0" % (name, info.st_mtime_ns))
    return Tree(entries, times.hexdigest())


def _files(top: bytes, origin: Path | None) -> Iterator[bytes]:
    return list_files(top, None if origin is None else os.fsencode(origin))


def files_digest(
    folder: Path,
    without: Path | None = None,
    origin: Path | None = None,
    *,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> str:
    """One digest for all files below a folder, but for the file `without`.

    `origin` is the folder that this one is a copy of.

    Empty where there is no telling: too many files, or too much in them, to be looked at
    after each attempt, or a folder that cannot be listed.
    """
    try:
        tree = read_tree(
            folder, origin, without=without, most_files=most_files, most_bytes=most_bytes
        )
    except (TooLarge, OSError):
        return ""
    return tree.digest


class _Room:
    """The number of files and bytes that may still be read."""

    def __init__(self, files: int, size: int) -> None:
        self._files = files
        self._bytes = size

    def take(self, size: int) -> None:
        self._files -= 1
        self._bytes -= size
        if min(self._files, self._bytes) < 0:
            raise TooLarge


def _entry(path: bytes, info: os.stat_result) -> Entry:
    mode = info.st_mode
    if stat.S_ISREG(mode):
        with open(path, "rb", opener=_open) as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        return Entry("program" if mode & stat.S_IXUSR else "file", content)
    if stat.S_ISLNK(mode):
        return Entry("link", digest_of(os.readlink(path)))  # noqa: PTH115 - bytes
    return Entry("other", digest_of(b""))


def entry_at(folder: Path, path: str) -> Entry | None:
    """The entry at a path; none if nothing or a folder is there; raises OSError."""
    place = os.path.join(os.fsencode(folder), os.fsencode(path))
    try:
        info = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if stat.S_ISDIR(info.st_mode) else _entry(place, info)


def content_at(folder: Path, path: str, entry: Entry) -> bytes:
    """The present content at a path of a tree; raises OSError."""
    place = os.path.join(os.fsencode(folder), os.fsencode(path))
    if entry.kind == "link":
        return os.readlink(place)  # noqa: PTH115 - bytes
    if entry.kind == "other":
        return b""
    with open(place, "rb", opener=_open) as file:
        return file.read()


def _open(name: str, flags: int) -> int:
    # A link or pipe put there meanwhile is neither followed nor waited for.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
