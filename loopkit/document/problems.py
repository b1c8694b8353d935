"""Problems: what is wrong with a file, as data, and its text for the file's author."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from loopkit.text import mask_keys
from loopkit.values import Value, force_setattr

Severity = Literal["error", "warning", "note"]

LINE_BREAK = re.compile(r"\r\n|\r|\n")
"""Ends a line, as YAML counts them; nothing else does."""
_TAB = "    "
_JOINERS = "\u200c\u200d"
_CUT = "..."
_WINDOW = 120
_BEFORE_CARET = 40
_MARGIN = 9
"""Columns beside a line and its number: a bar with blanks, and the marks of a cut."""
_LISTED = 100
_LONGEST_WORD = 100
_COMPARED = 300
_ALIKE = 3
_OF_A_KIND = 10
_SHOWN_OF_MANY = 3
_LONGEST_TEXT = 1_000
_PLACES = 10


class Span(Value, frozen=True):
    """A piece of a file: lines and columns count from 1, in characters; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


class Problem(Value, frozen=True):
    """One mistake: what it is, where it is, and what to do about it."""

    code: str
    """The kind of mistake, in kebab-case: `unknown-field`."""
    message: str
    """Lower case at the start, no full stop: "unknown field `temprature`"."""
    span: Span | None = None
    path: str = ""
    """The place in the document's own terms: `agents.reviewer.temprature`."""
    help: str = ""
    """What to do: "did you mean `temperature`?". May have several lines."""
    severity: Severity = "error"
    also: tuple[tuple[str, Span], ...] = ()
    """Further places, each with a label: ("first defined here", span)."""

    def __post_init__(self) -> None:
        force_setattr(self, "message", mask_keys(self.message))


class ProblemsFound(Exception):
    """A file or value cannot be used; `problems` has all its mistakes."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        if not self.problems:
            return "no problems"
        first, *others = self.problems
        place = f"{_position(first.span)}: " if first.span else ""
        more = f" (and {len(others)} more)" if others else ""
        return f"{place}{_printable(first.message)}{more}"


def closest(word: str, choices: Iterable[str], likeness: float = 0.6) -> str | None:
    """The choice that `word` was most likely meant to be, or None where none is near.

    Near is one that differs by a letter, else one of this `likeness`, from 0 to 1. Capitals do not
    count; words of more than 100 characters are not looked up, and of the choices the first 300 are
    compared.
    """
    if len(word) > _LONGEST_WORD:
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes need it

    by_folded = {choice.casefold(): choice for choice in islice(choices, _COMPARED)}
    # One sign is like any other, and `t1` is another name than `t2`.
    comparable = (one for one in by_folded if len(one) > 2 or (one.isalpha() and len(one) > 1))
    slips = [choice for choice in comparable if _is_a_letter_off(word, choice)]
    least = 0.0 if slips else likeness
    found = get_close_matches(word.casefold(), slips or by_folded, 1, least)
    return by_folded[found[0]] if found else None


def is_slip(word: str, meant: str) -> bool:
    """Whether a word is another one with one letter too many, missing, wrong or misplaced.

    Capitals, `_` and `-` do not count; words of up to three letters are all too much alike.
    """
    letters = re.sub(r"[-_]", "", meant)
    return word != meant and len(letters) > _ALIKE and _is_a_letter_off(word, meant)


def _is_a_letter_off(word: str, meant: str) -> bool:
    one, other = (re.sub(r"[-_]", "", text.casefold()) for text in (word, meant))
    if abs(len(one) - len(other)) > 1:
        return False
    tails = ((one[n:], other[n:]) for n in range(len(other) + 1) if one[:n] == other[:n])
    return any(a[1:] in (b, b[1:]) or a == b[1:] or a == b[1::-1] + b[2:] for a, b in tails)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """A remedy for an unknown `word`: the near choice, else what is allowed, else ""."""
    names = list(choices)
    near = closest(word, names)
    if near is not None:
        return f"did you mean `{near}`?"
    nearest = closest(word, names, 0.4)
    names.sort(key=lambda name: name != nearest)
    listed = ", ".join(map("`{}`".format, names[:_LISTED]))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"allowed: {listed}{more}" if names else ""


def render(
    problems: Iterable[Problem], sources: Mapping[str, str], columns: int | None = None
) -> str:
    """The problems as text for a terminal, by file, line and column, a blank line between.

    `sources` has the texts of files; a place in any other is shown without its line; a line is cut
    to fit so many `columns`. Problems without a place come first. Of more than ten with one code in
    one file three are shown, and the others counted. No control character is passed through.
    """
    # Columns are counted without a byte order mark, as editors show them.
    read = ((file, text.removeprefix("\ufeff")) for file, text in sources.items() if text)
    rows = {file: LINE_BREAK.split(mask_keys(text)) for file, text in read}
    lines = _Excerpts(rows, columns)
    return "\n\n".join(_blocks(sorted(problems, key=place_of), lines))


class _Excerpts(Value, frozen=True):
    """The lines of files, and how wide one may be shown."""

    rows: Mapping[str, Sequence[str]]
    columns: int | None

    def window(self, gutter: int) -> int:
        if self.columns is None:
            return _WINDOW
        return min(_WINDOW, max(_BEFORE_CARET, self.columns - gutter - _MARGIN))


def _blocks(problems: Sequence[Problem], lines: _Excerpts) -> Iterator[str]:
    found = Counter(map(_kind, problems))
    shown: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        kind = _kind(problem)
        shown[kind] += 1
        if found[kind] <= _OF_A_KIND or shown[kind] <= _SHOWN_OF_MANY:
            yield "\n".join(_block(problem, lines))
        elif shown[kind] == _SHOWN_OF_MANY + 1:
            rest = found[kind] - _SHOWN_OF_MANY
            yield f"… and {rest:,} more {problem.severity}[{problem.code}] in {_printable(kind[0])}"


def _kind(problem: Problem) -> tuple[str, str]:
    return (problem.span.file if problem.span else "", problem.code)


def place_of(problem: Problem) -> tuple[str, int, int]:
    span = problem.span
    return (span.file, span.line, span.column) if span else ("", 0, 0)


def _block(problem: Problem, lines: _Excerpts) -> Iterator[str]:
    spans = [problem.span, *(span for _, span in problem.also)]
    gutter = max((len(str(span.line)) for span in spans if span), default=1)
    yield f"{problem.severity}[{problem.code}]: {_printable(short(problem.message, _LONGEST_TEXT))}"
    path = f"({_printable(short(problem.path, _LONGEST_TEXT))})" if problem.path else ""
    if problem.span:
        yield f"  --> {_position(problem.span)}" + (f"   {path}" if path else "")
        yield from _snippet(problem.span, lines, gutter)
    elif path:
        yield f"  {path}"
    for label, span in problem.also[:_PLACES]:
        rows = [f"  ::: {_position(span)}", *_snippet(span, lines, gutter)]
        rows[-1] = f"{rows[-1]} {_printable(label)}".rstrip()
        yield from rows
    for number, row in enumerate(short(problem.help, _LONGEST_TEXT).splitlines()):
        yield f"{' ' * 8 if number else '  help: '}{_printable(row)}".rstrip()


def _position(span: Span) -> str:
    return f"{_printable(span.file)}:{span.line}:{span.column}"


def _snippet(span: Span, lines: _Excerpts, gutter: int) -> list[str]:
    rows = lines.rows.get(span.file, ())
    if not 1 <= span.line <= len(rows):
        return []
    shown, before, carets = _underline(rows[span.line - 1], span, lines.window(gutter))
    margin = " " * gutter
    return [f"{span.line:>{gutter}} | {shown}".rstrip(), f"{margin} | {' ' * before}{'^' * carets}"]


def _underline(line: str, span: Span, window: int) -> tuple[str, int, int]:
    """The part of the line to show, the columns before the carets, and how many carets."""
    start = min(max(span.column - 1, 0), len(line))
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    first, last = _window(line, start, window)
    end = min(max(end, start), last)
    head = _CUT if first else ""
    tail = _CUT if last < len(line) else ""
    before = len(head) + _columns(line[first:start])
    return head + _printable(line[first:last]) + tail, before, max(1, _columns(line[start:end]))


def _window(line: str, at: int, window: int) -> tuple[int, int]:
    """The slice round character `at` that fits: all of a line that does."""
    after = _fitting(line[at : at + window], window)
    room = max(min(_BEFORE_CARET, window // 2), window - after)
    before = _fitting(line[max(0, at - window) : at][::-1], room)
    start = at - before
    return start, start + _fitting(line[start : start + window], window)


def _fitting(text: str, columns: int) -> int:
    """How many characters fit, each at least one column wide."""
    for count, char in enumerate(text):
        columns -= max(1, _columns(char))
        if columns < 0:
            return count
    return len(text)


def _printable(text: str) -> str:
    return text if text.isascii() and text.isprintable() else "".join(map(_glyph, text))


def _glyph(char: str) -> str:
    """The character as the screen shows it: itself, spaces for a tab, or an escape."""
    if char == "\t":
        return _TAB
    # Cf has the marks that reverse the reading order, which can make text lie.
    hidden = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if hidden and char not in _JOINERS:
        return char.encode("unicode_escape").decode("ascii")
    return char


def _columns(text: str) -> int:
    if text.isascii() and text.isprintable():
        return len(text)
    return sum(_cell_width(char) for glyph in map(_glyph, text) for char in glyph)


def _cell_width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


MAX_BYTES = 1_000_000
MAX_LEVELS = 64
MAX_VALUES = 200_000
MAX_PROBLEMS = 50
"""Mistakes in one file's YAML after which reading stops."""

MISTAKES: Mapping[str, tuple[str, str]] = {
    "unreadable-file": ("the file cannot be read: {reason}", "{remedy}"),
    "not-utf-8": ("the file is not UTF-8: {reason}", "save it as UTF-8"),
    "too-large": (
        f"the file has more than {MAX_BYTES:,} bytes",
        "move long texts to files of their own",
    ),
    "too-deep": (
        f"more than {MAX_LEVELS} levels are nested here",
        "move the inner part to a file of its own",
    ),
    "too-many-values": (
        f"the file has more than {MAX_VALUES:,} keys and values, aliases expanded",
        "use fewer aliases, or split the file",
    ),
    "too-many-problems": (
        f"the file has more than {MAX_PROBLEMS} mistakes in its YAML; from here it was not read",
        "correct those above first; is this a file of YAML?",
    ),
    "empty-file": ("the file is empty", "write `key: value` lines"),
    "not-a-mapping": (
        "the file has to be a mapping, not {kind}",
        "write `key: value` lines, with a space after the colon",
    ),
    "several-documents": (
        "a second document starts here",
        "a file holds one document: delete this line, or move the rest to another file",
    ),
    "tag": (
        "YAML tags (`!`) are not supported",
        "delete the tag; if it is text, put it in quotes; to negate in a guard, write `not`",
    ),
    "recursive-alias": (
        "the alias `*{name}` is inside the value that it refers to",
        "a value cannot contain itself; write out what is meant",
    ),
    "merge-not-mapping": (
        "`<<` merges mappings, not {kind}",
        "write `<<: *anchor` or `<<: [*first, *second]`, with anchors of mappings",
    ),
    "duplicate-key": ("the key `{name}` is written twice", "delete one of the two, or rename it"),
    "non-text-key": ("a key has to be text, not {kind}", "{remedy}"),
    "unknown-alias": (
        "no anchor `&{name}` stands above this alias",
        "{near}if `*` belongs to a text, put the text in quotes",
    ),
    "odd-blank": (
        "U+{code_point} ({name}) looks like a space but is not one: YAML reads it as text",
        "replace it with a space, or quote the text",
    ),
    "unusable-number": (
        "`{raw}` {reason}",
        "write a number that JSON can represent, or quote it if it is text",
    ),
    "forbidden-character": ("an escape in this text stands for {character}", "remove the escape"),
}
"""The message and the remedy of each code."""


def mistake(code: str, place: Span, **words: str) -> Problem:
    """A problem of the table, with words for its placeholders."""
    message, remedy = MISTAKES[code]
    return Problem(code, message.format(**words), place, help=remedy.format(**words))


def short(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[:most]}{_CUT}"


ODD_BLANK = "[\xa0\u1680\u2000-\u200b\u202f\u205f\u3000]"


def odd_blank(place: Span, char: str) -> Problem:
    name = unicodedata.name(char).lower()
    return mistake("odd-blank", place, code_point=f"{ord(char):04X}", name=name)
