"""Problems of parsed YAML: keys and values that YAML allows and loopkit does not."""

from __future__ import annotations

from collections.abc import Iterable

from loopkit.document.problems import Problem, Span, did_you_mean
from loopkit.document.text import describe

MAX_BYTES = 1_000_000
MAX_LEVELS = 64
MAX_VALUES = 200_000
MAX_PROBLEMS = 50
"""Mistakes in the YAML of one file that are told; behind them it is not read on."""
_SHOWN = 40


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def tag(place: Span) -> Problem:
    return Problem(
        "tag",
        "YAML tags (`!`) are not supported",
        place,
        help="delete the tag; if it is text, put it in quotes; to negate in a guard, write `not`",
    )


def unknown_alias(place: Span, name: str, anchors: Iterable[str]) -> Problem:
    near = did_you_mean(name, anchors)
    remedy = "if `*` belongs to a text, put the text in quotes"
    return Problem(
        "unknown-alias",
        f"no anchor `&{_short(name)}` stands above this alias",
        place,
        help=f"{near}; {remedy}" if near else remedy,
    )


def recursive_alias(place: Span, name: str) -> Problem:
    return Problem(
        "recursive-alias",
        f"the alias `*{_short(name)}` stands inside what it names",
        place,
        help="a value cannot contain itself; write out what is meant",
    )


def duplicate_key(name: str, place: Span, first: Span) -> Problem:
    return Problem(
        "duplicate-key",
        f"the key `{_short(name)}` is written twice",
        place,
        help="delete one of the two, or rename it",
        also=(("first written here", first),),
    )


def key_not_text(place: Span, raw: str, kind: str) -> Problem:
    return Problem(
        "non-text-key",
        f"a key has to be text, not {kind}",
        place,
        help=f'write it in quotes: `"{_short(raw)}"`' if raw else "write `name: value`",
    )


def odd_blank(place: Span, char: str) -> Problem:
    return Problem(
        "odd-blank",
        f"a blank here is no space (U+{ord(char):04X}), so YAML takes it for text",
        place,
        help="replace it by a space, or quote the text",
    )


def merge_of(place: Span, kind: str) -> Problem:
    return Problem(
        "merge-not-mapping",
        f"`<<` merges mappings, not {kind}",
        place,
        help="write `<<: *anchor` or `<<: [*first, *second]`, with anchors of mappings",
    )


def unusable_number(place: Span, raw: str, reason: str) -> Problem:
    return Problem(
        "unusable-number",
        f"`{_short(raw)}` {reason}",
        place,
        help="write a number that JSON can carry, or put it in quotes if it is text",
    )


def escaped_character(place: Span, char: str) -> Problem:
    return Problem(
        "forbidden-character",
        f"an escape in this text stands for {describe(char)}",
        place,
        help="remove the escape",
    )


def empty_file(place: Span) -> Problem:
    return Problem("empty-file", "the file is empty", place, help="write `key: value` lines")


def not_a_mapping(place: Span, kind: str) -> Problem:
    return Problem(
        "not-a-mapping",
        f"the file has to be a mapping, not {kind}",
        place,
        help="write `key: value` lines, with a space after the colon",
    )


def several_documents(place: Span) -> Problem:
    return Problem(
        "several-documents",
        "a second document starts here",
        place,
        help="a file holds one document: delete this line, or move the rest to another file",
    )


def too_deep(place: Span) -> Problem:
    return Problem(
        "too-deep",
        f"more than {MAX_LEVELS} levels are nested here",
        place,
        help="move the inner part to a file of its own",
    )


def too_many_values(place: Span) -> Problem:
    return Problem(
        "too-many-values",
        f"the file has more than {MAX_VALUES:,} keys and values, aliases expanded",
        place,
        help="use fewer aliases, or split the file",
    )


def too_many_problems(place: Span) -> Problem:
    return Problem(
        "too-many-problems",
        f"the file has more than {MAX_PROBLEMS} mistakes in its YAML; from here it was not read",
        place,
        help="correct those above first; is this a file of YAML?",
    )


def too_large(place: Span) -> Problem:
    return Problem(
        "too-large",
        f"the file has more than {MAX_BYTES:,} bytes",
        place,
        help="move long texts to files of their own",
    )


def unreadable(place: Span, reason: str, remedy: str) -> Problem:
    return Problem("unreadable-file", f"the file cannot be read: {reason}", place, help=remedy)


def not_utf8(place: Span, reason: str) -> Problem:
    return Problem("not-utf-8", f"the file is not UTF-8: {reason}", place, help="save it as UTF-8")
