"""Slips that leave valid YAML with another meaning than its author's, and their remedies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loopkit.document.document import Node
from loopkit.document.problems import Problem, Span
from loopkit.document.text import SourceText

QUOTE_IT = "put the whole text in quotes, or on the lines below `key: |`"
_OPENERS = ("{{", "{%", "{#")
_TEMPLATE_AS_VALUE = re.compile(r"(?:^[ ]*|: +|- +|, *|[\[{] *)(?=\{[{%#])")
_CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_NAME_AND_VALUE = re.compile(r"([a-z_][a-z0-9_]*):(?!//)(\S+)")


def opens_template(source: SourceText, offset: int) -> bool:
    """Tell whether a template starts at `offset`, where YAML takes a brace for a mapping."""
    return source.text.startswith(_OPENERS, offset)


def template_as_value(source: SourceText, offset: int) -> int | None:
    """Return where on the line of `offset`, not behind it, a value starts with a template."""
    start, line = source.line_around(offset)
    found = _TEMPLATE_AS_VALUE.search(line, 0, offset - start + 1)
    return start + found.end() if found else None


def unquoted_template(source: SourceText, offset: int) -> Problem:
    """Return the problem of a template at `offset` that YAML reads as a mapping."""
    opener = source.text[offset : offset + 2]
    start, line = source.line_around(offset)
    closed = line.find(_CLOSERS[opener], offset - start)
    end = start + (len(line.rstrip()) if closed < 0 else closed + 2)
    return Problem(
        "unquoted-template",
        f"`{opener}` without quotes starts a YAML mapping, not a template",
        source.span(offset, end),
        help=QUOTE_IT,
    )


def missing_space(found: re.Match[str], span: Span) -> Problem:
    """Return the problem of `name:value`, found as such groups, which YAML takes for one text."""
    return Problem(
        "missing-space",
        "a space is missing after the colon",
        span,
        help=f"write `{found[1]}: {found[2].strip()}`",
    )


def _missing_value(key: Node) -> Problem:
    """Return the problem of `name:,` or `name:}`, where the colon counts as a part of the name."""
    return Problem(
        "missing-space",
        "neither a space nor a value stands behind the colon",
        key.span,
        help=f"write `{key.raw} …`",
    )


def unquoted_colon(span: Span) -> Problem:
    """Return the problem of text with `: ` in it, where YAML sees one key too many."""
    return Problem(
        "unquoted-colon", "`: ` in text without quotes starts a key", span, help=QUOTE_IT
    )


def in_flow_mapping(pairs: Sequence[tuple[Node, Node]]) -> Iterator[Problem]:
    """Yield the slips in the fields of `{...}`: text that a comma cuts, `key:value`."""
    torn = False
    for number, (key, value) in enumerate(pairs):
        bare = value.is_unwritten
        found = _NAME_AND_VALUE.fullmatch(key.raw) if bare and key.style == "plain" else None
        if bare and number and _odd_quotes(pairs[number - 1][1]):
            torn = True
            yield _torn_text(pairs[number - 1][1])
        elif found and not torn:
            yield missing_space(found, key.span)
        elif bare and key.style == "plain" and key.raw.endswith(":"):
            yield _missing_value(key)


def in_flow_sequence(items: Sequence[Node]) -> Iterator[Problem]:
    """Yield the slips in the items of `[...]`: quoted text inside text that a comma cuts."""
    odd = [item for item in items if _odd_quotes(item)]
    for first, _ in zip(odd[::2], odd[1::2], strict=False):
        yield _torn_text(first)


def _odd_quotes(node: Node) -> bool:
    return node.style == "plain" and node.used_at is None and node.raw.count('"') % 2 == 1


def _torn_text(node: Node) -> Problem:
    return Problem(
        "unquoted-comma",
        "the comma behind it ends this text, although a quote in it is open",
        node.span,
        help="put the whole text in single quotes",
    )
