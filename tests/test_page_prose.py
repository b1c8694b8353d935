"""Texts on pages: code, Markdown and data are set as such, and everything is escaped."""

from __future__ import annotations

import time

import pytest

from loopkit.text.markdown import LONGEST_SHOWN
from loopkit.views.page.rendering import label, prose, readable


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


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("# A\n\n- *b* `c`", ["<h5>A</h5>", "<li><em>b</em> <code>c</code></li>"]),
        ("|a|b|\n|-|-|\n|1|2|", ["<th>a</th>", "<td>2</td>"]),
        ("**x** <b>y</b> <script>z</script>", ["<strong>x</strong> &lt;b&gt;y", "&lt;script&gt;z"]),
        ("![x](https://e.example/x.png)", ['!<a href="https://e.example/x.png">x</a>']),
        ("**a** [b](javascript:b()) [c](/logout)", ["[b](javascript:b())", "[c](/logout)"]),
        ("*a* &#x202e; &#27; b", ["<em>a</em>"]),
        ('{"b": [1, "<i>"]}', ["{\n  &#34;b&#34;: [\n    1,\n    &#34;&lt;i&gt;&#34;\n"]),
    ],
)
def test_markdown_and_data_are_set_and_nothing_in_them_acts(text: str, parts: list[str]) -> None:
    shown = readable(text)
    for part in parts:
        assert part in shown
    assert not {"<script", "<img", "<b>", "<i>", "\u202e", "\x1b"} & set(shown.split(" "))
    assert 'href="java' not in shown


@pytest.mark.parametrize(
    "text",
    [
        *(
            "plain",
            "two\n\nparts",
            "import os\n# it\ndef f():\n    return 1",
            '"a"',
            "{a}",
            "#",
            "",
        ),
        "**a** " * LONGEST_SHOWN,
    ],
)
def test_a_text_that_is_as_it_reads_best_has_no_other_form(text: str) -> None:
    assert readable(text) in ("", "<h5></h5>\n")


@pytest.mark.parametrize("text", ["[", "![", "*a_ ", "> ", "|", "- ", "a|\u2028", "|b\r"])
def test_a_text_of_a_model_is_set_in_little_time_and_room(text: str) -> None:
    long = text * (LONGEST_SHOWN // len(text))
    began = time.process_time()
    shown = readable(f"{long[:1000]}\n|-{long[:1000]}\n{long[:9000]}")
    assert len(shown) < 500_000
    assert time.process_time() - began < 5


def test_names_of_states_are_words_and_code_stays_as_it_is() -> None:
    assert label("ask_person, because `a_b == 1`") == "ask person, because `a_b == 1`"
