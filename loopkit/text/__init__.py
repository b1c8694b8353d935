"""Text for people: control characters removed, and one normal form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
ACCENTS = re.compile(r"[^\w\x00-\u02ff]{31,}")
"""A possible run of accents: 31 or more characters from U+0300 on that are not letters."""
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
KNOWN_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_-]{35}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|(?:gsk|hf)_[A-Za-z0-9]{20,}|(?:xai|pplx|nvapi)-[A-Za-z0-9_-]{20,}"
    r")|-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----"
)
"""A key that is known by how its provider lets it begin."""

WIDTH = 80
"""The width of a terminal by default."""
MANY_TIMES = 20
"""How often lines come before they count as repeated without end."""
LONGEST_REPEATED = 1_000
"""Characters of the lines that are recognised as repeated."""
EMPTY = "(empty)"
"""Shown in place of an empty text, so that it does not look like a missing one."""


def or_empty(text: str) -> str:
    return text if text.strip() else EMPTY


def printable(text: str) -> str:
    """The text without control characters, escape sequences and bidirectional overrides."""
    plain = ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return CONTROL.sub("", plain)


HALF = "half a surrogate pair, which is not a character"


def is_broken(text: str) -> bool:
    """Whether a text contains halves of surrogate pairs, which no UTF-8 file can hold.

    What a user or an agent gives is refused then; in the output of tools they are replaced.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def storable(text: str) -> str:
    """The text with `?` for each half of a surrogate pair."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def one_line(text: str, width: int = 100) -> str:
    """The text on one line, shortened to `width` characters."""
    return shorten(" ".join(printable(text).split()), width)


def mask_keys(text: str) -> str:
    """The text, as long as before, with stars for all but the start of each key in it."""
    return KNOWN_KEY.sub(lambda key: key[0][:4].ljust(len(key[0]), "*"), text)


def fold(word: str) -> str:
    """The form of a word in which words are compared."""
    return word.strip().casefold()


def shorten(text: str, most: int) -> str:
    """The text, cut to at most `most` characters with an ellipsis at the end."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def indent_lines(text: str, by: str) -> str:
    return "\n".join(f"{by}{line}".rstrip() for line in printable(text).splitlines())


def item(text: str) -> str:
    """`  - text`, an item of a list whose further lines stand under its first word."""
    return indent_lines(f"- {indent_lines(text, '  ').strip()}", "  ")


def up_in(path: str) -> str:
    """The `..` at the beginning of a path, with what separates them from the rest."""
    ups = re.match(r"(?:\.\./+)*(?:\.\.$)?", path.strip())
    return ups[0] if ups else ""


def flaw_of_path(relative: str) -> str | None:
    """What is wrong with a path in a workspace, as far as the path itself tells."""
    if not relative.strip():
        return "is empty"
    if "\0" in relative:
        return "contains a NUL character"
    if relative.startswith("/"):
        return "is absolute"
    if relative.startswith("~"):
        return "starts with ~, which is not expanded"
    return "contains '..'" if ".." in relative.split("/") else None


def means(pattern: str, path: str) -> bool:
    """Whether a pattern means this path: the whole of it, or its name if the pattern is one."""
    pattern = pattern.removeprefix("./").rstrip("/")
    name = path if "/" in pattern else path.rpartition("/")[2]
    return fnmatchcase(name, pattern.lstrip("/"))


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern means a path or a folder above it."""
    steps = path.split("/")
    return any(means(pattern, "/".join(steps[:depth])) for depth in range(len(steps), 0, -1))


def plural(count: int, word: str, form: str = "") -> str:
    """`1 finding`, `2 findings`; with the form `,` also `1,204 findings`."""
    return f"{count} {word}" if count == 1 else f"{count:{form}} {word}s"


def columns(rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Rows of a table, with two blanks between cells; `sides` has `<` or `>` for each column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def end_of(text: str, chars: int) -> str:
    """The last `chars` of a text, from the start of a line unless the last line is longer."""
    if len(text) <= chars:
        return text
    _cut, _newline, lines = text[-chars:].partition("\n")
    return lines or text[-chars:]


def without_loop(text: str) -> str:
    """The text with the lines that come many times at its end only once."""
    end = len(text.rstrip())
    for period in range(2, min(LONGEST_REPEATED, end // MANY_TIMES) + 1):
        unit = text[end - period : end]
        first = end - MANY_TIMES * period
        if text[first : first + period] != unit or text[first:end] != unit * MANY_TIMES:
            continue
        if "\n" in unit and any(map(str.isalpha, unit)):
            while text[first - period : first] == unit:
                first -= period
            while first and text[first - 1] == text[first - 1 + period]:
                first -= 1
            return text[: first + period]
    return text


def as_nfc(text: str) -> str:
    """The text in normal form C.

    What `unicodedata` needs for a letter with many accents grows with their square; accents that
    stand in order already cost it nothing.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", ACCENTS.sub(_in_order, text))


def _in_order(run: re.Match[str]) -> str:
    apart = (unicodedata.normalize("NFD", char) for char in run[0])
    same = groupby("".join(apart), key=lambda char: unicodedata.combining(char) > 0)
    return "".join(
        "".join(sorted(chars, key=unicodedata.combining) if is_accent else chars)
        for is_accent, chars in same
    )
