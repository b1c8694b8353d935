"""Trees: the files below a folder that count, as they are at one time, with one digest for all.

In git these are the tracked files and those that git does not ignore, else all but folders that
ignore themselves, as caches and our own state folder do. A tree of one's own, to work in, is a copy
or a git worktree. Two trees have a difference, in git's form, which `git apply` takes; two changed
versions of one base can be merged and written to a folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, get_args

from loopkit.outside.processes import command_environment
from loopkit.text.editing import hunks

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


Load = Callable[[str], bytes]
"""The content of a digest."""
MODES = {"file": "100644", "program": "100755", "link": "120000", "other": "000000"}
NOWHERE = "/dev/null"
MOST_DIFF_BYTES = 10_000_000
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
    if len(content) > MOST_DIFF_BYTES or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


MOST_FILES = 50_000
MOST_BYTES = 500_000_000
Kind = Literal["file", "program", "link", "other"]
KINDS: Mapping[bytes, Kind] = {kind.encode(): kind for kind in get_args(Kind)}
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
        return b"".join(
            b"%s %s %s\0" % (entry.kind.encode(), entry.digest.encode(), path)
            for path, entry in sorted((os.fsencode(p), e) for p, e in self.entries.items())
        )

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
    for path in list_files(top, None if origin is None else os.fsencode(origin)):
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
    # The kind of the side that has changed it.
    kind = other.kind if mine.kind == old.kind else mine.kind
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
