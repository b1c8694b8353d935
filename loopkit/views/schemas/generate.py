"""JSON Schema of draft-07 from the classes, with the words of their docstrings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from loopkit.views.schemas.docstrings import docstrings

DRAFT_07 = "http://json-schema.org/draft-07/schema#"
TAGS = "tags"
"""Beside an `anyOf`: the tags of its forms in the definition. It is not published."""


class _Generate(GenerateJsonSchema):
    """Without automatic titles; each form of a tagged union keeps its tag."""

    schema_dialect = DRAFT_07

    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> dict[str, Any]:
        forms = {
            str(tag).strip("<>"): self.generate_inner(choice)
            for tag, choice in schema["choices"].items()
            if not isinstance(choice, str)
        }
        return {"anyOf": list(forms.values()), TAGS: list(forms)}

    def model_schema(self, schema: core_schema.ModelSchema) -> dict[str, Any]:
        noun = super().model_schema(schema)
        for field, described in docstrings(schema["cls"]).items():
            if field in noun.get("properties", {}):
                noun["properties"][field] = {
                    **noun["properties"][field],
                    "description": described,
                }
        return {key: value for key, value in noun.items() if key != "title"}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def draft_07_of(noun: type[BaseModel]) -> dict[str, Any]:
    """The draft-07 schema of a file; its unions are still plain `anyOf`."""
    generated = noun.model_json_schema(by_alias=True, schema_generator=_Generate)
    schema: dict[str, Any] = as_draft_07(_without_null(generated))
    return schema


def _without_null(value: Any) -> Any:
    """A schema without the null type of optional values."""
    match value:
        case {"anyOf": [*forms], **rest} if {"type": "null"} in forms:
            kept = [form for form in forms if form != {"type": "null"}]
            rest.pop("default", None)
            return _without_null({**(kept[0] if len(kept) == 1 else {"anyOf": kept}), **rest})
        case dict():
            return {key: _without_null(inner) for key, inner in value.items()}
        case list():
            return [_without_null(item) for item in value]
        case _:
            return value


def as_draft_07(schema: Any) -> Any:
    """A schema with `definitions` for `$defs`, and a reference beside other keys in `allOf`."""
    match schema:
        case {"$ref": str(ref), **rest}:
            moved = {"$ref": ref.replace("#/$defs/", "#/definitions/")}
            # Draft-07 ignores the keys beside a reference.
            return {"allOf": [moved], **as_draft_07(rest)} if rest else moved
        case dict():
            return {
                ("definitions" if key == "$defs" else key): as_draft_07(value)
                for key, value in schema.items()
            }
        case list() | tuple():
            return [as_draft_07(item) for item in schema]
        case _:
            return schema
