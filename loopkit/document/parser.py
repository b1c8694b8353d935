"""The parser: ruamel's in pure Python, without some of its waste.

The C parser crashes the process on deep nesting. The pure one recomputes known facts for every
question about a token, and checks the context for each character of a word.
Its events stay the same; they take a fifth less time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.parser import Parser
from ruamel.yaml.scanner import Scanner, ScannerError
from ruamel.yaml.tokens import ScalarToken

from loopkit.document.failure import TOO_DEEP
from loopkit.document.mistakes import MAX_LEVELS

_LONG_NAME = re.compile(r"[^ \t\r\n,\[\]{}]{200}")
_WORDS = re.compile(r"[\w./-]++(?: +[\w./-]+)*(?=([,\]}])|:[ \n])", re.ASCII)
"""A key, or a value of a flow collection: words in one line, and what ends them.

Before Python 3.11.5 a possessive group keeps the blanks of a word that does not follow.
"""


class ParserGaveUp(Exception):
    """The exception of the parser, whatever its type."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def events(text: str) -> Iterator[Any]:
    """The events of a text; raises ParserGaveUp where they end early."""
    # Without `plug_ins` the parser searches the disk for its extensions each time.
    yaml = YAML(typ="safe", pure=True, plug_ins=[])
    yaml.Scanner, yaml.Parser = _Scanner, _Parser
    try:
        yield from yaml.parse(text)
    except Exception as error:
        # Beside its own errors the parser lets out those of `chr` and `int`; whatever it is,
        # the author of the file gets a place and a reason.
        raise ParserGaveUp(error) from error


class _Parser(Parser):
    @cached_property
    def scanner(self) -> Any:
        return self.loader.scanner


class _Scanner(Scanner):
    """Stops at brackets that are too deep, and at names of anchors and tags that are none.

    The scanner looks 1,024 characters ahead, at a cost that grows with the square of the open
    brackets, before the builder sees the first of them. It reads names character by character,
    and tags at a cost that grows with the square of their length.
    """

    flow_level = 0
    _is_ready = False
    """Whether the next token is known; it stays the same until it is taken."""

    @cached_property
    def reader(self) -> Any:
        return self.loader.reader

    def reset_scanner(self) -> None:
        self.flow_level, self._is_ready = 0, False
        super().reset_scanner()

    def check_token(self, *choices: Any) -> bool:
        if not self._is_ready:
            self._is_ready = super().check_token()
        return bool(self.tokens) and (not choices or isinstance(self.tokens[0], choices))

    def get_token(self) -> Any:
        if not self.check_token():
            return None
        self._is_ready = False
        self.tokens_taken += 1
        return self.tokens.pop(0)

    def peek_token(self) -> Any:
        return self.tokens[0] if self.check_token() else None

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        if self.flow_level >= MAX_LEVELS:
            raise ScannerError(None, None, TOO_DEEP, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)
        self.flow_level = len(self.flow_context)

    def fetch_flow_collection_end(self, TokenClass: Any) -> None:  # noqa: N803
        super().fetch_flow_collection_end(TokenClass)
        self.flow_level = len(self.flow_context)

    def scan_plain(self) -> Any:
        reader = self.reader
        found = _WORDS.match(reader.buffer, reader.pointer)
        if found is None or (found[1] and not self.flow_level):
            return super().scan_plain()
        start = reader.get_mark()
        length = len(found[0])
        reader.pointer += length
        reader.index += length
        reader.column += length
        self.allow_simple_key = False
        return ScalarToken(found[0], True, start, reader.get_mark())

    def scan_anchor(self, TokenClass: Any) -> Any:  # noqa: N803
        self._refuse_long_names("while scanning an anchor")
        return super().scan_anchor(TokenClass)

    def scan_tag(self) -> Any:
        self._refuse_long_names("while scanning a tag")
        return super().scan_tag()

    def _refuse_long_names(self, context: str) -> None:
        if _LONG_NAME.match(self.reader.buffer, self.reader.pointer):
            mark = self.reader.get_mark()
            raise ScannerError(context, mark, "the name is too long", mark)
