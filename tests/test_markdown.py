import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopkit.text.markdown import (
    code_blocks,
    has_section,
    section,
    title,
    title_has_text,
    with_line_feeds,
    without_code,
)
from tests.support import ROOT, plan

PLANS = ROOT / "tests/data/plans"
SAME_PLAN = ["good", "good_crlf", "good_other_white_space"]
GOAL = (
    "Let each customer start at most a fixed number of exports an hour, and tell them "
    "when they may try again, so that one customer cannot starve the others."
)


def words(text: str | None) -> str:
    return " ".join((text or "").split())


# Code


@pytest.mark.parametrize("name", sorted(path.stem for path in PLANS.iterdir()))
def test_lines_keep_their_numbers_when_code_is_emptied(name):
    text = with_line_feeds(plan(name))
    emptied = without_code(text).split("\n")
    assert len(emptied) == len(text.split("\n"))
    pairs = zip(text.split("\n"), emptied, strict=True)
    assert all(after in (before, "") for before, after in pairs)


def test_headers_in_fences_lists_and_quotes_are_code():
    text = plan("headers_in_code_only")
    assert text.count("### Task") == 4
    assert "### Task" not in without_code(text)
    assert "which answers 429" in without_code(text)


@pytest.mark.parametrize(
    "code",
    [
        "```\nCODE\n```",
        "~~~~ python title=x\n```\nCODE\n~~~\n~~~~",
        "    CODE",
        "\tCODE",
        "- item\n\n  ```\n  CODE\n  ```",
        "- item\n\n      CODE",
        "1. > ```\n   > CODE\n   > ```",
        "> ~~~\n> CODE",
        "```\nCODE\nnever closed",
    ],
)
def test_every_kind_of_code_is_found(code):
    emptied = without_code(f"before\n\n{code}")
    assert "CODE" not in emptied
    assert emptied.startswith("before")


@pytest.mark.parametrize(
    "text",
    [
        "text CODE",
        "`CODE`",
        "para\n    CODE that continues it",
        "- item\n\n  CODE in the item",
        "```\nx\n```\nCODE after it",
    ],
)
def test_text_that_only_looks_like_code_is_kept(text):
    assert "CODE" in without_code(text)


def test_fences_are_listed_with_the_first_word_of_their_info():
    text = "```JSON title=x\n{}\n```\n\n- a\n  ~~~\n  deep\n  ~~~\n\n    indented\n"
    assert code_blocks(text) == (("json", "{}\n"), ("", "deep\n"))


# Headings


@pytest.mark.parametrize(
    "heading",
    [
        "# Goal",
        "## Goal",
        "###### Goal ######",
        "## goal",
        "## GOAL:",
        "## 1. Goal:",
        "## 2) Goal",
        "## 1.2 Goal",
        "## **Goal**",
        "## `Goal` :",
        "## [Goal](http://example.com)",
        "##   Goal   ",
        "Goal\n----",
        "Goal:\n=====",
        "**Goal:**\n---",
    ],
)
def test_a_section_is_found_however_its_heading_is_written(heading):
    assert section(f"intro\n\n{heading}\n\nBuild it.\n", "Goal") == "Build it."


@pytest.mark.parametrize("asked", ["Goal", "goal", " GOAL ", "Goal:"])
def test_the_name_that_is_asked_for_may_be_written_freely_too(asked):
    assert section("## Goal\nBuild it.", asked) == "Build it."


@pytest.mark.parametrize(
    "text",
    [
        "## Goals\nBuild it.",
        "## Our Goal\nBuild it.",
        "Goal\nBuild it.",
        "#Goal\nBuild it.",
        "```\n## Goal\n```\nBuild it.",
        "    ## Goal\n\nBuild it.",
        "> ## Goal\n>\n> Build it.",
        "<!--\n## Goal\n-->\nBuild it.",
        "Goal: Build it.",
        "`**Goal:** Build it.`",
        "```\n**Goal:** Build it.\n```",
        "> **Goal:** Build it.",
        "A **Goal:** Build it.",
        "**Goal** Build it.",
        "",
    ],
)
def test_what_only_resembles_a_section_is_none(text):
    assert section(text, "Goal") is None
    assert not has_section(text, "Goal")


def test_a_section_reaches_to_the_next_heading_of_its_level():
    text = "## Goal\n\nfirst\n\n### Detail\n\nsecond\n\n## Next\n\nthird"
    assert section(text, "Goal") == "first\n\n### Detail\n\nsecond"
    assert section(text, "Detail") == "second"


def test_a_higher_heading_ends_a_section():
    assert section("### Goal\nfirst\n# Other\nsecond", "Goal") == "first"


def test_a_section_keeps_the_code_in_it():
    text = "## Check\n\n```sh\nmake\n\n# not a heading\nmake test\n```\n\n## Next\n"
    assert section(text, "Check") == "```sh\nmake\n\n# not a heading\nmake test\n```"


@pytest.mark.parametrize(
    "text",
    [
        "## Goal",
        "## Goal\n\n   \n\n## Next\ntext",
        "## Goal\n### Detail\n### More\n## Next\ntext",
        "## Goal\n\n---\n\n## Next\ntext",
        "## Goal\n<!-- fill in -->\n## Next\ntext",
        "## Goal\n<!-- a --> <!-- b -->\n## Next\ntext",
        "## Goal\n```\n```\n## Next\ntext",
        "**Goal:**",
        "**Goal:**\n\n## Next\ntext",
        "**Goal:**\n\n**Next:** text",
        "**Goal:** <!-- fill in -->\n\n**Next:** text",
        "**Goal:**\n\n---\n\ntext",
        "**Goal:**\n**Next:** text",
        "- **Goal:**\n- text",
    ],
)
def test_a_section_without_text_is_there_and_has_none(text):
    assert has_section(text, "Goal")
    assert section(text, "Goal") is None
    assert section(f"# Title\n{text}", "Goal", or_title=True) is None


def test_of_two_sections_of_one_name_the_first_with_text_counts():
    assert section("## Goal\n## Goal\nsecond\n## Goal\nthird", "Goal") == "second"
    assert section("**Goal:** label\n\n## Goal\nheading", "Goal") == "label"


def test_a_name_may_be_decomposed_and_leave_out_the_number_that_it_starts_with():
    assert section("## Pr\u00fcfung\ntext", "pru\u0308fung") == "text"
    assert section("## 2024 review\ntext", "2024 review") == "text"
    assert section("## 2024 review\ntext", "review") == "text"


# Labels


@pytest.mark.parametrize("name", SAME_PLAN)
def test_the_goal_of_a_real_plan_is_its_label_whatever_the_white_space(name):
    assert words(section(plan(name), "Goal")) == GOAL


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("**Goal:** Build it.", "Build it."),
        ("**Goal**: Build it.", "Build it."),
        ("**Goal :** Build it.", "Build it."),
        ("__Goal:__ Build it.", "Build it."),
        ("***Goal:*** Build it.", "Build it."),
        ("**1. Goal:** Build it.", "Build it."),
        ("**goal：** Build it.", "Build it."),
        ("  **Goal:** Build it.", "Build it."),
        ("**Goal:** Build it,\nand well.\n\nOther.", "Build it,\nand well."),
        ("**Goal:**\nBuild it.\n\nOther.", "Build it."),
        ("**Goal:**\n\nBuild it,\nand well.\n\nOther.", "Build it,\nand well."),
        ("**Goal:** Build it.  \n \t \nOther.", "Build it."),
        ("**Goal:**\n\n \n  Build it,  \n  and well.\n", "Build it,\nand well."),
        ("**Goal:**\n\n- one  \n   \n  two\n\nOther.", "- one\n\n  two"),
        ("**Goal:** Build it.\n**Scope:** All.", "Build it."),
        ("**Goal:** Build it.\n## Next", "Build it."),
        ("**Goal:**\n- one\n- two\n\nOther.", "- one\n- two"),
        ("**Goal:**\n\n- one\n\n- two\n\nOther.", "- one\n\n- two"),
        ("**Goal:**\n\n```\na\n\nb\n```\n\nOther.", "```\na\n\nb\n```"),
        ("- **Goal:** Build it.\n- **Scope:** All.", "Build it."),
        ("- **Goal:** Build it.\n- Other.", "Build it."),
        ("1. **Goal:** Build it,\n   and well.\n2. Other.", "Build it,\nand well."),
        ("**Goal:**\n\n- **One:** a\n- **Two:** b\n\nOther.", "- **One:** a\n- **Two:** b"),
        ("intro line\n**Goal:** Build it.", "Build it."),
        ("**Goal:** **Bold:** text", "**Bold:** text"),
    ],
)
def test_the_text_of_a_label_ends_where_a_reader_would_end_it(text, found):
    assert section(text, "Goal") == found


# Titles


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A title", "A title"),
        ("# A *fine* `title` for [us](http://x) &amp; you ##", "A fine title for us & you"),
        ("## Not this\n\n# This", "This"),
        ("Title\n=====\n", "Title"),
        ("Two\nlines\n=====\n", "Two lines"),
        ("```\n# code\n```\n# Title", "Title"),
        ("\ufeff# Title", "Title"),
        ("# A \\# sign", "A # sign"),
        ("# ![logo](x.png) Product", "logo Product"),
        ("#", None),
        ("## Second", None),
        ("> # Quoted", None),
        ("", None),
    ],
)
def test_the_title_is_the_first_heading_of_level_one_as_plain_text(text, found):
    assert title(text) == found


def test_the_title_stands_in_for_a_missing_section_only_where_asked():
    text = "# Build it\n\nSome text."
    assert section(text, "Goal") is None
    assert section(text, "Goal", or_title=True) == "Build it"
    assert section(f"{text}\n\n**Goal:** Named.", "Goal", or_title=True) == "Named."
    assert section("no title", "Goal", or_title=True) is None


def test_a_title_alone_has_no_text_under_it():
    assert not title_has_text(plan("title_only"))
    assert not title_has_text("# A\n\n## B\n")
    assert title_has_text("# A\n\n## B\n\ntext")
    assert not title_has_text("text\n\n## B\n\ntext")


# Any text


PIECES = st.sampled_from(
    ["# ", "## Goal", "**Goal:**", "**", ":", "- ", "> ", "1. ", "```", "~~~", "    ", "\t", "\n",
     "\n\n", "\r\n", "\r", "<!--", "-->", "<div>", "[", "](", "![", "`", "*", "_", "&amp;", "\\",
     "---", "===", "\0", "\ud800", "\u2028", "\ufeff", "x", "é", "|"]
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_no_text_whatsoever_is_too_much(text):
    assert len(without_code(text).split("\n")) == len(with_line_feeds(text).split("\n"))
    found = section(text, "Goal", or_title=True)
    assert found is None or found.strip()
    assert isinstance(title_has_text(text), bool)
    code_blocks(text)


@pytest.mark.parametrize(
    "text",
    [
        "# " + "[" * 50_000,
        "# " + "![" * 30_000,
        "# " + "*a" * 30_000,
        "**" + " " * 50_000,
        "**Goal:**\n" * 5_000,
        "## Goal\n" * 5_000,
        "<!--" * 20_000,
        "<div>" + "<!--" * 20_000,
        ">" * 50_000,
        "- " * 50_000,
    ],
    ids=lambda text: text[:10],
)
def test_hostile_texts_take_no_more_than_seconds(text):

    started = time.process_time()
    section(text, "Goal", or_title=True)
    assert time.process_time() - started < 2
