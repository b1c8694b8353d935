"""One message for one mistake: the schema decides first which form is meant, then judges by it.

A validator that tries every form of an `anyOf` can only say that none fits. So forms are told
apart by `if`: by their JSON type, and among objects by the key that each alone carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from loopkit.language import ModelAgent
from loopkit.views.schemas.generate import TAGS

Schema = dict[str, Any]
KEY_OF_FORM = {"edge": "revise", "exit": "target"}
"""Where the key that tells a form is not its tag."""
FORM_WITHOUT_KEY = frozenset({"choice", "classes", "model"})
"""The form of an object that has none of the keys."""
ORDER = ("object", "array", "string", "integer", "number", "")
"""In which order types are told apart; the last one is taken for what was meant."""
FORWARD = ("guard", "target", "emit")
"""Keys of a transition that does not revise."""


def told_once(schema: Schema) -> Schema:
    """The schema with its unions told apart; wherever a key is unknown, nothing else is told."""
    definitions: Mapping[str, Schema] = schema.get("definitions", {})
    made: Schema = _Rewriting(definitions).of(schema)
    return made


class _Rewriting:
    """The rewriting of one schema, whose references it can follow."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def of(self, value: Any) -> Any:
        match value:
            case {"anyOf": list() as forms, **rest}:
                tags = cast("list[str]", rest.pop(TAGS, [""] * len(forms)))
                return {**self._told_apart(list(zip(tags, forms, strict=True))), **rest}
            case {"type": "object", "properties": dict() as properties, **rest} if (
                rest.get("additionalProperties") is False
            ):
                made = {key: self.of(inner) for key, inner in value.items() if key != "properties"}
                return _closed({**made, "properties": self._each(properties)})
            case dict():
                return self._each(value)
            case list():
                return [self.of(item) for item in value]
            case _:
                return value

    def _each(self, value: Schema) -> Schema:
        return {key: self.of(inner) for key, inner in value.items()}

    def _told_apart(self, forms: list[tuple[str, Schema]]) -> Schema:
        """A chain of conditions; the last form is the one that is told when none is meant."""
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
        """What is said of the forms of one type."""
        if kind == "object":
            return self._by_key(dict(forms))
        made = [self.of(form) for _, form in forms]
        return made[0] if len(made) == 1 else {"anyOf": made}

    def _by_key(self, forms: Mapping[str, Schema]) -> Schema:
        if len(forms) == 1:
            return cast("Schema", self.of(*forms.values()))
        rest = next((form for tag, form in forms.items() if tag in FORM_WITHOUT_KEY), None)
        keyed = {KEY_OF_FORM.get(tag, tag): form for tag, form in forms.items() if form is not rest}
        # An editor that completes a mapping without any of the keys offers them.
        offered = {key: {"description": self._described(form)} for key, form in keyed.items()}
        form_of_rest = rest or {"required": [next(iter(keyed))]}
        rules = self._without_key(forms, [self.of(form_of_rest), {"properties": offered}])
        for key, form in reversed(keyed.items()):
            rules = {"if": {"required": [key]}, "then": self.of(form), "else": rules}
        return {"type": "object", **rules}

    def _without_key(self, forms: Mapping[str, Schema], rest: list[Schema]) -> Schema:
        """What is said of an object whose form no key tells: a key may be misspelt."""
        known = {key for form in forms.values() for key in self._resolved(form)["properties"]}
        names = sorted(known)
        return {
            "if": {"propertyNames": {"enum": names}},
            "then": {"allOf": rest},
            "else": {"properties": {key: {} for key in names}, "additionalProperties": False},
        }

    def _type(self, form: Schema) -> str:
        return str(self._resolved(form).get("type", ""))

    def _described(self, form: Schema) -> str:
        return str(self._resolved(form).get("description", ""))

    def _resolved(self, form: Schema) -> Schema:
        while "$ref" in form:
            form = self._definitions[form["$ref"].rpartition("/")[2]]
        # A union of objects alone is an object as well.
        inner = [self._resolved(one) for one in form.get("anyOf", ())]
        if inner and all(one.get("type") == "object" for one in inner):
            return {**form, "type": "object"}
        return form


def _closed(noun: Schema) -> Schema:
    """What is missing is told once every key is known: a misspelt key is not a missing one, too."""
    required = noun.get("required", [])
    noun = {key: value for key, value in noun.items() if key != "required"}
    rules = [{"required": required}] if required else []
    if {"file", *required} <= noun["properties"].keys() and required == [ModelAgent.kind]:
        # The file of an agent may have what it needs.
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
    """Exactly one of two keys; the second one goes without those that belong to the first."""
    forbidden = dict.fromkeys(key for key in only_first or () if key != first)
    return {
        "if": {"required": [first]},
        "then": {"properties": {second: False}},
        "else": {"required": [second], "properties": dict.fromkeys(forbidden, False)},
    }
