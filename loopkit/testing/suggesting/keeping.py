"""Keeping on a way: states that do not work again, and what has to change for those that do."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.machine.graph import artifact_of
from loopkit.machine.program import Program
from loopkit.testing.suggesting.ways import Step, Way


def stays(program: Program, way: Way, index: int) -> bool:
    """Whether a step keeps what its state made, because nothing that it needs was rewritten."""
    before = _last_work(program, way.steps, index)
    if before is None:
        return False
    name = way.steps[index].source
    read = {artifact_of(program.machine, name), *(path[0] for path in _needs_of(program, name))}
    since = way.steps[before + 1 : index]
    return not any(artifact_of(program.machine, step.source) in read for step in since)


def changes_needed(program: Program, way: Way, index: int) -> Iterator[str]:
    """What has to change in the text that a step writes, so that later states work again."""
    artifact = artifact_of(program.machine, way.steps[index].source)
    for later, step in enumerate(way.steps[index + 1 :], index + 1):
        before = _last_work(program, way.steps, later)
        if before is None or before > index:
            continue
        for head, field in _needs_of(program, step.source):
            if head == artifact:
                what = f"`{field}` is" if field else "it is"
                yield f"{what} not as in the attempt before, so that `{step.source}` works again"


def _needs_of(program: Program, name: str) -> Iterator[tuple[str, str]]:
    """The names on which the work of a state depends, each with the field that it needs."""
    needed = program.machine.states[name].needed
    for path in sorted(program.names_behind[name]) if needed is None else needed:
        head, _, field = path.partition(".")
        yield head, field


def _last_work(program: Program, steps: tuple[Step, ...], index: int) -> int | None:
    """The index of the earlier step whose work a step may keep; None if it has to work."""
    name, edge = steps[index].source, steps[index - 1].move.edge if index else None
    if name not in program.graph.keeping or edge is None or edge.back:
        return None
    return next((at for at in range(index - 1, -1, -1) if steps[at].source == name), None)
