"""Files that a command line names, besides machines and scenarios: read, or written."""

from __future__ import annotations

from pathlib import Path

from loopkit.cli.exit_codes import USAGE, Stop

MOST_CHARACTERS = 50_000_000
"""No journal takes more; a device has no end."""


def read_text(path: Path) -> str:
    """The text of a file; raises Stop where it has none."""
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(MOST_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Stop(USAGE, f"error: `{path}` can't be read: {reason}") from error
    if len(text) > MOST_CHARACTERS:
        raise Stop(USAGE, f"error: `{path}` has more than {MOST_CHARACTERS:,} characters")
    return text


def write(path: Path, data: bytes) -> None:
    """Write a file; raises Stop where that can't be done."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Stop(USAGE, f"error: cannot write {path}: {error.strerror}") from error
