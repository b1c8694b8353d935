"""Machines by name: those that come with the package, and those of any other folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def shipped_machines() -> Mapping[str, Path]:
    """The machines that come with loopkit: in its package, or beside it where it is developed."""
    package = Path(str(files("loopkit")))
    folder = package / "machines"
    return machines_in(folder if folder.is_dir() else package.parent / "machines")
