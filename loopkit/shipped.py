"""Files that come with the package, machines and schemas; and what makes a file a machine."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

MACHINE_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?(?:\{\s*)?([\"']?)loopkit\1\s*:", re.MULTILINE)
"""The key that a machine has at its top level; looked for as text, since the file may be broken."""


def is_machine(path: Path) -> bool:
    try:
        return MACHINE_KEY.search(path.read_bytes()) is not None
    except OSError:
        # Loading it as a machine reports why it can't be read.
        return True


def machines_in(folder: Path) -> dict[str, Path]:
    """The machine files of a folder, without those of folders in it, by name and in order."""
    found = sorted(folder.glob("*.yaml"))
    return {path.stem: path for path in found if path.is_file() and is_machine(path)}


def shipped(name: str) -> Path:
    """The folder `machines` or `schemas`: in the package, or in a clone that is used as it is."""
    inside = Path(str(files("loopkit") / name))
    return inside if inside.is_dir() else inside.parents[1] / name


def shipped_machines() -> dict[str, Path]:
    """A machine's scenario is beside its file, and what it reads in a folder of its name."""
    return machines_in(shipped("machines"))
