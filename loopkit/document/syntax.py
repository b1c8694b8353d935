"""Syntax errors: the parser's failures as problems in the words of the file's author."""

from __future__ import annotations

from collections.abc import Callable

from loopkit.document import quoting, structure
from loopkit.document.failure import Failure
from loopkit.document.problems import Problem

# The first that recognises the failure names it, so the narrower ones stand first.
_RECOGNISERS: tuple[Callable[[Failure], Problem | None], ...] = (
    structure.too_deep,
    structure.conflict_separator,
    quoting.blank,
    quoting.template,
    quoting.unclosed_quote,
    quoting.unknown_escape,
    quoting.after_quote,
    quoting.reference,
    quoting.tag,
    quoting.reserved_character,
    quoting.block_text,
    structure.colon,
    structure.keyless_line,
    structure.flow,
    structure.value_out_of_place,
    structure.missing_value,
    structure.percent_line,
    structure.second_root,
    structure.indentation,
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
