"""The files of a state: its workspace, its output file, the environment of its commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from loopkit.drive.active import ActiveRun
from loopkit.drive.folders import watch_folder
from loopkit.drive.isolation import in_tree_above, origin_of, own_tree
from loopkit.drive.replies import Written
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Captured
from loopkit.engine.template_values import render
from loopkit.language import Output, Workspace
from loopkit.outside.trees.tree import files_digest
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
    try:
        known = active.folder if relative == "." else resolve_inside(active.folder, relative)
        folder = prepare(in_tree_above(active, known))
    except (OutsideWorkspace, UnusableWorkspace) as error:
        raise CallFailed("fatal", str(error)) from error
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
        place = _inside(folder, relative)
        return await watch_folder(active, place, relative, output.name, task)
    if output.file is None:
        return None
    relative = render(active.program, active.state, output.file).strip()
    before = await file_before(active, folder, relative, output.name, task)

    async def read() -> Written:
        return read_written(folder, relative, before)

    return read


def _inside(folder: Path, relative: str) -> Path:
    """A folder of the workspace, made if it is missing."""
    try:
        return prepare(_resolve(folder, relative))
    except UnusableWorkspace as error:
        raise CallFailed("fatal", str(error)) from error


def _resolve(folder: Path, relative: str) -> Path:
    try:
        return resolve_inside(folder, relative)
    except OutsideWorkspace as error:
        raise CallFailed("fatal", str(error)) from error


def output_file(folder: Path, relative: str) -> Path:
    """Where an output file stands; its folder is created."""
    path = _resolve(folder, relative)
    try:
        prepare(path.parent)
    except UnusableWorkspace as error:
        raise CallFailed("fatal", str(error)) from error
    return path


async def file_before(
    active: ActiveRun, folder: Path, relative: str, artifact: str, task: str
) -> FileMark:
    """The mark of an output file before the work began, also after tries that were lost."""
    place, known = str(folder / relative), active.state.captured.get(task)
    if known is None or known.tree or known.place != place:
        before = await asyncio.to_thread(mark, output_file(folder, relative))
        state, times = active.state.state, before.to_text()
        known = Captured(task=task, state=state, artifact=artifact, place=place, times=times)
        active.stage(known)
    return FileMark.of_text(known.times)


def read_written(folder: Path, relative: str, before: FileMark) -> Written:
    """The content of an output file, if it was written since the mark was made."""
    if not was_written_since(folder / relative, before):
        return Written(fault=f"{relative} was not written in this attempt")
    try:
        # Once more, because the attempt may have put a link there that leads out.
        return Written(read_text(resolve_inside(folder, relative)))
    except (OutsideWorkspace, UnreadableArtifact) as error:
        return Written(fault=str(error))


def files_reader(active: ActiveRun, folder: Path, output: Output) -> Callable[[], Awaitable[str]]:
    """A function that computes the digest of the files in a workspace.

    The output file is left out, because it is compared as the artifact.
    """
    written = None
    if output.file is not None:
        written = _resolve(folder, render(active.program, active.state, output.file).strip())

    origin = origin_of(active, folder)

    async def read() -> str:
        return await asyncio.to_thread(files_digest, folder, written, origin)

    return read
