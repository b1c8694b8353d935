"""Docstrings of fields, read from the source of a class."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise

from pydantic import BaseModel

from loopkit.engine.records import Record


def docstrings(noun: type[BaseModel | Record]) -> dict[str, str]:
    """The text below each field of a noun, by the name that files give the field.

    Pydantic can read these itself, but only when the classes are created, which would
    cost every command 40 ms.
    """
    described: dict[str, str] = {}
    for base in reversed(noun.__mro__):
        if issubclass(base, BaseModel | Record) and base not in (BaseModel, Record):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            described |= _below_fields(tree)
    if not issubclass(noun, BaseModel):
        return described
    return {
        field.alias or name: described[name]
        for name, field in noun.model_fields.items()
        if name in described
    }


def _below_fields(tree: ast.stmt) -> dict[str, str]:
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
