"""Failures at a quote, or at a character that text cannot have without quotes.

Each function returns the problem if the failure is of its kind, else None.
"""

from __future__ import annotations

import re

from loopkit.document import slips
from loopkit.document.failure import Failure
from loopkit.document.mistakes import mistake, odd_blank
from loopkit.document.problems import Problem

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
        if offset >= 0 and slips.opens_template(failure.source, offset):
            return slips.unquoted_template(failure.source, offset)
    for offset in (failure.at, failure.read_to):
        start = slips.template_as_value(failure.source, offset)
        if start is not None:
            return slips.unquoted_template(failure.source, start)
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
    return Problem(
        "unknown-escape",
        f"`{failure.source.text[at : at + 2]}` is not an escape in double-quoted text",
        failure.span(at, at + 2),
        help="use single quotes, in which a backslash is a backslash, or write `\\\\`",
    )


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
    return Problem(
        "unclosed-quote",
        "this quote is not closed where its text ends",
        failure.span(opened),
        help=f"close it with {failure.char(opened)}",
    )


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
    return Problem("unquoted-text", message, failure.span(start), help=slips.QUOTE_IT)


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
    return Problem("unquoted-text", message, failure.span(failure.at), help=slips.QUOTE_IT)


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
    return Problem(
        "block-text",
        "this text is indented less than the empty line above it",
        failure.line_span(failure.at),
        help="delete the spaces on that line",
    )
