"""The contents of trees, in a bare git repository of the state folder: each content once.

A tree is a commit with the folder as it is (`files`) and a manifest, which has what git does not
keep: empty folders and all permissions. The id of the manifest names the tree. Its files and a ref
for each run that has kept it are on the disk before anybody learns the name, so it is there whole
or not at all, and stays as long as such a run.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory, mkdtemp, mkstemp

from loopkit.journal.errors import JournalUnusable, LostContent, unusable
from loopkit.journal.files import locked
from loopkit.outside.processes import TREES
from loopkit.outside.trees import (
    COMMAND,
    Entry,
    Folder,
    Load,
    NoGit,
    NotKept,
    Tree,
    ask_git,
    blob_id,
    changed_files,
    content_at,
    drop_all,
    environment,
    printable_path,
    read_tree,
    refuse_unkept,
    repository_of,
    require_git,
    write_tree,
)

REPOSITORY = "trees.git"
PRUNED_AFTER = "2.hours.ago"
"""What no run holds goes when it is that old; somebody may be about to name it."""
_EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The id that git gives to a tree without entries."""
_SECONDS = 600
_MOST_SENT = 64_000_000


class TooLong(Exception):
    """The difference has more characters than are kept of a text."""


@dataclass(frozen=True)
class Merge:
    tree: Tree
    conflicts: tuple[str, ...] = ()
    """Paths that both have changed in ways that exclude each other; then `tree` is of no use."""


def host_label() -> str:
    """What a run needs whose trees are on this host only."""
    return f"host:{os.uname().nodename}"


class Contents:
    """Where the trees of all runs are kept; git 2.38 or newer is needed.

    May be used by several threads and processes. What fails raises JournalUnusable, and LostContent
    if a tree is not there.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is the state folder; without one, trees are kept until this process ends."""
        # Once, so that nobody can put a link there later.
        self.folder = folder and Path(os.path.realpath(folder))
        self.state = self.folder
        """The whole state folder, which no copy of a project takes with it."""
        self._temporary: TemporaryDirectory[str] | None = None

    def keep(
        self, run: str, folder: Folder, known: Tree | None = None, *, is_trusted: bool = False
    ) -> Tree:
        """The tree of a folder as it is now, durable on return (see `read_tree`).

        `known` is an earlier tree. Hard links that were made since are refused, unless whoever
        worked there `is_trusted`. Raises NotKept.
        """
        try:
            require_git()
            seen = read_tree(folder, known)
            refuse_unkept(seen, None if is_trusted else known)
            with self._using(writes=True):
                kept = self._ask("show-ref", "--verify", "-q", _ref(seen.digest, run), ok=(0, 1))
                return seen if kept.returncode == 0 else self._keep(run, folder.root, seen)
        except NoGit as error:
            raise NotKept(f"can't be kept: {error}") from error
        except OSError as error:
            raise NotKept(f"can't be read: {error}; make it readable") from error

    def _keep(self, run: str, root: Path, seen: Tree) -> Tree:
        asked = "".join(f"{blob}\n" for blob in {e.blob for e in seen.entries.values()} - {""})
        answer = self._ask("cat-file", "--batch-check", stdin=asked.encode()).stdout.decode()
        missing = {line.split()[0] for line in answer.splitlines() if line.endswith(" missing")}
        entries = dict(seen.entries)
        commands = list[bytes]()
        size = 0
        for path, entry in seen.entries.items():
            if entry.blob not in missing:
                continue
            try:
                content = content_at(root, path)
            except FileNotFoundError:
                # It has been removed since.
                del entries[path]
                continue
            # It may have changed since: its present content is kept, and named.
            entries[path] = Entry(entry.mode, blob_id(content))
            commands.append(b"blob\ndata %d\n%s\n" % (len(content), content))
            size += len(content)
            if size > _MOST_SENT:
                self._import(commands)
                commands, size = [], 0
        tree = Tree(entries, seen.times, seen.linked)
        self._import([*commands, _commit(run, tree)])
        return tree

    def _import(self, commands: Sequence[bytes]) -> None:
        """Let `git fast-import` carry out commands; what is not all of them counts for nothing."""
        asked = ("fast-import", "--done", "--quiet", "--depth=0", "--date-format=raw")
        try:
            self._ask(*asked, stdin=b"".join((*commands, b"done\n")))
        except NoGit:
            for report in self._place.glob("fast_import_crash_*"):
                report.unlink(missing_ok=True)
            raise

    def _fetch(self, *digests: str) -> None:
        """Get trees that are only elsewhere."""

    def tree(self, digest: str) -> Tree:
        self._fetch(digest)
        if not self.exist():
            raise _lost(digest)
        with self._using():
            found = self._ask("cat-file", "blob", digest, ok=(0, 128))
        try:
            if found.returncode == 0:
                return Tree.of_manifest(found.stdout)
        except ValueError:
            pass
        raise _lost(digest)

    def diff(self, before: Tree, after: Tree, most: int) -> str:
        """The changes between two kept trees; binary files and repositories are only named.

        Raises TooLong where that has more than `most` characters.
        """
        self._fetch(before.digest, after.digest)
        with self._using():
            sides = [self._files(tree) for tree in (before, after)]
            shown = ("-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
            text = self._ask("diff-tree", *shown, *sides, "--", ":(exclude,glob)**/.git%/**").stdout
        if len(text) > 4 * most:
            raise TooLong
        text = re.sub(rb"(?m)^index [0-9a-f]+\.\.[0-9a-f]+(?: \d+)?\n", b"", text)
        inner = {path for path in changed_files(before, after) if repository_of(path)}
        lines = (f"Repository {printable_path(path)} differs\n" for path in sorted(inner))
        whole = text.decode(errors="replace") + "".join(lines)
        if len(whole) > most:
            raise TooLong
        return whole

    def merge(self, run: str, base: Tree, ours: Tree, theirs: Tree) -> Merge:
        """Merge the changes of both sides to the base; the result is kept.

        A path that one side has not changed is taken from the other; a file that both have changed
        is merged line by line.
        """
        self._fetch(base.digest, ours.digest, theirs.digest)
        with self._using(writes=True):
            commits: list[str] = []
            for tree in (base, ours, theirs):
                parent = ("-p", commits[0]) if commits else ()
                made = self._ask("commit-tree", self._files(tree), *parent, "-m", "side")
                commits.append(made.stdout.decode().strip())
            whole = ("-c", "merge.renames=false", "merge-tree", "--write-tree", "-z")
            asked = (*whole, "--name-only", "--no-messages", *commits[1:])
            found, *named = self._ask(*asked, ok=(0, 1)).stdout.rstrip(b"\0").split(b"\0")
            if named:
                # A file that is in the way of a folder gets a name beside it.
                paths = (re.sub(r"~[0-9a-f]{40}(_\d+)?$", "", _unescape(name)) for name in named)
                return Merge(Tree(), tuple(sorted(set(paths), key=os.fsencode)))
            listed = self._ask("ls-tree", "-r", "-z", found).stdout.split(b"\0")[:-1]
            files = dict(map(_entry_of, listed))
            tree, conflicts = _with_modes(files, base, ours, theirs)
            if not conflicts:
                self._import([_commit(run, tree)])
        return Merge(tree, conflicts)

    def write(
        self, root: Path, before: Tree, after: Tree, *, ignored_may_go: bool = False
    ) -> list[str]:
        """Write a kept tree to a folder (see `write_tree`)."""
        self._fetch(after.digest)
        with self._using(), self._loading() as load:
            return write_tree(root, before, after, load, ignored_may_go=ignored_may_go)

    @contextmanager
    def _loading(self) -> Iterator[Load]:
        """A function from the id of a content to the content; raises LostContent."""
        process = subprocess.Popen(  # noqa: S603 - git, and nothing that anybody wrote
            (*COMMAND, "cat-file", "--batch"), cwd=self._place, env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answers = process.stdin, process.stdout

        def load(blob: str) -> bytes:
            asking.write(f"{blob}\n".encode())
            asking.flush()
            head = answers.readline().split()
            if len(head) != 3:
                raise _lost(blob)
            content = answers.read(int(head[2]))
            answers.read(1)
            return content

        try:
            yield load
        finally:
            process.kill()
            process.communicate()

    def has(self, digest: str) -> bool:
        return self.exist() and bool(self._commit_of(digest))

    def _commit_of(self, digest: str) -> bytes:
        form = ("--count=1", "--format=%(objectname)")
        return self._ask("for-each-ref", *form, f"{_REFS}/{digest}").stdout.strip()

    def objects(self, digest: str) -> list[str]:
        """The ids of all that a kept tree consists of; the first one is its commit."""
        with self._using():
            listed = self._ask("rev-list", "--objects", self._commit_of(digest)).stdout
        return [line.split(b" ")[0].decode() for line in listed.splitlines()]

    def packed(self, ids: Sequence[str]) -> Iterator[bytes]:
        """Each of these objects, as git stores it in a file of its own."""
        with self._using():
            rest = self._ask("cat-file", "--batch", stdin="\n".join([*ids, ""]).encode()).stdout
        for _ in ids:
            head, _, rest = rest.partition(b"\n")
            _, kind, size = head.split(b" ")
            yield zlib.compress(b"%s %s\0%s" % (kind, size, rest[: int(size)]), 1)
            rest = rest[int(size) + 1 :]

    def lacking(self, ids: Sequence[str]) -> list[str]:
        with self._using(writes=True):
            asked = "\n".join([*ids, ""]).encode()
            answer = self._ask("cat-file", "--batch-check", stdin=asked).stdout.decode()
        return [line.split()[0] for line in answer.splitlines() if line.endswith(" missing")]

    def add(self, run: str, digest: str, commit: str, packed: Iterable[tuple[str, bytes]]) -> None:
        """Take over a tree that a run has kept elsewhere, with the objects that are lacking."""
        with self._using(writes=True):
            for name, content in packed:
                folder = self._place / "objects" / name[:2]
                folder.mkdir(exist_ok=True)
                descriptor, draft = mkstemp(dir=folder)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                Path(draft).replace(folder / name[2:])
            self._ask("update-ref", _ref(digest, run), commit)

    def forget(self, runs: Sequence[str]) -> None:
        """Remove what only these runs have kept, and the trees in which they worked."""
        if self.folder is not None:
            for run in runs:
                drop_all(self.folder / TREES / run)
        if not self.exist():
            return
        gone = {_name_of(run) for run in runs}
        with self._using():
            refs = self._ask("for-each-ref", "--format=%(refname)", _REFS).stdout.decode().split()
            lines = (f"delete {ref}\n" for ref in refs if ref.rpartition("/")[2] in gone)
            self._ask("update-ref", "--stdin", stdin="".join(lines).encode())
        # Whoever is writing meanwhile has looked at what is there; another removal prunes then.
        with suppress(BlockingIOError), self._using(writes=True, alone=True):
            self._ask("gc", "--quiet", f"--prune={PRUNED_AFTER}")

    def kept(self) -> list[tuple[str, str]]:
        """The digest of each tree, with a run that has kept it."""
        if not self.exist():
            return []
        with self._using():
            named = self._ask("for-each-ref", "--format=%(refname) %(contents)", _REFS).stdout
        parts = (line.split(b" ", 1) for line in named.splitlines() if line)
        return [(ref.decode().split("/")[2], json.loads(run)) for ref, run in parts]

    def runs(self) -> list[str]:
        return sorted({run for _, run in self.kept()})

    def exist(self) -> bool:
        """Whether any run may have kept a tree."""
        return self._temporary is not None or bool(self.folder and self._place.exists())

    def close(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    @property
    def _place(self) -> Path:
        if self.folder is not None:
            return self.folder / REPOSITORY
        self._temporary = self._temporary or TemporaryDirectory(prefix="loopkit-trees-")
        return Path(self._temporary.name, REPOSITORY)

    def _ask(
        self, *arguments: str | bytes, stdin: bytes = b"", ok: Iterable[int] = (0,)
    ) -> subprocess.CompletedProcess[bytes]:
        return ask_git(self._place, *arguments, stdin=stdin, ok=ok, seconds=_SECONDS)

    def _files(self, tree: Tree) -> str:
        commit = self._commit_of(tree.digest)
        found = self._ask("rev-parse", "-q", "--verify", commit + b":files", ok=(0, 1))
        return found.stdout.decode().strip() or _EMPTY

    @contextmanager
    def _using(self, *, writes: bool = False, alone: bool = False) -> Iterator[None]:
        """Use the repository, which is made where it is missing if `writes`.

        With `alone` while nobody else writes, and otherwise BlockingIOError is raised.
        """
        try:
            if not writes:
                yield
                return
            self._make()
            kind = fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH
            with locked(self._place, kind, os.O_NOFOLLOW):
                yield
        except NoGit as error:
            raise JournalUnusable(
                f"the folders of runs in {str(self._place)!r} cannot be kept: {error}; check the "
                "disk, its free space and its permissions"
            ) from error

    def _make(self) -> None:
        if self._place.exists():
            return
        folder = self._place.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = mkdtemp(dir=folder, prefix=".trees-")
        except OSError as error:
            raise unusable(error, str(folder)) from error
        try:
            ask_git(folder, "init", "--quiet", "--bare", "--template=", draft, ok=(0,))
            # Where another process was faster, it is there.
            with suppress(OSError):
                os.rename(draft, self._place)  # noqa: PTH104 - it must not replace anything
        finally:
            shutil.rmtree(draft, ignore_errors=True)


_REFS = "refs/trees"


def _lost(digest: str) -> LostContent:
    return LostContent(
        f"a content that the run names ({digest[:12]}) is not in {REPOSITORY} of the state folder; "
        "restore the folder from a copy, or start a new run"
    )


def _name_of(run: str) -> str:
    return hashlib.sha256(run.encode()).hexdigest()[:32]


def _ref(digest: str, run: str) -> str:
    return f"{_REFS}/{digest}/{_name_of(run)}"


def _commit(run: str, tree: Tree) -> bytes:
    name = json.dumps(run).encode()
    lines = [
        b"commit %s" % _ref(tree.digest, run).encode(),
        b"committer loopkit <loopkit> 0 +0000",
        b"data %d\n%s" % (len(name), name),
        b"deleteall",
    ]
    for path, entry in tree.entries.items():
        if entry.blob:
            mode = _GIT_MODES[stat.S_IFMT(entry.mode), bool(entry.mode & stat.S_IXUSR)]
            lines.append(
                b"M %s %s %s" % (mode, entry.blob.encode(), _quote(b"files/" + _escape(path)))
            )
    manifest = tree.manifest
    lines.append(b"M 100644 inline manifest\ndata %d\n%s" % (len(manifest), manifest))
    return b"\n".join(lines) + b"\n"


_GIT_MODES = {
    (stat.S_IFREG, False): b"100644",
    (stat.S_IFREG, True): b"100755",
    (stat.S_IFLNK, False): b"120000",
}
_DOT_GIT = re.compile(rb"(?i)(^|(?<=/))\.git(%*)(?=/|$)")


def _escape(path: str) -> bytes:
    """A path as git takes it, which keeps `.git` for itself."""
    return _DOT_GIT.sub(rb"\g<0>%", os.fsencode(path))


def _unescape(path: bytes) -> str:
    return os.fsdecode(re.sub(rb"(?i)(^|(?<=/))(\.git%*)%(?=/|$)", rb"\2", path))


def _quote(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"%s"' % escaped


def _entry_of(line: bytes) -> tuple[str, Entry]:
    head, _, name = line.partition(b"\t")
    mode, _, blob = head.split(b" ")
    return _unescape(name), Entry(int(mode, 8), blob.decode())


def _with_modes(
    files: dict[str, Entry], base: Tree, ours: Tree, theirs: Tree
) -> tuple[Tree, tuple[str, ...]]:
    def mode(path: str) -> int:
        """The mode that is changed on one side only, or else ours; 0 for nothing."""
        sides = (tree.entries.get(path) for tree in (base, ours, theirs))
        old, mine, other = (entry.mode if entry else 0 for entry in sides)
        return other if mine == old else mine

    entries: dict[str, Entry] = {}
    for path, entry in files.items():
        merged = mode(path)
        if stat.S_IFMT(merged) != stat.S_IFMT(entry.mode):
            merged = stat.S_IFMT(entry.mode) | entry.mode & 0o777
        entries[path] = Entry(merged, entry.blob)
    above = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    both = {
        path for tree in (ours, theirs) for path, entry in tree.entries.items() if not entry.blob
    }
    folders = {path for path in both if stat.S_ISDIR(mode(path)) or path in above}
    for path in folders:
        found = mode(path)
        entries.setdefault(path, Entry(found if stat.S_ISDIR(found) else stat.S_IFDIR | 0o755, ""))
    conflicts = [p for p in folders if any(str(q) in files for q in (p, *PurePosixPath(p).parents))]
    return Tree(entries), tuple(sorted(conflicts))


async def forget_removed(contents: Contents, has: Callable[[str], Awaitable[bool]]) -> None:
    """Forget what is kept for runs that are gone, also where a process was killed removing one."""
    if contents.exist():
        kept = await asyncio.to_thread(contents.runs)
        gone = [run for run in kept if not await has(run)]
        await asyncio.to_thread(contents.forget, gone)
