"""The state folder: where it is; private, ignored by git, opened by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATE_FOLDER = ".loopkit"
DATABASE = "journal.db"


def state_folder(start: Path | None = None) -> Path:
    """`.loopkit` of the project: the nearest one upwards, else beside `.git`, else here."""
    if named := os.environ.get("LOOPKIT_STATE"):
        return Path(named)
    here = (start or Path.cwd()).resolve()
    for marker in (STATE_FOLDER, ".git"):
        for folder in (here, *here.parents):
            if (folder / marker).is_dir():
                return folder / STATE_FOLDER
    return here / STATE_FOLDER


def is_unused(folder: Path) -> bool:
    """Whether there are no runs yet, so that a reader need not create the folder.

    Once the folder exists, the runs of all projects below it are stored there.
    """
    try:
        return folder / DATABASE not in folder.iterdir()
    except FileNotFoundError:
        return not folder.is_symlink()
    except OSError:
        # Opening the folder will report the reason.
        return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Make the folder (0700) if it is missing, and keep all others that open it waiting.

    Raises `OSError`.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def furnish(folder: Path) -> Path:
    """Give the folder its `.gitignore` and an empty database (0600), and return its path.

    Existing files are left as they are. The caller has to be `alone` in the folder. Raises
    `OSError`.
    """
    _ignore_itself(folder)
    database = folder / DATABASE
    os.close(os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return database


def _ignore_itself(folder: Path) -> None:
    target = folder / ".gitignore"
    if target.exists():
        return
    # Written beside and renamed: a crash in between leaves no empty file that ignores nothing.
    draft = folder / ".gitignore.draft"
    draft.write_text("*\n", encoding="utf-8")
    draft.replace(target)
