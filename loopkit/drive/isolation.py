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
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from loopkit.drive.active import ActiveRun
from loopkit.drive.limits import LONGEST_ANSWER
from loopkit.drive.replies import Written, storable_output
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Captured, Isolated, Merged, Merging, Restored
from loopkit.engine.payloads import Artifact, LeftFolder
from loopkit.engine.template_values import render
from loopkit.journal.files import STATE_FOLDER, TREES
from loopkit.language.agents.agent import Workspace
from loopkit.language.states.state import Output
from loopkit.outside.trees import (
    MOST_BYTES,
    MOST_FILES,
    CannotIsolate,
    Conflicts,
    Isolation,
    Merge,
    TooLarge,
    TooLong,
    Tree,
    changed_paths,
    diff,
    files_digest,
    is_in_git,
    make,
    merge_trees,
    printable_path,
    write_tree,
)
from loopkit.outside.workspace import (
    FileMark,
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    mark,
    prepare,
    read_text,
    resolve_inside,
    was_written_since,
)
from loopkit.text import plural

MOST_NAMED = 20
"""Files that a conflict names."""
_MOST = f"more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes"
_SMALLER = "name a smaller folder, or let git ignore what is not part of the work"
LOOK_AGAIN_S = 0.02
"""How often a run that waits to merge tries the lock."""


class MergeConflict(CallFailed):
    """The run and somebody else have changed the same files; nothing was merged."""

    def __init__(self, isolated: Isolated, paths: tuple[str, ...]) -> None:
        self.paths = paths
        """The files, from the workspace on."""
        named = ", ".join(map(printable_path, paths[:MOST_NAMED]))
        more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
        files = plural(len(paths), "file")
        super().__init__(
            "fatal",
            f"not merged: the run and somebody else changed {files}: {named}{more}",
            remedy=f"the run's version is in {isolated.place}: make these files the same there and "
            f"in the workspace {isolated.source}",
        )


async def own_tree(active: ActiveRun, source: Path, kind: Isolation) -> Path:
    """The tree in which the run works instead of a workspace; made if it is missing."""
    async with active.isolating:
        known = active.state.isolated.get(str(source))
        if known is None:
            known = await _isolate(active, source, kind)
    place = Path(known.place)
    if not await asyncio.to_thread(place.is_dir):
        message = f"the tree {known.place!r} in which the run works is gone"
        raise CallFailed("fatal", f"{message}; restore it from a copy, or start a new run")
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
    trees = _trees(active)
    place = trees_of(active) / str(len(active.state.isolated) + 1)
    if kind == "worktree" and active.scenario is not None and not is_in_git(source):
        # A scenario can be played without a repository.
        kind = "copy"
    try:
        inside = await asyncio.to_thread(make, kind, source, place, trees.parent)
    except CannotIsolate as error:
        raise CallFailed("fatal", str(error)) from error
    base = await _keep_tree(active, inside, source)
    isolated = Isolated(source=str(source), kind=kind, place=str(inside), base=base.digest)
    await active.append(isolated)
    return isolated


def _trees(active: ActiveRun) -> Path:
    """The folder for trees of all runs, which git ignores wherever it is."""
    trees = (active.contents.folder or active.folder / STATE_FOLDER).absolute() / TREES
    trees.mkdir(parents=True, exist_ok=True)
    (trees / ".gitignore").write_text("*\n", encoding="utf-8")
    return trees


def trees_of(active: ActiveRun) -> Path:
    """The folder for the trees of this run."""
    return _trees(active) / active.state.run


async def _keep_tree(
    active: ActiveRun, folder: Path, origin: Path | None = None, output: str | None = None
) -> Tree:
    """The files of a folder as they are now; raises CallFailed.

    `output` is the relative path of the folder, if it is an output and not a whole workspace.
    """
    named = repr(str(folder)) if output is None else f"folder {output!r}"
    try:
        return await asyncio.to_thread(active.contents.keep, active.state.run, folder, origin)
    except TooLarge as error:
        remedy = _SMALLER if output is not None else _SMALLER.replace("folder", "workspace")
        raise CallFailed("fatal", f"{named} has {_MOST}; {remedy}") from error
    except OSError as error:
        raise CallFailed("fatal", f"{named} can't be read: {error}; make it readable") from error


async def restore(active: ActiveRun, folders: Mapping[str, Artifact]) -> None:
    """Restore folders as of the round that was picked; doing it again changes nothing."""
    for artifact in folders.values():
        if not artifact.place:
            # A scenario played it, so there is no folder.
            continue
        place = Path(artifact.place)
        origin = origin_of(active, place)
        if origin is None:
            message = f"`{artifact.name}` can't be restored: its workspace is not isolated"
            raise CallFailed("fatal", f"{message}; write `isolate: copy` under `workspace:`")
        now, wanted = await _keep_tree(active, place, origin), active.contents.tree(artifact.tree)
        await _write(active, place, now, wanted)
    active.stage(Restored(artifacts=tuple(folders)))


async def merge_back(active: ActiveRun, isolated: Isolated) -> None:
    """Merge the run's work into its workspace, once; raises MergeConflict, CallFailed."""
    source = Path(isolated.source)
    async with alone(_trees(active)):
        ours = await _keep_tree(active, source)
        merge = await _merge(active, isolated, ours)
        if merge.conflicts:
            raise MergeConflict(isolated, merge.conflicts)
        contents, run = active.contents, active.state.run
        after = await asyncio.to_thread(contents.keep_made, run, merge.tree, merge.made)
        # From now on the content to write is fixed, so that the work is never merged twice.
        merging = Merging(source=isolated.source, before=ours.digest, after=after.digest)
        await active.append(merging)
        try:
            changed = await _write(active, source, ours, after)
        except Conflicts as strange:
            raise MergeConflict(isolated, strange.paths) from strange
    files = tuple(map(printable_path, changed))
    await active.append(Merged(source=isolated.source, files=files))


async def _merge(active: ActiveRun, isolated: Isolated, ours: Tree) -> Merge:
    """The merge: as it was decided before the process was killed, else a new one."""
    tree, load = active.contents.tree, active.contents.content
    begun = active.state.merging.get(isolated.source)
    if begun is not None:
        before, after = tree(begun.before), tree(begun.after)
        merge = await asyncio.to_thread(merge_trees, before, ours, after, load)
        if not merge.conflicts:
            return merge
    theirs = await _keep_tree(active, Path(isolated.place), Path(isolated.source))
    return await asyncio.to_thread(merge_trees, tree(isolated.base), ours, theirs, load)


async def _write(active: ActiveRun, folder: Path, before: Tree, after: Tree) -> list[str]:
    load = active.contents.content
    try:
        return await asyncio.to_thread(write_tree, folder, before, after, load)
    except OSError as error:
        message = f"{str(folder)!r} can't be written: {error}; make it writable"
        raise CallFailed("fatal", message) from error


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[None]:
    """Keep all other merges waiting, in this process and elsewhere.

    A caller that is cancelled while it waits leaves nothing locked.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # A waiting thread can't be cancelled, and the run that merges may need it.
        while not _is_locked(descriptor):  # noqa: ASYNC110 - the kernel tells nobody that it is free
            await asyncio.sleep(LOOK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Whether the lock could be had at once."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


MOST_CHANGED = 1_000
"""Paths of changed files that are kept with an artifact."""


async def watch_folder(
    active: ActiveRun, place: Path, relative: str, artifact: str, task: str
) -> Callable[[], Awaitable[Written]]:
    """A function that reads what the work has changed in a folder.

    The folder is stored before the work, so changes of tries that were lost with their process
    count too.
    """
    origin, before = origin_of(active, place), active.state.captured.get(task)
    if before is None or not before.tree or before.place != str(place):
        # Contents are only kept for a run that is stored.
        await active.append()
        tree = await _keep_tree(active, place, origin, relative)
        known = {"tree": tree.digest, "relative": relative}
        before = _capture(active, task, artifact, place, tree.times, **known)

    async def read() -> Written:
        try:
            tree = await asyncio.to_thread(active.contents.keep, active.state.run, place, origin)
        except TooLarge:
            return Written(fault=f"folder {relative!r} has {_MOST} now; {_SMALLER}")
        except OSError as error:
            return Written(fault=f"folder {relative!r} can't be read: {error}; make it readable")
        if (tree.digest, tree.times) == (before.tree, before.times):
            return Written(fault=f"nothing in folder {relative!r} was changed in this attempt")
        return await asyncio.to_thread(_folder_change, active, before, tree, place, relative)

    return read


def _capture(
    active: ActiveRun, task: str, artifact: str, place: Path, times: str, **folder: Any
) -> Captured:
    """Stage what the output of a task was before the work began."""
    captured = Captured(
        task=task,
        state=active.state.state,
        artifact=artifact,
        place=str(place),
        times=times,
        **folder,
    )
    active.stage(captured)
    return captured


def _folder_change(
    active: ActiveRun, before: Captured, tree: Tree, place: Path, relative: str
) -> Written:
    contents, state = active.contents, active.state
    original = contents.tree(state.originals[before.artifact, before.place])
    changed, within = changed_paths(original, tree), _within(relative)
    try:
        change = diff(original, tree, contents.content, LONGEST_ANSWER, within)
    except TooLong:
        fault = (
            f"what differs in folder {relative!r} from the state before the first attempt has "
            f"more than {LONGEST_ANSWER:,} characters ({plural(len(changed), 'file')}, the first "
            f"is {printable_path(within + changed[0])!r}); change less, or {_SMALLER}"
        )
        return Written(fault=fault)
    return Written(
        folder=LeftFolder(
            tree=tree.digest,
            place=str(place),
            files=tuple([printable_path(within + path) for path in changed[:MOST_CHANGED]]),
            change=active.redact(change),
            last_change=active.redact(_last_change(active, before, tree, within)),
        )
    )


def _within(relative: str) -> str:
    """The path prefix from the workspace to the folder."""
    normal = os.path.normpath(relative)
    return "" if normal == os.curdir else f"{normal}/"


def _last_change(active: ActiveRun, before: Captured, tree: Tree, within: str) -> str:
    """The diff of the attempt; if that is too long, the number of changed files."""
    contents = active.contents
    earlier = contents.tree(before.tree)
    try:
        return diff(earlier, tree, contents.content, LONGEST_ANSWER, within)
    except TooLong:
        return f"{plural(len(changed_paths(earlier, tree)), 'file')} changed"


def project_folder(active: ActiveRun, own: Workspace | None) -> Path | None:
    """The project folder, if a state works right there; None if `workspace` has to find the folder.

    Nothing is awaited for it, because most states of most machines work there.
    """
    is_elsewhere = own is not None or active.trees_above or active.state.isolate != "none"
    return None if is_elsewhere else active.folder


async def workspace(active: ActiveRun, own: Workspace | None, *, writes: bool = False) -> Path:
    """The folder in which a state works: its own workspace, the machine's, or the project.

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
    relative = render(active.program, active.state, written.path).strip()
    with _as_failed_call():
        known = active.folder if relative == "." else resolve_inside(active.folder, relative)
        folder = prepare(in_tree_above(active, known))
    if (kind := written.isolate if asked == "none" else asked) != "none":
        return await own_tree(active, folder, kind)
    if writes and active.contents.folder is not None and folder == known:
        await active.occupancy.enter(active.contents.folder, folder, active.state.run)
    return folder


async def watch_output(
    active: ActiveRun, folder: Path, output: Output, task: str
) -> Callable[[], Awaitable[Written]] | None:
    """A function that reads the output file or folder if the work has changed it."""
    if output.folder is not None:
        relative = render(active.program, active.state, output.folder).strip()
        with _as_failed_call():
            place = prepare(resolve_inside(folder, relative))
        return await watch_folder(active, place, relative, output.name, task)
    if output.file is None:
        return None
    relative = render(active.program, active.state, output.file).strip()
    before = await file_before(active, folder, relative, output.name, task)

    async def read() -> Written:
        return read_written(folder, relative, before)

    return read


@contextmanager
def _as_failed_call() -> Iterator[None]:
    """Raise CallFailed for a path that leads out of the workspace, or can't be used or read."""
    try:
        yield
    except (OutsideWorkspace, UnusableWorkspace, UnreadableArtifact) as error:
        raise CallFailed("fatal", str(error)) from error


def output_file(folder: Path, relative: str) -> Path:
    """Where an output file stands; its folder is created."""
    with _as_failed_call():
        path = resolve_inside(folder, relative)
        prepare(path.parent)
    return path


async def file_before(
    active: ActiveRun, folder: Path, relative: str, artifact: str, task: str
) -> FileMark:
    """The mark of an output file before the work began, also after tries that were lost."""
    place, known = folder / relative, active.state.captured.get(task)
    if known is None or known.tree or known.place != str(place):
        before = await asyncio.to_thread(mark, output_file(folder, relative))
        known = _capture(active, task, artifact, place, before.to_text())
    return FileMark.of_text(known.times)


def read_written(folder: Path, relative: str, before: FileMark) -> Written:
    """The content of an output file, if it was written since the mark was made."""
    if not was_written_since(folder / relative, before):
        return Written(fault=f"{relative} was not written in this attempt")
    try:
        # Once more, because the attempt may have put a link there that leads out.
        place = resolve_inside(folder, relative)
        return Written(read_text(place), str(place))
    except (OutsideWorkspace, UnreadableArtifact) as error:
        return Written(fault=str(error))


async def on_disk(
    active: ActiveRun, artifact: Artifact, reports: Collection[str] = ()
) -> Written | None:
    """What the file or folder of an artifact has now; raises CallFailed if it can't be read.

    None if that is known to be its content, but for `reports` of rules (paths in the workspace), or
    if it holds another version or artifact.
    """
    state, place = active.state, Path(artifact.place)
    if state.on_disk.get(artifact.place) != (artifact.name, artifact.version):
        return None
    if artifact.tree:
        captured = (c for c in reversed(state.captured.values()) if c.place == artifact.place)
        if (before := next(captured, None)) is None:
            return None
        tree = await _keep_tree(active, place, origin_of(active, place), before.relative)
        changed = changed_paths(active.contents.tree(artifact.tree), tree)
        if all(_within(before.relative) + path in reports for path in changed):
            return None
        now = await asyncio.to_thread(_folder_change, active, before, tree, place, before.relative)
    else:
        text = await asyncio.to_thread(_text_now, place)
        now = storable_output(active.redact, Written(text))
    if now.fault:
        raise CallFailed("fatal", now.fault)
    return now


def _text_now(place: Path) -> str:
    with _as_failed_call():
        if os.path.realpath(place) != str(place):
            raise UnreadableArtifact(f"file {str(place)!r} is a symlink now; make it a file again")
        return read_text(place)


def files_reader(active: ActiveRun, folder: Path, output: Output) -> Callable[[], Awaitable[str]]:
    """A function that computes the digest of the files in a workspace.

    The output file is left out, because it is compared as the artifact.
    """
    written = None
    if output.file is not None:
        relative = render(active.program, active.state, output.file).strip()
        with _as_failed_call():
            written = resolve_inside(folder, relative)
    origin = origin_of(active, folder)

    async def read() -> str:
        return await asyncio.to_thread(files_digest, folder, written, origin)

    return read
