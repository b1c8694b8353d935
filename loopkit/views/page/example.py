"""An example of data, made from its type: it shows a person in which form to write it."""

from __future__ import annotations

import json

from loopkit.language.datatypes import DataType

WIDTH = 250
DEPTHS = (8, 3, 2, 1)
"""Parts are shown to the first of these depths at which the example is short enough."""
WORDS = {"str": "text", "int": 1, "num": 1.5, "bool": True}


def example_text(datatype: DataType) -> str:
    """An example of a list or a record as JSON on one line; empty if nothing is known of its parts.

    Parts that lie too deep are a `…`.
    """
    if _is_open(datatype):
        return ""
    texts = (_example(datatype, depth) for depth in DEPTHS)
    return next((text for text in texts if len(text) <= WIDTH), "")


def _example(datatype: DataType, depth: int) -> str:
    if datatype.has_default and datatype.default is not None:
        return _json(datatype.default)
    if datatype.values:
        return _json(datatype.values[0])
    if datatype.scalar is not None:
        bound = datatype.maximum if datatype.minimum is None else datatype.minimum
        return _json(WORDS[datatype.scalar] if bound is None else bound)
    if datatype.items is not None:
        return f"[{_example(datatype.items, depth - 1) if depth else '…'}]"
    if _is_open(datatype):
        return _json("anything")
    fields = dict(datatype.fields or {})
    if not fields and datatype.others is not None:
        fields["name"] = datatype.others
    inner = (f"{_json(name)}: {_example(one, depth - 1)}" for name, one in fields.items())
    return f"{{{', '.join(inner) if depth else '…'}}}"


def _is_open(datatype: DataType) -> bool:
    """Whether it may have any parts."""
    return not (datatype.items or datatype.fields or datatype.others or datatype.scalar)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
