"""A miss: one expectation that did not come true."""

from __future__ import annotations

from dataclasses import dataclass

from loopkit.document.document import DocPath


@dataclass(frozen=True, slots=True)
class Miss:
    """One unmet expectation: its place, and what happened instead."""

    at: DocPath
    """Below `expect:`; the place that is shown."""
    message: str
    shown: tuple[str, ...] = ()
    """Lines that show the difference."""
