"""The site of the documentation: what its build finds in pages, and where each has its place."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support import ROOT

SITE = runpy.run_path(str(ROOT / ".ci/site.py"))


def test_every_page_is_in_the_navigation() -> None:
    named = str(SITE["navigation"]())  # raises where one is missing
    assert all(part in named for part in ("tutorial.md", "how-to/", "reference/", "explanation/"))


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="b.html#here">b</a> <a href="https://example.org/">out</a>', ""),
        ('<script src="https://example.org/a.js"></script>', "fetches https://example.org/a.js"),
        ('<link href="//fonts.example.org/a">', "fetches //fonts.example.org/a"),
        ('<pre class="mermaid"><code>a</code></pre>', "fetches https: a script that draws Mermaid"),
        ('<a href="c.html">c</a>', "leads to c.html, which is not there"),
        ('<a href="b.html#there">b</a>', "leads to b.html#there, which is not there"),
        ("<p>Two:\n- <code>one</code></p>", "has a list, a table or a block that is text: - "),
    ],
)
def test_a_page_that_asks_another_host_or_leads_nowhere_is_found(
    tmp_path: Path, html: str, fault: str
) -> None:
    (tmp_path / "a.html").write_text(html, encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="here">', encoding="utf-8")
    assert list(SITE["faults"](tmp_path)) == ([f"a.html {fault}"] if fault else [])
