"""One digest for all files of a workspace, to tell whether a program changed any of them.

In a git tree these are the tracked files and those that git does not ignore, else all of them
but for folders that ignore themselves, as caches and our own state folder do.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from loopkit.outside.processes import command_environment

MOST_FILES = 50_000
MOST_BYTES = 500_000_000
MOST_TREES = 100
"""Repositories inside one another."""
GIT_SECONDS = 60
# What a repository names as its monitor is a program, which nobody asked us to start.
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")


class TooLarge(Exception):
    """There are more files, or more in them, than are looked at after each attempt."""


class _NoTree(Exception):
    """The folder is in no git tree whose files could be listed."""


def files_digest(
    folder: Path,
    without: Path | None = None,
    *,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> str:
    """SHA-256 over path, kind and content of every file below a folder.

    `without` is a file that is left out. Links are not followed: what they lead to is their
    content. Empty where there is no telling: too many files, or too much in them, to be looked at
    after each attempt, or a folder that cannot be listed.
    """
    digest, room = hashlib.sha256(), _Room(most_files, most_bytes)
    try:
        for path in _files(os.fsencode(folder)):
            if without is None or path != os.fsencode(without):
                room.take(path)
                digest.update(_entry(path, os.path.relpath(path, os.fsencode(folder))))
    except (TooLarge, OSError):
        return ""
    return digest.hexdigest()


class _Room:
    """How much may still be read."""

    def __init__(self, files: int, size: int) -> None:
        self._files = files
        self._bytes = size

    def take(self, path: bytes) -> None:
        self._files -= 1
        self._bytes -= os.lstat(path).st_size
        if min(self._files, self._bytes) < 0:
            raise TooLarge


def _entry(path: bytes, name: bytes) -> bytes:
    """A file as it counts: name, kind and content, each of a length that is known."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        kind, content = b"link", os.readlink(path)  # noqa: PTH115 - bytes
    elif stat.S_ISREG(mode):
        kind, content = b"program" if mode & stat.S_IXUSR else b"file", _content(path)
    else:
        kind, content = b"other", b""
    parts = (hashlib.sha256(part).digest() for part in (name, kind, content))
    return b"".join(parts)


def _content(path: bytes) -> bytes:
    with open(path, "rb", opener=_open) as file:
        return hashlib.file_digest(file, "sha256").digest()


def _open(name: str, flags: int) -> int:
    # Whatever somebody puts there meanwhile is neither followed nor waited for.
    return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _files(top: bytes) -> Iterator[bytes]:
    """Every file below a folder, in one order."""
    trees = [top]
    for folder in trees:
        if len(trees) > MOST_TREES:
            raise TooLarge
        try:
            listed = _list_files(folder)
        except _NoTree:
            yield from _walked(folder)
            continue
        paths = [os.path.join(folder, name.rstrip(b"/")) for name in listed]
        # Of a repository in the repository git names the folder alone.
        trees += [path for path in paths if _is_folder(path)]
        yield from (path for path in paths if os.path.lexists(path) and not _is_folder(path))


def _is_folder(path: bytes) -> bool:
    return os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode)


def _list_files(folder: bytes) -> list[bytes]:
    """The files that git tracks or would; raises _NoTree, also where it ignores the folder."""
    if _git(folder, "check-ignore", "-q", ".").returncode == 0:
        raise _NoTree
    listed = _git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode != 0:
        raise _NoTree
    return sorted(set(listed.stdout.split(b"\0")) - {b""})


def _git(folder: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - git, and nothing that anybody wrote
            (*GIT, *arguments),
            cwd=folder,
            env=command_environment(extra={"GIT_OPTIONAL_LOCKS": "0"}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _NoTree from error


def _walked(top: bytes) -> Iterator[bytes]:
    folders = [top]
    while folders:
        with os.scandir(folders.pop()) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        yield from (entry.path for entry in entries if not entry.is_dir(follow_symlinks=False))
        folders += [
            entry.path
            for entry in entries
            if entry.is_dir(follow_symlinks=False)
            and entry.name != b".git"
            and not _ignores_itself(entry.path)
        ]


def _ignores_itself(folder: bytes) -> bool:
    try:
        with open(os.path.join(folder, b".gitignore"), "rb") as file:
            return file.read(64).splitlines()[-1:] == [b"*"]
    except OSError:
        return False
