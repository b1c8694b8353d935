"""`set` states: values are set in a file, once, also if the process is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loopkit.document.in_place import NotSet, ToSet, set_in_file
from loopkit.document.writing import NotWritable
from loopkit.drive.active import ActiveRun
from loopkit.drive.isolation import output_file, workspace
from loopkit.drive.replies import data_artifact
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Setting, Worked
from loopkit.engine.template_values import AllNames, render
from loopkit.language.datatypes.datatype import conform, fault_texts
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.guard.evaluate import parse_path
from loopkit.language.states.kinds import FileValues, SetState
from loopkit.machine.inputs import fill_in


async def perform_set(active: ActiveRun, name: str, state: SetState) -> Worked:
    """Set the values and read the file; what does not stand there as expected is a content error.

    What is set is recorded before, so that a run that was killed sets the same again.
    """
    run, names = active.state, AllNames(active.program, active.state)
    path = await _file_of(active, _named(active, state))
    known, again = run.adding, True
    if not isinstance(known, Setting) or (known.state, known.visit) != (name, run.visit):
        where, values = fill_in(state.where, names), fill_in(state.values, names)
        again = False
        known = Setting(state=name, visit=run.visit, file=str(path), where=where, values=values)
        if values:
            await active.append(known)

    def fit(data: object) -> Any:
        whole, faults = conform(data, parse_type(state.type))
        if faults:
            raise NotSet(f"`{path}` does not fit its type: {'; '.join(fault_texts(faults))}")
        return whole

    expect = fill_in(state.expect, names)
    to_set = ToSet(_steps(state), known.where, known.values, expect)
    try:
        data, digest = await _set_values(path, to_set, fit, again=again)
    except NotSet as error:
        return Worked(state=name, visit=run.visit, outcome="content", error=str(error))
    left = {"path": str(path), "data": data, "digest": digest}
    made = data_artifact(name, run.attempts.get(name, 0) + 1, left)
    return Worked(state=name, visit=run.visit, outcome="done", artifact=made)


async def set_at_end(active: ActiveRun, mark: FileValues) -> None:
    """Set the values of a final state, anew if that was done already; raises CallFailed.

    They need no record: the run does not end before they are set, and nothing else changes it. A
    relative path starts at the project folder.
    """
    names = AllNames(active.program, active.state)
    where, values, expect = (fill_in(v, names) for v in (mark.where, mark.values, mark.expect))
    to_set = ToSet(_steps(mark), where, values, expect)
    try:
        path = await _file_of(active, active.folder.resolve() / _named(active, mark))
        await _set_values(path, to_set, lambda data: data, again=True)
    except NotSet as error:
        raise CallFailed("content", str(error)) from error


def _steps(values: FileValues) -> Sequence[str]:
    return parse_path(values.at) if values.at else ()


async def _set_values(
    path: Path, to_set: ToSet, fit: Callable[[object], Any], *, again: bool
) -> tuple[Any, str]:
    """As `set_in_file`, beside other work; a file that can't be written is a fatal error."""
    try:
        return await asyncio.to_thread(set_in_file, path, to_set, fit, again=again)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error


def _named(active: ActiveRun, values: FileValues) -> Path:
    return Path(render(active.program, active.state, values.set).strip())


async def _file_of(active: ActiveRun, given: Path) -> Path:
    """Where the file stands: in the workspace, or at an absolute path in the project folder.

    So the file that is an input is the one of the project, also for a child with its own tree.
    """
    is_own = not given.is_absolute()
    folder = await workspace(active, None, writes=True) if is_own else active.folder.resolve()
    return _file_in(folder, given)


def _file_in(folder: Path, given: Path) -> Path:
    path = folder / given
    if given.is_absolute():
        path = Path(os.path.realpath(given.parent)) / given.name
    if not path.is_relative_to(folder):
        message = f"`{given}` lies outside of the project folder `{folder}`"
        raise CallFailed("fatal", f"{message}, so it is not changed")
    if os.path.islink(path):  # noqa: PTH114 - takes a name of any length
        message = f"`{given}` is a link, which is not followed; name the file itself"
        raise CallFailed("fatal", message)
    return output_file(folder, str(path.relative_to(folder)), is_made=False)
