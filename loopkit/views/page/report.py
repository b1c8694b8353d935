"""A run as one file: HTML that needs nothing else, or Markdown.

Texts share the space: those of a run with a few steps are whole, those of a long run are cut.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from loopkit.views.diagram import mermaid
from loopkit.views.page.facts import RunFacts
from loopkit.views.page.rendering import asset, render
from loopkit.views.page.run_page import RunPage

ROOM = 60_000
"""The approximate characters of all prompts and replies together."""
LEAST, MOST = 300, 8_000
"""Characters of one of these texts."""
SHOWN, VERSION, INPUT = 20_000, 6_000, 2_000
"""The characters of a part of the result or of an artifact beside the question; of a version; and
of an input."""
MOST_STEPS, MOST_VERSIONS = 200, 30
"""How many steps and how many versions of each artifact are shown: the last ones."""


class Texts(NamedTuple):
    """The characters that are shown of each kind of text."""

    shown: int
    versions: int
    calls: int
    input: int


def html_report(facts: RunFacts) -> str:
    """A self-contained page: it has no script and fetches nothing."""
    page = RunPage(facts)
    style = asset("page.css")
    names = _names(page) | {
        "style": style,
        "style_hash": csp_hash(style),
        "diagram": page.diagram,
    }
    return render("report.html", names)


def markdown_report(facts: RunFacts) -> str:
    """A run as a Markdown document, to be read in a pull request or an issue."""
    page = RunPage(facts)
    return render("report.md", _names(page) | {"mermaid": mermaid(page.drawing)})


def _names(page: RunPage) -> dict[str, object]:
    calls = sum(len(step.calls) for step in page.steps.all[-MOST_STEPS:])
    each = min(max(ROOM // max(2 * calls, 1), LEAST), MOST)
    return {
        "page": page,
        "texts": Texts(SHOWN, VERSION, each, INPUT),
        "earlier": max(len(page.steps.all) - MOST_STEPS, 0),
        "most_versions": MOST_VERSIONS,
    }


def csp_hash(text: str) -> str:
    """The source expression of an inline style or script in a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


REPORTS: Mapping[str, Callable[[RunFacts], str]] = {".html": html_report, ".md": markdown_report}
"""The writer for each file extension."""
