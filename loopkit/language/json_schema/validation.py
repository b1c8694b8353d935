"""Validation: data judged by a schema, and the mistakes in a schema itself.

It is the library's validator with our keywords, each of which looks at the clock first. A schema
has mistakes in its form, in its patterns, and in references without a target.
`unevaluatedProperties` and `unevaluatedItems` judge what no other keyword covered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from loopkit.language.json_schema import REFERENCES, Path, inner_schemas
from loopkit.language.json_schema.equality import (
    TIME_FOR_EACH_S,
    TIME_LIMIT_S,
    Flaw,
    NotJudged,
    judging,
    judging_of,
)
from loopkit.language.json_schema.references import (
    SUBSCHEMA_KEYWORDS,
    VALUE_KEYWORDS,
    Errors,
    Keyword,
    LeadsNowhere,
    Object,
    Schema,
    Validator,
    errors_in,
    extras_message,
    is_found,
    is_metaschema,
    is_valid,
    look_up,
    metaschema_resolver,
    resolve_reference,
    resolver_of,
    within,
)
from loopkit.text.patterns import PatternError, compile_pattern


def errors(
    value: object,
    schema: Mapping[str, Any],
    most: int | None,
    limit_s: float = TIME_LIMIT_S,
) -> list[ValidationError]:
    """The first violations of a schema in a value, or all of them, in the order of their places."""
    with judging_of(value, schema, TIME_FOR_EACH_S, limit_s):
        return _first(value, schema, resolver_of(schema), most)


def _metaschema_error(schema: object) -> ValidationError | None:
    """The first violation of the metaschema in a schema."""
    # The schema of schemas looks at each value ten times.
    with judging_of(schema, None, 3 * TIME_FOR_EACH_S):
        meta: Mapping[str, Any] = Draft202012Validator.META_SCHEMA
        return next(iter(_first(schema, meta, metaschema_resolver(), 1)), None)


def _first(
    value: object, schema: Mapping[str, Any], resolver: Any, most: int | None
) -> list[ValidationError]:
    root = _Validator({}, registry=Registry(), _resolver=resolver)
    found: Iterator[ValidationError] = errors_in(root, value, schema, resolver=resolver)

    def place(error: ValidationError) -> list[tuple[int, str]]:
        return [(step, "") if isinstance(step, int) else (-1, step) for step in error.absolute_path]

    return sorted(islice(found, most), key=place)


def _with_clock(keyword: Any) -> Keyword:
    def call_in_time(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        judging().look_at_clock()
        return keyword(validator, value, instance, schema)

    return call_in_time


def _properties(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    known = _evaluated_names(validator, instance, holder)
    extras = [name for name in instance if name not in known]
    wrong = [name for name in extras if not is_valid(validator, instance[name], schema)]
    if wrong:
        said = "allowed" if schema is False else "valid under the given schema"
        yield ValidationError(f"Unevaluated properties are not {said} ({extras_message(wrong)})")


def _items(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    known = _evaluated_indexes(validator, instance, holder)
    wrong = [
        item
        for index, item in enumerate(instance)
        if index not in known and not is_valid(validator, item, schema)
    ]
    if wrong:
        yield ValidationError(f"Unevaluated items are not allowed ({extras_message(wrong)})")


UNEVALUATED_KEYWORDS: Mapping[str, Keyword] = {
    "unevaluatedProperties": _properties,
    "unevaluatedItems": _items,
}

_OURS = {**VALUE_KEYWORDS, **SUBSCHEMA_KEYWORDS, **UNEVALUATED_KEYWORDS}
_KEYWORDS = {**Draft202012Validator.VALIDATORS, **_OURS}
KEYWORDS = frozenset(_KEYWORDS)
"""The keywords with which data is judged."""


def _evaluated_names(validator: Validator, instance: Object, schema: Schema) -> set[str]:
    judging().look_at_clock()
    if isinstance(schema, bool):
        return set()
    names = {name for name in schema.get("properties", ()) if name in instance}
    for word in ("additionalProperties", "unevaluatedProperties"):
        if word in schema:
            inner = schema[word]
            names |= {n for n, value in instance.items() if is_valid(validator, value, inner)}
    for pattern in schema.get("patternProperties", ()):
        names |= {name for name in instance if is_found(pattern, name)}
    for name, dependent in schema.get("dependentSchemas", {}).items():
        if name in instance:
            names |= _evaluated_names(validator, instance, dependent)
    for holder, inner in _applicable_schemas(validator, instance, schema):
        names |= _evaluated_names(holder, instance, inner)
    return names


def _evaluated_indexes(validator: Validator, instance: Any, schema: Schema) -> set[int]:
    judging().look_at_clock()
    if isinstance(schema, bool):
        return set()
    if "items" in schema:
        return set(range(len(instance)))
    indexes = set(range(len(schema.get("prefixItems", ()))))
    for word in ("contains", "unevaluatedItems"):
        if word in schema:
            inner = schema[word]
            indexes |= {i for i, item in enumerate(instance) if is_valid(validator, item, inner)}
    for holder, inner in _applicable_schemas(validator, instance, schema):
        indexes |= _evaluated_indexes(holder, instance, inner)
    return indexes


def _applicable_schemas(
    validator: Validator, instance: object, schema: Mapping[str, Any]
) -> Iterator[tuple[Validator, Schema]]:
    """The schemas that apply to the same value, each with the validator to continue with."""
    for word in ("$ref", "$dynamicRef"):
        if word in schema:
            found = look_up(validator, schema[word])
            yield validator.evolve(schema={}, _resolver=found.resolver), found.contents
    for word in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(word, ()):
            if is_valid(validator, instance, inner):
                yield validator, inner
    if "if" in schema:
        holds = is_valid(validator, instance, schema["if"])
        if holds:
            yield validator, schema["if"]
        yield validator, schema.get("then" if holds else "else", True)


_Validator: Any = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator, {word: _with_clock(keyword) for word, keyword in _KEYWORDS.items()}
)
# By this the library's own keywords come to inner schemas.
_Validator.descend = lambda at, instance, schema, path=None, **_: errors_in(
    at, instance, schema, path=path
)


def flaws(schema: Mapping[str, Any]) -> Iterator[Flaw]:
    """All mistakes that make a schema unusable; of those in its form only the first."""
    try:
        if (wrong := _metaschema_error(schema)) is not None:
            yield Flaw(wrong.message, tuple(wrong.absolute_path))
        else:
            yield from _inner_flaws(schema)
    except NotJudged as error:
        yield Flaw(str(error))


def _inner_flaws(schema: Mapping[str, Any]) -> Iterator[Flaw]:
    seen: set[int] = set()
    targets: list[tuple[Path, Any]] = []
    for path, inner, resolver in _standing_in(schema, resolver_of(schema), seen):
        yield from _pattern_flaws(path, inner)
        for word in REFERENCES:
            if word in inner:
                try:
                    targets.append(((*path, word), resolve_reference(resolver, inner[word])))
                except LeadsNowhere as error:
                    yield Flaw(str(error), (*path, word), _remedy(inner[word]), leads_nowhere=True)
    for path, target in targets:
        yield from _target_flaws(path, target, seen)


def _remedy(reference: str) -> str:
    if ":" in reference.partition("#")[0]:
        return "nothing is fetched: save it beside the machine file, and name it by its path"
    return "name a part of this schema, such as `#/$defs/name`, or a file beside the machine file"


def _standing_in(schema: Any, resolver: Any, seen: set[int]) -> Iterator[tuple[Path, Any, Any]]:
    """A schema and all schemas in it, each with its path and its resolver."""
    waiting: list[tuple[Path, Any, Any]] = [((), schema, resolver)]
    while waiting:
        path, inner, resolver = waiting.pop()
        if isinstance(inner, bool) or id(inner) in seen:
            continue
        seen.add(id(inner))
        resolver = within(resolver, inner)
        yield path, inner, resolver
        waiting += [((*path, *step), child, resolver) for step, child in inner_schemas(inner)]


def _target_flaws(path: Path, target: Any, seen: set[int]) -> Iterator[Flaw]:
    """The mistakes in the target of a reference, if no keyword holds that target."""
    if id(target.contents) in seen or is_metaschema(target.resolver):
        return
    if (wrong := _metaschema_error(target.contents)) is not None:
        yield Flaw(f"this leads to no schema: {wrong.message}", path)
        return
    for _, inner, resolver in _standing_in(target.contents, target.resolver, seen):
        for word in REFERENCES:
            if word in inner:
                yield from _target_flaws(path, resolve_reference(resolver, inner[word]), seen)


def _pattern_flaws(path: Path, schema: Mapping[str, Any]) -> Iterator[Flaw]:
    placed = [("pattern", schema["pattern"])] if isinstance(schema.get("pattern"), str) else []
    listed = [("patternProperties", name, name) for name in schema.get("patternProperties", ())]
    for *steps, pattern in (*placed, *listed):
        try:
            compile_pattern(pattern, lines=False)
        except PatternError as error:
            yield Flaw(str(error), (*path, *steps))
