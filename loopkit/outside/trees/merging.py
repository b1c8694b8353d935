"""Merging trees: two changed versions of one base as one tree, written to a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from loopkit.outside.trees.diff import Load, changed_paths
from loopkit.outside.trees.listing import NoGit, ask_git
from loopkit.outside.trees.tree import Entry, Kind, Tree, digest_of, entry_at


@dataclass(frozen=True)
class Merge:
    """The result of merging two sides."""

    tree: Tree
    made: tuple[bytes, ...] = ()
    """Contents that neither side has: of files that both have changed, in different lines."""
    conflicts: tuple[str, ...] = ()
    """Paths that both have changed in ways that exclude each other; then `tree` is of no use."""


def merge_trees(base: Tree, ours: Tree, theirs: Tree, load: Load) -> Merge:
    """Merge the changes of both sides to the base.

    A file that one side has not changed is taken from the other; a file that both have changed is
    merged line by line.
    """
    entries, conflicts = dict(ours.entries), list[str]()
    made: list[bytes] = []
    for path in changed_paths(base, theirs):
        old, mine, other = (tree.entries.get(path) for tree in (base, ours, theirs))
        if mine == other:
            continue
        try:
            found = other if mine == old else _merge_file(old, mine, other, load, made)
        except _Conflict:
            conflicts.append(path)
            continue
        if found is None:
            del entries[path]
        else:
            entries[path] = found
    conflicts += _blocking_files(entries, theirs)
    return Merge(Tree(entries), tuple(made), tuple(sorted(set(conflicts), key=os.fsencode)))


class _Conflict(Exception):
    """Two sides exclude each other."""


def _merge_file(
    old: Entry | None, mine: Entry | None, other: Entry | None, load: Load, made: list[bytes]
) -> Entry:
    """Merge both sides of one file; new content is added to `made`; raises _Conflict."""
    if old is None or mine is None or other is None:
        raise _Conflict
    if {old.kind, mine.kind, other.kind} - {"file", "program"}:
        raise _Conflict
    kind = _kind(old, mine, other)
    if mine.digest in (old.digest, other.digest):
        return Entry(kind, other.digest)
    if old.digest == other.digest:
        return Entry(kind, mine.digest)
    contents = [load(entry.digest) for entry in (mine, old, other)]
    if any(b"\0" in content for content in contents):
        raise _Conflict
    content = _merge_lines(*contents)
    made.append(content)
    return Entry(kind, digest_of(content))


def _kind(old: Entry, mine: Entry, other: Entry) -> Kind:
    """The kind of the side that has changed it."""
    return other.kind if mine.kind == old.kind else mine.kind


def _merge_lines(mine: bytes, old: bytes, other: bytes) -> bytes:
    with TemporaryDirectory(prefix="loopkit-merge-") as folder:
        names = ("mine", "old", "other")
        for name, content in zip(names, (mine, old, other), strict=True):
            Path(folder, name).write_bytes(content)
        try:
            answer = ask_git(os.fsencode(folder), "merge-file", "-p", "-q", *names)
        except NoGit as error:
            raise _Conflict from error
    if answer.returncode != 0:
        raise _Conflict
    return answer.stdout


def _blocking_files(entries: Mapping[str, Entry], theirs: Tree) -> Iterator[str]:
    """Files of one side in whose place the other has a folder."""
    for path in entries:
        for parent in map(str, Path(path).parents[:-1]):
            if parent in entries:
                yield parent if parent in theirs.entries else path


class Conflicts(Exception):
    """Files of a folder that are not what they should be, so that nothing was written."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.paths = paths


def write_tree(folder: Path, before: Tree, after: Tree, load: Load) -> list[str]:
    """Write a tree to a folder; the paths of the files that changed.

    What differs between the trees has to be in the folder as one or the other says: what is
    written already is left. Else raises Conflicts, and OSError where a file can't be written.
    Nothing else in the folder is touched, and nothing outside.
    """
    changed = changed_paths(before, after)
    found = {path: entry_at(folder, path) for path in changed}
    known = {path: (before.entries.get(path), after.entries.get(path)) for path in changed}
    strange = [path for path in changed if found[path] not in known[path]]
    going = {path for path in changed if path not in after.entries}
    strange += [path for path in changed if _is_barred(folder, path, going)]
    if strange:
        raise Conflicts(tuple(dict.fromkeys(strange)))
    due = [path for path in changed if found[path] != after.entries.get(path)]
    for path in (path for path in due if path in going):
        _remove(folder, path)
    for path in (path for path in due if path not in going):
        _write(folder, path, after.entries[path], load)
    return changed


def _is_barred(folder: Path, path: str, going: set[str]) -> bool:
    """Whether a remaining entry blocks a folder of the path."""
    parts = Path(path).parents[:-1]
    return any(
        os.path.lexists(folder / parent)
        and not stat.S_ISDIR((folder / parent).lstat().st_mode)
        and str(parent) not in going
        for parent in parts
    )


def _remove(folder: Path, path: str) -> None:
    place = folder / path
    place.unlink()
    for parent in place.parents:
        if parent == folder or any(parent.iterdir()):
            break
        parent.rmdir()


def _write(folder: Path, path: str, entry: Entry, load: Load) -> None:
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    content, draft = load(entry.digest), place.with_name(f".{place.name[:200]}.loopkit")
    draft.unlink(missing_ok=True)
    if entry.kind == "link":
        draft.symlink_to(os.fsdecode(content))
    elif entry.kind != "other":
        draft.write_bytes(content)
        is_there = os.path.lexists(place) and stat.S_ISREG(place.lstat().st_mode)
        mode = (place if is_there else draft).stat().st_mode & 0o666
        # Whoever may read it may execute it, as with git.
        draft.chmod(mode | (mode & 0o444) >> 2 if entry.kind == "program" else mode)
    else:
        return
    draft.replace(place)
