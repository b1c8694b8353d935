"""JSON Schema as a data type: the facts that it guarantees to guards and templates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import ceil, floor
from typing import Any

from loopkit.language.datatypes.datatype import SCALARS, DataType, NotationError, default_fault
from loopkit.language.datatypes.joined import Joined, Part
from loopkit.language.json_schema import NotJudged, schema_faults, schema_problem
from loopkit.language.json_schema.local import (
    refers,
    relocate,
    standing_alone,
    with_local_references,
)
from loopkit.values import Mutable, field

MOST_PARTS = 10_000
"""The maximum number of parts of a schema that are read; nothing is known of the rest."""
MOST_DEPTH = 64
"""The maximum depth in the data at which types are known."""
WORDS = {json_type: word for word, json_type in SCALARS.items()}
JSON_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}


def from_schema(notation: Mapping[str, Any]) -> DataType:
    """The data type that a JSON Schema describes; raises NotationError."""
    return _read(json.dumps(notation, ensure_ascii=False))


@lru_cache(maxsize=64)
def _read(text: str) -> DataType:
    schema: dict[str, Any] = json.loads(text)
    if problem := schema_problem(schema):
        raise NotationError(f"not a valid JSON Schema: {problem}", problem.path)
    whole = with_local_references(schema)
    found = _Reader(whole).type_of(Part(whole)).replace(schema=whole)
    is_mapping = found.fields is None and _kinds(Joined.of(Part(whole), whole).words) == {"object"}
    return found.replace(fields={}, others=DataType({})) if is_mapping else found


class _Reader(Mutable, dict=True):
    """Reads one schema; no more than MOST_PARTS of it, however often its parts name each other."""

    root: Mapping[str, Any]
    parts: int = field(default=0)

    def type_of(self, part: Part) -> DataType:
        self.parts += 1
        if self.parts > MOST_PARTS or part.depth > MOST_DEPTH:
            return DataType(self._alone(part))
        said = Joined.of(part, self.root)
        self.parts += said.size
        kept: dict[str, Any] = {
            word: said.words[word] for word in ("description", "enum") if word in said.words
        }
        found = self._type_by_kinds(said).replace(schema={**self._alone(part), **kept})
        return (
            _with_default(found, said.words["default"], part) if "default" in said.words else found
        )

    @cached_property
    def _whole(self) -> Mapping[str, Any] | None:
        """The root as a part of something else, where its parts may need it."""
        return relocate(self.root, ("$defs", "whole")) if refers(self.root) else None

    def _alone(self, part: Part) -> Mapping[str, Any]:
        """The schema of a part, whole in itself."""
        if self._whole is not None:
            return standing_alone(self._whole, part.steps)
        return part.schema if isinstance(part.schema, Mapping) else {}

    def _type_by_kinds(self, said: Joined) -> DataType:
        kinds = _kinds(said.words)
        if not kinds:
            return self._one_of(said)
        optional = "null" in kinds and said.lets_null
        match sorted(kinds - {"null"}):
            case ["array"]:
                items = self.type_of(said.items) if said.items else DataType({})
                return DataType({}, items=items, optional=optional)
            case ["object"]:
                return self._record(said, optional=optional)
            case ["integer", "number"]:
                return _single("num", said.words, optional=optional)
            case [kind] if kind in WORDS:
                return _single(WORDS[kind], said.words, optional=optional)
            case _:
                return DataType({}, optional=optional)

    def _record(self, said: Joined, *, optional: bool) -> DataType:
        if not said.properties and not said.is_closed:
            return DataType({}, optional=optional)
        fields = {
            name: self._field(part, is_required=name in said.required)
            for name, part in said.properties.items()
        }
        others = self.type_of(said.others) if said.others else None
        return DataType({}, fields=fields, others=others, optional=optional)

    def _field(self, part: Part, *, is_required: bool) -> DataType:
        found = self.type_of(part)
        if is_required:
            # Its default never counts: the schema wants the field to be given.
            return found.replace(has_default=False, default=None)
        if found.has_default:
            return found
        takes_null = found.optional or part.schema in (True, {})
        return found.replace(optional=True, is_left_out=not takes_null)

    def _one_of(self, said: Joined) -> DataType:
        """The common type of data that has one of several forms."""
        some = [(part, self.type_of(part)) for part in said.forms]
        forms = [known for part, known in some if not part.is_null]
        optional = said.lets_null and (
            len(forms) < len(some) or any(form.optional for form in forms)
        )
        if len(forms) == 1:
            return forms[0].replace(optional=optional, has_default=False, default=None)
        return _common(forms).replace(optional=optional)


def _common(forms: Sequence[DataType]) -> DataType:
    """The single value that all forms are, or something of which nothing is known."""
    kinds = {form.scalar for form in forms}
    if kinds == {"str"}:
        words = tuple(dict.fromkeys(word for form in forms for word in form.values))
        return DataType({}, scalar="str", values=words if all(f.values for f in forms) else ())
    if kinds in ({"int"}, {"bool"}):
        return DataType({}, scalar=forms[0].scalar)
    return DataType({}, scalar="num") if kinds and kinds <= {"int", "num"} else DataType({})


def _kinds(words: Mapping[str, Any]) -> frozenset[str]:
    """The JSON types that data may have; none where nothing says so."""
    listed = list(_enum_values(words))
    found = {_json_name(value) for value in listed}
    kind = words.get("type")
    named = {kind} if isinstance(kind, str) else set(kind or ())
    if "number" in named and "integer" in found:
        named.add("integer")
    return frozenset(named & found if named and listed else named or found)


def _json_name(value: object) -> str:
    return JSON_NAMES.get(type(value), "array" if isinstance(value, list) else "object")


def _enum_values(words: Mapping[str, Any]) -> Iterator[Any]:
    """The values that `const` or `enum` lists."""
    if "const" in words:
        yield words["const"]
    else:
        yield from words.get("enum", ())


def _single(kind: str, words: Mapping[str, Any], *, optional: bool) -> DataType:
    texts = tuple(v for v in _enum_values(words) if isinstance(v, str)) if kind == "str" else ()
    low, high = _ends(words, whole=kind == "int") if kind in ("int", "num") else (None, None)
    return DataType({}, kind, texts, optional, minimum=low, maximum=high)


def _ends(words: Mapping[str, Any], *, whole: bool) -> tuple[float | None, float | None]:
    numbers = [value for value in _enum_values(words) if _json_name(value) in ("integer", "number")]
    lows = [words["minimum"]] if "minimum" in words else []
    highs = [words["maximum"]] if "maximum" in words else []
    if numbers:
        lows, highs = [*lows, min(numbers)], [*highs, max(numbers)]
    if "exclusiveMinimum" in words:
        least = words["exclusiveMinimum"]
        lows.append(floor(least) + 1 if whole else least)
    if "exclusiveMaximum" in words:
        most = words["exclusiveMaximum"]
        highs.append(ceil(most) - 1 if whole else most)
    low, high = max(lows, default=None), min(highs, default=None)
    if not whole:
        return low, high
    return (None if low is None else ceil(low)), (None if high is None else floor(high))


def _with_default(found: DataType, default: object, part: Part) -> DataType:
    """The type with a default that fits; null is not a default for a type without null."""
    fault = default_fault(default, found)
    try:
        if found.scalar is None:
            fault = next((message for _, message in schema_faults(default, found.schema)), "")
    except NotJudged:
        return found
    if fault and default is not None:
        message = f"the default does not fit the type: {fault}"
        raise NotationError(message, (*part.steps, "default"))
    return found if fault else found.replace(default=default, has_default=True)
