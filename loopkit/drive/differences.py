"""Differences of two definitions: values changed, added and removed, with places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from loopkit.engine.events import Change
from loopkit.language import Machine
from loopkit.text import one_line
from loopkit.text.json_text import text_or_json

WIDTH = 120
"""Characters that are shown of a value."""
_BEFORE = 20
"""Characters that are shown before the first one that differs."""


def differences(old: Machine, new: Machine) -> tuple[Change, ...]:
    """The changes from one machine to another, in its order."""
    before, after = (
        m.model_dump(mode="json", exclude_none=True, by_alias=True) for m in (old, new)
    )
    return tuple(_changes_between(before, after, ()))


def _changes_between(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _changes_between(old.get(key), new.get(key), (*path, str(key)))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _item_changes(old, new, path)
    else:
        before, after = _excerpts(old, new)
        yield Change(place=".".join(path), before=before, after=after)


def _item_changes(old: list[Any], new: list[Any], path: tuple[str, ...]) -> Iterator[Change]:
    """The changes between equal items at both ends, so that one more at the top is one change."""
    head = _common_length(old, new)
    tail = min(_common_length(old[::-1], new[::-1]), len(old) - head, len(new) - head)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    for index, (first, second) in enumerate(zip_longest(before, after), head):
        yield from _changes_between(first, second, (*path, str(index)))


def _common_length(old: Sequence[Any], new: Sequence[Any]) -> int:
    """How many values are equal from the beginning."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))


def _excerpts(old: Any, new: Any) -> Sequence[str]:
    """Both values on one line, beginning shortly before the first difference."""
    before, after = _text(old), _text(new)
    common = _common_length(before, after)
    skipped = common - _BEFORE if common > WIDTH // 2 else 0
    return [one_line("…" * (skipped > 0) + text[skipped:], WIDTH) for text in (before, after)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return text_or_json(value)
