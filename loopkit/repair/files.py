"""Files of a stored definition that have changed since it was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from loopkit.document.problems import ProblemsFound
from loopkit.language.load import load, load_resolved, named_file
from loopkit.repair.differences import differences


def changed_file(resolved: str, folders: Iterable[Path]) -> Path | None:
    """The machine file of a definition, where it says something else by now.

    It is looked for in these folders; of a file that is gone nothing is known, and what cannot be
    read any more has changed.
    """
    named = named_file(resolved)
    path = next((p for folder in folders if (p := folder / named).is_file()), None)
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
