"""Problems of parsed YAML: keys and values that YAML allows and loopkit does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loopkit.document.problems import Problem, Span, did_you_mean

MAX_BYTES = 1_000_000
MAX_LEVELS = 64
MAX_VALUES = 200_000
MAX_PROBLEMS = 50
"""The maximum number of mistakes reported in one file's YAML; after these, reading stops."""
_SHOWN = 40

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
    "odd-blank": (
        "this character looks like a space but is not one (U+{code_point}): YAML reads it as text",
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
    """A problem from the table of mistakes, with the words for its placeholders."""
    message, remedy = MISTAKES[code]
    return Problem(code, message.format(**words), place, help=remedy.format(**words))


def short(text: str) -> str:
    """A text of the file as a message shows it."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def odd_blank(place: Span, char: str) -> Problem:
    return mistake("odd-blank", place, code_point=f"{ord(char):04X}")


def unknown_alias(place: Span, name: str, anchors: Iterable[str]) -> Problem:
    near = did_you_mean(name, anchors)
    remedy = "if `*` belongs to a text, put the text in quotes"
    return Problem(
        "unknown-alias",
        f"no anchor `&{short(name)}` stands above this alias",
        place,
        help=f"{near}; {remedy}" if near else remedy,
    )


def duplicate_key(name: str, place: Span, first: Span) -> Problem:
    return Problem(
        "duplicate-key",
        f"the key `{short(name)}` is written twice",
        place,
        help="delete one of the two, or rename it",
        also=(("first written here", first),),
    )


def key_not_text(place: Span, raw: str, kind: str) -> Problem:
    return Problem(
        "non-text-key",
        f"a key has to be text, not {kind}",
        place,
        help=f'write it in quotes: `"{short(raw)}"`' if raw else "write `name: value`",
    )
