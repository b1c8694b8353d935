"""Slips of authors, and their remedies: valid YAML of another meaning, and failures of the parser.

Of a failure the functions here recognise those of quotes, blanks and characters that text cannot
have without quotes; each returns the problem if the failure is of its kind, else None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from loopkit.document.document import Node
from loopkit.document.problems import Problem, Span, mistake, odd_blank
from loopkit.document.text import SourceText
from loopkit.values import Value

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
    message = f"`{opener}` without quotes starts a YAML mapping, not a template"
    return Problem("unquoted-template", message, source.span(offset, end), help=QUOTE_IT)


def missing_space(found: re.Match[str], span: Span) -> Problem:
    """Return the problem of `name:value`, found as such groups, which YAML takes for one text."""
    message = "a space is missing after the colon"
    remedy = f"write `{found[1]}: {found[2].strip()}`"
    return Problem("missing-space", message, span, help=remedy)


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
            # In `name:,` and `name:}` the colon counts as a part of the name.
            message = "neither a space nor a value stands behind the colon"
            yield Problem("missing-space", message, key.span, help=f"write `{key.raw} …`")


def in_flow_sequence(items: Sequence[Node]) -> Iterator[Problem]:
    """Yield the slips in the items of `[...]`: quoted text inside text that a comma cuts."""
    odd = [item for item in items if _odd_quotes(item)]
    for first, _ in zip(odd[::2], odd[1::2], strict=False):
        yield _torn_text(first)


def _odd_quotes(node: Node) -> bool:
    return node.style == "plain" and node.used_at is None and node.raw.count('"') % 2 == 1


def _torn_text(node: Node) -> Problem:
    message = "the comma behind it ends this text, although a quote in it is open"
    remedy = "put the whole text in single quotes"
    return Problem("unquoted-comma", message, node.span, help=remedy)


TOO_DEEP = "brackets are nested too deep"
"""The reason when the parser was stopped because of that."""


class Failure(Value, frozen=True):
    """The parser's failure; the places are offsets in the text."""

    source: SourceText
    reason: str
    at: int
    context: str
    """The construct that it was reading; "" if unknown."""
    opened: int | None
    """The offset at which that started."""
    read_to: int
    """The end of the last value before."""
    quoted: tuple[int, int] | None
    """The last quoted text that it had read, with its quotes."""

    def char(self, offset: int | None) -> str:
        """Return the character at `offset`, "" at the end of the text."""
        return "" if offset is None else self.source.text[offset : offset + 1]

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the place from `start` to `end`, or of one character.

        The end of the text is shown at its last line with anything on it: the parser often
        notices only there what went wrong before the blank lines.
        """
        start = min(start, len(self.source.text.rstrip()))
        default = min(start + 1, len(self.source.text))
        return self.source.span(start, default if end is None else max(start, end))

    def line_span(self, start: int) -> Span:
        """Return the place from `start` to the end of the text on its line."""
        return self.span(start, self.line_end(start))

    @property
    def lines(self) -> list[tuple[int, str]]:
        """The line of the failure and that of the construct, each behind its offset."""
        known = (offset for offset in (self.at, self.opened) if offset is not None)
        return [self.source.line_around(offset) for offset in known]

    def line_end(self, offset: int) -> int:
        start, line = self.source.line_around(offset)
        return start + len(line.rstrip())

    def line_above(self, offset: int) -> int | None:
        """Return the start of the last line above that has more than blanks, if there is one."""
        start, _ = self.source.line_around(offset)
        above = len(self.source.text[:start].rstrip())
        return self.source.line_around(above)[0] if above else None

    def on_one_line(self, first: int, second: int) -> bool:
        return self.source.position(first)[0] == self.source.position(second)[0]


_REFERENCE = re.compile(r"(?:^|[\s,\[{])([*&][^\s,\[\]{}]*)[ \t]*$")
_UNKNOWN_ESCAPE = re.compile(r"found unknown escape|expected escape sequence")
_BLOCK_HEADER = re.compile(r"(?:^|\s)[|>][-+0-9]*(?:\s+#.*)?\s*$")
_CODE_POINT = re.compile(r"\\U([0-9a-fA-F]{8})")
_LARGEST_CODE_POINT = 0x10FFFF


def blank(failure: Failure) -> Problem | None:
    """Recognise a tab, or a blank of another width, where only spaces count."""
    found = failure.char(failure.at)
    if not found.isspace() or found in " \r\n":
        return None
    if found != "\t":
        return odd_blank(failure.span(failure.at), found)
    start, line = failure.source.line_around(failure.at)
    if line[: failure.at - start].strip():
        message, remedy = "a tab outside quotes", "replace it with a space, or quote the text"
    else:
        message, remedy = "a tab in the indentation", "indent with spaces"
    return Problem("tab", message, failure.span(failure.at), help=remedy)


def template(failure: Failure) -> Problem | None:
    for offset in (failure.at, failure.at - 1):
        if offset >= 0 and opens_template(failure.source, offset):
            return unquoted_template(failure.source, offset)
    for offset in (failure.at, failure.read_to):
        start = template_as_value(failure.source, offset)
        if start is not None:
            return unquoted_template(failure.source, start)
    return None


def unclosed_quote(failure: Failure) -> Problem | None:
    in_quotes = failure.context in {
        "while scanning a quoted scalar",
        "while scanning a double-quoted scalar",
    }
    at_end = failure.at >= len(failure.source.text) or "document separator" in failure.reason
    return _quote_problem(failure, failure.opened or 0) if in_quotes and at_end else None


def unknown_escape(failure: Failure) -> Problem | None:
    if _UNKNOWN_ESCAPE.match(failure.reason):
        at = failure.source.text.rfind("\\", 0, failure.at)
    elif failure.context or (at := _impossible_code_point(failure)) < 0:
        return None
    message = f"`{failure.source.text[at : at + 2]}` is not an escape in double-quoted text"
    remedy = "use single quotes, in which a backslash is a backslash, or write `\\\\`"
    return Problem("unknown-escape", message, failure.span(at, at + 2), help=remedy)


def _impossible_code_point(failure: Failure) -> int:
    # The parser overflows on it, and cannot say where.
    for found in _CODE_POINT.finditer(failure.source.text, failure.read_to):
        if int(found[1], 16) > _LARGEST_CODE_POINT:
            return found.start()
    return -1


def after_quote(failure: Failure) -> Problem | None:
    if failure.quoted is None or not failure.reason.startswith("expected"):
        return None
    start, end = failure.quoted
    if failure.source.text[end : failure.at].strip(" \t") or failure.at >= failure.line_end(end):
        return None
    if not failure.on_one_line(start, end):
        return _quote_problem(failure, start)
    if failure.char(failure.at) in "[{}]:":
        return None
    return Problem(
        "text-after-quote",
        "the text continues after its closing quote",
        failure.line_span(failure.at),
        help="put the whole text in the other kind of quotes;"
        " inside single quotes, a single quote is written twice",
    )


def _quote_problem(failure: Failure, opened: int) -> Problem:
    message = "this quote is not closed where its text ends"
    remedy = f"close it with {failure.char(opened)}"
    return Problem("unclosed-quote", message, failure.span(opened), help=remedy)


def reference(failure: Failure) -> Problem | None:
    start = failure.opened
    if failure.context not in {"while scanning an alias", "while scanning an anchor"}:
        line_start, line = failure.source.line_around(failure.at)
        found = _REFERENCE.search(line[: failure.at - line_start])
        start = line_start + found.start(1) if found else None
    if start is None:
        return None
    kind = "an alias" if failure.char(start) == "*" else "an anchor"
    message = f"`{failure.char(start)}` without quotes starts {kind}"
    return Problem("unquoted-text", message, failure.span(start), help=QUOTE_IT)


def tag(failure: Failure) -> Problem | None:
    if failure.opened is None or "tag" not in f"{failure.context} {failure.reason}":
        return None
    return mistake("tag", failure.span(failure.opened))


def reserved_character(failure: Failure) -> Problem | None:
    if not failure.reason.endswith("cannot start any token"):
        return None
    found = failure.char(failure.at)
    shown = "a backtick" if found == "`" else f"`{found}`"
    message = f"text without quotes cannot start with {shown}"
    return Problem("unquoted-text", message, failure.span(failure.at), help=QUOTE_IT)


def block_text(failure: Failure) -> Problem | None:
    """Recognise mistakes at the `|` or `>` of a text on several lines."""
    start = failure.at if failure.opened is None else failure.opened
    if "block scalar" in f"{failure.context} {failure.reason}" and failure.char(start) in "|>":
        return Problem(
            "block-text",
            f"`{failure.char(start)}` starts a text on the lines below; nothing else can"
            " follow it here",
            failure.line_span(start),
            help="start the text on the next line; if it belongs to the text, quote the text",
        )
    above = failure.line_above(failure.at)
    if above is None or not _BLOCK_HEADER.search(failure.source.line_around(above)[1]):
        return None
    message = "this text is indented less than the empty line above it"
    remedy = "delete the spaces on that line"
    return Problem("block-text", message, failure.line_span(failure.at), help=remedy)
