"""Files of a stored definition that have changed since it was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from loopkit.document.problems import ProblemsFound
from loopkit.drive.repair.differences import differences
from loopkit.language.load import load, load_resolved


def find_file(named: Path, folders: Iterable[Path]) -> Path | None:
    """The file of this name in the first folder that has it."""
    return next((path for folder in folders if (path := folder / named).is_file()), None)


def file_if_changed(resolved: str, path: Path | None) -> Path | None:
    """The machine file of a definition, where it says something else by now.

    Of a file that is gone nothing is known; what cannot be read any more has changed.
    """
    if path is None:
        return None
    try:
        loaded = load(path)
    except ProblemsFound:
        return path
    files = [json.loads(text)["files"].values() for text in (resolved, loaded.resolved)]
    if sorted(files[0]) == sorted(files[1]):
        # It may have been changed for the run alone, which is no matter of the file.
        return None
    return path if differences(load_resolved(resolved), loaded.machine) else None


def note_of_change(file: Path) -> str:
    """What is said of a run whose machine file has changed."""
    return f"{file} has changed since this run read it, and the run keeps what it has"
