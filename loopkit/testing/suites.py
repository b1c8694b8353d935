"""Suites: a scenario file's cases, the machine that they test, and the problems of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from loopkit.checks import refuse_errors
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem, ProblemsFound
from loopkit.engine.macrostep import Engine
from loopkit.language.load import Loaded, Source, load
from loopkit.machine.graph import Graph
from loopkit.scenario import Case, LoadedScenario, load_file, unwritten
from loopkit.testing.child_keys import unknown_keys
from loopkit.testing.inputs import inputs_of, unwritten_inputs
from loopkit.testing.playbill import Playbill
from loopkit.testing.unknown_names import unknown_names

SUFFIX = ".scenario.yaml"
"""The ending of the names of scenario files with cases."""


@dataclass
class Machines:
    """Machines that are read and checked once for all suites that test them."""

    loaded: dict[Path, Loaded] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    """The engines by digest, because compiled classes are never freed."""

    def machine(self, path: Path) -> Loaded:
        """A machine without errors; raises ProblemsFound."""
        if path not in self.loaded:
            loaded = load(path)
            refuse_errors(loaded)
            self.loaded[path] = loaded
        return self.loaded[path]


@dataclass(frozen=True)
class Suite:
    """The cases of one scenario file."""

    path: Path
    written: LoadedScenario
    machine: Loaded
    inputs: Mapping[str, Mapping[str, Any]]
    """The complete input of each case that can be played."""
    machines: Machines

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the cases, in the order of the file."""
        return self.written.names

    @property
    def source(self) -> Source:
        return self.written.source

    @cached_property
    def playbill(self) -> Playbill:
        return Playbill(Graph(self.machine.machine))

    @property
    def playable(self) -> tuple[str, ...]:
        """The names of the cases in which nothing is still to be written."""
        return tuple(name for name in self.names if not self.unwritten[name])

    @cached_property
    def unwritten(self) -> dict[str, tuple[Problem, ...]]:
        """The problems of what is still to be written in each case, input first."""
        return {
            name: (
                *unwritten_inputs(self.written, name, self.machine.machine),
                *unwritten(self.written.scenario, self.source, name),
            )
            for name in self.names
        }

    def case(self, name: str) -> Case:
        """A case by its name; raises KeyError."""
        return (self.written.scenario.cases or {})[name]

    def line(self, *path: str | int) -> int:
        """The line of the key, or the item, at a path of the file; from 1."""
        return self.source.document.span(path, key=True).line


def load_suite(path: Path, machines: Machines | None = None) -> Suite:
    """The suite of a scenario file.

    Raises ProblemsFound with all problems of the file, of the names in it, or of its machine.
    """
    machines = machines or Machines()
    written = load_file(path)
    if not written.names:
        raise ProblemsFound([_no_cases(written)])
    machine = _machine(written, machines)
    suite = Suite(path, written, machine, {}, machines)
    problems = list(unknown_names(written.scenario, suite.playbill, written.source))
    inputs: dict[str, Mapping[str, Any]] = {}
    for name in written.names:
        if not suite.unwritten[name]:
            inputs[name], faults = inputs_of(written, name, machine.machine)
            problems += faults
            if not faults:
                problems += unknown_keys(written, name, machine.machine, inputs[name])
    if problems:
        # A problem of what all cases share is found in each case.
        raise ProblemsFound(dict.fromkeys(problems))
    return Suite(path, written, machine, inputs, machines)


def _no_cases(written: LoadedScenario) -> Problem:
    at: DocPath = ("scenario",)
    remedy = f"add `machine:` and `cases:`; a script for `--script` does not end in `{SUFFIX}`"
    return written.source.problem(at, "no-cases", "the scenario has no cases to test", help=remedy)


def _machine(written: LoadedScenario, machines: Machines) -> Loaded:
    name = written.scenario.machine or ""
    path = written.folder / name
    if not path.is_file():
        message = f"there is no machine file `{name}`"
        remedy = "the path starts at the folder of this file"
        at = ("machine",)
        raise ProblemsFound([written.source.problem(at, "no-machine", message, help=remedy)])
    return machines.machine(path)


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Each file once, in order; for a folder, all below it except in hidden folders."""
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob(f"*{SUFFIX}")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        # A broken link is reported as unreadable; otherwise its cases would be missed.
        if not hidden and (file.is_file() or (file.is_symlink() and not file.exists())):
            yield file
