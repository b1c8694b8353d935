"""Writes: a file is replaced as a whole or not at all, and a text is added to it once."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile


class NotWritable(Exception):
    """A file that can't be written; the message says why."""


def refuse_unwritable(path: Path) -> None:
    """Raise NotWritable where `replace_file` would fail, or write over what is protected."""
    real = Path(os.path.realpath(path))
    if os.path.isdir(real):
        raise NotWritable(f"`{path}` is a folder")
    if not os.path.isdir(real.parent):
        raise NotWritable(f"`{path}` can't be written: there is no folder `{path.parent}`")
    is_locked = os.path.exists(real) and not real.stat().st_mode & 0o222
    if is_locked or not os.access(real if os.path.exists(real) else real.parent, os.W_OK):
        raise NotWritable(f"`{path}` can't be written: it is read-only")


def replace_file(path: Path, text: str | bytes) -> None:
    """Write a file as a whole or not at all; raises NotWritable. Line ends stay as they are."""
    refuse_unwritable(path)
    real = Path(os.path.realpath(path))
    mode = real.stat().st_mode if os.path.exists(real) else 0o666 & ~_umask()
    try:
        with NamedTemporaryFile(dir=real.parent, prefix=f".{real.name}.", delete=False) as made:
            beside = Path(made.name)
        try:
            beside.write_bytes(text if isinstance(text, bytes) else text.encode())
            beside.chmod(mode)
            beside.replace(real)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise NotWritable(f"`{path}` can't be written: {error.strerror}") from error


def size_of(path: Path) -> int:
    """How many bytes a file has; none where there is no file. Raises NotWritable."""
    refuse_unwritable(path)
    return path.stat().st_size if os.path.exists(path) else 0


def add_to_file(path: Path, text: str, after: int) -> None:
    """Add a text to a file that had `after` bytes before, unless that has been done already.

    Nobody else may add the same text to it meanwhile: it would count as this one. Of what was added
    in part, because the computer stopped, the rest is added. Raises NotWritable.
    """
    refuse_unwritable(path)
    data = text.encode()
    try:
        with path.open("ab+") as file:
            file.seek(after)
            found = file.read()
            if data not in found:
                file.write(data.removeprefix(found))
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise NotWritable(f"`{path}` can't be written: {error.strerror}") from error


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before
