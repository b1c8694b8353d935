"""Syntax errors: why the parser stopped, as a problem in the words of the file's author.

What a person probably meant comes first. For all else a table answers to the parser's own words.
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
from loopkit.document.text import SourceText

_SAME_COLUMN = "the keys of one mapping, and the items of one list, start in the same column"
_TABLE = (
    (
        "cannot start any token", "unquoted-text", "text without quotes cannot start with `{char}`",
        QUOTE_IT, "at",
    ),
    (
        "sequence entries are not allowed", "unquoted-text",
        "a list cannot start on the line of its key",
        "put the first `- ` on the next line, or write `[a, b]`; quote it, if it is text", "at",
    ),
    (
        "block scalar", "block-text",
        "`{opener}` starts a text on the lines below; nothing else can follow it here",
        "start the text on the next line; if it belongs to the text, quote the text", "opened line",
    ),
    (
        "could not find expected ':'", "missing-colon",
        "this line is neither `key: value` nor a list item",
        "add the colon; text of several lines goes below `key: |`, indented", "opened line",
    ),
    (
        "mapping values are not allowed", "indentation",
        "this line continues the value above, and so cannot have a key of its own",
        "start it in the same column as the key above; or quote the value, if it is text", "line",
    ),
    (
        "node content, but found '<stream end>'", "unclosed-bracket",
        "the file ends inside a bracket", "close it with `]` or `}`", "at",
    ),
    (
        "expected the node content", "unquoted-text", "a value is missing before `{char}`",
        QUOTE_IT, "at",
    ),
    (
        "<document start>(?!.*stream end)|document end marker", "several-roots",
        "the document has ended before this", "make all of it one mapping of `key: value` lines",
        "line",
    ),
    ("", "syntax", "this is not valid YAML: {reason}", "correct it, or quote the text", "at"),
)  # fmt: skip
"""For what the parser says: the code, the message, the remedy, and the place."""


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

    def char(self, offset: int) -> str:
        return self.text[offset : offset + 1]

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
        """The lines of both places and the last one above with more than blanks."""
        above = len(self.text[: self.line_around(self.at)[0]].rstrip())
        places = (self.at, self.opened, above or None)
        return [self.line_around(offset) for offset in places if offset is not None]

    def line_end(self, offset: int) -> int:
        start, line = self.line_around(offset)
        return start + len(line.rstrip())

    def on_one_line(self, first: int, second: int) -> bool:
        return self.position(first)[0] == self.position(second)[0]

    def mistake(
        self, code: str, message: str, remedy: str = QUOTE_IT, start: int | None = None
    ) -> Problem:
        """A problem of one character: where reading stopped, or at `start`."""
        return Problem(code, message, self.span(self.at if start is None else start), help=remedy)


_REFERENCE = re.compile(r"(?:^|[\s,\[{])([*&][^\s,\[\]{}]*)[ \t]*$")
_TEMPLATE_AS_VALUE = re.compile(r"(?:^[ ]*|: +|- +|, *|[\[{] *)(?=\{[{%#])")
_MISSING_SPACE = re.compile(r" *(?:- +)*([A-Za-z_][\w.-]*):(?!//)([^\s:].*)")
_KEY_BEFORE = re.compile(r" *(?:- +)*[^\s#][^:]*: +(?=\S)")
_ODD_BLANK = re.compile(
    rf"^ *{ODD_BLANK}(?=\s*(?:$|(?:- )?[\w.-]+:(?:\s|$)))|^(?: |- )*(?:-|[\w.-]+:) *{ODD_BLANK}",
    re.MULTILINE,
)
"""In the indentation of a key, or behind a hyphen or a key."""
_FIELD = r"""[a-z_]\w*: +(?:'[^']*'|"[^"]*"|(?:[^\s,'"{}\[\]#:]|:(?!\s)| (?! |#))+)"""
_FIELDS = re.compile(rf" *(?:- +)*(\w+: +)?({_FIELD}(, +{_FIELD})*) *(?:#.*)?", re.ASCII)


def explain(builder: Builder, error: ParserGaveUp) -> Problem:
    """A known slip with its remedy, else the words of the parser."""
    text, end = builder.source, builder.end
    stop = Stop(
        text.file, text.text, text.starts,
        error.reason, end if error.at is None else error.at, error.context, error.opened,
        end, builder.quoted,
    )  # fmt: skip
    kinds = (_blanks, _fields_on_one_line, _templates, _quotes, _texts, _brackets, _block)
    slips = (problem for kind in kinds for problem in kind(stop))
    return next(slips, None) or _by_table(stop)


def _by_table(stop: Stop) -> Problem:
    said = f"{stop.context}: {stop.reason}"
    code, message, remedy, where = next(row[1:] for row in _TABLE if re.search(row[0], said))
    opened = stop.at if stop.opened is None else stop.opened
    start, line = stop.line_around(opened if where == "opened line" else stop.at)
    places = {
        "at": stop.span(stop.at),
        "line": stop.line_span(start + len(line) - len(line.lstrip())),
        "opened line": stop.line_span(opened),
    }
    words = {"reason": stop.reason, "char": stop.char(stop.at), "opener": stop.char(opened)}
    return Problem(code, message.format(**words), places[where], help=remedy)


def _blanks(stop: Stop) -> Iterator[Problem]:
    if stop.reason == TOO_DEEP:
        yield mistake("too-deep", stop.span(stop.at))
    found = stop.char(stop.at)
    start, line = stop.line_around(stop.at)
    if found == "\t" and line[: stop.at - start].strip():
        remedy = "replace it with a space, or quote the text"
        yield stop.mistake("tab", "a tab outside quotes", remedy)
    elif found == "\t":
        yield stop.mistake("tab", "a tab in the indentation", "indent with spaces")
    elif re.match(ODD_BLANK, found):
        yield odd_blank(stop.span(stop.at), found)
    for start, line in stop.lines:
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
    text = stop.text
    is_at_end = stop.at >= len(text) or "document separator" in stop.reason
    if re.match("while scanning a (double-)?quoted", stop.context) and is_at_end:
        yield _unclosed_quote(stop, stop.opened or 0)
    if re.match("found unknown escape|expected escape sequence", stop.reason):
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
        message = "the text continues after its closing quote"
        remedy = (
            "put the whole text in the other kind of quotes; inside single quotes, a single quote"
            " is written twice"
        )
        yield Problem("text-after-quote", message, stop.line_span(stop.at), help=remedy)


def _unclosed_quote(stop: Stop, opened: int) -> Problem:
    message = "this quote is not closed where its text ends"
    remedy = f"close it with {stop.char(opened)}"
    return stop.mistake("unclosed-quote", message, remedy, opened)


def _texts(stop: Stop) -> Iterator[Problem]:
    """Texts that YAML reads as something else: an alias, a tag, a key."""
    start, line = stop.line_around(stop.at)
    if found := _REFERENCE.search(line[: stop.at - start]):
        kind = "an alias" if found[1][0] == "*" else "an anchor"
        message = f"`{found[1][0]}` without quotes starts {kind}"
        yield stop.mistake("unquoted-text", message, start=start + found.start(1))
    if stop.opened is not None and "tag" in f"{stop.context} {stop.reason}":
        yield mistake("tag", stop.span(stop.opened))
    is_colon = stop.reason.startswith("mapping values")
    if is_colon and (key := _KEY_BEFORE.match(line[: stop.at - start])):
        yield _unquoted_colon(stop.line_span(start + key.end()))
    if is_colon or stop.reason.startswith("could not find expected ':'"):
        # The line above it, or the one that this was taken for a part of.
        start, line = stop.lines[-1]
        if found := _MISSING_SPACE.fullmatch(line):
            yield missing_space(found, stop.line_span(start + found.start(1)))


def _unquoted_colon(span: Span) -> Problem:
    message = "`: ` in text without quotes starts a key"
    return Problem("unquoted-colon", message, span, help=QUOTE_IT)


def _brackets(stop: Stop) -> Iterator[Problem]:
    if stop.opened is None or not re.match("while parsing a flow (seq|map)", stop.context):
        return
    opener, found = stop.char(stop.opened), stop.char(stop.at)
    closer = "]" if opener == "[" else "}"
    if not found or not stop.on_one_line(stop.opened, stop.at):
        commented = " #" in stop.text[stop.opened : stop.at]
        hint = "; ` #` starts a comment, so text that has it needs quotes" if commented else ""
        remedy = f"add `{closer}`{hint}"
        yield stop.mistake("unclosed-bracket", f"`{opener}` is not closed", remedy, stop.opened)
    elif found == ":":
        yield _unquoted_colon(stop.span(stop.read_to, stop.at + 1))
    elif found in "[{":
        brackets = opener + closer
        message = f"`{found}` cannot be part of text without quotes inside `{brackets}`"
        remedy = (
            "put the whole text in quotes, or write each field on its own line, without"
            f" `{brackets}`"
        )
        yield stop.mistake("unquoted-bracket", message, remedy)
    else:
        message = f"a comma or `{closer}` is missing before this"
        remedy = "it is safest to quote a text with spaces, quotes or brackets"
        yield stop.mistake("missing-separator", message, remedy)


def _block(stop: Stop) -> Iterator[Problem]:
    """A line that does not fit to those before it."""
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
    yield Problem("indentation", message, stop.line_span(stop.at), help=_SAME_COLUMN, also=started)
