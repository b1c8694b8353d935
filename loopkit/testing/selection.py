"""`-k`: words joined by `and`, `or`, `not` and parentheses, as test runners read them."""

from __future__ import annotations

import re
from collections.abc import Callable

from loopkit.text import one_line

MAX_DEPTH = 30
"""How deep parentheses and `not` may be nested."""

Selection = Callable[[str], bool]
"""Whether a name is selected."""
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_WORDS = frozenset({"and", "or", "not", "(", ")"})


class NotAnExpression(ValueError):
    """An expression that can't be read; the message says where it breaks off."""


def selection(text: str) -> Selection:
    """A test for names; a word is true of a name that contains it, whatever its capitals.

    Raises NotAnExpression.
    """
    if not text.strip():
        return lambda _: True
    tokens = _Tokens(_TOKEN.findall(text), text)
    made = _either(tokens)
    tokens.end()
    return made


class _Tokens:
    def __init__(self, tokens: list[str], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._at = 0
        self._depth = 0

    def take(self, *wanted: str) -> bool:
        """Go on where the next token is one of these."""
        found = self._at < len(self._tokens) and self._tokens[self._at] in wanted
        self._at += found
        return found

    def word(self) -> str:
        if self._at == len(self._tokens) or self._tokens[self._at] in _WORDS:
            raise self.error("a word")
        self._at += 1
        return self._tokens[self._at - 1].lower()

    def inner(self, read: Callable[[_Tokens], Selection]) -> Selection:
        """What stands one level deeper."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._unread(f"more than {MAX_DEPTH} `not` and `(` are nested there")
        made = read(self)
        self._depth -= 1
        return made

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self.error("`and` or `or`")

    def error(self, wanted: str) -> NotAnExpression:
        return self._unread(f"{wanted} is expected there")

    def _unread(self, reason: str) -> NotAnExpression:
        rest = self._tokens[self._at : self._at + 1]
        at = f"at `{one_line(rest[0])}`" if rest else "at its end"
        return NotAnExpression(f"`{one_line(self._text)}` can't be read {at}: {reason}")


def _either(tokens: _Tokens) -> Selection:
    ways = [_both(tokens)]
    while tokens.take("or"):
        ways.append(_both(tokens))
    return lambda name: any(way(name) for way in ways)


def _both(tokens: _Tokens) -> Selection:
    ways = [_not(tokens)]
    while tokens.take("and"):
        ways.append(_not(tokens))
    return lambda name: all(way(name) for way in ways)


def _not(tokens: _Tokens) -> Selection:
    if tokens.take("not"):
        inner = tokens.inner(_not)
        return lambda name: not inner(name)
    if tokens.take("("):
        inner = tokens.inner(_either)
        if not tokens.take(")"):
            raise tokens.error("`)`")
        return inner
    word = tokens.word()
    return lambda name: word in name.lower()
