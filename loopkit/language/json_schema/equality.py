"""Equality of JSON values: 1 equals 1.0, true is not a number, keys have no order."""

from __future__ import annotations

import json
from collections.abc import Mapping


def canonical(value: object) -> str:
    """A text that is the same for equal values and different for all others."""
    return json.dumps(_normal(value), sort_keys=True)


def _normal(value: object) -> object:
    match value:
        case float() if value.is_integer():
            return int(value)
        case Mapping():
            return {key: _normal(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_normal(inner) for inner in value]
        case _:
            return value
