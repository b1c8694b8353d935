"""Trees of one's own: a copy of a folder, or a git worktree, to work in; made and dropped."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from loopkit.outside.trees.listing import NoGit, TooLarge, ask_git, list_files

Isolation = Literal["copy", "worktree"]


class CannotIsolate(Exception):
    """The tree could not be made; the message has the cause and the remedy."""


def make(kind: Isolation, source: Path, place: Path, without: Path) -> Path:
    """Make a tree at `place` with the present content of `source`; the folder to work in.

    A copy has everything in the folder but `without`, which may be inside it. A worktree is one
    of the whole repository, with the tracked files and those that git does not ignore, as they
    are. Anything at `place` is removed first. Raises CannotIsolate.
    """
    drop(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if kind == "worktree":
            return _make_worktree(source, place)
        _copy(source, place, without)
    except (OSError, NoGit) as error:
        drop(place)
        raise CannotIsolate(
            f"no {kind} of {str(source)!r} can be made: {_cause(error)}; "
            "see that it can be read and that there is room"
        ) from error
    return place


def _cause(error: Exception) -> object:
    """The reason why a copy failed: that of the first file."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return error.args[0][0][-1]
    return error


def drop(place: Path) -> None:
    """Remove a tree, whichever it is; nothing where there is none."""
    if (place / ".git").is_file():
        try:
            with _alone(os.fsencode(place)) as repository:
                ask_git(repository, "worktree", "remove", "--force", "--force", str(place))
        except (NoGit, OSError):
            # The repository is gone, so that it has nothing to forget.
            pass
    shutil.rmtree(place, ignore_errors=True)


def drop_all(folder: Path) -> None:
    """Remove all trees in a folder, and the folder."""
    for place in folder.iterdir() if folder.is_dir() else ():
        drop(place)
    shutil.rmtree(folder, ignore_errors=True)


def is_in_git(folder: Path) -> bool:
    """Whether a worktree of the folder can be made: it is in a repository with a commit."""
    try:
        return ask_git(os.fsencode(folder), "rev-parse", "-q", "--verify", "HEAD").returncode == 0
    except NoGit:
        return False


def _make_worktree(source: Path, place: Path) -> Path:
    if not is_in_git(source):
        raise CannotIsolate(
            f"there is no git repository with a commit at {str(source)!r}; "
            "commit something, or write `isolate: copy`"
        )
    here = os.fsencode(source)
    top = ask_git(here, "rev-parse", "--show-toplevel", ok=(0,)).stdout.rstrip(b"\n")
    # By force, since git may remember a tree at this place that is gone.
    add = ("worktree", "add", "--force", "--force", "--quiet", "--detach", "--no-checkout")
    with _alone(top):
        ask_git(top, *add, str(place), "HEAD", ok=(0,))
    ask_git(os.fsencode(place), "read-tree", "HEAD", ok=(0,))
    try:
        for path in list_files(top):
            inside = os.fsdecode(os.path.relpath(path, top))
            _copy_file(Path(os.fsdecode(path)), place / inside)
    except TooLarge as error:
        raise CannotIsolate(
            f"{str(source)!r} has too many repositories inside one another; write `isolate: copy`"
        ) from error
    work = place / source.relative_to(os.fsdecode(os.path.realpath(top)))
    work.mkdir(parents=True, exist_ok=True)
    return work


@contextmanager
def _alone(folder: bytes) -> Iterator[bytes]:
    """The repository of a folder, whose worktrees nobody else makes or removes meanwhile.

    Git reads all of them before it makes another one, and fails at one that is half made.
    """
    common = ask_git(folder, "rev-parse", "--git-common-dir", ok=(0,)).stdout.rstrip(b"\n")
    repository = os.path.join(folder, common)
    descriptor = os.open(repository, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Where a file system locks no folders, git is on its own.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield repository
    finally:
        os.close(descriptor)


def _copy_file(path: Path, target: Path) -> None:
    """Copy a file or a link with its times; neither a pipe nor a socket."""
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target, follow_symlinks=False)


def _copy(source: Path, place: Path, without: Path) -> None:
    """Copy everything in a folder, links as links."""

    def ignore(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if Path(folder, name) == without}
        # A file of this name leads to a repository elsewhere, whose index and branch are not the
        # copy's to change.
        return found | ({".git"} if Path(folder, ".git").is_file() else set())

    def copy(path: str, target: str) -> None:
        _copy_file(Path(path), Path(target))

    shutil.copytree(source, place, symlinks=True, ignore=ignore, copy_function=copy)
