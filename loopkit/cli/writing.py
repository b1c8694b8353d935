"""Writing the files that a command makes besides its output."""

from __future__ import annotations

from pathlib import Path

from loopkit.cli.exit_codes import USAGE, Stop


def write(path: Path, data: bytes) -> None:
    """Write a file; raises Stop where that can't be done."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Stop(USAGE, f"error: cannot write {path}: {error.strerror}") from error
