"""The files of a state: its workspace or a tree of the run's own, and its output there.

A tree is made before the first work in it, merged when the run succeeds, and else left. An output
is kept as it was before each attempt, so that only what the attempt wrote counts.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.replies import LONGEST_ANSWER, Written, storable_output
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Captured, Isolated, Merged, Merging, Restored
from loopkit.engine.payloads import Artifact, LeftFolder
from loopkit.engine.template_values import render
from loopkit.journal.contents import Merge, TooLong
from loopkit.journal.files import STATE_FOLDER
from loopkit.language.agents.agent import Workspace
from loopkit.language.states.state import Output
from loopkit.outside.processes import ALL_IGNORED, TREES
from loopkit.outside.trees import (
    SMALLER,
    CannotIsolate,
    Conflicts,
    Folder,
    Isolation,
    NotKept,
    Tree,
    changed_files,
    files_digest,
    is_in_git,
    make,
    make_own_folder,
    open_root,
    printable_path,
    read_tree,
)
from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    existing,
    from_above,
    make_folder,
    mark,
    prepare,
    read_text,
    resolve_inside,
    was_written_since,
)
from loopkit.text import plural
from loopkit.text.run_ids import resume_line

MOST_NAMED = 20
LOOK_AGAIN_S = 0.02


class MergeConflict(CallFailed):
    """The run and somebody else have changed the same files; nothing was merged."""

    def __init__(self, run: str, isolated: Isolated, paths: tuple[str, ...]) -> None:
        self.paths = paths
        """The files, from the workspace on."""
        files = plural(len(paths), "file")
        super().__init__(
            "fatal",
            f"not merged: the run and somebody else changed {files}: {name_some(paths)}",
            remedy=f"the run's version is in {isolated.place}: make these files the same there and "
            f"in the workspace {isolated.source}\nthen: {resume_line(run)}",
        )


def name_some(paths: Sequence[str]) -> str:
    """Some of the paths, for a message, and how many there are besides."""
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(map(printable_path, paths[:MOST_NAMED])) + more


async def own_tree(active: ActiveRun, source: Path, kind: Isolation) -> Path:
    """The tree in which the run works instead of a workspace; made if it is missing."""
    async with active.isolating:
        known = active.state.isolated.get(str(source))
        if known is None:
            known = await _isolate(active, source, kind)
    place = Path(known.place)
    try:
        await asyncio.to_thread(open_root, place)
    except OSError as error:
        reason = f"can't be used: {error.strerror}"
        if isinstance(error, FileNotFoundError):
            reason = "is gone; restore it from a copy"
        message = f"the tree {known.place!r} in which the run works {reason}, or start a new run"
        raise CallFailed("fatal", message) from error
    return place


def in_tree_above(active: ActiveRun, folder: Path) -> Path:
    """A folder, or its counterpart in the tree in which an ancestor of this run works."""
    return counterpart(folder, active.trees_above.items()) or folder


def origin_of(active: ActiveRun, folder: Path) -> Path | None:
    """The folder of the workspace that a folder in a tree of the run's own is a copy of."""
    own = {each.source: each.place for each in active.state.isolated.values()}
    trees = {**active.trees_above, **own}.items()
    return counterpart(folder, ((place, source) for source, place in trees))


def counterpart(folder: Path, trees: Iterable[tuple[str, str]]) -> Path | None:
    """The place of a folder in the second of a pair of trees, if it is in the first."""
    for first, second in trees:
        if folder.is_relative_to(first):
            return Path(second) / folder.relative_to(first)
    return None


async def _isolate(active: ActiveRun, source: Path, kind: Isolation) -> Isolated:
    """Make a tree, and keep what it begins with; it counts only once both are stored."""
    # Contents are only kept for a run that is stored.
    await active.append()
    state = active.contents.state or _trees(active).parent
    place = trees_of(active) / str(len(active.state.isolated) + 1)
    if kind == "worktree" and active.scenario is not None and not is_in_git(source):
        # A scenario can be played without a repository.
        kind = "copy"
    try:
        inside = await asyncio.to_thread(make, kind, source, place, state)
    except CannotIsolate as error:
        raise CallFailed("fatal", str(error)) from error
    base = await keep_tree(active, Folder(inside, origin=source))
    isolated = Isolated(source=str(source), kind=kind, place=str(inside), base=base.digest)
    await active.append(isolated)
    return isolated


def _trees(active: ActiveRun) -> Path:
    """The folder for trees of all runs, which git ignores wherever it is; raises CallFailed."""
    state = active.contents.folder or active.folder.resolve() / STATE_FOLDER
    try:
        trees = make_own_folder(state, TREES)
        with suppress(FileExistsError), (trees / ".gitignore").open("xb") as file:
            file.write(ALL_IGNORED)
    except OSError as error:
        message = f"the folder {str(state / TREES)!r} for trees can't be used: {error.strerror}"
        raise CallFailed("fatal", message) from error
    return trees


def trees_of(active: ActiveRun) -> Path:
    return _trees(active) / active.state.run


async def keep_tree(
    active: ActiveRun, folder: Folder, known: Tree | None = None, *, is_trusted: bool = False
) -> Tree:
    """Keep a folder for the run (see `Contents.keep`); raises CallFailed."""
    keep = partial(active.contents.keep, active.state.run, folder, known, is_trusted=is_trusted)
    with reading(repr(str(folder.root))):
        return await asyncio.to_thread(keep)


async def restore(active: ActiveRun, folders: Mapping[str, Artifact]) -> None:
    """Restore folders as of the round that was picked; doing it again changes nothing."""
    for artifact in folders.values():
        if not artifact.place:
            # A scenario played it, so there is no folder.
            continue
        captured = captured_at(active, artifact.place)
        folder = None if captured is None else folder_of(active, captured)
        if folder is None or folder.origin is None:
            message = f"`{artifact.name}` can't be restored: its workspace is not isolated"
            raise CallFailed("fatal", f"{message}; write `isolate: copy` under `workspace:`")
        wanted = active.contents.tree(artifact.tree)
        with reading(f"folder {folder.within!r}"):
            now = await asyncio.to_thread(read_tree, folder, wanted)
        await write(active, folder.root, now, wanted, ignored_may_go=True)
    active.stage(Restored(artifacts=tuple(folders)))


def captured_at(active: ActiveRun, place: str) -> Captured | None:
    return next((c for c in reversed(active.state.captured.values()) if c.place == place), None)


def folder_of(active: ActiveRun, captured: Captured) -> Folder:
    within = os.path.normpath(captured.relative)
    depth, place = len(Path(within).parts), Path(captured.place)
    root = place.parents[depth - 1] if depth else place
    return Folder(root, within, origin_of(active, root), captured.ignored)


async def merge_back(active: ActiveRun, isolated: Isolated) -> None:
    """Merge the run's work into its workspace, once.

    Raises MergeConflict and CallFailed, and Stopped if the run is stopped while others merge.
    """
    source, run = Path(isolated.source), active.state.run
    async with alone(_trees(active), active.pause):
        base = active.contents.tree(isolated.base)
        ours = await keep_tree(active, Folder(source), base, is_trusted=True)
        merge = await _merge(active, isolated, base, ours)
        if merge.conflicts:
            raise MergeConflict(run, isolated, merge.conflicts)
        # From now on the content to write is fixed, so that the work is never merged twice.
        merging = Merging(source=isolated.source, before=ours.digest, after=merge.tree.digest)
        await active.append(merging)
        try:
            changed = await write(active, source, ours, merge.tree)
        except Conflicts as strange:
            raise MergeConflict(run, isolated, strange.paths) from strange
    files = tuple(map(printable_path, changed))
    left = _left_behind(active, isolated, merge.tree)
    await active.append(Merged(source=isolated.source, files=files, ignored=left))


def _left_behind(active: ActiveRun, isolated: Isolated, merged: Tree) -> tuple[str, ...]:
    top = Path(isolated.place)
    places = {Path(each.place) for each in active.state.artifacts.values() if each.place}
    inside = sorted(p for p in places if p.is_relative_to(top) and p != top and p.exists())
    paths = (str(place.relative_to(top)) for place in inside)
    return tuple(printable_path(path) for path in paths if path not in merged.entries)


async def _merge(active: ActiveRun, isolated: Isolated, base: Tree, ours: Tree) -> Merge:
    """The merge: as it was decided before the process was killed, else a new one."""
    contents, run = active.contents, active.state.run
    begun = active.state.merging.get(isolated.source)
    if begun is not None:
        before = contents.tree(begun.before)
        after = contents.tree(begun.after)
        merge = await asyncio.to_thread(contents.merge, run, before, ours, after)
        if not merge.conflicts:
            return merge
    folder = Folder(Path(isolated.place), origin=Path(isolated.source))
    theirs = await keep_tree(active, folder, base)
    return await asyncio.to_thread(contents.merge, run, base, ours, theirs)


async def write(
    active: ActiveRun, root: Path, before: Tree, after: Tree, *, ignored_may_go: bool = False
) -> list[str]:
    """Write a kept tree (see `write_tree`); raises Conflicts and CallFailed."""
    try:
        return await asyncio.to_thread(
            active.contents.write, root, before, after, ignored_may_go=ignored_may_go
        )
    except OSError as error:
        message = f"{str(root)!r} can't be written: {error}; make it writable"
        raise CallFailed("fatal", message) from error


@asynccontextmanager
async def alone(
    folder: Path, pause: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> AsyncIterator[None]:
    """Keep all other merges waiting, in this process and elsewhere.

    A caller that is cancelled while it waits, or whose `pause` raises, leaves nothing locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A waiting thread can't be cancelled, and the run that merges may need it.
        while not _is_locked(descriptor):
            await pause(LOOK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


MOST_CHANGED = 1_000


async def watch_folder(
    active: ActiveRun, folder: Path, output: Output, relative: str, task: str
) -> Callable[[], Awaitable[Written]]:
    """A function that reads what the work has changed in a folder of the workspace `folder`.

    It is stored before the work, so changes of tries that were lost with their process count too.
    What rules write for themselves, and what the output ignores, does not.
    """
    root = Path(await asyncio.to_thread(os.path.realpath, folder))
    ignored = (*output.ignore, *active.program.graph.report_files)
    within = os.path.normpath(relative)  # noqa: ASYNC240 - it asks no disk
    seen = Folder(root, within, origin_of(active, root), ignored)
    watched = _Watched(active, output.name, seen)
    before = active.state.captured.get(task)
    if before is None or not before.tree or before.place != watched.place:
        # Contents are only kept for a run that is stored.
        await active.append()
        tree = await asyncio.to_thread(watched.begin, relative)
        before = _capture(
            active, task, output.name, watched.place, tree.times, tree=tree.digest,
            relative=relative, ignored=watched.folder.ignore, linked=dict(tree.linked),
        )  # fmt: skip
    return partial(asyncio.to_thread, watched.change, before, output.may_be_missing)


class _Watched:
    def __init__(self, active: ActiveRun, name: str, folder: Folder) -> None:
        self._active = active
        self.folder = folder
        self._named = f"folder {folder.within!r}"
        self.place = str(folder.root / folder.within)
        self._original = active.state.originals.get((name, self.place))

    def begin(self, relative: str) -> Tree:
        """The folder before the work, which is made where it is missing; raises CallFailed."""
        try:
            make_folder(self.folder.root, relative)
        except (OutsideWorkspace, UnusableWorkspace) as error:
            # What an earlier attempt has put there is for this one to mend.
            if self._original is None:
                raise CallFailed("fatal", str(error)) from error
        known = None if self._original is None else self._first(self._original)
        with reading(self._named):
            return self._keep(known)

    def _first(self, digest: str) -> Tree:
        """The folder before the first attempt, with the names that its files had elsewhere then."""
        captured = self._active.state.captured.values()
        found = (c.linked for c in captured if (c.tree, c.place) == (digest, self.place))
        return replace(self._active.contents.tree(digest), linked=next(found, {}))

    def _keep(self, known: Tree | None) -> Tree:
        return self._active.contents.keep(self._active.state.run, self.folder, known)

    def change(self, before: Captured, is_all: bool) -> Written:
        """What the folder has after the work, or the fault that nothing was changed.

        If it `is_all` that the work can leave, what earlier attempts have changed counts as well.
        """

        def is_unchanged(tree: Tree) -> bool:
            has_work = is_all and tree.digest != (self._original or before.tree)
            return not has_work and (before.tree, before.times) == (tree.digest, tree.times)

        written = self.read(before, is_unchanged)
        return written or Written(fault=f"nothing in {self._named} was changed in this attempt")

    def read(self, before: Captured, is_known: Callable[[Tree], bool]) -> Written | None:
        """What the folder has now; None if its tree is known."""
        original = self._first(self._original or before.tree)
        try:
            tree = self._keep(original)
        except NotKept as error:
            return Written(fault=f"{self._named} {error}")
        return None if is_known(tree) else self._describe(before, original, tree)

    def _describe(self, before: Captured, original: Tree, tree: Tree) -> Written:
        contents = self._active.contents
        redact = self._active.redact
        changed = changed_files(original, tree)
        try:
            change = contents.diff(original, tree, LONGEST_ANSWER)
        except TooLong:
            fault = (
                f"what differs in {self._named} from the state before the first attempt has more "
                f"than {LONGEST_ANSWER:,} characters ({plural(len(changed), 'file')}, the first "
                f"is {printable_path(changed[0])!r}); change less, or {SMALLER}"
            )
            return Written(fault=fault)
        earlier = contents.tree(before.tree)
        try:
            last_change = contents.diff(earlier, tree, LONGEST_ANSWER)
        except TooLong:
            last_change = f"{plural(len(changed_files(earlier, tree)), 'file')} changed"
        return Written(
            folder=LeftFolder(
                tree=tree.digest,
                place=self.place,
                files=tuple([printable_path(path) for path in changed[:MOST_CHANGED]]),
                change=redact(change),
                last_change=redact(last_change),
            )
        )


def _capture(
    active: ActiveRun, task: str, artifact: str, place: str, times: str, **folder: Any
) -> Captured:
    captured = Captured(
        task=task, state=active.state.state, artifact=artifact, place=place, times=times, **folder
    )
    active.stage(captured)
    return captured


def project_folder(active: ActiveRun, own: Workspace | None) -> Path | None:
    """The run's folder, if a state works right there; None if `workspace` has to find the folder.

    Nothing is awaited for it, because most states of most machines work there.
    """
    is_elsewhere = own is not None or active.trees_above or active.state.isolate != "none"
    return None if is_elsewhere else active.folder


async def workspace(active: ActiveRun, own: Workspace | None, *, writes: bool = False) -> Path:
    """The folder in which a state works: its own workspace, the machine's, or the run's folder.

    If it is isolated, that is a tree of the run's own or of an ancestor. If it is not, `writes`
    keeps other runs out of it.
    """
    written = own or active.program.machine.workspace
    asked = active.state.isolate
    if written is None:
        folder = active.folder
        if active.trees_above:
            folder = in_tree_above(active, folder)
        return folder if asked == "none" else await own_tree(active, folder, asked)
    with reading():
        known = place_of(active, written)
        folder = in_tree_above(active, known)
        is_made = written.create or active.occupancy.makes_folders
        folder = prepare(folder) if is_made else existing(folder)
    if (kind := written.isolate if asked == "none" else asked) != "none":
        return await own_tree(active, folder, kind)
    if writes and active.contents.folder is not None and folder == known:
        await active.occupancy.enter(active.contents.folder, folder, active.state.run)
    return folder


def place_of(active: ActiveRun, own: Workspace) -> Path:
    """Where a workspace is, whatever tree stands for it; raises OutsideWorkspace."""
    relative = render(active.program, active.state, own.path).strip()
    root, rest = from_above(active.folder, relative, own.path)
    if rest == ".":
        return root
    return active.occupancy.find(root, rest, partial(_has_used, active))


def _has_used(active: ActiveRun, place: Path) -> bool:
    captured = active.state.captured.values()
    return str(place) in active.state.isolated or any(
        Path(each.place).is_relative_to(place) for each in captured
    )


async def watch_output(
    active: ActiveRun, folder: Path, output: Output, task: str
) -> Callable[[], Awaitable[Written]] | None:
    """A function that reads the output file or folder if the work has changed it."""
    if output.folder is not None:
        relative = render(active.program, active.state, output.folder).strip()
        return await watch_folder(active, folder, output, relative, task)
    if output.file is None:
        return None
    relative = render(active.program, active.state, output.file).strip()
    before = await file_before(active, folder, relative, output.name, task)
    return partial(asyncio.to_thread, read_written, folder, relative, before)


@contextmanager
def reading(named: str = "") -> Iterator[None]:
    """Raise CallFailed for a path that leads out of the workspace, or a folder of no use."""
    try:
        yield
    except (OutsideWorkspace, UnusableWorkspace, UnreadableArtifact) as error:
        raise CallFailed("fatal", str(error)) from error
    except NotKept as error:
        raise CallFailed("fatal", f"{named} {error}") from error
    except OSError as error:
        raise CallFailed("fatal", f"{named} can't be read: {error}; make it readable") from error


def output_file(folder: Path, relative: str, *, is_made: bool = True) -> Path:
    """Where an output file stands; its folder is created, unless nobody makes the file."""
    with reading():
        path = resolve_inside(folder, relative)
        if is_made:
            prepare(path.parent)
    return path


async def file_before(
    active: ActiveRun, folder: Path, relative: str, artifact: str, task: str
) -> str:
    """The mark of an output file before the work began, also after tries that were lost."""
    place = folder / relative
    known = active.state.captured.get(task)
    if known is None or known.tree or known.place != str(place):
        before = await asyncio.to_thread(mark, output_file(folder, relative))
        known = _capture(active, task, artifact, str(place), before)
    return known.times


def read_written(folder: Path, relative: str, before: str) -> Written:
    if not was_written_since(folder / relative, before):
        return Written(fault=f"{relative} was not written in this attempt")
    try:
        # Once more, because the attempt may have put a link there that leads out.
        place = resolve_inside(folder, relative)
        return Written(read_text(place, known=before), str(place))
    except (OutsideWorkspace, UnreadableArtifact) as error:
        return Written(fault=str(error))


async def on_disk(active: ActiveRun, artifact: Artifact) -> Written | None:
    """What the file or folder of an artifact has now; raises CallFailed if it can't be read.

    None if that is known to be its content, or if it holds another version or artifact.
    """
    state = active.state
    if state.on_disk.get(artifact.place) != (artifact.name, artifact.version):
        return None
    if artifact.tree:
        now = await asyncio.to_thread(_folder_now, active, artifact)
    else:
        text = await asyncio.to_thread(_text_now, Path(artifact.place))
        now = storable_output(active.redact, Written(text))
    if now is not None and now.fault:
        raise CallFailed("fatal", now.fault)
    return now


def _folder_now(active: ActiveRun, artifact: Artifact) -> Written | None:
    """What a folder has now; None if that is its artifact, or if nobody has looked at it before."""
    before = captured_at(active, artifact.place)
    if before is None:
        return None
    watched = _Watched(active, artifact.name, folder_of(active, before))
    return watched.read(before, lambda tree: tree.digest == artifact.tree)


def changed_between(active: ActiveRun, before: str, after: str) -> list[str]:
    """Some of the files at which two kept trees differ, for a message; none without trees."""
    if not (before and after):
        return []
    changed = changed_files(active.contents.tree(before), active.contents.tree(after))
    return [repr(printable_path(path)) for path in changed[:3]]


def _text_now(place: Path) -> str:
    if os.path.realpath(place) == str(place):
        try:
            return read_text(place)
        except UnreadableArtifact as error:
            fault = str(error)
    else:
        fault = f"file {str(place)!r} is a symlink now; make it a file again"
    message = f"what the checks have left can't be judged: {fault}"
    remedy = "let no check delete it or put something else in its place"
    raise CallFailed("fatal", message, remedy=remedy)


def files_reader(active: ActiveRun, folder: Path, output: Output) -> Callable[[], Awaitable[str]]:
    """A function that computes the digest of the files in a workspace.

    The output file is left out, because it is compared as the artifact.
    """
    written = None
    if output.file is not None:
        relative = render(active.program, active.state, output.file).strip()
        with reading():
            written = resolve_inside(folder, relative)
    return partial(asyncio.to_thread, files_digest, folder, written, origin_of(active, folder))
