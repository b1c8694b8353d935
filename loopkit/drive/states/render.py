"""A render state: a template filled in, and written to a file if one is named."""

from __future__ import annotations

from pathlib import Path

from loopkit.document.replacing import NotWritable, add_to_file, replace_file, size_of
from loopkit.drive.active import ActiveRun
from loopkit.drive.fields import body, extract
from loopkit.drive.retries import CallFailed
from loopkit.drive.state_files import output_file, workspace
from loopkit.engine.events import Adding, Artifact, Worked
from loopkit.engine.keeping import work_digest
from loopkit.engine.template_values import render, value_of
from loopkit.language import RenderState


async def perform(active: ActiveRun, name: str, state: RenderState) -> Worked:
    """The filled template as an artifact; a single expression passes the value itself."""
    output, made = state.output_at(name), work_digest(active.program, active.state)
    value = value_of(active.program, active.state, state.render)
    is_data = not isinstance(value, str)
    text = render(active.program, active.state, state.render)
    text = text if is_data else body(text, output)
    if output.file is not None:
        await _write(active, name, output.file, text, adds=state.adds)
    artifact = Artifact(
        name=output.name,
        author=name,
        attempt=active.state.attempts.get(name, 0) + 1,
        text=text,
        data=value if is_data else None,
        is_data=is_data,
        fields={} if is_data else extract(text, output.fields, active.program.machine.patterns),
        fallback=state.fallback,
    )
    return Worked(
        state=name, visit=active.state.visit, outcome="done", artifact=artifact, made_from=made
    )


async def _write(active: ActiveRun, name: str, file: str, text: str, *, adds: bool) -> None:
    """Write a text to a file of the workspace; what is added is added once, also after a kill."""
    folder = await workspace(active, None, writes=True)
    path = output_file(folder, render(active.program, active.state, file).strip())
    try:
        if adds:
            add_to_file(path, text, await _size_before(active, name, path))
        else:
            replace_file(path, text)
    except NotWritable as error:
        raise CallFailed("fatal", str(error)) from error


async def _size_before(active: ActiveRun, name: str, path: Path) -> int:
    """The size of the file before this work began, in this process or an earlier one."""
    run = active.state
    known = run.adding
    if known is None or (known.state, known.visit, known.file) != (name, run.visit, str(path)):
        known = Adding(state=name, visit=run.visit, file=str(path), after=size_of(path))
        await active.append(known)
    return known.after
