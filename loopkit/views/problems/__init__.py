"""Problems that `check` found, for people and for programs: one writer for each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loopkit.document.problems import render
from loopkit.views.problems.examined import Examined
from loopkit.views.problems.github import as_github
from loopkit.views.problems.json_report import as_json


def as_text(examined: Examined) -> str:
    """Each problem with its place, its line and a caret, for a reader."""
    return render(examined.problems, examined.texts, examined.columns).rstrip("\n")


def as_sarif(examined: Examined) -> str:
    """For tools that show the results of many checkers, with the meaning of each code."""
    from loopkit.views.problems import sarif  # noqa: PLC0415 - only where it is asked for

    return sarif.as_sarif(examined)


FORMATS: Mapping[str, Callable[[Examined], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
}
"""Each returns the whole output without a line end; an empty output is not printed at all."""

__all__ = ["FORMATS", "Examined"]
