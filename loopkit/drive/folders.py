"""Folders that are artifacts: kept before and after each attempt, and the difference as text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.isolation import origin_of
from loopkit.drive.replies import Written
from loopkit.drive.retries import CallFailed
from loopkit.drive.sizes import LONGEST_ANSWER
from loopkit.engine.events import Captured, LeftFolder
from loopkit.outside.trees.diff import TooLong, changed_paths, diff, printable_path
from loopkit.outside.trees.listing import TooLarge
from loopkit.outside.trees.tree import MOST_BYTES, MOST_FILES, Tree
from loopkit.text import plural

_MOST = f"more than {MOST_FILES:,} files or {MOST_BYTES:,} bytes"
_SMALLER = "name a smaller folder, or let git ignore what is not part of the work"
MOST_NAMED = 1_000
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
        before = await _capture(active, place, relative, artifact, task)

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


async def _capture(
    active: ActiveRun, place: Path, relative: str, artifact: str, task: str
) -> Captured:
    """Store the folder as it is, before the work begins."""
    origin = origin_of(active, place)
    # Contents are only kept for a run that is stored.
    await active.append()
    try:
        tree = await asyncio.to_thread(active.contents.keep, active.state.run, place, origin)
    except TooLarge as error:
        message = f"folder {relative!r} has {_MOST}; {_SMALLER}"
        raise CallFailed("fatal", message) from error
    except OSError as error:
        message = f"folder {relative!r} can't be read: {error}; make it readable"
        raise CallFailed("fatal", message) from error
    captured = Captured(
        task=task,
        state=active.state.state,
        artifact=artifact,
        place=str(place),
        tree=tree.digest,
        times=tree.times,
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
            files=tuple([printable_path(within + path) for path in changed[:MOST_NAMED]]),
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
