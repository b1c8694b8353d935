"""One message for one mistake: a schema that first decides which form is meant, then checks it.

A validator that tries every form of an `anyOf` can only say that none fits. So `if` selects the
form: by its JSON type, and among objects by the key that only this form has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from loopkit.language import ModelAgent
from loopkit.views.schemas.generate import TAGS

Schema = dict[str, Any]
KEY_OF_FORM = {"edge": "revise", "exit": "target"}
"""The identifying key of each form whose key is not its tag."""
FORM_WITHOUT_KEY = frozenset({"choice", "classes", "model"})
"""The forms of objects that have no identifying key."""
ORDER = ("object", "array", "string", "integer", "number", "")
"""The order in which types are tested; the last one of a union is the default."""
FORWARD = ("guard", "target", "emit")
"""The keys of a transition that does not revise."""


def with_exact_unions(schema: Schema) -> Schema:
    """The schema, in which each union selects one form, and an unknown key is the only error."""
    definitions: Mapping[str, Schema] = schema.get("definitions", {})
    rewritten: Schema = _Rewriting(definitions).of(schema)
    return rewritten


class _Rewriting:
    """The rewriting of one schema; it can resolve the references in it."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def of(self, value: Any) -> Any:
        match value:
            case {"anyOf": list() as forms, **rest}:
                tags = cast("list[str]", rest.pop(TAGS, [""] * len(forms)))
                return {**self._distinguish(list(zip(tags, forms, strict=True))), **rest}
            case {"type": "object", "properties": dict() as properties, **rest} if (
                rest.get("additionalProperties") is False
            ):
                noun = {key: self.of(inner) for key, inner in value.items() if key != "properties"}
                return _with_names_checked_first({**noun, "properties": self._each(properties)})
            case dict():
                return self._each(value)
            case list():
                return [self.of(item) for item in value]
            case _:
                return value

    def _each(self, value: Schema) -> Schema:
        return {key: self.of(inner) for key, inner in value.items()}

    def _distinguish(self, forms: list[tuple[str, Schema]]) -> Schema:
        """A chain of conditions on the type; the last form applies if none matches."""
        by_type: dict[str, list[tuple[str, Schema]]] = {}
        for tag, form in forms:
            by_type.setdefault(self._type(form), []).append((tag, form))
        kinds = sorted(by_type, key=ORDER.index)
        *ways, last = [(kind, self._one_of(kind, by_type[kind])) for kind in kinds]
        rules = last[1]
        for kind, way in reversed(ways):
            rules = {"if": {"type": kind}, "then": way, "else": rules}
        return rules

    def _one_of(self, kind: str, forms: list[tuple[str, Schema]]) -> Schema:
        """The schema of the forms of one type."""
        if kind == "object":
            return self._by_key(dict(forms))
        rewritten = [self.of(form) for _, form in forms]
        return rewritten[0] if len(rewritten) == 1 else {"anyOf": rewritten}

    def _by_key(self, forms: Mapping[str, Schema]) -> Schema:
        if len(forms) == 1:
            return cast("Schema", self.of(*forms.values()))
        rest = next((form for tag, form in forms.items() if tag in FORM_WITHOUT_KEY), None)
        keyed = {KEY_OF_FORM.get(tag, tag): form for tag, form in forms.items() if form is not rest}
        # With these, an editor offers the keys in a mapping that has none of them.
        offered = {key: {"description": self._description(form)} for key, form in keyed.items()}
        form_of_rest = rest or {"required": [next(iter(keyed))]}
        rules = self._without_key(forms, [self.of(form_of_rest), {"properties": offered}])
        for key, form in reversed(keyed.items()):
            rules = {"if": {"required": [key]}, "then": self.of(form), "else": rules}
        return {"type": "object", **rules}

    def _without_key(self, forms: Mapping[str, Schema], rest: list[Schema]) -> Schema:
        """The schema of an object without an identifying key, which may be misspelt."""
        known = {key for form in forms.values() for key in self._resolve(form)["properties"]}
        names = sorted(known)
        return {
            "if": {"propertyNames": {"enum": names}},
            "then": {"allOf": rest},
            "else": {"properties": {key: {} for key in names}, "additionalProperties": False},
        }

    def _type(self, form: Schema) -> str:
        return str(self._resolve(form).get("type", ""))

    def _description(self, form: Schema) -> str:
        return str(self._resolve(form).get("description", ""))

    def _resolve(self, form: Schema) -> Schema:
        while "$ref" in form:
            form = self._definitions[form["$ref"].rpartition("/")[2]]
        # A union of objects alone is an object as well.
        inner = [self._resolve(one) for one in form.get("anyOf", ())]
        if inner and all(one.get("type") == "object" for one in inner):
            return {**form, "type": "object"}
        return form


def _with_names_checked_first(noun: Schema) -> Schema:
    """Require keys only if every key is known: a misspelt key is not also a missing one."""
    required = noun.get("required", [])
    noun = {key: value for key, value in noun.items() if key != "required"}
    rules = [{"required": required}] if required else []
    if {"file", *required} <= noun["properties"].keys() and required == [ModelAgent.kind]:
        # The file of an agent may have the required keys.
        rules = [{"anyOf": [{"required": ["file"]}, *rules]}]
    if {"next", "transitions"} <= noun["properties"].keys():
        rules.append(_either("transitions", "next"))
    if {"revise", "target"} <= noun["properties"].keys():
        unfit = noun["properties"].keys() - {*FORWARD}
        rules.append(
            _either("revise", "target", [key for key in noun["properties"] if key in unfit])
        )
    if not rules:
        return noun
    known = {"propertyNames": {"enum": list(noun["properties"])}}
    return {**noun, "if": known, "then": rules[0] if len(rules) == 1 else {"allOf": rules}}


def _either(first: str, second: str, only_first: list[str] | None = None) -> Schema:
    """Exactly one of two keys; `only_first` are not allowed beside the second."""
    forbidden = dict.fromkeys(key for key in only_first or () if key != first)
    return {
        "if": {"required": [first]},
        "then": {"properties": {second: False}},
        "else": {"required": [second], "properties": dict.fromkeys(forbidden, False)},
    }
