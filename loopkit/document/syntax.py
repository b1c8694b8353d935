"""Syntax errors: the parser's failures as problems in the words of the file's author.

Most functions here recognise one kind of failure: of quotes, blanks and characters that text cannot
have without quotes, or of structure. Each returns the problem if it is of that kind, else None.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from loopkit.document.parser import (
    QUOTE_IT,
    TOO_DEEP,
    Builder,
    ParserGaveUp,
    missing_space,
    opens_template,
    unquoted_template,
)
from loopkit.document.problems import Problem, Span, mistake, odd_blank
from loopkit.document.text import SourceText, conflict
from loopkit.values import Value


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
        return "" if offset is None else self.source.text[offset : offset + 1]

    def span(self, start: int, end: int | None = None) -> Span:
        """The place from `start` to `end`, or of one character.

        The end of the text is shown at its last line with anything on it: the parser often
        notices only there what went wrong before the blank lines.
        """
        start = min(start, len(self.source.text.rstrip()))
        default = min(start + 1, len(self.source.text))
        return self.source.span(start, default if end is None else max(start, end))

    def line_span(self, start: int) -> Span:
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
        """The start of the last line above that has more than blanks, if there is one."""
        start, _ = self.source.line_around(offset)
        above = len(self.source.text[:start].rstrip())
        return self.source.line_around(above)[0] if above else None

    def on_one_line(self, first: int, second: int) -> bool:
        return self.source.position(first)[0] == self.source.position(second)[0]


_REFERENCE = re.compile(r"(?:^|[\s,\[{])([*&][^\s,\[\]{}]*)[ \t]*$")
_UNKNOWN_ESCAPE = re.compile(r"found unknown escape|expected escape sequence")
_BLOCK_HEADER = re.compile(r"(?:^|\s)[|>][-+0-9]*(?:\s+#.*)?\s*$")


def blank(failure: Failure) -> Problem | None:
    found = failure.char(failure.at)
    if not found.isspace() or found in " \r\n":
        return None
    if found != "\t":
        return odd_blank(failure.span(failure.at), found)
    start, line = failure.source.line_around(failure.at)
    if line[: failure.at - start].strip():
        message = "a tab outside quotes"
        remedy = "replace it with a space, or quote the text"
    else:
        message = "a tab in the indentation"
        remedy = "indent with spaces"
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
    if not _UNKNOWN_ESCAPE.match(failure.reason):
        return None
    at = failure.source.text.rfind("\\", 0, failure.at)
    message = f"`{failure.source.text[at : at + 2]}` is not an escape in double-quoted text"
    remedy = "use single quotes, in which a backslash is a backslash, or write `\\\\`"
    return Problem("unknown-escape", message, failure.span(at, at + 2), help=remedy)


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


_TEMPLATE_AS_VALUE = re.compile(r"(?:^[ ]*|: +|- +|, *|[\[{] *)(?=\{[{%#])")


def template_as_value(source: SourceText, offset: int) -> int | None:
    """Where on the line of `offset`, not behind it, a value starts with a template."""
    start, line = source.line_around(offset)
    found = _TEMPLATE_AS_VALUE.search(line, 0, offset - start + 1)
    return start + found.end() if found else None


def unquoted_colon(span: Span) -> Problem:
    """The problem of text with `: ` in it, where YAML sees one key too many."""
    return Problem(
        "unquoted-colon", "`: ` in text without quotes starts a key", span, help=QUOTE_IT
    )


def too_deep(failure: Failure) -> Problem | None:
    return mistake("too-deep", failure.span(failure.at)) if failure.reason == TOO_DEEP else None


def conflict_separator(failure: Failure) -> Problem | None:
    for start, line in failure.lines:
        if line == "=======":
            return conflict(failure.line_span(start), [])
    return None


def colon(failure: Failure) -> Problem | None:
    if failure.reason != "mapping values are not allowed here":
        return None
    start, line = failure.source.line_around(failure.at)
    key = _KEY_BEFORE.match(line[: failure.at - start])
    if key:
        return unquoted_colon(failure.line_span(start + key.end()))
    above = failure.line_above(failure.at)
    spaceless = None if above is None else _missing_space(failure, above)
    return spaceless or Problem(
        "indentation",
        "this line continues the value above, and so cannot have a key of its own",
        failure.line_span(start + len(line) - len(line.lstrip())),
        help="start it in the same column as the key above; or quote the value, if it is text",
    )


def keyless_line(failure: Failure) -> Problem | None:
    if failure.reason != "could not find expected ':'" or failure.opened is None:
        return None
    return _missing_space(failure, failure.opened) or Problem(
        "missing-colon",
        "this line is neither `key: value` nor a list item",
        failure.line_span(failure.opened),
        help="add the colon; text of several lines goes below `key: |`, indented",
    )


def flow(failure: Failure) -> Problem | None:
    opener = failure.char(failure.opened)
    if not failure.context.startswith("while parsing a flow ") or opener not in _CLOSERS:
        return None
    found = failure.char(failure.at)
    if not found or not failure.on_one_line(failure.opened or 0, failure.at):
        return _unclosed_bracket(failure)
    if found == ":":
        return unquoted_colon(failure.span(failure.read_to, failure.at + 1))
    if found in "[{":
        brackets = opener + _CLOSERS[opener]
        return Problem(
            "unquoted-bracket",
            f"`{found}` cannot be part of text without quotes inside `{brackets}`",
            failure.span(failure.at),
            help="put the whole text in quotes, or write each field on its own line, without"
            f" `{brackets}`",
        )
    return _missing_separator(failure, found, opener)


def value_out_of_place(failure: Failure) -> Problem | None:
    if failure.reason not in _MISPLACED:
        return None
    message, remedy = _MISPLACED[failure.reason]
    return Problem("unquoted-text", message, failure.span(failure.at), help=remedy)


def missing_value(failure: Failure) -> Problem | None:
    if not failure.reason.startswith("expected the node content"):
        return None
    found = failure.char(failure.at)
    if not found:
        message = "the file ends inside a bracket"
        remedy = "close it with `]` or `}`"
        return Problem("unclosed-bracket", message, failure.span(failure.at), help=remedy)
    message = f"a value is missing before `{found}`"
    return Problem("unquoted-text", message, failure.span(failure.at), help=QUOTE_IT)


def percent_line(failure: Failure) -> Problem | None:
    for start, line in failure.lines:
        if line.startswith("%"):
            message = "a line cannot start with `%`"
            return Problem("unquoted-text", message, failure.span(start), help=QUOTE_IT)
    return None


def second_root(failure: Failure) -> Problem | None:
    if not re.search(r"<document start>|document end marker", failure.reason):
        return None
    place = failure.line_span(failure.at)
    if not failure.read_to:
        message = "a line `---` is missing above this one"
        remedy = "add it, or delete the line `%YAML 1.2`, which is not needed"
        return Problem("directive", message, place, help=remedy)
    if _INDENTED_START.match(failure.source.text):
        message = "this line is indented less than the first one of the file"
        return Problem("indentation", message, place, help=_SAME_COLUMN)
    message = "the document has ended before this"
    remedy = "make all of it one mapping of `key: value` lines"
    return Problem("several-roots", message, place, help=remedy)


def indentation(failure: Failure) -> Problem | None:
    if not failure.reason.startswith("expected <block end>") or failure.opened is None:
        return None
    if (blank := _blank_above(failure, failure.opened)) is not None:
        return blank
    if failure.source.position(failure.at)[1] != failure.source.position(failure.opened)[1]:
        message = (
            "the indentation of this line matches neither the lines before it nor their parent"
        )
    elif failure.char(failure.at) == "-":
        message = "a list item among keys"
    else:
        message = "a key among list items"
    return Problem(
        "indentation",
        message,
        failure.line_span(failure.at),
        help=_SAME_COLUMN,
        also=(("the block starts here", failure.line_span(failure.opened)),),
    )


# The first that recognises the failure names it, so the narrower ones stand first.
_RECOGNISERS: tuple[Callable[[Failure], Problem | None], ...] = (
    too_deep,
    conflict_separator,
    blank,
    template,
    unclosed_quote,
    unknown_escape,
    after_quote,
    reference,
    tag,
    reserved_character,
    block_text,
    colon,
    keyless_line,
    flow,
    value_out_of_place,
    missing_value,
    percent_line,
    second_root,
    indentation,
)


def explain(builder: Builder, stop: ParserGaveUp) -> Problem:
    """An error of the parser as a problem: a known slip with its remedy, else its words."""
    end, at = builder.end, builder.end if stop.at is None else stop.at
    failure = Failure(
        builder.source, stop.reason, at, stop.context, stop.opened, end, builder.quoted
    )
    for recognise in _RECOGNISERS:
        problem = recognise(failure)
        if problem is not None:
            return problem
    message = f"this is not valid YAML: {failure.reason}"
    return Problem(
        "syntax", message, failure.span(failure.at), help="correct it, or quote the text"
    )


_MISSING_SPACE = re.compile(r" *(?:- +)*([A-Za-z_][\w.-]*):(?!//)([^\s:].*)")
_KEY_BEFORE = re.compile(r" *(?:- +)*[^\s#][^:]*: +(?=\S)")
_INDENTED_START = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*+ +\S")
_ODD_INDENTATION = re.compile(r"^ *([^\S \t\r\n])\s*(?:- )?[\w.-]+:(?:\s|$)", re.MULTILINE)
_SAME_COLUMN = "the keys of one mapping, and the items of one list, start in the same column"
_CLOSERS = {"{": "}", "[": "]"}
_MISPLACED = {
    "sequence entries are not allowed here": (
        "a list cannot start on the line of its key",
        "put the first `- ` on the next line, or write `[a, b]`; quote it, if it is text",
    ),
    "mapping keys are not allowed here": ("`? ` without quotes starts a key", QUOTE_IT),
}


def _missing_space(failure: Failure, offset: int) -> Problem | None:
    start, line = failure.source.line_around(offset)
    found = _MISSING_SPACE.fullmatch(line)
    if found is None:
        return None
    return missing_space(found, failure.line_span(start + found.start(1)))


def _missing_separator(failure: Failure, found: str, opener: str) -> Problem:
    closer = _CLOSERS[opener]
    if found in "]}":
        message = f"`{found}` cannot close `{opener}`"
        remedy = f"write `{closer}`"
    else:
        message = f"a comma or `{closer}` is missing before this"
        remedy = "it is safest to quote a text with spaces, quotes or brackets"
    return Problem("missing-separator", message, failure.span(failure.at), help=remedy)


def _unclosed_bracket(failure: Failure) -> Problem:
    opened = failure.opened or 0
    opener = failure.char(opened)
    commented = " #" in failure.source.text[opened : failure.at]
    hint = "; ` #` starts a comment, so text that has it needs quotes" if commented else ""
    message = f"`{opener}` is not closed"
    remedy = f"add `{_CLOSERS[opener]}`{hint}"
    return Problem("unclosed-bracket", message, failure.span(opened), help=remedy)


def _blank_above(failure: Failure, opened: int) -> Problem | None:
    """The problem of a line above whose key YAML sees too far to the left, if there is one."""
    column = failure.source.position(failure.at)[1]
    for found in _ODD_INDENTATION.finditer(failure.source.text, opened, failure.at):
        if failure.source.position(found.start(1))[1] < column:
            return odd_blank(failure.span(found.start(1)), found[1])
    return None
