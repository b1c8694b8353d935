"""Problems for a reader: each with its place, its line and a caret."""

from __future__ import annotations

from loopkit.document.problems import render
from loopkit.views.problems.examined import Examined


def as_text(examined: Examined) -> str:
    return render(examined.problems, examined.texts).rstrip("\n")
