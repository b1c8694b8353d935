"""The machine files that a command line means: named ones, and those below folders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopkit.cli.exit_codes import USAGE, Stop

MACHINE_KEY = re.compile(rb"^(?:\xef\xbb\xbf)?(?:\{\s*)?([\"']?)loopkit\1\s*:", re.MULTILINE)
"""The key that a machine has at its top level; looked for as text, since the file may be broken."""


def machine_files(paths: Iterable[Path]) -> tuple[list[Path], int]:
    """The files to read, each once, and how many YAML files of the folders are no machines.

    Raises Stop where a folder has no machine: a check of nothing must not look like success.
    """
    machines: dict[Path, None] = {}
    others: set[Path] = set()
    for path in paths:
        if not path.is_dir():
            machines[path] = None
            continue
        found = {file: _is_machine(file) for file in _yaml_below(path)}
        if not any(found.values()):
            raise Stop(USAGE, f"error: no machine file lies below `{path}`")
        machines |= dict.fromkeys(file for file, is_machine in found.items() if is_machine)
        others |= {file for file, is_machine in found.items() if not is_machine}
    return list(machines), len(others - machines.keys())


def _yaml_below(folder: Path) -> Iterator[Path]:
    """Its YAML files in order, without those of hidden folders, such as an environment's."""
    for path in sorted(folder.rglob("*.yaml")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden:
            yield path


def _is_machine(path: Path) -> bool:
    try:
        return MACHINE_KEY.search(path.read_bytes()) is not None
    except OSError:
        # Loading it as a machine reports why it can't be read.
        return True
