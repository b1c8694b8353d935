"""Syntax errors: the parser's failures as problems in the words of the file's author.

The functions here recognise failures of structure: colons, indentation, brackets, and values in
places that allow none. Each returns the problem if the failure is of its kind, else None.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from loopkit.document import slips
from loopkit.document.problems import Problem, mistake, odd_blank
from loopkit.document.slips import TOO_DEEP, Failure
from loopkit.document.text import conflict


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
        return slips.unquoted_colon(failure.line_span(start + key.end()))
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
    """Recognise mistakes inside `{ }` and `[ ]`."""
    opener = failure.char(failure.opened)
    if not failure.context.startswith("while parsing a flow ") or opener not in _CLOSERS:
        return None
    found = failure.char(failure.at)
    if not found or not failure.on_one_line(failure.opened or 0, failure.at):
        return _unclosed_bracket(failure)
    if found == ":":
        return slips.unquoted_colon(failure.span(failure.read_to, failure.at + 1))
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
    """Recognise a list or a key that starts where there can be none."""
    if failure.reason not in _MISPLACED:
        return None
    message, remedy = _MISPLACED[failure.reason]
    return Problem("unquoted-text", message, failure.span(failure.at), help=remedy)


def missing_value(failure: Failure) -> Problem | None:
    if not failure.reason.startswith("expected the node content"):
        return None
    found = failure.char(failure.at)
    if not found:
        message, remedy = "the file ends inside a bracket", "close it with `]` or `}`"
        return Problem("unclosed-bracket", message, failure.span(failure.at), help=remedy)
    message = f"a value is missing before `{found}`"
    return Problem("unquoted-text", message, failure.span(failure.at), help=slips.QUOTE_IT)


def percent_line(failure: Failure) -> Problem | None:
    for start, line in failure.lines:
        if line.startswith("%"):
            message = "a line cannot start with `%`"
            return Problem("unquoted-text", message, failure.span(start), help=slips.QUOTE_IT)
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
    slips.blank,
    slips.template,
    slips.unclosed_quote,
    slips.unknown_escape,
    slips.after_quote,
    slips.reference,
    slips.tag,
    slips.reserved_character,
    slips.block_text,
    colon,
    keyless_line,
    flow,
    value_out_of_place,
    missing_value,
    percent_line,
    second_root,
    indentation,
)


def explain(failure: Failure) -> Problem:
    """Return the failure as a problem: a known slip with its remedy, else the parser's words."""
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
    "mapping keys are not allowed here": ("`? ` without quotes starts a key", slips.QUOTE_IT),
}


def _missing_space(failure: Failure, offset: int) -> Problem | None:
    start, line = failure.source.line_around(offset)
    found = _MISSING_SPACE.fullmatch(line)
    if found is None:
        return None
    return slips.missing_space(found, failure.line_span(start + found.start(1)))


def _missing_separator(failure: Failure, found: str, opener: str) -> Problem:
    closer = _CLOSERS[opener]
    if found in "]}":
        message, remedy = f"`{found}` cannot close `{opener}`", f"write `{closer}`"
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
