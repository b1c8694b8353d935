"""Suggestions as YAML, to paste below `cases:`, or as a whole scenario file."""

from __future__ import annotations

from pathlib import Path

from loopkit.document.writing import inline, to_yaml
from loopkit.testing.suggesting.search import Suggestion, Suggestions


def as_cases(suggestions: Suggestions) -> str:
    """The cases, indented as they stand below `cases:`."""
    return "\n".join(map(_case, suggestions.cases))


def as_file(suggestions: Suggestions) -> str:
    """A scenario file with these cases, for the folder of its machine."""
    machine = Path(suggestions.suite.machine.source.document.file).name
    head = to_yaml({"scenario": 1, "machine": machine})
    return f"{head}\ncases:\n{as_cases(suggestions)}"


def _case(suggestion: Suggestion) -> str:
    return f"  {inline(suggestion.name)}:\n{to_yaml(suggestion.case, 4)}"
