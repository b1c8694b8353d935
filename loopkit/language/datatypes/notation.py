"""The notation of types: a value in a file → the data type that it means.

JSON Schema is read as well: the facts that it guarantees to guards and templates. A part of one is
joined with those that its `$ref` and `allOf` lead to. Of several types there is the common one:
what data has whichever of them it is of.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from math import ceil, floor
from typing import Any

from loopkit.document.problems import closest, did_you_mean
from loopkit.language.datatypes.datatype import SCALARS, DataType, NotationError, default_fault
from loopkit.language.json_schema import (
    Path,
    part_at,
    refers,
    relocate,
    schema_faults,
    schema_problem,
    standing_alone,
    steps_of,
    with_local_references,
)
from loopkit.language.json_schema.equality import NotJudged
from loopkit.values import Mutable, Value, field

DETAILS = frozenset({"type", "default", "minimum", "maximum", "description"})
FILE_TYPES = ("file", "optional file")
JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})
JSON_WORDS = ("$ref", "$defs", "$schema", "$id", "$comment", "$anchor", "$dynamicRef")
FORMS = ("anyOf", "oneOf", "allOf", "enum")
OTHERS = "..."
"""The field of a record that says what its other fields may be."""
NO_OTHERS = "none"
"""What it says where there are no other fields."""
WORDS = {json_type: word for word, json_type in SCALARS.items()}
OTHER_WORDS = {
    **{word: word for word in (*SCALARS, "any", "file")},
    **WORDS,
    **dict.fromkeys(("text", "date", "url", "email"), "str"),
    **dict.fromkeys(("float", "double"), "num"),
    **dict.fromkeys(("list", "array"), "[any]"),
    **dict.fromkeys(("dict", "map", "object"), "any"),
}
"""The words of other notations for single values, and those of this language."""
LIKE_LIST = re.compile(r"(?i:list|array|sequence)\[(.+)\]|(.+)\[\]")
LIKE_OPTIONAL = re.compile(r"(?i:optional)\[(.+)\]|(.+)\?")
SWITCHES = {
    **dict.fromkeys(("yes", "y", "on", "true"), "true"),
    **dict.fromkeys(("no", "n", "off", "false"), "false"),
}
"""What stands for true or false elsewhere, and is text in YAML 1.2."""
WORD = re.compile(r"[A-Za-z0-9_.-]+(?: [A-Za-z0-9_.-]+)*")
FILE = re.compile(r"[^|]+\.(?:json|ya?ml)")


def parse_type(notation: object) -> DataType:
    """The type that a notation from YAML means; raises NotationError."""
    match notation:
        case str():
            return _from_words(notation.strip())
        case [inner]:
            return list_of(_at(inner, 0))
        case list() | tuple():
            raise NotationError("a list type holds exactly one type: `[str]`")
        case Mapping():
            return _from_mapping(notation)
        case _:
            raise NotationError(f"{json.dumps(notation, default=str)} is not a type")


def parse_fields(notation: Mapping[str, Any]) -> DataType:
    """The type at a root, as under `schema:`: JSON Schema, or else a record of these fields."""
    try:
        text = json.dumps(notation)
    except (TypeError, ValueError):
        return _root(notation)  # which tells what of it is no JSON
    return _root_from_json(text)


# The same notation is parsed at every place that needs its type.
@lru_cache(maxsize=256)
def _root_from_json(text: str) -> DataType:
    return _root(json.loads(text))


def _root(notation: Mapping[str, Any]) -> DataType:
    return from_schema(notation) if is_json_schema(notation) else _record_of(notation)


def parse_record(notation: Mapping[str, Any]) -> DataType:
    """The type at a root that must be a mapping, as under `input:`. Its names are all it takes."""
    is_schema = is_json_schema(notation)
    datatype = parse_fields(notation if is_schema else {OTHERS: NO_OTHERS, **notation})
    if datatype.fields is None:
        raise NotationError("this JSON Schema does not describe a mapping: it needs `type: object`")
    return datatype


def is_json_schema(notation: Mapping[str, Any]) -> bool:
    """Whether a mapping is JSON Schema: it has a keyword that the notation lacks."""
    kind = notation.get("type")
    kinds = kind if isinstance(kind, list) and kind else [kind]
    if all(isinstance(word, str) and word in JSON_TYPES for word in kinds):
        return True
    lists = any(isinstance(notation.get(word), list) for word in FORMS)
    return lists or any(word in notation for word in JSON_WORDS)


def field_place(notation: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return ("properties", name) if is_json_schema(notation) else (name,)


def file_places(notation: object, *, is_root: bool = True) -> Iterator[tuple[str | int, ...]]:
    """Where `{file: PATH}` stands for a type, below a root or at it."""
    match notation:
        case {"file": str() as file, **rest} if not rest and FILE.fullmatch(file):
            yield ()
        case _ if not (isinstance(notation, Mapping) and is_json_schema(notation)):
            for step, inner in inner_types(notation, is_root=is_root):
                yield from ((step, *place) for place in file_places(inner, is_root=False))


def inner_types(notation: object, *, is_root: bool) -> Iterator[tuple[str | int, Any]]:
    """The notations inside a notation, each with its step; a default is not one of them."""
    match notation:
        case [inner]:
            yield 0, inner
        case Mapping():
            is_described = not is_root and _is_described(notation)
            inside = notation.items()
            yield from (item for item in inside if not (is_described and item[0] == "default"))


def _is_described(notation: Mapping[str, Any]) -> bool:
    """Whether a mapping is a type with details, and no record that has a field `type`."""
    details = DETAILS | ({"data"} if notation.get("type") in FILE_TYPES else set())
    details |= {"optional"} if notation.get("optional") is True else set()
    return "type" in notation and set(notation) <= details


def default_places(notation: object, *, is_root: bool = True) -> Iterator[tuple[str | int, ...]]:
    is_described = (
        isinstance(notation, Mapping) and not is_root and {"type", "default"} <= notation.keys()
    )
    yield from [()] if is_described else []
    for step, inner in inner_types(notation, is_root=is_root):
        if not (is_described and step == "default"):
            yield from ((step, *place) for place in default_places(inner, is_root=False))


def _from_words(text: str) -> DataType:
    if text.startswith("optional "):
        return _optional(_from_words(text.removeprefix("optional ").strip()))
    if text.startswith("[") and text.endswith("]"):
        return list_of(_from_words(text[1:-1].strip()))
    if text == "any":
        return DataType({})
    if text == "file":
        return _file_of("any")
    if json_type := SCALARS.get(text):
        return DataType({"type": json_type}, scalar=text)
    if "|" in text:
        return _choice_of(tuple(word.strip() for word in text.split("|")), text)
    if found := LIKE_LIST.fullmatch(text):
        remedy = f"write `[{_meant(found[1] or found[2])}]`"
    elif found := LIKE_OPTIONAL.fullmatch(text):
        remedy = f"write `optional {_meant(found[1] or found[2])}`"
    elif meant := OTHER_WORDS.get(text.casefold()):
        remedy = f"write `{meant}`"
    else:
        near = closest(text, OTHER_WORDS)
        remedy = f"did you mean `{OTHER_WORDS[near]}`?" if near else ""
    raise NotationError(f"unknown type `{text}`", remedy=remedy)


def _meant(text: str) -> str:
    return OTHER_WORDS.get(text.casefold(), text)


def _choice_of(words: tuple[str, ...], text: str) -> DataType:
    if not all(WORD.fullmatch(word) for word in words):
        raise NotationError(f"`{text}` has an empty or unreadable word")
    if len(set(words)) < len(words):
        raise NotationError(f"`{text}` names a word twice")
    return DataType({"type": "string", "enum": list(words)}, scalar="str", values=words)


def _from_mapping(notation: Mapping[str, Any]) -> DataType:
    if is_json_schema(notation):
        _refuse_mixed(notation)
        return from_schema(notation)
    if _is_described(notation):
        return _with_details(notation)
    return _record_with_type(notation) if "type" in notation else _record_of(notation)


def _refuse_mixed(notation: Mapping[str, Any]) -> None:
    kind = notation.get("type")
    if not (isinstance(kind, str) and kind in SCALARS):
        return
    keyword = next(word for word in (*FORMS, *JSON_WORDS) if word in notation)
    message = f"`{keyword}` belongs to JSON Schema, which has no type `{kind}`"
    words = notation.get("enum")
    texts = words if isinstance(words, list) and all(isinstance(w, str) for w in words) else ()
    choice = "|".join(texts)
    is_choice = kind == "str" and len(texts) > 1 and all(WORD.fullmatch(word) for word in texts)
    meant = choice if is_choice else SCALARS[kind]
    remedy = f"write `type: {meant}`" + (" without `enum`" if is_choice else "")
    raise NotationError(message, ("type",), remedy)


def _record_with_type(notation: Mapping[str, Any]) -> DataType:
    """A record that has a field `type`, unless it is a described type with an unknown detail."""
    try:
        return _record_of(notation)
    except NotationError:
        kind = notation["type"]
        if isinstance(kind, str) and kind in SCALARS:
            unknown = min(set(notation) - DETAILS)
            message = f"unknown detail `{unknown}` of a type"
            remedy = did_you_mean(unknown, sorted(DETAILS))
            raise NotationError(message, (unknown,), remedy) from None
        raise


def _with_details(notation: Mapping[str, Any]) -> DataType:
    datatype = _at(notation["type"], "type")
    if "data" in notation:
        whole = _file_of(notation["data"])
        datatype = _optional(whole) if datatype.optional else whole
    datatype = _optional(datatype) if "optional" in notation else datatype
    schema = dict(datatype.schema)
    for bound in ("minimum", "maximum"):
        if bound in notation:
            schema[bound] = _bound(bound, notation[bound], datatype)
    if "description" in notation:
        schema["description"] = str(notation["description"])
    datatype = datatype.replace(
        schema=schema, minimum=schema.get("minimum"), maximum=schema.get("maximum")
    )
    low, high = datatype.minimum, datatype.maximum
    if low is not None and high is not None and low > high:
        raise NotationError(f"`minimum` {low} is above `maximum` {high}", ("minimum",))
    return _with_default(datatype, notation["default"]) if "default" in notation else datatype


def _bound(name: str, value: object, datatype: DataType) -> int | float:
    if datatype.scalar not in ("int", "num"):
        raise NotationError(f"`{name}` is for numbers only", (name,))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotationError(f"`{name}` must be a number", (name,))
    if datatype.scalar == "int" and value != int(value):
        raise NotationError(f"`{name}` of an int must be a whole number", (name,))
    return value


def _with_default(datatype: DataType, default: object) -> DataType:
    if fault := _default_fault(default, datatype):
        message = f"the default does not fit the type: {fault}"
        raise NotationError(message, ("default",), remedy_for_text(default, datatype) or FITTING)
    # Null is absence, so that a type with another default always has a value.
    is_optional = datatype.optional and default is None
    return datatype.replace(default=default, has_default=True, optional=is_optional)


FITTING = "write one that does, or change the type"


def remedy_for_text(value: object, datatype: DataType) -> str:
    """How to write a value of a type that was written as one of another type."""
    text, kind = str(value).strip(), datatype.scalar
    if kind == "bool" and (meant := SWITCHES.get(text.casefold())):
        return f"write `{meant}`; `{text}` is text"
    if kind in ("int", "num") and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", text):
        return f"write `{text}` without quotes"
    if kind == "str" and not datatype.values and isinstance(value, int | float):
        return f'write it in quotes: `"{json.dumps(value)}"`'
    return did_you_mean(text, datatype.values)


def _default_fault(default: object, datatype: DataType) -> str:
    """Why a default does not fit a type; raises NotJudged."""
    if datatype.scalar is not None:
        return default_fault(default, datatype)
    return next((message for _, message in schema_faults(default, datatype.schema)), "")


def _record_of(notation: Mapping[str, Any]) -> DataType:
    torn = next((n for n, inner in notation.items() if inner is None and " " in n), None)
    if torn is not None:
        message = f"the comma ends the text before it, so `{torn}` is taken for a field"
        raise NotationError(message, (torn,), "put the whole text in quotes")
    is_open = OTHERS not in notation
    written = notation.get(OTHERS)
    types = {name: _at(inner, name) for name, inner in notation.items() if name != OTHERS}
    others = None if is_open or written == NO_OTHERS else _at(written, OTHERS)
    return record_with(types, others, is_open=is_open)


def record_with(
    types: Mapping[str, DataType], others: DataType | None = None, *, is_open: bool = False
) -> DataType:
    """The record with fields of these types, and with further ones where it is open or `others`
    says their type."""
    said = False if others is None else relocate(others.schema, ("additionalProperties",))
    schema = {
        "type": "object",
        "properties": {name: relocate(t.schema, ("properties", name)) for name, t in types.items()},
        "required": [name for name, inner in types.items() if inner.required],
        **({} if is_open else {"additionalProperties": said}),
    }
    return DataType(schema, fields=types, others=others, is_open=is_open)


def file_record(data: object) -> Mapping[str, object]:
    return {"path": "str", "data": data, "digest": "str", OTHERS: NO_OTHERS}


def _file_of(data: object) -> DataType:
    read = _record_of(file_record(data))
    forms = [{"type": "string", "minLength": 1}, relocate(read.schema, ("anyOf", 1))]
    return read.replace(schema={"anyOf": forms}, is_file=True)


def refuse_files(
    datatype: DataType | None, path: tuple[str, ...] = (), *, is_input: bool = False
) -> None:
    """Raise NotationError for a file, which only a field of an input can be."""
    if datatype is None:
        return
    if datatype.is_file and not (is_input and len(path) == 1):
        remedy = "make it an input of its own: `input: {plan: {type: file}}`"
        raise NotationError("only an input itself can be a `file`", path, remedy)
    for name, inner in (datatype.fields or {}).items():
        refuse_files(inner, (*path, name), is_input=is_input)
    for part in (datatype.items, datatype.others):
        refuse_files(part, (*path, ""), is_input=is_input)


def list_of(inner: DataType) -> DataType:
    return DataType({"type": "array", "items": relocate(inner.schema, ("items",))}, items=inner)


def _optional(inner: DataType) -> DataType:
    forms = [relocate(inner.schema, ("anyOf", 0)), {"type": "null"}]
    return inner.replace(schema={"anyOf": forms}, optional=True)


def _at(notation: object, step: str | int) -> DataType:
    try:
        return parse_type(notation)
    except NotationError as error:
        raise NotationError(error.message, (step, *error.path), error.remedy) from error


MOST_PARTS = 10_000
"""The maximum number of parts of a schema that are read; nothing is known of the rest."""
MOST_DEPTH = 64
"""The maximum depth in the data at which types are known."""
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
    kinds = _kinds(_words(_speaking(Part(whole), whole)))
    is_mapping = found.fields is None and kinds == {"object"}
    return found.replace(fields={}, others=DataType({})) if is_mapping else found


class _Reader(Mutable, dict=True):
    """Reads one schema; no more than MOST_PARTS of it, however often its parts name each other.

    What describes the same data is read together: of one keyword the first counts.
    """

    root: Mapping[str, Any]
    parts: int = field(default=0)

    def type_of(self, part: Part) -> DataType:
        self.parts += 1
        if self.parts > MOST_PARTS or part.depth > MOST_DEPTH:
            return DataType(self._alone(part))
        said = _speaking(part, self.root)
        words = _words(said)
        self.parts += len(said)
        kept: dict[str, Any] = {n: words[n] for n in ("description", "enum") if n in words}
        found = self._type_by_kinds(said, words).replace(schema={**self._alone(part), **kept})
        return _fit_default(found, words["default"], part) if "default" in words else found

    @cached_property
    def _whole(self) -> Mapping[str, Any] | None:
        return relocate(self.root, ("$defs", "whole")) if refers(self.root) else None

    def _alone(self, part: Part) -> Mapping[str, Any]:
        if self._whole is not None:
            return standing_alone(self._whole, part.steps)
        return part.schema if isinstance(part.schema, Mapping) else {}

    def _type_by_kinds(self, said: Sequence[Part], words: Mapping[str, Any]) -> DataType:
        kinds = _kinds(words)
        lets_null = all(_lets_null(one.schema) for one in said)
        if not kinds:
            return self._one_of(said, lets_null=lets_null)
        optional = "null" in kinds and lets_null
        match sorted(kinds - {"null"}):
            case ["array"]:
                # Beside `prefixItems` they are not all of the items.
                lists = (one for one in said if "prefixItems" not in one.schema)
                item = next(_inside(lists, "items"), None)
                items = self.type_of(item) if item is not None else DataType({})
                return DataType({}, items=items, optional=optional)
            case ["object"]:
                return self._record(said, optional=optional)
            case ["integer", "number"]:
                return _single("num", words, optional=optional)
            case [kind] if kind in WORDS:
                return _single(WORDS[kind], words, optional=optional)
            case _:
                return DataType({}, optional=optional)

    def _record(self, said: Sequence[Part], *, optional: bool) -> DataType:
        properties: dict[str, Part] = {}
        for one in said:
            for name in one.schema.get("properties", {}):
                properties.setdefault(name, one.deeper("properties", name))
        further = [*_inside(said, "additionalProperties")]
        is_closed = any(one.schema is False for one in further)
        if not properties and not is_closed:
            return DataType({}, optional=optional)
        required = {name for one in said for name in one.schema.get("required", ())}
        fields = {
            name: self._field(part, is_required=name in required)
            for name, part in properties.items()
        }
        other = next((one for one in further if one.schema is not False), None)
        others = self.type_of(other) if other is not None else None
        is_open = not is_closed and others is None
        return DataType({}, fields=fields, others=others, is_open=is_open, optional=optional)

    def _field(self, part: Part, *, is_required: bool) -> DataType:
        found = self.type_of(part)
        if is_required:
            # Its default never counts: the schema wants the field to be given.
            return found.replace(has_default=False, default=None)
        if found.has_default:
            return found
        takes_null = found.optional or part.schema in (True, {})
        return found.replace(optional=True, is_left_out=not takes_null)

    def _one_of(self, said: Sequence[Part], *, lets_null: bool) -> DataType:
        lists = ((one, word) for one in said for word in ("anyOf", "oneOf") if word in one.schema)
        one, word = next(lists, (Part({}), ""))
        parts = [one.inside(word, number) for number in range(len(one.schema.get(word, ())))]
        some = [(part, self.type_of(part)) for part in parts]
        forms = [known for part, known in some if not part.is_null]
        has_null = len(forms) < len(some) or any(form.optional for form in forms)
        is_single = len(forms) == 1 or (forms and all(form.scalar for form in forms))
        found = common_type(forms) if is_single else DataType({})
        optional = lets_null and has_null
        return found.replace(optional=optional, has_default=False, default=None)


def _words(said: Iterable[Part]) -> dict[str, Any]:
    words: dict[str, Any] = {}
    for one in said:
        words = {**one.schema, **words}
    return words


def _inside(said: Iterable[Part], word: str) -> Iterator[Part]:
    return (one.deeper(word) for one in said if word in one.schema)


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
        lows = [*lows, min(numbers)]
        highs = [*highs, max(numbers)]
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


def _fit_default(found: DataType, default: object, part: Part) -> DataType:
    """The type with a default that fits; null is not a default for a type without null."""
    try:
        fault = _default_fault(default, found)
    except NotJudged:
        return found
    if fault and default is not None:
        message = f"the default does not fit the type: {fault}"
        raise NotationError(message, (*part.steps, "default"))
    return found if fault else found.replace(default=default, has_default=True)


MOST_JOINED = 200
"""The maximum number of parts that are joined; the rest is left out, so that less is known."""


class Part(Value, frozen=True):
    """A schema inside another one: its place, and the references followed to reach it."""

    schema: Any
    steps: Path = ()
    followed: frozenset[str] = frozenset()
    """References, none of which is followed again: a type may be made of itself."""
    depth: int = 0

    def inside(self, *steps: str | int) -> Part:
        """The part at the end of these steps, at the same depth in the data."""
        return self.replace(schema=part_at(self.schema, steps), steps=(*self.steps, *steps))

    def deeper(self, *steps: str | int) -> Part:
        """The part at the end of these steps, one level deeper in the data."""
        return self.inside(*steps).replace(depth=self.depth + 1)

    @property
    def is_null(self) -> bool:
        """Whether it lets nothing but null through."""
        return isinstance(self.schema, Mapping) and _kinds(self.schema) == {"null"}


def _lets_null(said: Mapping[str, Any]) -> bool:
    return "null" in _kinds(said) or said.keys().isdisjoint(("type", "enum", "const"))


def _speaking(part: Part, root: Mapping[str, Any]) -> list[Part]:
    """All parts that describe the same data, as far as they are joined."""
    found: list[Part] = []
    waiting = [part]
    while waiting and len(found) < MOST_JOINED:
        one = waiting.pop()
        if not isinstance(one.schema, Mapping):
            continue
        found.append(one)
        members = range(len(one.schema.get("allOf", ())))
        waiting += [one.inside("allOf", number) for number in reversed(members)]
        reference = one.schema.get("$ref")
        steps = steps_of(reference) if isinstance(reference, str) else None
        if steps is not None and reference not in one.followed:
            followed = one.followed | {str(reference)}
            waiting.append(Part(part_at(root, steps), steps, followed, one.depth))
    followed = frozenset[str]().union(*(one.followed for one in found))
    return [one.replace(followed=followed) for one in found]


def common_type(types: Iterable[DataType]) -> DataType:
    """The common type of data that has one of these types; there is at least one."""
    return reduce(_either, types)


def _either(one: DataType, other: DataType) -> DataType:
    if one == other:
        return one
    both = DataType({}, optional=one.optional or other.optional)
    if one.scalar is not None and one.scalar == other.scalar:
        return _common_scalar(one, other, both)
    if {one.scalar, other.scalar} == {"int", "num"}:
        return both.replace(scalar="num")
    if one.fields is not None and other.fields is not None:
        shared = [name for name in one.fields if name in other.fields]
        fields = {name: _either(one.fields[name], other.fields[name]) for name in shared}
        return both.replace(fields=fields, is_open=True)
    if one.items is not None and other.items is not None:
        return both.replace(items=_either(one.items, other.items))
    return both


def _common_scalar(one: DataType, other: DataType, both: DataType) -> DataType:
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
