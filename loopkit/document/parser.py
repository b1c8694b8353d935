"""The parser: ruamel's in pure Python, without some of its waste.

The C parser crashes the process on deep nesting. The pure one recomputes known facts for every
question about a token, compares its first character with two dozen others in turn, and checks
the context for each character of a word. Its events stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import StringMark
from ruamel.yaml.events import ScalarEvent
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import Reader
from ruamel.yaml.scanner import Scanner, ScannerError
from ruamel.yaml.tokens import ScalarToken

from loopkit.document.failure import TOO_DEEP
from loopkit.document.mistakes import MAX_LEVELS

_LONG_NAME = re.compile(r"[^ \t\r\n,\[\]{}]{200}")
_WORDS = re.compile(r"[\w./-]++(?: +[\w./-]+)*(?=([,\]}])|:[ \n])", re.ASCII)
"""A key, or a value of a flow collection: words in one line, and what ends them.

Before Python 3.11.5 a possessive group keeps the blanks of a word that does not follow.
"""
_QUOTED = re.compile(
    r"'[^'\0\r\n\x85\u2028\u2029\ufeff]*+'(?!')"
    r'|"[^"\\\0\r\n\x85\u2028\u2029\ufeff]*+"'
)
"""A quoted text in one line in which every character stands for itself."""
_BLANKS = re.compile(r" *+(?=[^ \t\r\n#\0\x85\u2028\u2029\ufeff])")
"""What stands before a token in the same line."""
_NOT_A_COLUMN = re.compile("[\r\n\ufeff]")
"""Characters that do not take one column: line ends, and byte order marks."""
_LONGEST_KEY = 1024
"""Characters of the longest key that ruamel takes without a `?`."""


class ParserGaveUp(Exception):
    """The exception of the parser, whatever its type."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def events(text: str) -> Iterator[Any]:
    """The events of a text; raises ParserGaveUp where they end early."""
    # Without `plug_ins` the parser searches the disk for its extensions each time.
    yaml = YAML(typ="safe", pure=True, plug_ins=[])
    yaml.Reader, yaml.Scanner, yaml.Parser = _Reader, _Scanner, _Parser
    try:
        yield from yaml.parse(text)
    except Exception as error:
        # Beside its own errors the parser lets out those of `chr` and `int`; whatever it is,
        # the author of the file gets a place and a reason.
        raise ParserGaveUp(error) from error


class _Mark(StringMark):
    """The place of a reader, made by one constructor instead of two."""

    __slots__ = ()

    def __init__(self, reader: Reader) -> None:
        self.name, self.buffer, self.pointer = reader.name, reader.buffer, reader.pointer
        self.index, self.line, self.column = reader.index, reader.line, reader.column


class _Reader(Reader):
    _last: _Mark | None = None
    """Where a token ends, another often begins."""

    def get_mark(self) -> _Mark:
        mark = self._last
        if mark is None or mark.index != self.index:
            mark = self._last = _Mark(self)
        return mark

    def forward(self, length: int = 1) -> None:
        end = self.pointer + length
        if end >= len(self.buffer) or _NOT_A_COLUMN.search(self.buffer, self.pointer, end):
            super().forward(length)
        else:
            self.forward_in_line(length)

    def forward_in_line(self, length: int) -> None:
        """Go forward over characters that take one column each."""
        self.pointer += length
        self.index += length
        self.column += length


class _Parser(Parser):
    @cached_property
    def scanner(self) -> Any:
        return self.loader.scanner

    def parse_node(self, block: bool = False, indentless_sequence: bool = False) -> Any:
        token = self.scanner.peek_token()
        if not isinstance(token, ScalarToken):
            return super().parse_node(block, indentless_sequence)
        self.scanner.get_token()
        self.state = self.states.pop()
        return ScalarEvent(
            None, None, (token.plain, not token.plain), token.value,
            token.start_mark, token.end_mark, style=token.style, comment=token.comment,
        )  # fmt: skip


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
            while self.need_more_tokens():
                self.fetch_more_tokens()
            self._is_ready = bool(self.tokens)
        return bool(self.tokens) and (not choices or isinstance(self.tokens[0], choices))

    def get_token(self) -> Any:
        if not self.check_token():
            return None
        self._is_ready = False
        self.tokens_taken += 1
        return self.tokens.pop(0)

    def peek_token(self) -> Any:
        return self.tokens[0] if self._is_ready or self.check_token() else None

    def need_more_tokens(self) -> bool:
        if self.done or not self.tokens:
            return not self.done
        if not self.possible_simple_keys:
            return False
        self.stale_possible_simple_keys()
        # The first is the oldest: no level has a key while another is saved above it.
        oldest = next(iter(self.possible_simple_keys.values()), None)
        return oldest is not None and oldest.token_number == self.tokens_taken

    def fetch_more_tokens(self) -> Any:
        self.scan_to_next_token()
        self.stale_possible_simple_keys()
        reader = self.reader
        if not self.flow_level and self.indent > reader.column:
            self.unwind_indent(reader.column)
        character = reader.buffer[reader.pointer]
        if character.isalnum():
            return self.fetch_plain()
        if character == ":" and self.check_value():
            return self.fetch_value()
        fetch = _FETCHES.get(character)
        return fetch(self) if fetch else super().fetch_more_tokens()

    def scan_to_next_token(self) -> Any:
        reader = self.reader
        blanks = _BLANKS.match(reader.buffer, reader.pointer)
        if blanks is None:
            return super().scan_to_next_token()
        if length := blanks.end() - reader.pointer:
            reader.forward_in_line(length)
        return None

    def stale_possible_simple_keys(self) -> None:
        line, oldest = self.reader.line, self.reader.index - _LONGEST_KEY
        for key in self.possible_simple_keys.values():
            if key.line != line or key.index < oldest:
                super().stale_possible_simple_keys()
                return

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
        reader.forward_in_line(len(found[0]))
        return ScalarToken(found[0], True, start, reader.get_mark())

    def scan_flow_scalar(self, style: Any) -> Any:
        reader = self.reader
        found = _QUOTED.match(reader.buffer, reader.pointer)
        if found is None:
            return super().scan_flow_scalar(style)
        start = reader.get_mark()
        reader.forward_in_line(len(found[0]))
        return ScalarToken(found[0][1:-1], False, start, reader.get_mark(), style)

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


_FETCHES: dict[str, Callable[[_Scanner], Any]] = {
    "[": _Scanner.fetch_flow_sequence_start,
    "{": _Scanner.fetch_flow_mapping_start,
    "]": _Scanner.fetch_flow_sequence_end,
    "}": _Scanner.fetch_flow_mapping_end,
    ",": _Scanner.fetch_flow_entry,
    "'": _Scanner.fetch_single,
    '"': _Scanner.fetch_double,
}
"""What a character begins wherever a token can begin."""
