"""Texts from files that stand beside a machine file, or below."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISDIR, S_ISREG

from loopkit.values import Value

MAX_INCLUDED_BYTES = 1_000_000


class Included(Value, frozen=True):
    """A text that a file brought in."""

    file: str
    text: str
    digest: str
    line: int = 1
    """The line of the text in which the included part starts."""


class CannotInclude(Exception):
    """A file whose text cannot be included; the message is a sentence with the reason."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def read_included(folder: Path, relative: str) -> str:
    """The text of a file in a folder, symlinks resolved; raises CannotInclude."""
    root, data = folder.resolve(), None
    try:
        path = (root / relative).resolve()
        mode = path.stat().st_mode if path.is_relative_to(root) else None
        data = path.read_bytes() if mode is not None and S_ISREG(mode) else None
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError, RuntimeError) as error:
        # Links in a circle are a RuntimeError before Python 3.13.
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotInclude(f"`{relative}` can't be read: {reason}", "") from error
    if mode is None:
        raise CannotInclude(
            f"`{relative}` lies outside the folder of the machine file",
            "move it beside the machine file, or below",
        )
    if S_ISDIR(mode):
        raise CannotInclude(f"`{relative}` is a folder, not a file", "name a file in it")
    if data is None:
        raise CannotInclude(
            f"there is no file `{relative}`", "paths start at the folder of this file"
        )
    if len(data) > MAX_INCLUDED_BYTES:
        raise CannotInclude(f"`{relative}` is larger than 1 MB", "split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CannotInclude(f"`{relative}` is not UTF-8 text", "save it as UTF-8") from error
