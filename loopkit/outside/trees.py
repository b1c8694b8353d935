"""Trees: what stands below a folder, as it is at one time, and how it is written back.

What counts are the files that git tracks or would, with their modes, links and folders; of a
repository inside the folder its `.git` too. A link is an entry like any other and never followed.
A tree of one's own, to work in, is a copy or a git worktree. Git obeys nobody's configuration here
and starts no program.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import mkdtemp
from typing import AnyStr, Literal, NamedTuple

from loopkit.outside.processes import command_environment
from loopkit.outside.workspace import is_behind_link
from loopkit.text import matches, means

OLDEST = (2, 38)
SECONDS = 60
_SETTINGS = {
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.quotePath": "false",
    # Names that other systems reserve are names like any other in a repository of our own.
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    # No program of the repository is started, so it does not matter who owns it.
    "safe.directory": "*",
    "core.fsync": "all",
    "gc.auto": "0",
    "fastimport.unpackLimit": "100",
    "core.bigFileThreshold": "10m",
}
COMMAND = ("git", *(word for name, at in _SETTINGS.items() for word in ("-c", f"{name}={at}")))
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "loopkit",
    "GIT_AUTHOR_EMAIL": "loopkit",
    "GIT_COMMITTER_NAME": "loopkit",
    "GIT_COMMITTER_EMAIL": "loopkit",
    "LC_ALL": "C",
}


class NoGit(Exception):
    """Git gave no answer: it is missing, too old or too slow, or the folder is in no repository."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that git gets: none of the caller's own `GIT_*`."""
    return command_environment(extra={**_VARIABLES, **(extra or {})})


def ask_git(
    folder: bytes | Path,
    *arguments: str | bytes | Path,
    stdin: bytes = b"",
    ok: Iterable[int] | None = None,
    extra: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """The output of git in a folder; raises NoGit if it can't be started or is too slow.

    With `ok` also for any other exit code, with what git printed.
    """
    try:
        result = subprocess.run(  # noqa: S603 - git, and nothing that anybody wrote
            (*COMMAND, *arguments),
            cwd=folder,
            env=environment(extra),
            input=stdin,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoGit(f"`git` gave no answer: {error}") from error
    if ok is not None and result.returncode not in ok:
        said = result.stderr.decode(errors="replace").strip()
        raise NoGit(f"`git {os.fsdecode(arguments[0])}`: {said}")
    return result


@cache
def require_git() -> str:
    """What git says of its version; raises NoGit unless it can keep folders."""
    remedy = f"install git {OLDEST[0]}.{OLDEST[1]} or newer, with which folders are kept"
    try:
        said = ask_git(b"/", "version").stdout.decode()
    except NoGit as error:
        raise NoGit(f"{error}; {remedy}") from error
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        raise NoGit(f"this is {said.strip()!r}; {remedy}")
    return said.strip()


class IgnoreRules:
    """What git ignores below a folder, by the ignore files there and what is tracked."""

    def __init__(self, top: bytes, here: bytes, index: str, excluded: str) -> None:
        self._top = top
        """The folder whose ignore files count."""
        self._here = here
        """The folder that stands for it; they differ where the latter is a copy."""
        self._variables = {"GIT_DIR": _no_repository(), "GIT_WORK_TREE": os.fsdecode(top)}
        self._variables["GIT_INDEX_FILE"] = index or f"{_no_repository()}/index"
        self._excluded = f"core.excludesFile={excluded or '/dev/null'}"

    @classmethod
    def around(cls, origin: bytes, here: bytes) -> IgnoreRules | None:
        """Those of the repository in which `origin` is; None if there is none, or it ignores all.

        `here` is the folder that stands for `origin`.
        """
        real = os.path.realpath(origin)
        above = (real, *(os.fsencode(folder) for folder in Path(os.fsdecode(real)).parents))
        if not any(os.path.lexists(os.path.join(folder, b".git")) for folder in above):
            has_rules = os.path.lexists(os.path.join(real, b".gitignore"))
            return cls(real, here, "", "") if has_rules else None
        asked = ("--show-toplevel", "--show-prefix", "--git-path", "index")
        try:
            words = ("rev-parse", *asked, "--git-path", "info/exclude")
            top, prefix, *paths = ask_git(real, *words, ok=(0,)).stdout.splitlines()
        except (NoGit, ValueError):
            return None
        index, excluded = (os.fsdecode(os.path.join(real, path)) for path in paths)
        stands_for_top = os.path.normpath(os.path.join(here, *[b".."] * prefix.count(b"/")))
        rules = cls(top, stands_for_top, index, excluded)
        return None if prefix and rules.find((here,)) else rules

    def find(self, paths: Sequence[bytes]) -> frozenset[bytes]:
        named = {self._name(path): path for path in paths}
        if not named:
            return frozenset()
        asked = ("-c", self._excluded, "check-ignore", "-z", "--stdin")
        stdin = b"".join(name + b"\0" for name in named)
        try:
            answer = ask_git(self._top, *asked, stdin=stdin, ok=(0, 1), extra=self._variables)
        except NoGit:
            return frozenset()
        return frozenset(named[name] for name in answer.stdout.split(b"\0") if name in named)

    def _name(self, path: bytes) -> bytes:
        """A path as git is asked for it; of a folder that is not at the top, something in it."""
        name = os.path.relpath(path, self._here)
        is_new = not os.path.lexists(os.path.join(self._top, name))
        return os.path.join(name, b"any") if is_new and is_real_folder(path) else name


def is_real_folder(path: bytes) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)  # noqa: PTH114 - bytes


CACHES = (
    ".loopkit",
    # A file that is about to be renamed.
    ".loopkit-????????????????",
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
    "node_modules",
)
"""What programs write for themselves, by name; it does not count unless git tracks it."""


@cache
def _no_repository() -> str:
    """A repository without anything in it: no configuration of anybody's, and our caches."""
    folder = Path(mkdtemp(prefix="loopkit-git-"))
    atexit.register(rmtree, folder, ignore_errors=True)
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    (folder / "info/exclude").write_text("".join(f"{name}\n" for name in CACHES))
    return str(folder)


Isolation = Literal["copy", "worktree"]
MOST_FILES = 50_000
MOST_BYTES = 500_000_000
SMALLER = "name a smaller folder, or let git ignore what is not part of the work"
Load = Callable[[str], bytes]


class NotKept(Exception):
    """A folder that can't be kept; the message is the rest of a sentence that begins with it."""


class TooLarge(NotKept):
    """There are more files, or more in them, than are looked at after each attempt."""

    def __init__(self) -> None:
        super().__init__(f"has more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes; {SMALLER}")


class Folder(NamedTuple):
    root: Path
    """A workspace or a tree; no link leads to it."""
    within: str = ""
    """The path of the folder below the root. If it, or a folder above it, is a link, this link is
    all there is."""
    origin: Path | None = None
    """What the root is a copy of: what git ignores there does not count."""
    ignore: tuple[str, ...] = ()
    """Patterns of what does not count either."""
    only: tuple[str, ...] = ()
    """Patterns of all that counts, where there are any, also of what git ignores."""


class Entry(NamedTuple):
    mode: int
    """Its kind and permissions, as `stat` has them; of a link only its kind."""
    blob: str
    """The id of its content in git; of a link, of where it leads to; empty for anything else."""


@dataclass(frozen=True)
class Tree:
    """What stands below a folder, by relative path; bytes that are not UTF-8 are escaped."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    times: str = field(default="", compare=False)
    """A digest that changes whenever any file is written."""
    linked: Mapping[str, int] = field(default_factory=dict, compare=False)
    """The files that have another name outside of the tree, with their inode."""

    @cached_property
    def manifest(self) -> bytes:
        """The tree as bytes: sorted by path, and the same for the same entries alone."""
        return b"".join(
            b"%o %s %s\0" % (entry.mode, entry.blob.encode(), path)
            for path, entry in sorted((os.fsencode(p), e) for p, e in self.entries.items())
        )

    @cached_property
    def digest(self) -> str:
        return blob_id(self.manifest)

    @classmethod
    def of_manifest(cls, manifest: bytes) -> Tree:
        """The tree of its manifest; raises ValueError if the bytes are not a manifest."""
        lines = (line.split(b" ", 2) for line in manifest.split(b"\0") if line)
        return cls({os.fsdecode(p): Entry(int(mode, 8), blob.decode()) for mode, blob, p in lines})


def blob_id(content: bytes) -> str:
    """The id that git gives to a content."""
    digest = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def changed_paths(before: Tree, after: Tree) -> list[str]:
    both = before.entries.keys() | after.entries.keys()
    found = (path for path in both if before.entries.get(path) != after.entries.get(path))
    return sorted(found, key=os.fsencode)


def changed_files(
    before: Tree, after: Tree, passes_over: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """The files and links at which two trees differ, and the repositories inside them."""
    found: dict[str, None] = {}
    for path in changed_paths(before, after):
        sides = (tree.entries.get(path) for tree in (before, after))
        if any(side and not stat.S_ISDIR(side.mode) for side in sides) and not passes_over(path):
            found[repository_of(path) or path] = None
    return list(found)


def repository_of(path: str) -> str | None:
    """The `.git` in which a path is, if it is in one."""
    parts = path.split("/")
    lowered = [part.lower() for part in parts]
    return "/".join(parts[: lowered.index(".git") + 1]) if ".git" in lowered else None


def printable_path(path: str) -> str:
    """A path as text; bytes that are not UTF-8 and characters that break a line are escaped."""
    whole = os.fsencode(path).decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in whole)


def read_tree(
    folder: Folder,
    known: Tree | None = None,
    *,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> Tree:
    """The tree of a folder as it is now; paths are relative to its root.

    What is in the tree `known` counts whatever ignore files say by now. Raises TooLarge, and
    OSError where something can't be read or the root is reached by a link.
    """
    root, within, origin, ignore, only = folder
    top = os.fsencode(open_root(root))
    times = hashlib.sha256()
    entries = dict[str, Entry]()
    names = dict[tuple[int, int, int], list[str]]()
    room = most_bytes
    counted = frozenset() if known is None else frozenset(map(os.fsencode, known.entries))
    paths = (
        _protected(top, only, ignore, counted)
        if only
        else _paths(top, os.fsencode(within), os.fsencode(origin or root), counted)
    )
    for path in paths:
        name = os.path.relpath(path, top)
        shown = os.fsdecode(name)
        if any(matches(shown, pattern) for pattern in ignore):
            continue
        try:
            info = os.lstat(path)
            if not stat.S_ISDIR(info.st_mode):
                room = room - info.st_size
                most_files = most_files - 1
            if min(room, most_files) < 0:
                raise TooLarge
            entries[shown] = _entry(path, info)
        except FileNotFoundError:
            # Somebody has removed it since the folder was listed.
            continue
        if stat.S_ISDIR(info.st_mode):
            continue
        times.update(b"%s\0%d\0" % (name, info.st_mtime_ns))
        if stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
            names.setdefault((info.st_dev, info.st_ino, info.st_nlink), []).append(shown)
    linked = {
        path: inode
        for (_, inode, links), paths in names.items()
        if len(paths) < links
        for path in paths
    }
    for above in {str(above) for path in entries for above in PurePosixPath(path).parents[:-1]}:
        if above not in entries:
            place = os.path.join(top, os.fsencode(above))
            entries[above] = _entry(place, os.lstat(place))
    return Tree(entries, times.hexdigest(), linked)


def open_root(root: Path) -> Path:
    """The folder itself; raises OSError if it is missing, or if a link leads to it."""
    if is_behind_link(root):
        raise OSError(errno.ELOOP, "it is a link now, or is reached by one; put the folder back")
    if not stat.S_ISDIR(root.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is no folder now; put the folder back")
    return root


def make_own_folder(state: Path, name: str) -> Path:
    """A folder of the state folder, which is made; raises OSError if a link leads to it."""
    if os.path.lexists(state):
        open_root(state)
    (state / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    return open_root(state / name)


_ADDED_TO = re.compile(r"(^|/)\.git/((?!refs/).*/)?(objects|logs|lfs)$")
"""What git only adds to in a repository: it is left, so that no commit is lost."""


def _protected(
    top: bytes, patterns: Sequence[str], ignore: Sequence[str], counted: Collection[bytes]
) -> Iterator[bytes]:
    """Everything below a folder that patterns mean, or that is `counted`, without following links.

    A link counts as well where something in a folder in its place would.
    """
    folders = [(top, False)]
    while folders:
        folder, is_meant = folders.pop()
        for entry in _entries(folder):
            name = os.path.relpath(entry.path, top)
            path = os.fsdecode(name)
            if _ADDED_TO.search(path) or any(means(pattern, path) for pattern in ignore):
                continue
            names = (path, f"{path}/any") if entry.is_symlink() else (path,)
            is_one = is_meant or any(means(p, name) for p in patterns for name in names)
            if is_one or name in counted:
                yield entry.path
            if entry.is_dir(follow_symlinks=False):
                folders.append((entry.path, is_one))


_OF_GIT = ("index", "*.lock", "*_HEAD", "*_EDITMSG", "*_MSG", "gc.pid")


def is_by_the_way(path: str) -> bool:
    """Whether a program writes this for itself: a cache, or what git writes also when asked."""
    repository = repository_of(path)
    patterns = CACHES if repository is None else _OF_GIT
    return any(matches(path.removeprefix(f"{repository}/"), pattern) for pattern in patterns)


def _paths(
    top: bytes, within: bytes, origin: bytes, counted: Collection[bytes] = ()
) -> Iterator[bytes]:
    """Everything at and below `within` that counts, one level after the other.

    The relative paths that are `counted` do so whatever ignore files say.
    """
    start = os.path.normpath(os.path.join(top, within))
    if start != top:
        found = _first_but_folders(top, os.path.relpath(start, top))
        if found is not None:
            yield found
        if found != start or not is_real_folder(start):
            return
    rules = IgnoreRules.around(origin, top)
    if start != top:
        # What git ignores as a whole is looked at as it is.
        is_ignored = rules is not None and rules.find((start,))
        rules = None if is_ignored else _rules_in(start, origin, os.path.relpath(start, top), rules)
    level = [(start, rules)]
    while level:
        entries = [(entry, rules) for folder, rules in level for entry in _entries(folder)]
        ignored = _find_ignored(entries, (top, start))
        level = []
        for entry, rules in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            name = os.path.relpath(entry.path, top)
            is_own = is_folder and _ignores_itself(entry.path)
            if (entry.path in ignored or (is_own and rules is None)) and name not in counted:
                continue
            # Git knows what it tracks in a folder that ignores itself; nothing else is there.
            if not is_own or name in counted:
                yield entry.path
            if is_folder:
                level.append((entry.path, _rules_in(entry.path, origin, name, rules)))


def _rules_in(
    folder: bytes, origin: bytes, name: bytes, rules: IgnoreRules | None
) -> IgnoreRules | None:
    # Of another repository git tells nothing from outside.
    for other in (os.path.join(origin, name), folder):
        if os.path.lexists(os.path.join(other, b".git")):
            return IgnoreRules(other, folder, "", "")
    return rules


def _first_but_folders(top: bytes, within: bytes) -> bytes | None:
    """The first place on the way from `top` that is no folder, else the last; None if missing."""
    at = top
    for part in within.split(b"/"):
        at = os.path.join(at, part)
        if not os.path.lexists(at):
            return None
        if not is_real_folder(at):
            break
    return at


def _find_ignored(
    entries: Iterable[tuple[os.DirEntry[bytes], IgnoreRules | None]], tops: tuple[bytes, bytes]
) -> set[bytes]:
    """The entries that don't count, among them the `.git` of the folders `tops`."""
    ignored = set[bytes]()
    asked = dict[IgnoreRules, list[bytes]]()
    for entry, rules in entries:
        if entry.name == b".git" and os.path.split(entry.path)[0] in tops:
            ignored.add(entry.path)
        elif rules is not None:
            asked.setdefault(rules, []).append(entry.path)
        elif any(fnmatchcase(os.fsdecode(entry.name), name) for name in CACHES):
            ignored.add(entry.path)
    return ignored.union(*(rules.find(paths) for rules, paths in asked.items()))


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(folder) as listed:
        return sorted(listed, key=lambda entry: entry.name)


def _ignores_itself(folder: bytes) -> bool:
    try:
        lines = _content(os.path.join(folder, b".gitignore"))[:10_000].split(b"\n")
        return [line for line in lines if line.strip() and line[:1] != b"#"] == [b"*"]
    except OSError:
        return False


def _entry(name: bytes, info: os.stat_result, folder: int | None = None) -> Entry:
    mode = info.st_mode
    if stat.S_ISREG(mode):
        return Entry(stat.S_IFREG | mode & 0o777, blob_id(_content(name, folder)))
    if stat.S_ISLNK(mode):
        return Entry(stat.S_IFLNK, blob_id(os.readlink(name, dir_fd=folder)))
    return Entry(stat.S_IFMT(mode) | mode & 0o777, "")


def content_at(root: Path, path: str) -> bytes:
    place = os.path.join(os.fsencode(root), os.fsencode(path))
    is_link = stat.S_ISLNK(os.lstat(place).st_mode)
    return os.readlink(place) if is_link else _content(place)  # noqa: PTH115 - bytes


def _content(name: bytes, folder: int | None = None) -> bytes:
    # A link or pipe put there meanwhile is neither followed nor waited for.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(name, flags, dir_fd=folder), "rb") as file:
        return file.read()


def refuse_unkept(tree: Tree, known: Tree | None) -> None:
    """Raise NotKept for what is no file, link or folder, or has another name outside.

    `known` is an earlier tree, whose files may have other names. Without one all may.
    """
    for path, entry in tree.entries.items():
        kind = stat.S_IFMT(entry.mode)
        if kind not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            name = "a FIFO" if kind == stat.S_IFIFO else "a socket or a device"
            raise NotKept(f"can't be kept: {printable_path(path)!r} is {name}; remove it")
    if known is None:
        return
    for path, inode in sorted(tree.linked.items()):
        earlier = known.entries.get(path)
        is_same = earlier is not None and earlier.blob == tree.entries[path].blob
        if not is_same and known.linked.get(path) != inode:
            raise NotKept(
                f"can't be kept: {printable_path(path)!r} is a hard link to a file outside, which "
                "is not read; put a copy there (`git clone` makes one with `--no-hardlinks`)"
            )


def files_digest(
    folder: Path,
    without: Path | None = None,
    origin: Path | None = None,
    *,
    most_files: int = MOST_FILES,
    most_bytes: int = MOST_BYTES,
) -> str:
    """One digest for all that is below a folder, but for the file `without`.

    `origin` is the folder that this one is a copy of. Empty where there is no telling: too many
    files, or too much in them, to be looked at after each attempt, or a folder that can't be read.
    """
    left_out = "" if without is None else os.path.relpath(without, folder)
    try:
        whole = Folder(Path(os.path.realpath(folder)), "", origin)
        tree = read_tree(whole, most_files=most_files, most_bytes=most_bytes)
    except (TooLarge, OSError):
        return ""
    return Tree({path: entry for path, entry in tree.entries.items() if path != left_out}).digest


class Conflicts(Exception):
    """Paths of a folder that are not what they should be, so that nothing was written."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__(paths)
        self.paths = paths


def write_tree(
    root: Path, before: Tree, after: Tree, load: Load, *, ignored_may_go: bool = False
) -> list[str]:
    """Write what differs between two trees of `root`; the files and links that changed.

    It has to be there as one of them says: what is written already is left. Else raises Conflicts,
    and OSError where something can't be written. It is on the disk on return. Nothing else in the
    folder is touched, nothing outside, and no other name of a file. With `ignored_may_go` what does
    not count is removed with a folder in whose place something else comes.
    """
    changed = changed_paths(before, after)
    top = os.open(open_root(root), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        writing = _Writing(top, after, load, shutil.rmtree if ignored_may_go else os.rmdir)
        strange = [path for path in changed if not writing.may_change(path, before)]
        if strange:
            raise Conflicts(tuple(strange))
        writing.write(changed)
    finally:
        os.close(top)
    return changed_files(before, after)


class _Writing:
    """Writing below an open folder, whose folders are entered one by one and never by a link."""

    def __init__(self, top: int, after: Tree, load: Load, remove: Callable[..., object]) -> None:
        self._top = top
        self._remove_folder = remove
        self._after = after.entries
        self._load = load

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        """The open folder at a path; raises OSError where that is none, or beyond a link."""
        opened = os.dup(self._top)
        try:
            for part in filter(None, path.split("/")):
                inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened
        finally:
            os.close(opened)

    def _now(self, path: str) -> Entry | None:
        """What stands at a path now; none if nothing, or if it is below something else."""
        above, _, name = path.rpartition("/")
        try:
            with self._folder(above) as folder:
                info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                return _entry(os.fsencode(name), info, folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def may_change(self, path: str, before: Tree) -> bool:
        now = self._now(path)
        sides = (before.entries.get(path), self._after.get(path))
        if now in sides:
            return True
        # A folder that stands or is missing is not in anybody's way.
        return all(side is None or stat.S_ISDIR(side.mode) for side in (now, *sides))

    def write(self, changed: Iterable[str]) -> None:
        """Remove what goes, from the innermost on, then make what comes, from the outermost on."""
        due = [path for path in changed if self._now(path) != self._after.get(path)]
        touched: set[str] = set()
        for path in reversed(due):
            self._remove(path)
            touched.add(path.rpartition("/")[0])
        folders: list[str] = []
        for path in due:
            entry = self._after.get(path)
            if entry is None:
                continue
            touched.add(path.rpartition("/")[0])
            if stat.S_ISDIR(entry.mode):
                folders.append(path)
            self._make(path, entry)
        for path in sorted(touched | {*folders}, reverse=True):
            with suppress(FileNotFoundError, NotADirectoryError), self._folder(path) as folder:
                if path in folders:
                    os.fchmod(folder, stat.S_IMODE(self._after[path].mode))
                os.fsync(folder)

    def _remove(self, path: str) -> None:
        """Remove what is not a folder in both; what git ignores stays in a folder that goes."""
        above, _, name = path.rpartition("/")
        now, then = self._now(path), self._after.get(path)
        if now is None:
            return
        with self._folder(above) as folder:
            if not stat.S_ISDIR(now.mode):
                if then is None or stat.S_IFMT(then.mode) != stat.S_IFMT(now.mode):
                    os.unlink(name, dir_fd=folder)
            elif then is None:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=folder)
            elif not stat.S_ISDIR(then.mode):
                self._remove_folder(name, dir_fd=folder)

    def _make(self, path: str, entry: Entry) -> None:
        above, _, name = path.rpartition("/")
        with self._folder(above) as folder:
            if stat.S_ISDIR(entry.mode):
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                return
            content = self._load(entry.blob)
            draft = f".loopkit-{blob_id(os.fsencode(name))[:16]}"
            # One of a process that was killed has the same name.
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            if stat.S_ISLNK(entry.mode):
                os.symlink(content, draft.encode(), dir_fd=folder)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with open(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fchmod(file.fileno(), stat.S_IMODE(entry.mode))
                    os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)


class CannotIsolate(Exception):
    """The tree could not be made; the message has the cause and the remedy."""


def make(kind: Isolation, source: Path, place: Path, without: Path) -> Path:
    """Make a tree at `place` with the present content of `source`; the folder to work in.

    A copy has everything in the folder but `without`, which may be inside it. A worktree is one
    of the whole repository, with the tracked files and those that git does not ignore, as they
    are. Anything at `place` is removed first. Raises CannotIsolate.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        open_root(place.parent)
        drop(place)
        if kind == "worktree":
            return _make_worktree(source, place)
        _copy(source, place, without)
    except (OSError, NoGit) as error:
        if not is_behind_link(place.parent):
            drop(place)
        raise CannotIsolate(
            f"no {kind} of {str(source)!r} can be made: {_cause(error)}; "
            "see that it can be read and that there is room"
        ) from error
    return place


def _cause(error: Exception) -> object:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        return error.args[0][0][-1]
    return error


def drop(place: Path) -> None:
    """Remove what stands at a place, be it a tree or a link; nothing behind a link."""
    repository = _repository_of_worktree(place)
    if place.is_symlink() or place.is_file():
        place.unlink()
    shutil.rmtree(place, ignore_errors=True)
    if repository is not None:
        with suppress(NoGit, OSError), _alone(repository):
            ask_git(repository, "worktree", "prune", "--expire=now")


def _repository_of_worktree(place: Path) -> bytes | None:
    """The repository that knows the worktree at a place, if it and the worktree name each other."""
    try:
        named = _content(os.fsencode(place / ".git")).removeprefix(b"gitdir: ").strip()
        back = _content(os.path.join(named, b"gitdir")).strip()
    except (OSError, ValueError):
        return None
    is_named = back == os.fsencode(place / ".git")
    return os.fsencode(Path(os.fsdecode(named)).parent.parent) if is_named else None


def drop_all(folder: Path) -> None:
    if folder.is_dir() and not is_behind_link(folder):
        for place in folder.iterdir():
            drop(place)
        shutil.rmtree(folder, ignore_errors=True)


def is_in_git(folder: Path) -> bool:
    """Whether a worktree of the folder can be made: it is in a repository with a commit."""
    try:
        return ask_git(folder, "rev-parse", "-q", "--verify", "HEAD").returncode == 0
    except NoGit:
        return False


def _make_worktree(source: Path, place: Path) -> Path:
    if not is_in_git(source):
        raise CannotIsolate(
            f"there is no git repository with a commit at {str(source)!r}; "
            "commit something, or write `isolate: copy`"
        )
    top = ask_git(source, "rev-parse", "--show-toplevel", ok=(0,)).stdout.rstrip(b"\n")
    common = ask_git(top, "rev-parse", "--git-common-dir", ok=(0,)).stdout.rstrip(b"\n")
    # By force, since git may remember a tree at this place that is gone.
    add = ("worktree", "add", "--force", "--force", "--quiet", "--detach", "--no-checkout")
    with _alone(os.path.join(top, common)):
        ask_git(top, *add, place, "HEAD", ok=(0,))
    ask_git(place, "read-tree", "HEAD", ok=(0,))
    folders: list[tuple[bytes, bytes]] = []
    for path in _paths(top, b"", top):
        name = os.path.relpath(path, top)
        target = os.path.join(os.fsencode(place), name)
        if repository_of(os.fsdecode(name)):
            # What another repository knows of its worktrees is not the run's to change.
            continue
        if is_real_folder(path):
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - bytes
            folders.append((path, target))
        else:
            os.makedirs(os.path.split(target)[0], exist_ok=True)  # noqa: PTH103 - bytes
            _copy_file(path, target)
    for path, target in reversed(folders):
        shutil.copymode(path, target)
    work = place / source.relative_to(os.fsdecode(os.path.realpath(top)))
    work.mkdir(parents=True, exist_ok=True)
    return work


@contextmanager
def _alone(repository: bytes) -> Iterator[None]:
    """Keep others from making or removing worktrees of a repository meanwhile.

    Git reads all of them before it makes another one, and fails at one that is half made.
    """
    descriptor = os.open(repository, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Where a file system locks no folders, git is on its own.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _copy_file(path: AnyStr, target: AnyStr) -> None:
    """Copy a file or a link with its times; neither a pipe, a socket nor what is gone by now."""
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            shutil.copy2(path, target, follow_symlinks=False)


def _copy(source: Path, place: Path, without: Path) -> None:

    def ignore(folder: str, names: list[str]) -> set[str]:
        found = {name for name in names if Path(folder, name) == without}
        # A file of this name leads to a repository elsewhere, whose index and branch are not the
        # copy's to change.
        return found | ({".git"} if Path(folder, ".git").is_file() else set())

    shutil.copytree(source, place, symlinks=True, ignore=ignore, copy_function=_copy_file)
