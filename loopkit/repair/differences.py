"""Differences of two definitions: what is another value, what came and what went, with places."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from os.path import commonprefix
from typing import Any

from loopkit.engine.events import Change
from loopkit.language import Machine
from loopkit.text import one_line

WIDTH = 120
"""Of a value so much is told."""
_BEFORE = 20
"""Characters that are told before the first one that differs."""


def differences(old: Machine, new: Machine) -> tuple[Change, ...]:
    """What a machine says otherwise than another one, in its order."""
    before, after = (m.model_dump(mode="json", exclude_none=True, by_alias=True) for m in (old, new))
    return tuple(_between(before, after, ()))


def _between(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[Change]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*old, *new)):
            yield from _between(old.get(key), new.get(key), (*path, str(key)))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _items(old, new, path)
    else:
        before, after = _told(old, new)
        yield Change(place=".".join(path), before=before, after=after)


def _items(old: list[Any], new: list[Any], path: tuple[str, ...]) -> Iterator[Change]:
    """What comes between equal items, so that one more at the top is one change."""
    texts = [[json.dumps(item, sort_keys=True) for item in items] for items in (old, new)]
    for _, start, end, at, stop in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        for index in range(max(end - start, stop - at)):
            first = old[start + index] if start + index < end else None
            second = new[at + index] if at + index < stop else None
            place = at + index if second is not None else start + index
            yield from _between(first, second, (*path, str(place)))


def _told(old: Any, new: Any) -> Sequence[str]:
    """Both values on one line, from where they differ on."""
    texts = [_text(value) for value in (old, new)]
    alike = len(commonprefix(texts))
    skipped = alike - _BEFORE if alike > WIDTH // 2 else 0
    return [one_line("…" * (skipped > 0) + text[skipped:], WIDTH) for text in texts]


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
