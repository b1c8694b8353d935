"""The published JSON Schemas, made from the definition classes for editors and other tools."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from loopkit.definition import Machine
from loopkit.definition.states import STATE_KINDS
from loopkit.scenario import Scenario

DRAFT_07 = "http://json-schema.org/draft-07/schema#"


class _Generate(GenerateJsonSchema):
    """Draft-07, without automatic titles, each kind of state told by the key that it carries."""

    schema_dialect = DRAFT_07

    def get_title_from_name(self, name: str) -> str:
        return ""

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        made = {
            str(tag).strip("<>"): self.generate_inner(choice)
            for tag, choice in schema["choices"].items()
            if not isinstance(choice, str)
        }
        if set(made) == set(STATE_KINDS):
            return _by_key(made)
        return {"anyOf": list(made.values())}

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        made = super().model_schema(schema)
        for field, described in docstrings(schema["cls"]).items():
            if field in made.get("properties", {}):
                made["properties"][field].setdefault("description", described)
        return {key: value for key, value in made.items() if key != "title"}


def machine_schema() -> dict[str, Any]:
    """The JSON Schema of machine files."""
    return _schema(Machine, "A loopkit machine")


def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of scenario files."""
    return _schema(Scenario, "A loopkit scenario")


SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "machine": machine_schema,
    "scenario": scenario_schema,
}


def _schema(noun: type[BaseModel], title: str) -> dict[str, Any]:
    made = noun.model_json_schema(by_alias=True, schema_generator=_Generate)
    schema = _as_draft_07(_plain(made))
    return {"$schema": DRAFT_07, **schema, "title": title}


def docstrings(noun: type[BaseModel]) -> dict[str, str]:
    """The text below each field of a noun, by the name that YAML gives the field.

    Pydantic can read these itself, but only while the classes are made, which would
    cost every command 40 ms.
    """
    described: dict[str, str] = {}
    for base in reversed(noun.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            described |= _below_fields(tree)
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


def _by_key(made: dict[str, Any]) -> dict[str, Any]:
    """`if` a state has the key of a kind, `then` it is of that kind; without one it is a choice."""
    rules: Any = made["choice"]
    for kind in reversed([kind for kind in STATE_KINDS if kind != "choice"]):
        rules = {"if": {"required": [kind]}, "then": made[kind], "else": rules}
    return {"type": "object", **rules}


def _plain(value: Any) -> Any:
    """Without automatic titles, and without the null of what may be left out."""
    match value:
        case {"anyOf": [*forms], **rest} if {"type": "null"} in forms:
            kept = [form for form in forms if form != {"type": "null"}]
            rest.pop("default", None)
            return _plain({**(kept[0] if len(kept) == 1 else {"anyOf": kept}), **rest})
        case dict():
            return {k: _plain(v) for k, v in value.items() if not (k == "title" and v == "")}
        case list():
            return [_plain(item) for item in value]
        case _:
            return value


def _as_draft_07(schema: Any) -> Any:
    """`$defs` and `prefixItems` as draft-07 spells them."""
    match schema:
        case {"$ref": str(ref), **rest}:
            moved = {"$ref": ref.replace("#/$defs/", "#/definitions/")}
            # Draft-07 ignores what stands beside a reference.
            return {"allOf": [moved], **_as_draft_07(rest)} if rest else moved
        case dict():
            return {
                ("definitions" if key == "$defs" else key): _as_draft_07(value)
                for key, value in schema.items()
            }
        case list():
            return [_as_draft_07(item) for item in schema]
        case _:
            return schema
