"""Files of a stored definition that have changed since it was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from loopkit.document.problems import ProblemsFound
from loopkit.drive.differences import differences
from loopkit.language.load import load, load_resolved


def find_file(named: Path, folders: Iterable[Path]) -> Path | None:
    """The file of this name in the first folder that has it."""
    return next((path for folder in folders if (path := folder / named).is_file()), None)


def file_if_changed(resolved: str, path: Path | None) -> Path | None:
    """The machine file of a definition, if it says something else by now.

    A file that is gone counts as unchanged; one that cannot be read any more has changed.
    """
    if path is None:
        return None
    try:
        loaded = load(path)
    except ProblemsFound:
        return path
    files = [json.loads(text)["files"].values() for text in (resolved, loaded.resolved)]
    if sorted(files[0]) == sorted(files[1]):
        # The definition may have been changed for the run alone, and not in the file.
        return None
    return path if differences(load_resolved(resolved), loaded.machine) else None


def note_of_change(file: Path) -> str:
    """The note about a run whose machine file has changed."""
    return f"{file} has changed since this run read it, and the run keeps what it has"
