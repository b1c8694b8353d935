"""The parser: YAML text → a document, with every mistake of it.

It is ruamel's in pure Python, because the C parser crashes on deep nesting, made faster. Its events
stay the same. The tree is built from them, because ruamel's trees lose the places of aliases, let
a few grow without bounds, and are lost at the first error. Slips that are valid YAML are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    ScalarEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.parser import Parser
from ruamel.yaml.reader import Reader
from ruamel.yaml.scanner import Scanner, ScannerError
from ruamel.yaml.tokens import ScalarToken

from loopkit.document.document import Entry, Node, Scalar, Style, UnusableNumber, resolve
from loopkit.document.problems import (
    MAX_LEVELS,
    MAX_PROBLEMS,
    MAX_VALUES,
    ODD_BLANK,
    Problem,
    ProblemsFound,
    Span,
    did_you_mean,
    mistake,
    odd_blank,
    short,
)
from loopkit.document.text import SourceText, describe

QUOTE_IT = "put the whole text in quotes, or on the lines below `key: |`"
_OPENERS = ("{{", "{%", "{#")
_CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_NAME_AND_VALUE = re.compile(rf"([a-z_][a-z0-9_]*):(?!//|{ODD_BLANK})(\S+)")
TOO_DEEP = "brackets are nested too deep"
_ValueEvent = ScalarEvent | CollectionStartEvent
_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_PROPERTIES = re.compile(
    r"(?:[&!][^ \t\r\n,\[\]{}]*[ \t\r\n]*(?:(?<=[ \t\r\n])#[^\r\n]*[ \t\r\n]*)*)*"
)
_ODD_BLANK = re.compile(rf"^(?:-|\w+ *:)?({ODD_BLANK})|({ODD_BLANK})\Z", re.ASCII)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class Builder:
    """Builds the tree of one text, and collects its mistakes on the way."""

    def __init__(self, source: SourceText) -> None:
        self.problems: list[Problem] = []
        self.end = 0
        """The offset behind the last value read."""
        self.quoted: tuple[int, int] | None = None
        """The last quoted text read, with its quotes."""
        self.source = source
        self._events: Iterator[Any] = events(source.text)
        self._anchors: dict[str, tuple[Node, int, int] | None] = {}
        """Each with its size and depth, aliases expanded; None while it is read."""
        self._values = 0
        self._deepest = 0

    def document(self) -> Node:
        """The root. If it is unusable, `problems` has the reason."""
        next(self._events)
        if isinstance(next(self._events), StreamEndEvent):
            return self._empty()
        root = self._node(next(self._events), 1)
        next(self._events)
        following = next(self._events)
        if isinstance(following, DocumentStartEvent):
            self._note("several-documents", self.source.span(*_offsets(following)))
        if root.value is None and not root.raw:
            return self._empty()
        if not isinstance(root.value, Mapping) and not self.problems:
            self._note("not-a-mapping", root.span, kind=kind_of(root))
        return root

    def _empty(self) -> Node:
        place = self.source.span(0, 0)
        self._note("empty-file", place)
        return Node(place, None, None, "plain")

    def _node(self, event: AliasEvent | _ValueEvent, level: int) -> Node:
        """The value that begins with `event`; a collection there is on `level`."""
        start, end = _offsets(event)
        self._count(1, start, end)
        self._refuse_more(self.problems)
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, start, end, level)
        if event.ctag is not None:
            self._note("tag", self.source.span(start, start + 1))
        if event.ctag is not None or event.anchor is not None:
            start = self._behind_properties(event, start)
        if event.anchor is None:
            return self._content(event, start, level)
        return self._anchor(event, start, level)

    def _behind_properties(self, event: _ValueEvent, start: int) -> int:
        found = _PROPERTIES.match(self.source.text, start)
        behind = found.end() if found else start
        return min(behind, event.end_mark.index) if isinstance(event, ScalarEvent) else behind

    def _anchor(self, event: _ValueEvent, start: int, level: int) -> Node:
        self._anchors[event.anchor] = None
        values, deepest = self._values, self._deepest
        self._deepest = level - 1
        node = self._content(event, start, level)
        # An anchor of the same name inside is the later one.
        if self._anchors[event.anchor] is None:
            size = self._values - values + 1
            levels = self._deepest - level + 1
            self._anchors[event.anchor] = node, size, levels
        self._deepest = max(self._deepest, deepest)
        return node

    def _alias(self, name: str, start: int, end: int, level: int) -> Node:
        self.end = end
        place = self.source.span(start, end)
        if target := self._anchors.get(name):
            node, values, levels = target
            self._count(values, start, end)
            self._descend(level + levels - 1, start)
            return node.replace(used_at=place)
        if name in self._anchors:
            self._note("recursive-alias", place, name=short(name))
        else:
            near = did_you_mean(name, self._anchors)
            near = f"{near}; " if near else ""
            self._note("unknown-alias", place, name=short(name), near=near)
        return Node(place, MappingProxyType({}), None, "flow")

    def _content(self, event: _ValueEvent, start: int, level: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, start)
        self._descend(level, start)
        known = len(self.problems)
        node = self._collection(event, start, level)
        if event.flow_style and opens_template(self.source, start):
            # The mapping that YAML reads from the braces is not a second mistake.
            self.problems[known:] = [unquoted_template(self.source, start)]
        return node

    def _scalar(self, event: ScalarEvent, start: int) -> Node:
        text = event.value
        style = _STYLES.get(event.style, "plain")
        end = max(start, event.end_mark.index)
        if style in {"literal", "folded"}:
            end = start + len(self.source.text[start:end].rstrip())
        elif style != "plain":
            self.quoted = (start, end)
        self.end = end
        span = self.source.span(start, end)
        if style == "plain":
            # Nobody sees them at the ends of a text, or behind what was meant as a key.
            if not text.isascii() and (found := _ODD_BLANK.search(text)):
                at = start + found.start(1) if found[1] else end - 1
                self.problems.append(odd_blank(self.source.span(at, at + 1), found[1] or found[2]))
            return Node(span, self._resolve(text, span), None, style, text)
        if style == "double":
            # Escaped surrogate pairs are joined, as in JSON.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            if found := _UNUSABLE.search(text):
                self._note("forbidden-character", span, character=describe(found.group()))
        return Node(span, text, None, style, text)

    def _resolve(self, text: str, span: Span) -> Scalar:
        try:
            return resolve(text)
        except UnusableNumber as error:
            self._note("unusable-number", span, raw=short(text), reason=str(error))
            return text

    def _collection(self, event: CollectionStartEvent, start: int, level: int) -> Node:
        items: list[Node] = []
        for_each = 1 if isinstance(event, SequenceStartEvent) else 2
        while not isinstance(following := next(self._events), CollectionEndEvent):
            items.append(self._node(following, level + 1))
            count, half = divmod(len(items), for_each)
            # At 64, 128, 256, …: so looking costs no more than a second reading.
            if not half and count >= MAX_PROBLEMS and count & (count - 1) == 0:
                self._refuse_more([*self.problems, *_contents(event, items)[1]])
        value, problems = _contents(event, items)
        self.problems += problems
        if event.flow_style:
            self.end = max(self.end, following.end_mark.index)
        span = self.source.span(start, max(start, self.end))
        return Node(span, value, None, "flow" if event.flow_style else "block")

    def _note(self, code: str, place: Span, **words: str) -> None:
        self.problems.append(mistake(code, place, **words))

    def _count(self, values: int, start: int, end: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            place = self.source.span(start, end)
            raise ProblemsFound([*self.problems, mistake("too-many-values", place)])

    def _descend(self, level: int, start: int) -> None:
        self._deepest = max(self._deepest, level)
        if level > MAX_LEVELS:
            place = self.source.span(start, start + 1)
            raise ProblemsFound([*self.problems, mistake("too-deep", place)])

    def _refuse_more(self, problems: list[Problem]) -> None:
        if len(problems) > MAX_PROBLEMS:
            place = self.source.span(self.end, self.end + 1)
            reported = problems[:MAX_PROBLEMS]
            raise ProblemsFound([*reported, mistake("too-many-problems", place)])


def _contents(
    event: CollectionStartEvent, items: list[Node]
) -> tuple[tuple[Node, ...] | Mapping[str, Entry], list[Problem]]:
    if isinstance(event, SequenceStartEvent):
        return tuple(items), list(in_flow_sequence(items)) if event.flow_style else []
    pairs = list(zip(items[::2], items[1::2], strict=True))
    fields, problems = fields_of(pairs)
    slips = in_flow_mapping(pairs) if event.flow_style else ()
    return MappingProxyType(fields), [*slips, *problems]


def _offsets(event: Event) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


# Stands for the key `<<`; no text of a file can be equal to it.
_MERGE = "\0<<"


def fields_of(pairs: Sequence[tuple[Node, Node]]) -> tuple[dict[str, Entry], list[Problem]]:
    """The fields in the order of the file, and their mistakes.

    `<<: *a` and `<<: [*a, *b]` put fields where they stand; the mapping's own fields win over
    those, wherever they are written, and of two of one name that are merged in, the first.
    """
    own, problems = _own_fields(pairs)
    merge = own[_MERGE].node if _MERGE in own else None
    if merge is None:
        return own, problems
    fields: dict[str, Entry] = {}
    for name, entry in own.items():
        if name != _MERGE:
            fields.setdefault(name, entry)
            continue
        for node in merge.value if isinstance(merge.value, tuple) else (merge,):
            use = node.used_at or merge.used_at
            if not isinstance(node.value, Mapping):
                place = node.used_at or node.span
                problems.append(mistake("merge-not-mapping", place, kind=kind_of(node)))
                continue
            for merged, its in node.value.items():
                moved = its.node.replace(used_at=use or its.node.used_at)
                fields.setdefault(merged, own.get(merged, Entry(its.key, moved)))
    return fields, problems


def _own_fields(pairs: Sequence[tuple[Node, Node]]) -> tuple[dict[str, Entry], list[Problem]]:
    own: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, value in pairs:
        place = key.used_at or key.span
        name = _MERGE if key.style == "plain" and key.raw == "<<" else key.value
        if not isinstance(name, str):
            remedy = (
                f'write it in quotes: `"{short(key.raw)}"`' if key.raw else "write `name: value`"
            )
            problems.append(mistake("non-text-key", place, kind=kind_of(key), remedy=remedy))
        elif name in own:
            first = ("first written here", own[name].key)
            twice = mistake("duplicate-key", place, name=short(key.raw))
            problems.append(twice.replace(also=(first,)))
        else:
            own[name] = Entry(place, value)
    return own, problems


def kind_of(node: Node) -> str:
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(node.value), "nothing")


def opens_template(source: SourceText, offset: int) -> bool:
    return source.text.startswith(_OPENERS, offset)


def unquoted_template(source: SourceText, offset: int) -> Problem:
    opener = source.text[offset : offset + 2]
    start, line = source.line_around(offset)
    closed = line.find(_CLOSERS[opener], offset - start)
    end = start + (len(line.rstrip()) if closed < 0 else closed + 2)
    message = f"`{opener}` without quotes starts a YAML mapping, not a template"
    return Problem("unquoted-template", message, source.span(offset, end), help=QUOTE_IT)


def missing_space(found: re.Match[str], span: Span) -> Problem:
    """The problem of `name:value`, with a group for each."""
    message = "a space is missing after the colon"
    remedy = f"write `{found[1]}: {found[2].strip()}`"
    return Problem("missing-space", message, span, help=remedy)


def in_flow_mapping(pairs: Sequence[tuple[Node, Node]]) -> Iterator[Problem]:
    """The slips in `{...}`: text that a comma cuts, `key:value`."""
    torn = False
    for number, (key, value) in enumerate(pairs):
        bare = value.is_unwritten
        found = _NAME_AND_VALUE.fullmatch(key.raw) if bare and key.style == "plain" else None
        if bare and number and _odd_quotes(pairs[number - 1][1]):
            torn = True
            yield _torn_text(pairs[number - 1][1])
        elif found and not torn:
            yield missing_space(found, key.span)
        elif bare and key.style == "plain" and key.raw.endswith(":"):
            # In `name:,` and `name:}` the colon counts as a part of the name.
            message = "neither a space nor a value stands behind the colon"
            yield Problem("missing-space", message, key.span, help=f"write `{key.raw} …`")


def in_flow_sequence(items: Sequence[Node]) -> Iterator[Problem]:
    """The slips in `[...]`: quoted text that a comma cuts."""
    odd = [item for item in items if _odd_quotes(item)]
    for first, _ in zip(odd[::2], odd[1::2], strict=False):
        yield _torn_text(first)


def _odd_quotes(node: Node) -> bool:
    return node.style == "plain" and node.used_at is None and node.raw.count('"') % 2 == 1


def _torn_text(node: Node) -> Problem:
    message = "the comma behind it ends this text, although a quote in it is open"
    remedy = "put the whole text in single quotes"
    return Problem("unquoted-comma", message, node.span, help=remedy)


_LONG_NAME = re.compile(r"[^ \t\r\n,\[\]{}]{200}")
_WORDS = re.compile(r"[\w./-]++(?: +[\w./-]+)*(?=([,\]}])|:[ \n])", re.ASCII)
"""A key, or a value of a flow collection: words in one line, and what ends them.

Before Python 3.11.5 a possessive group keeps the blanks of a word that does not follow.
"""
_QUOTED = re.compile(
    r"'[^'\0\r\n\x85\u2028\u2029\ufeff]*+'(?!')"
    r'|"[^"\\\0\r\n\x85\u2028\u2029\ufeff]*+"'
)
"""A quoted text in one line, without escapes."""
_PLAIN_QUESTION = re.compile(r"\?[^ \t\r\n\0\x85\u2028\u2029\ufeff,\[\]{}]")


class ParserGaveUp(Exception):
    """The parser's exception, whatever its type, with the places that it knows."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.reason, self.context = str(error), ""
        self.at: int | None = None
        self.opened: int | None = None
        if isinstance(error, MarkedYAMLError):
            self.reason = str(error.problem or error.context)
            self.context = str(error.context or "")
            mark = error.problem_mark or error.context_mark
            opened = error.context_mark
            self.at = mark and mark.index
            self.opened = opened and opened.index


def events(text: str) -> Iterator[Any]:
    """The events of a text; raises ParserGaveUp where they end early."""
    # Without `plug_ins` the parser searches the disk for its extensions each time.
    yaml = YAML(typ="safe", pure=True, plug_ins=[])
    yaml.Reader = _Reader
    yaml.Scanner = _Scanner
    yaml.Parser = _Parser
    try:
        yield from yaml.parse(text)
    except Exception as error:
        # Beside its own errors the parser lets out those of `chr` and `int`.
        raise ParserGaveUp(error) from error


class _Reader(Reader):
    def forward(self, length: int = 1) -> None:
        """Go forward; over characters that take one column each in one step."""
        if self.buffer[self.pointer : self.pointer + length].isprintable():
            self.pointer += length
            self.index += length
            self.column += length
        else:
            super().forward(length)


class _Parser(Parser):
    @cached_property
    def scanner(self) -> Any:
        return self.loader.scanner


class _Scanner(Scanner):
    """Refuses what costs the square of its size: open brackets, and names of anchors and tags."""

    scanner_processing_version = (1, 2)
    _is_ready = False
    """Whether the next token is known, until it is taken."""

    def check_token(self, *choices: Any) -> bool:
        token = self.peek_token()
        return token is not None and (not choices or isinstance(token, choices))

    def get_token(self) -> Any:
        if (token := self.peek_token()) is not None:
            self._is_ready = False
            self.tokens_taken += 1
            del self.tokens[0]
        return token

    def peek_token(self) -> Any:
        if not self._is_ready:
            while self.need_more_tokens():
                self.fetch_more_tokens()
            self._is_ready = bool(self.tokens)
        return self.tokens[0] if self.tokens else None

    def check_key(self) -> Any:
        return bool(super().check_key()) and not self._is_plain_question()

    def check_plain(self) -> Any:
        return super().check_plain() or self._is_plain_question()

    def _is_plain_question(self) -> bool:
        """Whether a question mark begins a text: ruamel drops it in a flow collection."""
        return bool(_PLAIN_QUESTION.match(self.reader.buffer, self.reader.pointer))

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        if self.flow_level >= MAX_LEVELS:
            raise ScannerError(None, None, TOO_DEEP, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)

    def scan_plain(self) -> Any:
        found = _WORDS.match(self.reader.buffer, self.reader.pointer)
        if found is None or (found[1] and not self.flow_level):
            return super().scan_plain()
        return self._text_in_line(found[0], found[0], None)

    def scan_flow_scalar(self, style: Any) -> Any:
        found = _QUOTED.match(self.reader.buffer, self.reader.pointer)
        if found is None:
            return super().scan_flow_scalar(style)
        return self._text_in_line(found[0], found[0][1:-1], style)

    def _text_in_line(self, written: str, text: str, style: str | None) -> ScalarToken:
        start = self.reader.get_mark()
        self.reader.forward(len(written))
        return ScalarToken(text, style is None, start, self.reader.get_mark(), style)

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
