"""The files that make up a tree: which paths below a folder count.

In a git tree these are the tracked files and those that git does not ignore, else all of them
but for folders that ignore themselves, as caches and our own state folder do.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopkit.outside.processes import command_environment

MOST_TREES = 100
"""Repositories inside one another."""
GIT_SECONDS = 60
# The monitor of a repository is a program, which must not be started.
GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false")


class TooLarge(Exception):
    """There are more files, or more in them, than are looked at after each attempt."""


class NoGit(Exception):
    """Git gave no answer: it is not installed, or the folder is not in a git tree."""


def list_files(top: bytes, origin: bytes | None = None) -> Iterator[bytes]:
    """The path of every file below a folder, in one order; raises TooLarge and OSError.

    `origin` is the folder that this one is a copy of: what git ignores there does not count here,
    where the copy is no repository itself.
    """
    trees = [top]
    for folder in trees:
        if len(trees) > MOST_TREES:
            raise TooLarge
        try:
            listed = _list_by_git(folder)
        except NoGit:
            yield from _walk(folder, origin)
            continue
        paths = [os.path.join(folder, name.rstrip(b"/")) for name in listed]
        # Git lists a repository inside the repository only as a folder.
        trees += [path for path in paths if _is_folder(path)]
        yield from (path for path in paths if os.path.lexists(path) and not _is_folder(path))


def _is_folder(path: bytes) -> bool:
    return os.path.lexists(path) and stat.S_ISDIR(os.lstat(path).st_mode)


def _list_by_git(folder: bytes) -> list[bytes]:
    """The files that git tracks or would; raises NoGit, also where it ignores the folder."""
    if _is_outside_of_git(folder):
        raise NoGit
    listed = ask_git(folder, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed.returncode != 0:
        raise NoGit
    return sorted(set(listed.stdout.split(b"\0")) - {b""})


def _is_outside_of_git(folder: bytes) -> bool:
    """Whether git ignores all of a folder, or is not even started, as no `.git` is here or above.

    Raises NoGit.
    """
    here = Path(os.fsdecode(os.path.realpath(folder)))
    if not any(os.path.lexists(above / ".git") for above in (here, *here.parents)):
        return True
    return ask_git(folder, "check-ignore", "-q", ".").returncode == 0


def ask_git(
    folder: bytes, *arguments: str, stdin: bytes = b"", ok: Iterable[int] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The output of git in a folder; raises NoGit if it can't be started or is too slow.

    With `ok` also for any other exit code, with what git printed.
    """
    try:
        result = subprocess.run(  # noqa: S603 - git, and nothing that anybody wrote
            (*GIT, *arguments),
            cwd=folder,
            env=command_environment(extra={"GIT_OPTIONAL_LOCKS": "0"}),
            input=stdin,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoGit(f"`git` gave no answer: {error}") from error
    if ok is not None and result.returncode not in ok:
        raise NoGit(f"`git {arguments[0]}`: {result.stderr.decode(errors='replace').strip()}")
    return result


def _walk(top: bytes, origin: bytes | None) -> Iterator[bytes]:
    """All files, one level of folders after the other, without those that `origin` ignores."""
    if origin is not None and _ignores(origin):
        # A folder that is ignored as a whole is taken as it is.
        origin = None
    level = [top]
    while level:
        entries = [entry for folder in level for entry in _entries(folder)]
        ignored = _find_ignored(origin, top, entries) if origin is not None else frozenset()
        kept = [entry for entry in entries if entry.path not in ignored]
        yield from (entry.path for entry in kept if not entry.is_dir(follow_symlinks=False))
        level = [
            entry.path
            for entry in kept
            if entry.is_dir(follow_symlinks=False)
            and entry.name != b".git"
            and not _ignores_itself(entry.path)
        ]


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(folder) as listed:
        return sorted(listed, key=lambda entry: entry.name)


def _ignores(folder: bytes) -> bool:
    """Whether git ignores all of a folder, or none because there is no git."""
    try:
        return _is_outside_of_git(folder)
    except NoGit:
        return True


def _find_ignored(
    origin: bytes, top: bytes, entries: Iterable[os.DirEntry[bytes]]
) -> frozenset[bytes]:
    """The entries that git would ignore at the same place in another folder."""
    named = {os.path.relpath(entry.path, top): entry.path for entry in entries}
    if not named:
        return frozenset()
    try:
        names = b"".join(name + b"\0" for name in named)
        answer = ask_git(origin, "check-ignore", "-z", "--stdin", stdin=names, ok=(0, 1))
    except NoGit:
        return frozenset()
    return frozenset(named[name] for name in answer.stdout.split(b"\0") if name in named)


def _ignores_itself(folder: bytes) -> bool:
    try:
        with open(os.path.join(folder, b".gitignore"), "rb") as file:
            return file.read(64).splitlines()[-1:] == [b"*"]
    except OSError:
        return False
