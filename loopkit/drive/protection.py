"""Protected files: kept before the work of an author, and put back as they were after it.

They are in force from the event before the work until its reply, so that a process which dies
meanwhile leaves them to the next: before it does anything else, the changes are undone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.isolation import keep_tree, name_some, reading, write
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Protected, Undone
from loopkit.engine.findings import Finding, note
from loopkit.engine.state import author_task
from loopkit.journal.files import STATE_FOLDER
from loopkit.outside.trees import (
    Conflicts,
    Folder,
    changed_files,
    is_by_the_way,
    printable_path,
    read_tree,
)

PROTECTED = "protected"
REPOSITORIES = ".git"


async def protect(active: ActiveRun, folder: Path, patterns: Sequence[str], task: str) -> None:
    """Keep the files of a workspace that the work must not change, once for all of its tries."""
    known = active.state.protected
    if known is not None and known.task == task:
        return
    # Contents are only kept for a run that is stored.
    await active.append()
    place = await asyncio.to_thread(os.path.realpath, folder)
    protected = Protected(task=task, place=place, patterns=(*patterns, REPOSITORIES), tree="")
    tree = await keep_tree(active, _folder(active, protected))
    active.stage(protected.replace(tree=tree.digest))


async def undo_left(active: ActiveRun) -> None:
    """Undo the changes of earlier work that ended without a reply."""
    known, run = active.state.protected, active.state
    if known is not None and known.task != author_task(run.state, run.visit):
        await undo_changes(active)


async def undo_changes(active: ActiveRun) -> tuple[Finding, ...]:
    """Put the protected files back as they were, and keep them as they are now.

    A finding if anything was changed on purpose.
    """
    known = active.state.protected
    assert known is not None
    folder, wanted = _folder(active, known), active.contents.tree(known.tree)
    with reading(repr(known.place)):
        now = await asyncio.to_thread(read_tree, folder, wanted)
    files = tuple(map(printable_path, changed_files(wanted, now, is_by_the_way)))
    kept = ""
    if now.digest != wanted.digest:
        # A pipe, or a new link to a file outside, can't be kept, and has to go all the same.
        with suppress(CallFailed):
            kept = (await keep_tree(active, folder, wanted)).digest
        try:
            await write(active, folder.root, now, wanted, ignored_may_go=True)
        except Conflicts as strange:
            message = f"protected files are being changed: {name_some(strange.paths)}"
            raise CallFailed("fatal", message, remedy="end the program that does it") from strange
    active.stage(Undone(task=known.task, files=files, tree=kept))
    message = f"changes to protected files were undone: {name_some(files)}"
    return (note(PROTECTED, message),) if files else ()


def _folder(active: ActiveRun, protected: Protected) -> Folder:
    root, state = Path(protected.place), active.contents.state
    own = [STATE_FOLDER]
    if state is not None and state.is_relative_to(root):
        own.append(f"/{state.relative_to(root)}")
    return Folder(root, ignore=tuple(own), only=protected.patterns)
