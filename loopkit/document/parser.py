"""The parser: YAML text → a document, with every mistake of it.

It is ruamel's in pure Python, because the C parser crashes on deep nesting. The tree is built from
its events, because ruamel's trees lose the places of aliases, let a few grow without bounds, and
are lost at the first error. Slips that are valid YAML are found too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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
from ruamel.yaml.scanner import Scanner, ScannerError

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
_CLOSERS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_NAME_AND_VALUE = re.compile(rf"([a-z_][a-z0-9_]*):(?!//|{ODD_BLANK})(\S+)")
TOO_DEEP = "brackets are nested too deep"
_ValueEvent = ScalarEvent | CollectionStartEvent
_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_ANCHOR = re.compile(r"&[^ \t\r\n,\[\]{}]*(?:[ \t\r\n]|#[^\r\n]*)*")
_ODD_BLANK = re.compile(rf"^(?:-|\w+ *:)?({ODD_BLANK})|({ODD_BLANK})\Z", re.ASCII)
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
# Stands for the key `<<`; no text of a file can be equal to it.
_MERGE = "\0<<"


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
        self._anchors: dict[str, Node | None] = {}
        """None while the value is read."""
        self._values = 0

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
        if root.is_unwritten:
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
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, start, end, level)
        if event.ctag is not None:
            self._note("tag", self.source.span(start, start + 1))
        if event.anchor is None:
            return self._content(event, start, level)
        if found := _ANCHOR.match(self.source.text, start):
            start = min(found.end(), end) if isinstance(event, ScalarEvent) else found.end()
        self._anchors[event.anchor] = None
        node = self._content(event, start, level)
        # An anchor of the same name inside is the later one.
        self._anchors[event.anchor] = self._anchors[event.anchor] or node
        return node

    def _alias(self, name: str, start: int, end: int, level: int) -> Node:
        self.end = end
        place = self.source.span(start, end)
        if target := self._anchors.get(name):
            values, levels = _extent(target)
            self._count(values, start, end)
            self._descend(level + levels - 1, start)
            return target.replace(used_at=place)
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
        is_list = isinstance(event, SequenceStartEvent)
        value = self._items(event, level) if is_list else self._fields(event, level)
        if event.flow_style and opens_template(self.source, start):
            # The mapping that YAML reads from the braces is not a second mistake.
            self.problems[known:] = [unquoted_template(self.source, start)]
        span = self.source.span(start, max(start, self.end))
        return Node(span, value, None, "flow" if event.flow_style else "block")

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
                self._add(odd_blank(self.source.span(at, at + 1), found[1] or found[2]))
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

    def _nodes(self, event: CollectionStartEvent, level: int) -> Iterator[Node]:
        """The items of a list, or the keys and values of a mapping in turn."""
        while not isinstance(following := next(self._events), CollectionEndEvent):
            yield self._node(following, level + 1)
        if event.flow_style:
            self.end = max(self.end, following.end_mark.index)

    def _items(self, event: CollectionStartEvent, level: int) -> tuple[Node, ...]:
        items: list[Node] = []
        torn: Node | None = None
        for item in self._nodes(event, level):
            items.append(item)
            if event.flow_style and _has_odd_quote(item):
                if torn is not None:
                    self._add(_torn_text(torn))
                torn = item if torn is None else None
        return tuple(items)

    def _fields(self, event: CollectionStartEvent, level: int) -> Mapping[str, Entry]:
        """The fields in the order of the file.

        `<<: *a` and `<<: [*a, *b]` put fields where they stand; the mapping's own fields win over
        those, wherever they are written, and of two of one name that are merged in, the first.
        """
        fields: dict[str, Entry] = {}
        own: dict[str, Span] = {}
        before: Node | None = None
        known = len(self.problems)
        nodes = self._nodes(event, level)
        for key, value in zip(nodes, nodes, strict=True):
            if event.flow_style and key.style == "plain" and value.is_unwritten:
                self._add_slip(key, before, known)
            before = value
            place = key.used_at or key.span
            name = _MERGE if key.style == "plain" and key.raw == "<<" else key.value
            if not isinstance(name, str):
                quoted = f'write it in quotes: `"{short(key.raw)}"`'
                remedy = quoted if key.raw else "write `name: value`"
                self._note("non-text-key", place, kind=kind_of(key), remedy=remedy)
            elif name in own:
                twice = mistake("duplicate-key", place, name=short(key.raw))
                self._add(twice.replace(also=(("first written here", own[name]),)))
            else:
                own[name] = place
                if name == _MERGE:
                    self._merge(fields, value)
                else:
                    fields[name] = Entry(place, value)
        return MappingProxyType(fields)

    def _merge(self, fields: dict[str, Entry], merged: Node) -> None:
        for node in merged.value if isinstance(merged.value, tuple) else (merged,):
            use = node.used_at or merged.used_at
            if not isinstance(node.value, Mapping):
                place = node.used_at or node.span
                self._note("merge-not-mapping", place, kind=kind_of(node))
                continue
            for name, its in node.value.items():
                moved = its.node.replace(used_at=use or its.node.used_at)
                fields.setdefault(name, Entry(its.key, moved))

    def _add_slip(self, key: Node, before: Node | None, known: int) -> None:
        """The slip in `{...}` that left a key without a value: a text that a comma cuts, `a:b`."""
        is_torn = any(problem.code == "unquoted-comma" for problem in self.problems[known:])
        if before is not None and _has_odd_quote(before):
            self._add(_torn_text(before))
        elif (found := _NAME_AND_VALUE.fullmatch(key.raw)) and not is_torn:
            self._add(missing_space(found, key.span))
        elif key.raw.endswith(":"):
            # In `name:,` and `name:}` the colon counts as a part of the name.
            message = "neither a space nor a value stands behind the colon"
            self._add(Problem("missing-space", message, key.span, help=f"write `{key.raw} …`"))

    def _note(self, code: str, place: Span, **words: str) -> None:
        self._add(mistake(code, place, **words))

    def _add(self, problem: Problem) -> None:
        self.problems.append(problem)
        if len(self.problems) > MAX_PROBLEMS:
            place = self.source.span(self.end, self.end + 1)
            reported = self.problems[:MAX_PROBLEMS]
            raise ProblemsFound([*reported, mistake("too-many-problems", place)])

    def _count(self, values: int, start: int, end: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            place = self.source.span(start, end)
            raise ProblemsFound([*self.problems, mistake("too-many-values", place)])

    def _descend(self, level: int, start: int) -> None:
        if level > MAX_LEVELS:
            place = self.source.span(start, start + 1)
            raise ProblemsFound([*self.problems, mistake("too-deep", place)])


def _offsets(event: Event) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


def _extent(node: Node) -> tuple[int, int]:
    """The number of keys and values in a node, itself included, and of its levels."""
    if isinstance(node.value, Mapping):
        inner, keys = [_extent(entry.node) for entry in node.value.values()], len(node.value)
    elif isinstance(node.value, tuple):
        inner, keys = [_extent(item) for item in node.value], 0
    else:
        return 1, 0
    return 1 + keys + sum(n for n, _ in inner), 1 + max((depth for _, depth in inner), default=0)


def kind_of(node: Node) -> str:
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(node.value), "nothing")


def opens_template(source: SourceText, offset: int) -> bool:
    return source.text.startswith(tuple(_CLOSERS), offset)


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


def _has_odd_quote(node: Node) -> bool:
    return node.style == "plain" and node.used_at is None and node.raw.count('"') % 2 == 1


def _torn_text(node: Node) -> Problem:
    message = "the comma behind it ends this text, although a quote in it is open"
    remedy = "put the whole text in single quotes"
    return Problem("unquoted-comma", message, node.span, help=remedy)


class ParserGaveUp(Exception):
    """The parser's exception, whatever its type, with the places that it knows."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.reason, self.context = str(error), ""
        self.at: int | None = None
        self.opened: int | None = None
        if isinstance(error, MarkedYAMLError):
            self.reason, self.context = str(error.problem), str(error.context or "")
            self.at = error.problem_mark and error.problem_mark.index
            self.opened = error.context_mark and error.context_mark.index


def events(text: str) -> Iterator[Any]:
    """The events of a text; raises ParserGaveUp where they end early."""
    # Without `plug_ins` the parser searches the disk for its extensions each time.
    yaml = YAML(typ="safe", pure=True, plug_ins=[])
    yaml.Scanner = _Scanner
    try:
        yield from yaml.parse(text)
    except Exception as error:
        # Beside its own errors the parser lets out those of `chr` and `int`.
        raise ParserGaveUp(error) from error


_PLAIN_QUESTION = re.compile(r"\?[^ \t\r\n\0\x85\u2028\u2029\ufeff,\[\]{}]")


class _Scanner(Scanner):
    """Reads a question mark as the beginning of a text; ruamel drops it in a flow collection."""

    scanner_processing_version = (1, 2)

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        if self.flow_level >= MAX_LEVELS:
            raise ScannerError(None, None, TOO_DEEP, self.reader.get_mark())
        super().fetch_flow_collection_start(TokenClass, to_push)

    def check_key(self) -> Any:
        return bool(super().check_key()) and not self._is_plain_question()

    def check_plain(self) -> Any:
        return super().check_plain() or self._is_plain_question()

    def _is_plain_question(self) -> bool:
        return bool(_PLAIN_QUESTION.match(self.reader.buffer, self.reader.pointer))
