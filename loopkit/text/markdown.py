"""The structure of a Markdown text: its code, its sections, its title.

CommonMark, by markdown-it. Only the blocks are parsed, and inline markup in names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from loopkit.text import as_nfc
from loopkit.values import Value

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

NAME_LIMIT = 1_000
"""Characters of a heading that are looked at; inline parsing is not linear in every text."""

_NUMBER = re.compile(r"\d+(?:\.\d+)*[.)]?\s+")
_LABEL = re.compile(
    r"(?P<mark>\*{2,3}|_{2,3})(?P<name>(?=\S)(?:(?!(?P=mark)).){1,120}?)"
    r"(?P<inside>[ \t]{0,3}[:：][ \t]{0,3})?(?P=mark)(?(inside)|[ \t]{0,3}[:：])(?P<rest>.*)"
)
_PLACEHOLDER = re.compile(
    r"\[[^]]*\]|\([^)]*\)|\{[^}]*\}+|<[^>]*>"
    r"|tb[acd]|to[ -]?do|untitled|placeholder|n/?a|[\W_]*",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"[*_`\[\]<>&\\!]")
_FENCE = re.compile("`{3,}")


def with_line_feeds(text: str) -> str:
    """The text with LF as its only line end, and without a byte order mark."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def as_code_block(text: str) -> str:
    """The text as a code block, between fences longer than any run of backticks in it."""
    longest = max(map(len, _FENCE.findall(text))) if "```" in text else 2
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


def without_code(text: str) -> str:
    """The text with each line of fenced or indented code emptied; lines keep their numbers.

    Line ends become LF. Code in lists and quotes counts.
    """
    outline = _outline(with_line_feeds(text))
    return _without(outline, outline.code)


def without_fences(text: str) -> str:
    """As `without_code`, but indented code stays: what looks like it may be a list."""
    plain = with_line_feeds(text)
    if "```" not in plain and "~~~" not in plain:
        # Parsing a long text takes seconds.
        return plain
    outline = _outline(plain)
    return _without(outline, outline.fenced)


def _without(outline: _Outline, emptied: frozenset[int]) -> str:
    return "\n".join("" if at in emptied else line for at, line in enumerate(outline.lines))


def section(
    text: str,
    name: str,
    *,
    or_title: bool = False,
    strip: Iterable[str] = (),
    placeholders: Collection[str] = (),
) -> str | None:
    """The text of the section `name`, without outer blank lines; None if absent or without text.

    What a section is, the rule `section` of the language says. With `or_title`, a document that
    has no such section, not even an empty one, gives its `title`.
    """
    outline = _outline(with_line_feeds(text))
    places = _places_of(outline, name)
    if not places and or_title:
        return title(text, strip=strip, placeholders=placeholders)
    nothing = {_key(placeholder) for placeholder in placeholders}
    texts = (_text_of(outline, place) for place in places)
    return next((found for found in texts if found and _key(found) not in nothing), None)


def has_section(text: str, name: str) -> bool:
    return bool(_places_of(_outline(with_line_feeds(text)), name))


def title(
    text: str, *, strip: Iterable[str] = (), placeholders: Collection[str] = ()
) -> str | None:
    """The first level 1 heading as plain text, by "Titles and placeholders" of the language.

    None where there is none, where nothing is left of it, and where it is a placeholder.
    """
    heading = _title(_outline(with_line_feeds(text)))
    named = _without_end(_plain(heading.name), strip) if heading else ""
    is_placeholder = _PLACEHOLDER.fullmatch(named) or _key(named) in map(_key, placeholders)
    return None if is_placeholder else named or None


def _without_end(name: str, ends: Iterable[str]) -> str:
    """A title without the longest of these ends, and without what joined that to it."""
    for end in sorted(ends, key=len, reverse=True):
        words = r"\s+".join(map(re.escape, end.split()))
        if found := re.search(rf"(?<!\w){words}\W*$", name, re.IGNORECASE):
            return name[: found.start()].rstrip(" -–—:|,·(")
    return name


def title_has_text(text: str) -> bool:
    """Whether there is a title with any text under it, sections included."""
    outline = _outline(with_line_feeds(text))
    heading = _title(outline)
    return heading is not None and bool(_under_heading(outline, heading))


def code_blocks(text: str) -> tuple[tuple[str, str], ...]:
    """The fenced blocks in order, each as (first word of its info string in lower case, code)."""
    if not any(fence in text for fence in ("```", "~~~")):
        return ()
    return _outline(with_line_feeds(text)).fences


def list_items(text: str) -> tuple[tuple[int, int, int], ...]:
    """The items of all lists in order, each as (first line, line after its last, depth from 0)."""
    return _outline(with_line_feeds(text)).items


class _Heading(Value, frozen=True):
    level: int
    name: str
    start: int
    end: int


class _Label(Value, frozen=True):
    name: str
    rest: str
    start: int
    limit: int
    """The end of the list item that holds it, or of the text."""
    depth: int
    """The number of list items around it."""


class _Outline(Value, frozen=True):
    """Lines are counted from 0, ends are exclusive."""

    lines: tuple[str, ...]
    headings: tuple[_Heading, ...]
    labels: tuple[_Label, ...]
    code: frozenset[int]
    fenced: frozenset[int]
    """The lines of code that are in fences."""
    written: frozenset[int]
    """Lines of text that is neither heading nor rule nor comment."""
    ends: dict[int, int]
    """For each line at which a block starts, where the outermost such block ends."""
    fences: tuple[tuple[str, str], ...]
    items: tuple[tuple[int, int, int], ...]


_Section: TypeAlias = _Heading | _Label
_Place = TypeVar("_Place", _Heading, _Label)


# A few texts: every rule of a validator asks about the same one.
@lru_cache(maxsize=8)
def _outline(text: str) -> _Outline:
    lines = tuple(text.split("\n"))
    tokens = _blocks().parse(text)
    placed = [(token, token.map[0], token.map[1]) for token in tokens if token.map]
    headings, labels = _headings_and_labels(tokens, len(lines))
    ends: dict[int, int] = {}
    for _token, start, end in placed:
        ends.setdefault(start, end)
    titled = {heading.start for heading in headings}

    def lines_of(blocks: Iterable[tuple[Token, int, int]]) -> frozenset[int]:
        return frozenset(at for _, start, end in blocks for at in range(start, end))

    return _Outline(
        lines=lines,
        headings=tuple(headings),
        labels=tuple(labels),
        code=lines_of(one for one in placed if one[0].type in ("fence", "code_block")),
        fenced=lines_of(one for one in placed if one[0].type == "fence"),
        # Only the leaves have content: paragraphs, headings, code and HTML.
        written=lines_of(
            one for one in placed if one[1] not in titled and not _is_blank(one[0].content)
        ),
        ends=ends,
        fences=tuple(
            (next(iter(token.info.lower().split()), ""), token.content)
            for token in tokens
            if token.type == "fence"
        ),
        items=tuple(
            (start, end, token.level // 2)
            for token, start, end in placed
            if token.type == "list_item_open"
        ),
    )


@cache
def _blocks() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - costs 60 ms, most commands need none

    parser = MarkdownIt("commonmark")
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def _headings_and_labels(
    tokens: Sequence[Token], line_count: int
) -> tuple[list[_Heading], list[_Label]]:
    headings: list[_Heading] = []
    labels: list[_Label] = []
    quotes = 0
    items: list[int] = []
    for token, inner in pairwise(tokens):
        start, end = token.map or (0, 0)
        match token.type:
            case "blockquote_open" | "blockquote_close":
                quotes += token.nesting
            case "list_item_open":
                items.append(end)
            case "list_item_close":
                items.pop()
            case "heading_open" if not quotes and not items:
                headings.append(_Heading(int(token.tag[1]), inner.content, start, end))
            case "paragraph_open" if not quotes:
                limit = items[-1] if items else line_count
                labels += _labels(inner.content, start, limit, len(items))
    return headings, labels


def _labels(paragraph: str, start: int, limit: int, depth: int) -> Iterator[_Label]:
    for at, line in enumerate(paragraph.split("\n"), start):
        if found := _LABEL.match(line.lstrip()):
            yield _Label(found["name"], found["rest"].strip(), at, limit, depth)


def _is_blank(markdown: str) -> bool:
    """Whether nothing but comments and white space is there."""
    before, *after = markdown.split("<!--")
    return not "".join([before, *(part.partition("-->")[2] for part in after)]).strip()


def _title(outline: _Outline) -> _Heading | None:
    return next((heading for heading in outline.headings if heading.level == 1), None)


def _places_of(outline: _Outline, name: str) -> list[_Section]:
    """The headings and labels of a name, in the order of the text."""
    asked = _key(name)
    places: list[_Section] = [*outline.headings, *outline.labels]
    found = (place for place in places if asked in _keys(place.name))
    return sorted(found, key=lambda place: place.start)


@lru_cache(maxsize=1024)
def _keys(name: str) -> tuple[str, str]:
    """The forms in which a name is compared: with its number and without."""
    plain = _plain(name)
    return _key(plain), _key(_NUMBER.sub("", plain, count=1) if _NUMBER.match(plain) else plain)


def _key(name: str) -> str:
    folded = as_nfc(" ".join(name.split())).casefold()
    return folded.rstrip(":： ")


def _plain(name: str) -> str:
    """A heading's text without its inline markup, on one line."""
    if not _MARKUP.search(name):
        return " ".join(name[:NAME_LIMIT].split())
    tokens: list[Token] = []
    parser = _blocks()
    parser.inline.parse(name[:NAME_LIMIT], parser, {}, tokens)
    shown = ("text", "text_special", "code_inline", "image")
    words = (
        " " if token.type.endswith("break") else token.content
        for token in tokens
        if token.type in shown or token.type.endswith("break")
    )
    return " ".join("".join(words).split())


def _text_of(outline: _Outline, place: _Section) -> str | None:
    if isinstance(place, _Heading):
        return _under_heading(outline, place)
    return _after_label(outline, place)


def _under_heading(outline: _Outline, heading: _Heading) -> str | None:
    following = _after(outline.headings, heading.start)
    ends = (other.start for other in following if other.level <= heading.level)
    return _text_between(outline, heading.end, next(ends, len(outline.lines)))


def _after_label(outline: _Outline, label: _Label) -> str | None:
    stop = _stop_of(outline, label)
    blank = _first(outline, label.start + 1, stop, blank=True)
    following = _text_between(outline, label.start + 1, blank)
    if not _is_blank(label.rest):
        return "\n".join([label.rest, following] if following else [label.rest])
    if following:
        return following
    start = _first(outline, blank, stop, blank=False)
    return _text_between(outline, start, min(stop, outline.ends.get(start, stop)))


def _stop_of(outline: _Outline, label: _Label) -> int:
    """The latest end of a label's text: a label inside it does not end it."""
    headings = (heading.start for heading in _after(outline.headings, label.start))
    labels = _after(outline.labels, label.start)
    beside = (other.start for other in labels if other.depth <= label.depth)
    return min(label.limit, next(headings, label.limit), next(beside, label.limit))


def _after(places: Sequence[_Place], start: int) -> Iterator[_Place]:
    """The places that start later; `places` are in order."""
    first = bisect_right(places, start, key=lambda place: place.start)
    return (places[at] for at in range(first, len(places)))


def _first(outline: _Outline, start: int, stop: int, *, blank: bool) -> int:
    """The first blank or non-blank line from `start` on; a blank line of code is not blank."""
    lines = range(start, stop)
    is_blank = (not outline.lines[at].strip() and at not in outline.code for at in lines)
    return next((at for at, found in zip(lines, is_blank, strict=True) if found is blank), stop)


def _text_between(outline: _Outline, start: int, stop: int) -> str | None:
    """The lines without their common indentation, if there is text among them."""
    if not any(at in outline.written for at in range(start, stop)):
        return None
    lines = outline.lines[start:stop]
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    return "\n".join(line[min(indents) :].rstrip() for line in lines).strip("\n")


LONGEST_SHOWN = 20_000
"""Characters of a text that is shown as Markdown."""
_MOST_CELLS = 5_000
_LINE_END = re.compile(r"\r\n?|\n")
_SHOWN_LINK = re.compile(r"(?:https?://|mailto:)\S+", re.IGNORECASE)
_CODE_LINE = re.compile(r"[ \t]{4}|.*[{};(]\s*$|\s*(?:def|class|import|from|return|#include|</?)\b")


@lru_cache(maxsize=64)
def as_html(text: str) -> str:
    """A text as HTML if it is written in Markdown and may be shown so, else empty.

    Of HTML in the text nothing passes. An image is a link to it, because a browser would fetch it;
    links lead to the web or to an address of mail only. Headings have the lowest levels of a page.
    """
    lines = _LINE_END.split(text)
    cells = len(lines) * max((line.count("|") for line in lines), default=0)
    of_code = sum(_CODE_LINE.match(line) is not None for line in lines)
    if len(text) > LONGEST_SHOWN or cells > _MOST_CELLS or 3 * of_code > len(lines):
        return ""
    parser = _shown()
    tokens = parser.parse(text)
    used = {one.type for token in tokens for one in (token, *(token.children or ()))}
    if used <= {"paragraph_open", "inline", "paragraph_close", "text", "softbreak", "hardbreak"}:
        return ""
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1]) + 4, 6)}"
    return str(parser.renderer.render(tokens, parser.options, {}))


@cache
def _shown() -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - as above

    class Shown(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - named by markdown-it
            return _SHOWN_LINK.fullmatch(url) is not None

    return Shown("commonmark", {"html": False}).enable("table").disable("image")
