"""The difference between a version of an artifact and the one before it, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from loopkit.text import printable, shorten
from loopkit.text.line_diff import hunks
from loopkit.views.history import artifact_lines
from loopkit.views.version_diff import KeptVersion

MOST_LINES = 400
LINE_WIDTH = 1000
Kind = Literal["same", "added", "removed", "place"]
KINDS: dict[str, Kind] = {"+": "added", "-": "removed", "@": "place"}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a difference, with its sign."""

    kind: Kind
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The lines that differ, with some around them."""

    before: int
    """The number of the version that it is compared with."""
    lines: Sequence[DiffLine]
    left_out: int = 0
    """The number of lines that are not shown."""

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)


def difference(versions: Sequence[KeptVersion], number: int) -> Difference | None:
    """The changes of a version; None for the first one."""
    if number < 2:
        return None
    before, after = versions[number - 2], versions[number - 1]
    if after.artifact.tree and before.artifact.tree:
        changed = printable(after.artifact.fields["last_change"]).splitlines()
    else:
        old, new = ("\n".join((*artifact_lines(each.artifact), "")) for each in (before, after))
        changed = [] if old == new else list(hunks(old, new))
    shown = [
        DiffLine(KINDS.get(line[:1], "same"), shorten(line, LINE_WIDTH))
        for line in changed[:MOST_LINES]
    ]
    return Difference(before.number, shown, len(changed) - len(shown))
