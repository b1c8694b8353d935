"""The parser: YAML text → a document, with every mistake of it.

It is ruamel's in pure Python, because the C parser crashes the process on deep nesting, without
some of its waste: that recomputes known facts for every question about a token, and checks the
context for each character of a word. Its events stay the same. The tree is built here from them,
because the parser's own trees lose tags and aliases, and let a few aliases grow without bounds.
Slips of authors that are valid YAML of another meaning are found on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    ScalarEvent,
    SequenceEndEvent,
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
    Problem,
    ProblemsFound,
    Span,
    did_you_mean,
    mistake,
    odd_blank,
    short,
)
from loopkit.document.text import SourceText, describe
from loopkit.values import Value

QUOTE_IT = "put the whole text in quotes, or on the lines below `key: |`"
_OPENERS = ("{{", "{%", "{#")
_CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_NAME_AND_VALUE = re.compile(r"([a-z_][a-z0-9_]*):(?!//)(\S+)")
TOO_DEEP = "brackets are nested too deep"
"""The reason when the parser was stopped because of that."""
_ValueEvent = ScalarEvent | CollectionStartEvent
_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_PROPERTIES = re.compile(
    r"(?:[&!][^ \t\r\n,\[\]{}]*[ \t\r\n]*(?:(?<=[ \t\r\n])#[^\r\n]*[ \t\r\n]*)*)*"
)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


class _Anchored(Value, frozen=True):
    """The value of an anchor, with its size and depth after its aliases are expanded."""

    node: Node
    values: int
    levels: int


class _Unfinished:
    """Stands for what an anchor names while that is still being read."""


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
        self._anchors: dict[str, _Anchored | _Unfinished] = {}
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
            place = self.source.span(*_offsets(following))
            self.problems.append(mistake("several-documents", place))
        if root.value is None and not root.raw:
            return self._empty()
        if not isinstance(root.value, Mapping):
            self.problems.append(mistake("not-a-mapping", root.span, kind=kind_of(root)))
        return root

    def _empty(self) -> Node:
        place = self.source.span(0, 0)
        self.problems.append(mistake("empty-file", place))
        return Node(place, None, None, "plain")

    def _node(self, event: AliasEvent | _ValueEvent, level: int) -> Node:
        """The value that begins with `event`; a collection there is on `level`."""
        start, end = _offsets(event)
        self._count(1, start, end)
        self._refuse_more(self.problems)
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, start, end, level)
        if event.ctag is not None:
            self.problems.append(mistake("tag", self.source.span(start, start + 1)))
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
        mark = self._anchors[event.anchor] = _Unfinished()
        values, deepest = self._values, self._deepest
        self._deepest = level - 1
        node = self._content(event, start, level)
        # An anchor of the same name inside is the later one.
        if self._anchors[event.anchor] is mark:
            size = self._values - values + 1
            levels = self._deepest - level + 1
            self._anchors[event.anchor] = _Anchored(node, size, levels)
        self._deepest = max(self._deepest, deepest)
        return node

    def _alias(self, name: str, start: int, end: int, level: int) -> Node:
        self.end = end
        place = self.source.span(start, end)
        target = self._anchors.get(name)
        if isinstance(target, _Anchored):
            self._count(target.values, start, end)
            self._descend(level + target.levels - 1, start)
            return target.node.replace(used_at=place)
        if target is None:
            near = did_you_mean(name, self._anchors)
            near = f"{near}; " if near else ""
            self.problems.append(mistake("unknown-alias", place, name=short(name), near=near))
        else:
            self.problems.append(mistake("recursive-alias", place, name=short(name)))
        return Node(place, MappingProxyType({}), None, "flow")

    def _content(self, event: _ValueEvent, start: int, level: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, start)
        self._descend(level, start)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, start, level)
        if event.flow_style and opens_template(self.source, start):
            return self._template(event, start, level)
        return self._mapping(event, start, level)

    def _scalar(self, event: ScalarEvent, start: int) -> Node:
        style = _STYLES.get(event.style, "plain")
        end = max(start, event.end_mark.index)
        if style in {"literal", "folded"}:
            end = start + len(self.source.text[start:end].rstrip())
        self.end = end
        span = self.source.span(start, end)
        if style == "plain":
            return Node(span, self._resolve(event.value, span), None, style, event.value)
        if style in {"single", "double"}:
            self.quoted = (start, end)
        text = self._unescape(event.value, span) if style == "double" else event.value
        return Node(span, text, None, style, text)

    def _resolve(self, text: str, span: Span) -> Scalar:
        try:
            return resolve(text)
        except UnusableNumber as error:
            reason = str(error)
            self.problems.append(mistake("unusable-number", span, raw=short(text), reason=reason))
            return text

    def _unescape(self, text: str, span: Span) -> str:
        """The text with its escaped surrogate pairs joined, as in JSON."""
        joined = _PAIR.sub(
            lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
        )
        if found := _UNUSABLE.search(joined):
            self.problems.append(
                mistake("forbidden-character", span, character=describe(found.group()))
            )
        return joined

    def _sequence(self, event: SequenceStartEvent, start: int, level: int) -> Node:
        items: list[Node] = []
        while not isinstance(item := next(self._events), SequenceEndEvent):
            items.append(self._node(item, level + 1))
            if _is_stage(len(items)):
                self._refuse_more([*self.problems, *_slips(event, items)])
        self.problems += _slips(event, items)
        return self._collection(event, start, item, tuple(items))

    def _mapping(self, event: CollectionStartEvent, start: int, level: int) -> Node:
        pairs: list[tuple[Node, Node]] = []
        while not isinstance(key := next(self._events), MappingEndEvent):
            pairs.append((self._node(key, level + 1), self._node(next(self._events), level + 1)))
            if _is_stage(len(pairs)):
                self._refuse_more([*self.problems, *_fields(event, pairs)[1]])
        fields, problems = _fields(event, pairs)
        self.problems += problems
        return self._collection(event, start, key, MappingProxyType(fields))

    def _template(self, event: CollectionStartEvent, start: int, level: int) -> Node:
        # The mapping that YAML reads from the braces is not a second mistake.
        known = len(self.problems)
        node = self._mapping(event, start, level)
        self.problems[known:] = [unquoted_template(self.source, start)]
        return node

    def _collection(
        self,
        event: CollectionStartEvent,
        start: int,
        last: Event,
        value: tuple[Node, ...] | Mapping[str, Entry],
    ) -> Node:
        if event.flow_style:
            self.end = max(self.end, last.end_mark.index)
        span = self.source.span(start, max(start, self.end))
        return Node(span, value, None, "flow" if event.flow_style else "block")

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
        """Stop after so many mistakes that the rest of the file tells nothing new."""
        if len(problems) > MAX_PROBLEMS:
            place = self.source.span(self.end, self.end + 1)
            reported = problems[:MAX_PROBLEMS]
            raise ProblemsFound([*reported, mistake("too-many-problems", place)])


def _is_stage(count: int) -> bool:
    """Whether so many items are worth a look before the collection ends: 64, 128, 256, …

    So looking costs no more than a second reading, however long the collection is.
    """
    return count >= MAX_PROBLEMS and count & (count - 1) == 0


def _slips(event: CollectionStartEvent, items: list[Node]) -> Iterable[Problem]:
    return in_flow_sequence(items) if event.flow_style else ()


def _fields(
    event: CollectionStartEvent, pairs: list[tuple[Node, Node]]
) -> tuple[dict[str, Entry], list[Problem]]:
    fields, problems = fields_of(pairs)
    slipped = in_flow_mapping(pairs) if event.flow_style else ()
    return fields, [*slipped, *problems]


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
    if _MERGE not in own:
        return own, problems
    fields: dict[str, Entry] = {}
    for name, entry in own.items():
        found = _fields_of_merge(entry.node) if name == _MERGE else [(name, entry)]
        for merged, its in found:
            fields.setdefault(merged, own.get(merged, its))
    for node in _sources(own[_MERGE].node):
        if not isinstance(node.value, Mapping):
            place = node.used_at or node.span
            problems.append(mistake("merge-not-mapping", place, kind=kind_of(node)))
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
        # Nobody sees a no-break space, or its like, at the ends of a key.
        outer = key.raw.replace(key.raw.strip(), "", 1) if key.style == "plain" else ""
        if outer:
            problems.append(odd_blank(key.span, outer[0]))
    return own, problems


def _fields_of_merge(merged: Node) -> Iterator[tuple[str, Entry]]:
    """The fields of one mapping or of a list of them, each with the place of its use."""
    for node in _sources(merged):
        if isinstance(node.value, Mapping):
            use = node.used_at or merged.used_at
            for name, entry in node.value.items():
                yield name, Entry(entry.key, entry.node.replace(used_at=use or entry.node.used_at))


def _sources(merged: Node) -> tuple[Node, ...]:
    return merged.value if isinstance(merged.value, tuple) else (merged,)


def kind_of(node: Node) -> str:
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(node.value), "nothing")


def opens_template(source: SourceText, offset: int) -> bool:
    """Whether a template starts at `offset`, where YAML takes a brace for a mapping."""
    return source.text.startswith(_OPENERS, offset)


def unquoted_template(source: SourceText, offset: int) -> Problem:
    opener = source.text[offset : offset + 2]
    start, line = source.line_around(offset)
    closed = line.find(_CLOSERS[opener], offset - start)
    end = start + (len(line.rstrip()) if closed < 0 else closed + 2)
    message = f"`{opener}` without quotes starts a YAML mapping, not a template"
    return Problem("unquoted-template", message, source.span(offset, end), help=QUOTE_IT)


def missing_space(found: re.Match[str], span: Span) -> Problem:
    """The problem of `name:value`, found as such groups, which YAML takes for one text."""
    message = "a space is missing after the colon"
    remedy = f"write `{found[1]}: {found[2].strip()}`"
    return Problem("missing-space", message, span, help=remedy)


def in_flow_mapping(pairs: Sequence[tuple[Node, Node]]) -> Iterator[Problem]:
    """The slips in the fields of `{...}`: text that a comma cuts, `key:value`."""
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
    """The slips in the items of `[...]`: quoted text inside text that a comma cuts."""
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
"""A quoted text in one line in which every character stands for itself."""
_PLAIN_QUESTION = re.compile(r"\?[^ \t\r\n\0\x85\u2028\u2029\ufeff,\[\]{}]")


class ParserGaveUp(Exception):
    """The exception of the parser, whatever its type, with the places that it knows."""

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
        # Beside its own errors the parser lets out those of `chr` and `int`; whatever it is,
        # the author of the file gets a place and a reason.
        raise ParserGaveUp(error) from error


class _Reader(Reader):
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

    What the scanner reads ahead costs the square of the open brackets, and of the length of a tag.
    """

    _is_ready = False
    """Whether the next token is known; it stays the same until it is taken."""

    @cached_property
    def reader(self) -> Any:
        return self.loader.reader

    def reset_scanner(self) -> None:
        self._is_ready = False
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
