"""Shared files: what lines of a batch that run at the same time would write over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from loopkit.language import Machine, State
from loopkit.language.agents.command import CommandAgent
from loopkit.language.states.output import Output
from loopkit.language.template import parse


class SharedFile(NamedTuple):
    """A state whose work is in the same folder whatever the input is."""

    state: str
    file: str
    """The file that it writes there; empty where only its program knows."""


def shared_files(machine: Machine) -> Iterator[SharedFile]:
    """The states of which two at a time get in each other's way, or may do."""
    for name, state in machine.states.items():
        if not _writes_files(machine, name, state) or _is_of_line(_folder(machine, name, state)):
            continue
        output = state.output_at(name)
        file = output.file if isinstance(output, Output) and output.file else ""
        if not file or not _is_of_line(file):
            yield SharedFile(name, file)


def _writes_files(machine: Machine, name: str, state: State) -> bool:
    return state.call == "run" or isinstance(machine.agent_at(name), CommandAgent)


def _folder(machine: Machine, name: str, state: State) -> str:
    agent = machine.agent_at(name)
    for place in (state.own_workspace, agent.workspace if agent else None, machine.workspace):
        if place is not None:
            return place.path
    return "."


def _is_of_line(path: str) -> bool:
    """Whether a path can be another one for each line."""
    return "input" in parse(path).names
