"""Shared files: what lines of a batch that run at the same time would write over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loopkit.language import Machine, Workspace
from loopkit.language.template import parse
from loopkit.machine.writers import writers


class SharedFile(NamedTuple):
    """A state whose work is in the same folder whatever the input is."""

    state: str
    file: str
    """The file that it writes there; empty where only its program knows."""


def shared_files(machine: Machine) -> Iterator[SharedFile]:
    """The states whose runs at the same time overwrite each other's files, or may do."""
    for name in writers(machine):
        state = machine.states[name]
        if state.child is not None:
            yield SharedFile(name, "")
            continue
        if all(map(_is_apart, machine.workspaces_at(name))):
            continue
        output = state.output_at(name)
        file = output.file if output is not None and output.file else ""
        if not file or not _is_of_line(file):
            yield SharedFile(name, file)


def _is_apart(workspace: Workspace | None) -> bool:
    """Whether each line has a folder or a tree of its own."""
    if workspace is None:
        return False
    return workspace.isolate != "none" or _is_of_line(workspace.path)


def _is_of_line(path: str) -> bool:
    """Whether a path can be another one for each line."""
    return "input" in parse(path).names
