"""Scenario file → script: read with its texts included, and each case as a script of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loopkit.document import read_file
from loopkit.document.problems import Problem, ProblemsFound, did_you_mean
from loopkit.language.inclusion import include
from loopkit.language.load import Source, digest_of
from loopkit.language.mistakes import explain
from loopkit.scenario.cases import Scenario
from loopkit.scenario.in_children import CHILDREN
from loopkit.scenario.parts import PARTS, with_own
from loopkit.scenario.unwritten import unwritten

INCLUDING = frozenset({"reply", "edit", "stdout", "equals"})


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario file with the place of each of its values."""

    scenario: Scenario
    source: Source
    folder: Path
    plain: dict[str, Any]
    """Its values with all texts included."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its cases, in order."""
        return tuple(self.scenario.cases or ())

    def script_json(self, case: str | None) -> str:
        """The script of a case, or of a scenario without cases, as JSON."""
        if case is None:
            return _json(self.plain)
        own = self.plain["cases"][case]
        parts = {part: {**self.plain.get(part, {}), **own.get(part, {})} for part in PARTS}
        children = with_own(self.plain.get(CHILDREN, {}), own.get(CHILDREN, {}))
        return _json({"scenario": 1, **parts, **({CHILDREN: children} if children else {})})


def load_file(path: Path) -> LoadedScenario:
    """A scenario file with or without cases; raises ProblemsFound."""
    document = read_file(path, shown_as=str(path))
    plain = document.plain()
    if "loopkit" in plain and "scenario" not in plain:
        raise ProblemsFound([_machine_instead(Source(document))])
    included, faults = include(plain, path.parent, document, INCLUDING)
    if faults:
        raise ProblemsFound(faults)
    try:
        scenario = Scenario.model_validate(plain)
    except ValidationError as error:
        raise ProblemsFound(list(explain(error, document, Scenario))) from error
    return LoadedScenario(scenario, Source(document, included), path.parent, plain)


def _machine_instead(source: Source) -> Problem:
    remedy = "name a scenario of it; `loopkit run MACHINE --record FILE` writes one"
    message = "this is a machine, not a scenario"
    return source.problem(("loopkit",), "missing-field", message, help=remedy, key=True)


def load_scenario(path: Path, case: str | None = None) -> tuple[Scenario, str, str]:
    """The script of a file, or of one of its cases: itself, its JSON, and that JSON's digest.

    Without a name it is the only case. Raises ProblemsFound, also for what is still to be written.
    """
    loaded = load_file(path)
    case = _case_of(loaded, case)
    if unwritten_parts := list(unwritten(loaded.scenario, loaded.source, case)):
        raise ProblemsFound(unwritten_parts)
    script = loaded.script_json(case)
    return read_resolved(script), script, digest_of(script)


def _case_of(loaded: LoadedScenario, case: str | None) -> str | None:
    names = loaded.names
    if case is None and len(names) < 2:
        return names[0] if names else None
    if case in names:
        return case
    if case is None:
        message, remedy = "the scenario has several cases", f"name one: `--case '{names[0]}'`"
    elif names:
        message, remedy = f"there is no case `{case}`", did_you_mean(case, names)
    else:
        message, remedy = f"there is no case `{case}`", "this scenario has none: leave it out"
    raise ProblemsFound([loaded.source.problem(("cases",), "unknown-case", message, help=remedy)])


def read_resolved(script: str) -> Scenario:
    """The scenario of a script that a journal has stored."""
    return Scenario.model_validate(json.loads(script))


def _json(plain: dict[str, Any]) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
