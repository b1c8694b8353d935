"""Writers: the states of a machine that may write files that other runs see."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.language import Machine


def writers(machine: Machine) -> Iterator[str]:
    """The states whose programs may write or that write a file; a child machine counts as well."""
    return (name for name in machine.states if _writes(machine, name))


def _writes(machine: Machine, name: str) -> bool:
    state = machine.states[name]
    if state.isolates:
        return False
    if state.child is not None:
        return any(writers(state.child))
    output = state.output_at(name)
    is_program = state.call == "run" or any(a.works_on_files for a in machine.agents_at(name))
    is_writer = is_program or (output is not None and output.is_left)
    return is_writer and machine.works_in_sight(name)
