"""`set` states: values are set in a file, once, also if the process is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from loopkit.document.in_place import NotSet, ToSet, set_in_file
from loopkit.document.writing import NotWritable
from loopkit.drive.active import ActiveRun
from loopkit.drive.isolation import output_file, workspace
from loopkit.drive.retries import CallFailed
from loopkit.engine.events import Setting, Worked
from loopkit.engine.payloads import Artifact
from loopkit.engine.template_values import AllNames, render
from loopkit.language.datatypes.datatype import conform, fault_texts
from loopkit.language.datatypes.notation import parse_type
from loopkit.language.guard.evaluate import parse_path
from loopkit.language.states.kinds import SetState
from loopkit.machine.inputs import fill_in


async def perform_set(active: ActiveRun, name: str, state: SetState) -> Worked:
    """Set the values and read the file; what does not stand there as expected is a content error.

    What is set is recorded before, so that a run that was killed sets the same again.
    """
    run = active.state
    path = await _file_of(active, state)
    names = AllNames(active.program, run)
    known, is_again = run.adding, True
    if not isinstance(known, Setting) or (known.state, known.visit) != (name, run.visit):
        where, values = fill_in(state.where, names), fill_in(state.values, names)
        known = Setting(state=name, visit=run.visit, file=str(path), where=where, values=values)
        is_again = False
        if values:
            await active.append(known)
    to_set = ToSet(
        steps=parse_path(state.at) if state.at else (),
        where=known.where,
        values=known.values,
        expect=fill_in(state.expect, names),
    )

    def fit(data: object) -> Any:
        whole, faults = conform(data, parse_type(state.data))
        if faults:
            raise NotSet(f"`{path}` does not fit its type: {'; '.join(fault_texts(faults))}")
        return whole

    try:
        read = await asyncio.to_thread(set_in_file, path, to_set, fit, again=is_again)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error
    except NotSet as error:
        return Worked(state=name, visit=run.visit, outcome="content", error=str(error))
    data = {"path": str(path), "data": read.data, "digest": read.digest}
    artifact = Artifact(
        name=name,
        author=name,
        attempt=run.attempts.get(name, 0) + 1,
        text=json.dumps(data, ensure_ascii=False),
        data=data,
        is_data=True,
    )
    return Worked(state=name, visit=run.visit, outcome="done", artifact=artifact)


async def _file_of(active: ActiveRun, state: SetState) -> Path:
    """Where the file stands: in the workspace, or at an absolute path in the project folder.

    So the file that is an input is the one of the project, also for a child with its own tree.
    """
    given = Path(render(active.program, active.state, state.set).strip())
    if not given.is_absolute():
        return _without_link(await workspace(active, None, writes=True), given)
    root = active.folder.resolve()
    path = given.parent.resolve() / given.name
    if not path.is_relative_to(root):
        message = f"`{given}` lies outside of the project folder `{root}`, so it is not changed"
        raise CallFailed("fatal", message)
    return _without_link(root, path.relative_to(root))


def _without_link(folder: Path, relative: Path) -> Path:
    if (folder / relative).is_symlink():
        message = f"`{relative}` is a link, which is not followed; name the file itself"
        raise CallFailed("fatal", message)
    return output_file(folder, str(relative))
