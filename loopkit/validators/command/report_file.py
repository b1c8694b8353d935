"""The report file that a program writes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from loopkit.outside.workspace import (
    OutsideWorkspace,
    UnreadableArtifact,
    UnusableWorkspace,
    prepare,
    read_text,
    resolve_inside,
)
from loopkit.validators.command.reader import Unreadable
from loopkit.validators.fault import CannotJudge


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A file of the workspace; it is a report only if this run of the program wrote it."""

    folder: Path
    name: str
    """As the rule writes it, templates filled in."""

    def clear(self) -> None:
        """Delete the report of an earlier run, which could be mistaken for that of this run.

        Raises CannotJudge where the name leads out of the workspace or is not a file.
        """
        try:
            path = resolve_inside(self.folder, self.name)
            prepare(path.parent)
            path.unlink(missing_ok=True)
        except (OutsideWorkspace, UnusableWorkspace) as error:
            raise CannotJudge(str(error)) from error
        except OSError as error:
            cause = "is a folder" if os.path.isdir(path) else f"can't be deleted ({error.strerror})"
            raise CannotJudge(
                f"what stands at {self.name!r}, where the report is to be written, {cause}; "
                "name a file that the program writes"
            ) from error

    def text(self) -> str:
        """The text that the program wrote; raises Unreadable, with the rest of a sentence."""
        try:
            # Once more, because the program may have put a link there that leads out.
            path = resolve_inside(self.folder, self.name)
            if not os.path.exists(path):
                raise Unreadable(
                    "this run of the program did not write it, and one that was there before "
                    "does not count"
                )
            return read_text(path)
        except (OutsideWorkspace, UnreadableArtifact) as error:
            raise Unreadable(f"it can't be taken: {error}") from error
