"""Scenario files that a command names, or that its folders contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from loopkit.testing.suites import SUFFIX


def scenario_files(paths: Iterable[Path]) -> list[Path]:
    """Each file once, in order; of a folder, all below it but those in hidden folders."""
    return list(dict.fromkeys(file for path in paths for file in _files(path)))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob(f"*{SUFFIX}")):
        hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
        # A link that leads nowhere is told as one that can't be read, or its cases would be missed.
        if not hidden and (file.is_file() or (file.is_symlink() and not file.exists())):
            yield file
