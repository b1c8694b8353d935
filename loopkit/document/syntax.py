"""Syntax errors: why the parser stopped, as problems in the words of the file's author.

Functions that yield problems give those that it can be, the most exact one first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopkit.document.parser import (
    QUOTE_IT,
    TOO_DEEP,
    Builder,
    ParserGaveUp,
    missing_space,
    opens_template,
    unquoted_template,
)
from loopkit.document.problems import ODD_BLANK, Problem, Span, mistake, odd_blank
from loopkit.document.text import SourceText, conflict


class Stop(SourceText, frozen=True):
    """A text that the parser did not get through: why, and where, as offsets."""

    reason: str
    at: int
    context: str
    """The construct that it was reading; "" if unknown."""
    opened: int | None
    """The offset at which that started."""
    read_to: int
    """The end of the last value before."""
    quoted: tuple[int, int] | None

    def char(self, offset: int | None) -> str:
        return "" if offset is None else self.text[offset : offset + 1]

    def span(self, start: int, end: int | None = None) -> Span:
        """The place from `start` to `end`, or of one character.

        Blank lines at the end are left out: the parser notices only there what went wrong before.
        """
        start = min(start, len(self.text.rstrip()))
        default = min(start + 1, len(self.text))
        return super().span(start, default if end is None else max(start, end))

    def line_span(self, start: int) -> Span:
        return self.span(start, self.line_end(start))

    @property
    def lines(self) -> list[tuple[int, str]]:
        """The lines of both places, each behind its offset."""
        known = (offset for offset in (self.at, self.opened) if offset is not None)
        return [self.line_around(offset) for offset in known]

    def line_end(self, offset: int) -> int:
        start, line = self.line_around(offset)
        return start + len(line.rstrip())

    def line_above(self, offset: int) -> int | None:
        """The start of the last line above with more than blanks."""
        start, _ = self.line_around(offset)
        above = len(self.text[:start].rstrip())
        return self.line_around(above)[0] if above else None

    def on_one_line(self, first: int, second: int) -> bool:
        return self.position(first)[0] == self.position(second)[0]

    def mistake(
        self, code: str, message: str, remedy: str = QUOTE_IT, start: int | None = None
    ) -> Problem:
        """A problem of one character: where reading stopped, or at `start`."""
        return Problem(code, message, self.span(self.at if start is None else start), help=remedy)


_REFERENCE = re.compile(r"(?:^|[\s,\[{])([*&][^\s,\[\]{}]*)[ \t]*$")
_UNKNOWN_ESCAPE = re.compile(r"found unknown escape|expected escape sequence")
_BLOCK_HEADER = re.compile(r"(?:^|\s)[|>][-+0-9]*(?:\s+#.*)?\s*$")
_TEMPLATE_AS_VALUE = re.compile(r"(?:^[ ]*|: +|- +|, *|[\[{] *)(?=\{[{%#])")
_MISSING_SPACE = re.compile(r" *(?:- +)*([A-Za-z_][\w.-]*):(?!//)([^\s:].*)")
_KEY_BEFORE = re.compile(r" *(?:- +)*[^\s#][^:]*: +(?=\S)")
_INDENTED_START = re.compile(r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))*+ +\S")
_ODD_BLANK = re.compile(
    rf"^ *{ODD_BLANK}(?=\s*(?:$|(?:- )?[\w.-]+:(?:\s|$)))|^(?: |- )*(?:-|[\w.-]+:) *{ODD_BLANK}",
    re.MULTILINE,
)
"""In the indentation of a key, or behind a hyphen or a key."""
_FIELD = r"""[a-z_]\w*: +(?:'[^']*'|"[^"]*"|(?:[^\s,'"{}\[\]#:]|:(?!\s)| (?! |#))+)"""
_FIELDS = re.compile(rf" *(?:- +)*(\w+: +)?({_FIELD}(, +{_FIELD})*) *(?:#.*)?", re.ASCII)
_SAME_COLUMN = "the keys of one mapping, and the items of one list, start in the same column"
_CLOSERS = {"{": "}", "[": "]"}


def explain(builder: Builder, error: ParserGaveUp) -> Problem:
    """A known slip with its remedy, else the words of the parser."""
    text, end = builder.source, builder.end
    stop = Stop(
        text.file, text.text, text.starts,
        error.reason, end if error.at is None else error.at, error.context, error.opened,
        end, builder.quoted,
    )  # fmt: skip
    kinds = (
        _blanks,
        _fields_on_one_line,
        _templates,
        _quotes,
        _first_characters,
        _one_line,
        _many_lines,
    )
    other = stop.mistake(
        "syntax", f"this is not valid YAML: {stop.reason}", "correct it, or quote the text"
    )
    return next((problem for kind in kinds for problem in kind(stop)), other)


def _blanks(stop: Stop) -> Iterator[Problem]:
    if stop.reason == TOO_DEEP:
        yield mistake("too-deep", stop.span(stop.at))
    for start, line in stop.lines:
        if line == "=======":
            yield conflict(stop.line_span(start), [])
    found = stop.char(stop.at)
    start, line = stop.line_around(stop.at)
    if found == "\t" and line[: stop.at - start].strip():
        remedy = "replace it with a space, or quote the text"
        yield stop.mistake("tab", "a tab outside quotes", remedy)
    elif found == "\t":
        yield stop.mistake("tab", "a tab in the indentation", "indent with spaces")
    elif re.match(ODD_BLANK, found):
        yield odd_blank(stop.span(stop.at), found)
    above = stop.line_above(stop.at)
    for start, line in [*stop.lines, *([] if above is None else [stop.line_around(above)])]:
        if odd := _ODD_BLANK.search(line):
            yield odd_blank(stop.span(start + odd.end() - 1), line[odd.end() - 1])


def _fields_on_one_line(stop: Stop) -> Iterator[Problem]:
    start, line = stop.line_around(stop.at)
    found = _FIELDS.fullmatch(line)
    if found and (found[1] or found[3]) and re.match("mapping values|expected <bl", stop.reason):
        head, fields = line[: found.start(2)].lstrip(), found[2].rstrip()
        remedy = (
            f"write `{head}{{{fields}}}`, or each key on a line of its own; a text needs quotes"
        )
        place = stop.span(start + found.start(2), start + found.start(2) + len(fields))
        yield Problem("unquoted-colon", "keys on one line need `{ }`", place, help=remedy)


def _templates(stop: Stop) -> Iterator[Problem]:
    for offset in (stop.at, stop.at - 1):
        if offset >= 0 and opens_template(stop, offset):
            yield unquoted_template(stop, offset)
    for offset in (stop.at, stop.read_to):
        start, line = stop.line_around(offset)
        if template := _TEMPLATE_AS_VALUE.search(line, 0, offset - start + 1):
            yield unquoted_template(stop, start + template.end())


def _quotes(stop: Stop) -> Iterator[Problem]:
    in_quotes = stop.context in {
        "while scanning a quoted scalar",
        "while scanning a double-quoted scalar",
    }
    text = stop.text
    if in_quotes and (stop.at >= len(text) or "document separator" in stop.reason):
        yield _unclosed_quote(stop, stop.opened or 0)
    if _UNKNOWN_ESCAPE.match(stop.reason):
        at = text.rfind("\\", 0, stop.at)
        message = f"`{text[at : at + 2]}` is not an escape in double-quoted text"
        remedy = "use single quotes, in which a backslash is a backslash, or write `\\\\`"
        yield Problem("unknown-escape", message, stop.span(at, at + 2), help=remedy)
    if stop.quoted is None or not stop.reason.startswith("expected"):
        return
    start, end = stop.quoted
    if text[end : stop.at].strip(" \t") or stop.at >= stop.line_end(end):
        return
    if not stop.on_one_line(start, end):
        yield _unclosed_quote(stop, start)
    elif stop.char(stop.at) not in "[{}]:":
        yield Problem(
            "text-after-quote",
            "the text continues after its closing quote",
            stop.line_span(stop.at),
            help="put the whole text in the other kind of quotes;"
            " inside single quotes, a single quote is written twice",
        )


def _unclosed_quote(stop: Stop, opened: int) -> Problem:
    message = "this quote is not closed where its text ends"
    remedy = f"close it with {stop.char(opened)}"
    return stop.mistake("unclosed-quote", message, remedy, opened)


def _first_characters(stop: Stop) -> Iterator[Problem]:
    """Characters with which text without quotes cannot start."""
    start = stop.opened
    if stop.context not in {"while scanning an alias", "while scanning an anchor"}:
        line_start, line = stop.line_around(stop.at)
        found = _REFERENCE.search(line[: stop.at - line_start])
        start = line_start + found.start(1) if found else None
    if start is not None:
        kind = "an alias" if stop.char(start) == "*" else "an anchor"
        message = f"`{stop.char(start)}` without quotes starts {kind}"
        yield stop.mistake("unquoted-text", message, start=start)
    if stop.opened is not None and "tag" in f"{stop.context} {stop.reason}":
        yield mistake("tag", stop.span(stop.opened))
    char = stop.char(stop.at)
    if stop.reason.endswith("cannot start any token"):
        shown = "a backtick" if char == "`" else f"`{char}`"
        yield stop.mistake("unquoted-text", f"text without quotes cannot start with {shown}")
    start = stop.at if stop.opened is None else stop.opened
    if "block scalar" in f"{stop.context} {stop.reason}" and stop.char(start) in "|>":
        yield Problem(
            "block-text",
            f"`{stop.char(start)}` starts a text on the lines below; nothing else can"
            " follow it here",
            stop.line_span(start),
            help="start the text on the next line; if it belongs to the text, quote the text",
        )
    above = stop.line_above(stop.at)
    if above is not None and _BLOCK_HEADER.search(stop.line_around(above)[1]):
        message = "this text is indented less than the empty line above it"
        remedy = "delete the spaces on that line"
        yield Problem("block-text", message, stop.line_span(stop.at), help=remedy)


def _one_line(stop: Stop) -> Iterator[Problem]:
    """Colons, brackets and values that cannot stand where they do."""
    match stop.reason:
        case "mapping values are not allowed here":
            yield from _colon(stop)
        case "could not find expected ':'" if stop.opened is not None:
            yield from _missing_space(stop, stop.opened)
            message = "this line is neither `key: value` nor a list item"
            remedy = "add the colon; text of several lines goes below `key: |`, indented"
            place = stop.line_span(stop.opened)
            yield Problem("missing-colon", message, place, help=remedy)
        case "sequence entries are not allowed here":
            remedy = (
                "put the first `- ` on the next line, or write `[a, b]`; quote it, if it is text"
            )
            yield stop.mistake(
                "unquoted-text", "a list cannot start on the line of its key", remedy
            )
        case "mapping keys are not allowed here":
            yield stop.mistake("unquoted-text", "`? ` without quotes starts a key")
    if stop.context.startswith("while parsing a flow ") and stop.opened is not None:
        yield from _brackets(stop, stop.opened)
    if stop.reason.startswith("expected the node content"):
        if found := stop.char(stop.at):
            yield stop.mistake("unquoted-text", f"a value is missing before `{found}`")
        else:
            message = "the file ends inside a bracket"
            remedy = "close it with `]` or `}`"
            yield stop.mistake("unclosed-bracket", message, remedy)


def _colon(stop: Stop) -> Iterator[Problem]:
    start, line = stop.line_around(stop.at)
    if key := _KEY_BEFORE.match(line[: stop.at - start]):
        yield unquoted_colon(stop.line_span(start + key.end()))
    if (above := stop.line_above(stop.at)) is not None:
        yield from _missing_space(stop, above)
    yield Problem(
        "indentation",
        "this line continues the value above, and so cannot have a key of its own",
        stop.line_span(start + len(line) - len(line.lstrip())),
        help="start it in the same column as the key above; or quote the value, if it is text",
    )


def unquoted_colon(span: Span) -> Problem:
    return Problem(
        "unquoted-colon", "`: ` in text without quotes starts a key", span, help=QUOTE_IT
    )


def _missing_space(stop: Stop, offset: int) -> Iterator[Problem]:
    start, line = stop.line_around(offset)
    if found := _MISSING_SPACE.fullmatch(line):
        yield missing_space(found, stop.line_span(start + found.start(1)))


def _brackets(stop: Stop, opened: int) -> Iterator[Problem]:
    opener, found = stop.char(opened), stop.char(stop.at)
    if opener not in _CLOSERS:
        return
    closer = _CLOSERS[opener]
    if not found or not stop.on_one_line(opened, stop.at):
        commented = " #" in stop.text[opened : stop.at]
        hint = "; ` #` starts a comment, so text that has it needs quotes" if commented else ""
        message = f"`{opener}` is not closed"
        remedy = f"add `{closer}`{hint}"
        yield stop.mistake("unclosed-bracket", message, remedy, opened)
    elif found == ":":
        yield unquoted_colon(stop.span(stop.read_to, stop.at + 1))
    elif found in "[{":
        brackets = opener + closer
        message = f"`{found}` cannot be part of text without quotes inside `{brackets}`"
        remedy = (
            "put the whole text in quotes, or write each field on its own line, without"
            f" `{brackets}`"
        )
        yield stop.mistake("unquoted-bracket", message, remedy)
    elif found in "]}":
        message = f"`{found}` cannot close `{opener}`"
        yield stop.mistake("missing-separator", message, f"write `{closer}`")
    else:
        message = f"a comma or `{closer}` is missing before this"
        remedy = "it is safest to quote a text with spaces, quotes or brackets"
        yield stop.mistake("missing-separator", message, remedy)


def _many_lines(stop: Stop) -> Iterator[Problem]:
    """Lines that do not fit to those before them."""
    for start, line in stop.lines:
        if line.startswith("%"):
            yield stop.mistake("unquoted-text", "a line cannot start with `%`", start=start)
    place = stop.line_span(stop.at)
    if re.search(r"<document start>|document end marker", stop.reason):
        if not stop.read_to:
            message = "a line `---` is missing above this one"
            remedy = "add it, or delete the line `%YAML 1.2`, which is not needed"
            yield Problem("directive", message, place, help=remedy)
        elif _INDENTED_START.match(stop.text):
            message = "this line is indented less than the first one of the file"
            yield Problem("indentation", message, place, help=_SAME_COLUMN)
        message = "the document has ended before this"
        remedy = "make all of it one mapping of `key: value` lines"
        yield Problem("several-roots", message, place, help=remedy)
    if stop.opened is None or not stop.reason.startswith("expected <block end>"):
        return
    # Of a line above, YAML may see the key too far to the left.
    column = stop.position(stop.at)[1]
    for found in _ODD_BLANK.finditer(stop.text, stop.opened, stop.at):
        if stop.position(at := found.end() - 1)[1] < column:
            yield odd_blank(stop.span(at), stop.char(at))
    if column != stop.position(stop.opened)[1]:
        message = (
            "the indentation of this line matches neither the lines before it nor their parent"
        )
    else:
        is_item = stop.char(stop.at) == "-"
        message = "a list item among keys" if is_item else "a key among list items"
    started = (("the block starts here", stop.line_span(stop.opened)),)
    yield Problem("indentation", message, place, help=_SAME_COLUMN, also=started)
