"""Tokens of guards, and remedies for the words that the language does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from loopkit.values import Value

MAX_LENGTH = 1_000
"""Characters that a guard may have."""

Kind = Literal["name", "number", "text", "mark", "end"]


class GuardProblem(Value, frozen=True):
    """A mistake in a guard: the message, its characters in the text, and the remedy."""

    column: int
    """Where it starts in the guard's text, in characters from 1; line ends count as one."""
    length: int
    """How many characters are wrong, at least 1."""
    code: str
    message: str
    help: str = ""


class GuardError(Exception):
    """The text is not a guard; `problem` has the place and the reason."""

    def __init__(self, problem: GuardProblem) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem.message


class Token(Value, frozen=True):
    kind: Kind
    text: str
    start: int
    """Index of its first character in the guard's text."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def refusal(start: int, end: int, message: str, remedy: str = "") -> GuardError:
    """Return the error for the characters from index `start` up to `end`."""
    return GuardError(GuardProblem(start + 1, max(1, end - start), "guard-syntax", message, remedy))


def tokenize(text: str) -> list[Token]:
    """Return the guard's words, the last one of kind `end`; raise GuardError for a foreign one."""
    if len(text) > MAX_LENGTH:
        raise refusal(
            MAX_LENGTH,
            len(text),
            f"the guard has {len(text)} characters, at most {MAX_LENGTH:,} are allowed",
            "name its parts under `guards:` and use the names",
        )
    return [*_words(text), Token("end", "", len(text.rstrip()))]


_SLIP = re.compile(
    r"===|!==|&&|\|\||<>|=>|=<|:=|=(?!=)|!(?!=)|&|\||\{\{|\*\*|//|[+*/%^~?;{}:]|[“”„‘’]"
)
_WORD = re.compile(
    r"""(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[^\W\d][\w-]*)*)
      | (?P<mark>==|!=|<=|>=|[<>()\[\],-])""",
    re.VERBOSE,
)
_BLANK = re.compile(r"\s*")

_INSTEAD = {
    "===": "==",
    "!==": "!=",
    "&&": "and",
    "&": "and",
    "||": "or",
    "|": "or",
    "<>": "!=",
    "=>": ">=",
    "=<": "<=",
    "=": "==",
    ":=": "==",
    "!": "not",
} | dict.fromkeys("“”„‘’", '"')
_NO_ARITHMETIC = ("**", "//", "+", "*", "/", "%", "^", "~")


def _words(text: str) -> Iterator[Token]:
    at = _after_blanks(text, 0)
    while at < len(text):
        _refuse_slip(text, at)
        word = _WORD.match(text, at)
        if word is None:
            raise _foreign(text, at)
        yield Token(_kind(word), word.group(), at)
        at = _after_blanks(text, word.end())


def _kind(word: re.Match[str]) -> Kind:
    for kind in ("name", "number", "text"):
        if word.lastgroup == kind:
            return kind
    return "mark"


def _after_blanks(text: str, at: int) -> int:
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _refuse_slip(text: str, at: int) -> None:
    slip = _SLIP.match(text, at)
    if slip is None:
        return
    mark = slip.group()
    if mark in _INSTEAD:
        remedy = f"write `{_INSTEAD[mark]}`"
    elif mark in _NO_ARITHMETIC:
        raise no_arithmetic(at, slip.end())
    elif mark == "{{":
        remedy = "a guard is not a template: write the name without the braces"
    else:
        remedy = "a guard is made of names, values, comparisons, `and`, `or` and `not`"
    raise refusal(at, slip.end(), f"guards have no `{mark}`", remedy)


def no_arithmetic(start: int, end: int) -> GuardError:
    remedy = "have the number computed where the work is done, and compare the result"
    return refusal(start, end, "guards do no arithmetic", remedy)


def _foreign(text: str, at: int) -> GuardError:
    char = text[at]
    if char in "\"'":
        return refusal(at, len(text), "this quote is never closed", f"end the text with {char}")
    if char.isdigit():
        end = _end_of_run(text, at)
        shown = text[at:end]
        return refusal(at, end, f"`{shown}` is not a number", "write it like 3, 0.5 or 2e6")
    if char == ".":
        remedy = "write a dotted name without spaces (`input.size`), a number with its 0 (`0.5`)"
        return refusal(at, at + 1, "nothing can start with `.`", remedy)
    shown = char if char.isprintable() else f"U+{ord(char):04X}"
    return refusal(at, at + 1, f"guards have no `{shown}`", "put text in quotes")


def _end_of_run(text: str, at: int) -> int:
    run = re.compile(r"[\w.]+").match(text, at)
    return run.end() if run else at + 1
