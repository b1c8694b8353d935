"""`-k`: words joined by `and`, `or`, `not` and parentheses, as test runners read them."""

from __future__ import annotations

import re
from collections.abc import Callable

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

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self.error("`and` or `or`")

    def error(self, wanted: str) -> NotAnExpression:
        rest = self._tokens[self._at : self._at + 1]
        at = f"at `{rest[0]}`" if rest else "at its end"
        return NotAnExpression(f"`{self._text}` can't be read {at}: {wanted} is expected there")


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
        inner = _not(tokens)
        return lambda name: not inner(name)
    if tokens.take("("):
        inner = _either(tokens)
        if not tokens.take(")"):
            raise tokens.error("`)`")
        return inner
    word = tokens.word()
    return lambda name: word in name.lower()
