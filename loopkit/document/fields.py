"""The fields of a mapping from its keys and values, with merge keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopkit.document.document import Entry, Node
from loopkit.document.mistakes import duplicate_key, key_not_text, mistake, odd_blank
from loopkit.document.problems import Problem

# Stands for the key `<<`; no text of a file can be equal to it.
_MERGE = "\0<<"


def fields_of(pairs: Sequence[tuple[Node, Node]]) -> tuple[dict[str, Entry], list[Problem]]:
    """Return the fields in the order of the file, and their mistakes.

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
    return fields, [*problems, *_unmergeable(own[_MERGE].node)]


def _own_fields(pairs: Sequence[tuple[Node, Node]]) -> tuple[dict[str, Entry], list[Problem]]:
    own: dict[str, Entry] = {}
    problems: list[Problem] = []
    for key, value in pairs:
        place = key.used_at or key.span
        name = _MERGE if key.style == "plain" and key.raw == "<<" else key.value
        if not isinstance(name, str):
            problems.append(key_not_text(place, key.raw, kind_of(key)))
        elif name in own:
            problems.append(duplicate_key(key.raw, place, own[name].key))
        else:
            own[name] = Entry(place, value)
        problems += _odd_blanks(key)
    return own, problems


def _odd_blanks(key: Node) -> Iterator[Problem]:
    """Yield the no-break spaces and their like at the ends of a key, where nobody sees them."""
    outer = key.raw.replace(key.raw.strip(), "", 1) if key.style == "plain" else ""
    if outer:
        yield odd_blank(key.span, outer[0])


def _fields_of_merge(merged: Node) -> Iterator[tuple[str, Entry]]:
    """Yield the fields of one mapping or of a list of them, each with the place of its use."""
    for node in _sources(merged):
        if isinstance(node.value, Mapping):
            use = node.used_at or merged.used_at
            for name, entry in node.value.items():
                yield name, Entry(entry.key, entry.node.replace(used_at=use or entry.node.used_at))


def _unmergeable(merged: Node) -> Iterator[Problem]:
    for node in _sources(merged):
        if not isinstance(node.value, Mapping):
            yield mistake("merge-not-mapping", node.used_at or node.span, kind=kind_of(node))


def _sources(merged: Node) -> tuple[Node, ...]:
    return merged.value if isinstance(merged.value, tuple) else (merged,)


def kind_of(node: Node) -> str:
    """Return the kind of the value, in the words of a message."""
    if isinstance(node.value, Mapping):
        return "a mapping"
    if isinstance(node.value, tuple):
        return "a list"
    kinds = {str: "text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(node.value), "nothing")
