"""Further fields of findings: what a report or a plug-in says besides our own parts, bounded."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from loopkit.text import shorten

ITEM_CHARS = 8_000
"""The most characters, in JSON, of all further fields of a finding."""
TEXT_CHARS = 2_000
"""The most characters of a text among these fields; the rest is cut off."""


def further_fields(item: Mapping[str, Any], own: Collection[str]) -> dict[str, object]:
    """The fields of an item without its `own`, as many as there is room for."""
    kept: dict[str, object] = {}
    room = ITEM_CHARS
    for name, value in item.items():
        if name in own:
            continue
        if isinstance(value, str):
            value = shorten(value, TEXT_CHARS)
        text = json.dumps(value, ensure_ascii=False)
        if len(name) + len(text) <= room:
            room -= len(name) + len(text)
            kept[name] = json.loads(text)
    return kept
