"""The size of text in a drawing, never less than a browser needs, whatever its font is.

Fonts are not measured: the widths are those of the widest common fonts (DejaVu, Verdana).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

NARROW = frozenset("iljtfrI.,:;'|!()[]{} ·-/\\\"`")
WIDE = frozenset("mwMW@%")
WIDTHS = {"narrow": 0.52, "usual": 0.76, "wide": 1.12}
"""The widths of bold letters, relative to the font size."""
MONOSPACED = 0.615
EAST_ASIAN, OTHER = 1.12, 0.95


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a line of text."""

    size: float
    """The font size, in pixels."""
    leading: float
    """The distance from line to line, in pixels."""
    is_code: bool = False
    """Whether the font is monospaced."""

    def width(self, line: str) -> float:
        """The width of a line, in pixels."""
        return self.size * sum(map(self._char, line))

    def height(self, lines: Sequence[str]) -> float:
        return self.leading * len(lines)

    def _char(self, char: str) -> float:
        if char.isascii():
            return MONOSPACED if self.is_code else WIDTHS[_class(char)]
        if unicodedata.combining(char):
            return 0.0
        return EAST_ASIAN if unicodedata.east_asian_width(char) in "WF" else OTHER


def _class(char: str) -> str:
    return "narrow" if char in NARROW else "wide" if char in WIDE else "usual"
