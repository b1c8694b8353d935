"""Texts on pages: what is between backticks is code, and everything is escaped."""

from __future__ import annotations

import pytest

from loopkit.views.page.rendering import prose


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("write `a: 1`, or `b`", "write <code>a: 1</code>, or <code>b</code>"),
        ("one ` alone, and `` none", "one ` alone, and `` none"),
        ("`over\nlines`", "`over\nlines`"),
        ("<b>`<i>`</b> & \x1b[1m", "&lt;b&gt;<code>&lt;i&gt;</code>&lt;/b&gt; &amp; "),
    ],
)
def test_what_is_between_backticks_is_code_and_all_of_it_is_escaped(text: str, shown: str) -> None:
    assert prose(text) == shown
