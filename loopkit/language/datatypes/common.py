"""Common types: what data has whichever of several types it is of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from loopkit.language.datatypes.datatype import DataType


def common_type(types: Iterable[DataType]) -> DataType:
    """The common type of data that has one of these types; there is at least one."""
    return reduce(_either, types)


def _either(one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    both = DataType({}, optional=one.optional or other.optional)
    if one.scalar is not None and one.scalar == other.scalar:
        return _single(one, other, both)
    if one.fields is not None and other.fields is not None:
        shared = [name for name in one.fields if name in other.fields]
        fields = {name: _either(one.fields[name], other.fields[name]) for name in shared}
        return both.replace(fields=fields)
    if one.items is not None and other.items is not None:
        return both.replace(items=_either(one.items, other.items))
    return both


def _single(one: DataType, other: DataType, both: DataType) -> DataType:
    """Words and bounds hold where both have them."""
    words = (*one.values, *other.values) if one.values and other.values else ()
    low = [end for end in (one.minimum, other.minimum) if end is not None]
    high = [end for end in (one.maximum, other.maximum) if end is not None]
    return both.replace(
        scalar=one.scalar,
        values=tuple(dict.fromkeys(words)),
        minimum=min(low) if len(low) > 1 else None,
        maximum=max(high) if len(high) > 1 else None,
    )
