"""A render state: a template filled in."""

from __future__ import annotations

from loopkit.drive.active import ActiveRun
from loopkit.drive.fields import body, extract
from loopkit.engine.events import Artifact, Worked
from loopkit.engine.template_values import render, value_of
from loopkit.language import RenderState


async def perform(active: ActiveRun, name: str, state: RenderState) -> Worked:
    """The filled template as an artifact; a single expression passes the value itself."""
    output = state.output_at(name)
    value = value_of(active.program, active.state, state.render)
    is_data = not isinstance(value, str)
    text = render(active.program, active.state, state.render)
    text = text if is_data else body(text, output)
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
    return Worked(state=name, visit=active.state.visit, outcome="done", artifact=artifact)
