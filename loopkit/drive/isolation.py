"""Trees of a run's own: made before its first work there, merged when it succeeds, else left."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Artifact, Isolated, Merged, Merging, Restored
from loopkit.journal.files import STATE_FOLDER, TREES
from loopkit.outside.trees.diff import printable_path
from loopkit.outside.trees.isolation import CannotIsolate, Isolation, is_in_git, make
from loopkit.outside.trees.listing import TooLarge
from loopkit.outside.trees.merging import Conflicts, Merge, merge_trees, write_tree
from loopkit.outside.trees.tree import MOST_BYTES, MOST_FILES, Tree
from loopkit.text import plural

MOST_NAMED = 20
"""Files that a conflict names."""
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
    for source, place in active.trees_above.items():
        if folder.is_relative_to(source):
            return Path(place) / folder.relative_to(source)
    return folder


def origin_of(active: ActiveRun, folder: Path) -> Path | None:
    """The folder of the workspace that a folder in a tree of the run's own is a copy of."""
    own = {each.source: each.place for each in active.state.isolated.values()}
    for source, place in {**active.trees_above, **own}.items():
        if folder.is_relative_to(place):
            return Path(source) / folder.relative_to(place)
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


async def _keep_tree(active: ActiveRun, folder: Path, origin: Path | None = None) -> Tree:
    """The files of a folder as they are now; raises CallFailed."""
    try:
        return await asyncio.to_thread(active.contents.keep, active.state.run, folder, origin)
    except TooLarge as error:
        most = f"more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes"
        remedy = "name a smaller workspace, or let git ignore what is not part of the work"
        raise CallFailed("fatal", f"{str(folder)!r} has {most}; {remedy}") from error
    except OSError as error:
        message = f"{str(folder)!r} can't be read: {error}; make it readable"
        raise CallFailed("fatal", message) from error


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
