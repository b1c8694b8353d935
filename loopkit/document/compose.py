"""Events of the parser → a document.

The tree is built here, from events, because the parser's own trees lose tags and aliases, and
let a few aliases grow without bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

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

from loopkit.document import slips
from loopkit.document.document import Document, Entry, Node, Style
from loopkit.document.failure import Failure
from loopkit.document.fields import fields_of, kind_of
from loopkit.document.mistakes import (
    MAX_LEVELS,
    MAX_PROBLEMS,
    MAX_VALUES,
    mistake,
    short,
    unknown_alias,
)
from loopkit.document.parser import ParserGaveUp, events
from loopkit.document.problems import Problem, ProblemsFound, Span
from loopkit.document.scalars import Scalar, UnusableNumber, resolve
from loopkit.document.text import SourceText, describe
from loopkit.values import Value

_ValueEvent = ScalarEvent | CollectionStartEvent
_STYLES: dict[str | None, Style] = {"'": "single", '"': "double", "|": "literal", ">": "folded"}
_PROPERTIES = re.compile(
    r"(?:[&!][^ \t\r\n,\[\]{}]*[ \t\r\n]*(?:(?<=[ \t\r\n])#[^\r\n]*[ \t\r\n]*)*)*"
)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNUSABLE = re.compile("[\0\ud800-\udfff]")


def compose(source: SourceText) -> Document:
    """Return the document of the text; raises `ProblemsFound` with all mistakes."""
    builder = _Builder(source)
    try:
        root = builder.document()
    except ParserGaveUp as stop:
        from loopkit.document.syntax import explain  # noqa: PLC0415 - few files have such a mistake

        problem = explain(builder.failure(stop.error))
        raise ProblemsFound([*_elsewhere(problem, builder.problems), problem]) from stop
    if builder.problems:
        raise ProblemsFound(builder.problems)
    return Document(source.file, source.text, root)


def _elsewhere(problem: Problem, others: list[Problem]) -> list[Problem]:
    """Return the other problems, without those that start at the place of this one."""
    return [other for other in others if _start(other) != _start(problem)]


def _start(problem: Problem) -> tuple[int, int]:
    return (problem.span.line, problem.span.column) if problem.span else (0, 0)


class _Anchored(Value, frozen=True):
    """The value of an anchor, with its size and depth after its aliases are expanded."""

    node: Node
    values: int
    levels: int


class _Unfinished:
    """Stands for what an anchor names while that is still being read."""


class _Builder:
    """Builds the tree of one text, and collects its mistakes on the way."""

    def __init__(self, source: SourceText) -> None:
        self.problems: list[Problem] = []
        self.end = 0
        """The offset behind the last value read."""
        self.quoted: tuple[int, int] | None = None
        """The last quoted text read, with its quotes."""
        self._source = source
        self._events: Iterator[Any] = events(source.text)
        self._anchors: dict[str, _Anchored | _Unfinished] = {}
        self._values = 0
        self._deepest = 0

    def document(self) -> Node:
        """Return the root. If it is unusable, `problems` has the reason."""
        next(self._events)
        if isinstance(next(self._events), StreamEndEvent):
            return self._empty()
        root = self._node(next(self._events), 1)
        next(self._events)
        following = next(self._events)
        if isinstance(following, DocumentStartEvent):
            place = self._source.span(*_offsets(following))
            self.problems.append(mistake("several-documents", place))
        if root.value is None and not root.raw:
            return self._empty()
        if not isinstance(root.value, Mapping):
            self.problems.append(mistake("not-a-mapping", root.span, kind=kind_of(root)))
        return root

    def failure(self, error: Exception) -> Failure:
        """Return the failure that describes `error` of the parser."""
        if not isinstance(error, MarkedYAMLError):
            return Failure(self._source, str(error), self.end, "", None, self.end, self.quoted)
        mark, opened = error.problem_mark or error.context_mark, error.context_mark
        return Failure(
            self._source,
            reason=str(error.problem or error.context),
            at=mark.index if mark else self.end,
            context=str(error.context or ""),
            opened=opened.index if opened else None,
            read_to=self.end,
            quoted=self.quoted,
        )

    def _empty(self) -> Node:
        place = self._source.span(0, 0)
        self.problems.append(mistake("empty-file", place))
        return Node(place, None, None, "plain")

    def _node(self, event: AliasEvent | _ValueEvent, level: int) -> Node:
        """Return the value that begins with `event`; a collection there is on `level`."""
        start, end = _offsets(event)
        self._count(1, start, end)
        self._refuse_more(self.problems)
        if isinstance(event, AliasEvent):
            return self._alias(event.anchor, start, end, level)
        if event.ctag is not None:
            self.problems.append(mistake("tag", self._source.span(start, start + 1)))
        if event.ctag is not None or event.anchor is not None:
            start = self._behind_properties(event, start)
        if event.anchor is None:
            return self._content(event, start, level)
        return self._anchor(event, start, level)

    def _behind_properties(self, event: _ValueEvent, start: int) -> int:
        found = _PROPERTIES.match(self._source.text, start)
        behind = found.end() if found else start
        return min(behind, event.end_mark.index) if isinstance(event, ScalarEvent) else behind

    def _anchor(self, event: _ValueEvent, start: int, level: int) -> Node:
        mark = self._anchors[event.anchor] = _Unfinished()
        values, deepest = self._values, self._deepest
        self._deepest = level - 1
        node = self._content(event, start, level)
        # An anchor of the same name inside is the later one.
        if self._anchors[event.anchor] is mark:
            size, levels = self._values - values + 1, self._deepest - level + 1
            self._anchors[event.anchor] = _Anchored(node, size, levels)
        self._deepest = max(self._deepest, deepest)
        return node

    def _alias(self, name: str, start: int, end: int, level: int) -> Node:
        self.end = end
        place = self._source.span(start, end)
        target = self._anchors.get(name)
        if isinstance(target, _Anchored):
            self._count(target.values, start, end)
            self._descend(level + target.levels - 1, start)
            return target.node.replace(used_at=place)
        if target is None:
            self.problems.append(unknown_alias(place, name, self._anchors))
        else:
            self.problems.append(mistake("recursive-alias", place, name=short(name)))
        return Node(place, MappingProxyType({}), None, "flow")

    def _content(self, event: _ValueEvent, start: int, level: int) -> Node:
        if isinstance(event, ScalarEvent):
            return self._scalar(event, start)
        self._descend(level, start)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(event, start, level)
        if event.flow_style and slips.opens_template(self._source, start):
            return self._template(event, start, level)
        return self._mapping(event, start, level)

    def _scalar(self, event: ScalarEvent, start: int) -> Node:
        style = _STYLES.get(event.style, "plain")
        end = max(start, event.end_mark.index)
        if style in {"literal", "folded"}:
            end = start + len(self._source.text[start:end].rstrip())
        self.end = end
        span = self._source.span(start, end)
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
            self.problems.append(
                mistake("unusable-number", span, raw=short(text), reason=str(error))
            )
            return text

    def _unescape(self, text: str, span: Span) -> str:
        """Return the text with its escaped surrogate pairs joined, as in JSON."""
        joined = _PAIR.sub(_character_of, text)
        found = _UNUSABLE.search(joined)
        if found:
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
        self.problems[known:] = [slips.unquoted_template(self._source, start)]
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
        span = self._source.span(start, max(start, self.end))
        return Node(span, value, None, "flow" if event.flow_style else "block")

    def _count(self, values: int, start: int, end: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            place = self._source.span(start, end)
            raise self._error_with(mistake("too-many-values", place))

    def _descend(self, level: int, start: int) -> None:
        self._deepest = max(self._deepest, level)
        if level > MAX_LEVELS:
            place = self._source.span(start, start + 1)
            raise self._error_with(mistake("too-deep", place))

    def _refuse_more(self, problems: list[Problem]) -> None:
        """Stop after so many mistakes that the rest of the file tells nothing new."""
        if len(problems) > MAX_PROBLEMS:
            place = self._source.span(self.end, self.end + 1)
            reported = problems[:MAX_PROBLEMS]
            raise ProblemsFound([*reported, mistake("too-many-problems", place)])

    def _error_with(self, problem: Problem) -> ProblemsFound:
        return ProblemsFound([*self.problems, problem])


def _is_stage(count: int) -> bool:
    """Whether so many items are worth a look before the collection ends: 64, 128, 256, …

    So looking costs no more than a second reading, however long the collection is.
    """
    return count >= MAX_PROBLEMS and count & (count - 1) == 0


def _slips(event: CollectionStartEvent, items: list[Node]) -> Iterable[Problem]:
    return slips.in_flow_sequence(items) if event.flow_style else ()


def _fields(
    event: CollectionStartEvent, pairs: list[tuple[Node, Node]]
) -> tuple[dict[str, Entry], list[Problem]]:
    fields, problems = fields_of(pairs)
    slipped = slips.in_flow_mapping(pairs) if event.flow_style else ()
    return fields, [*slipped, *problems]


def _offsets(event: Event) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


def _character_of(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16", "surrogatepass").decode("utf-16")
