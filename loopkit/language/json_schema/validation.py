"""Validation: data judged by a schema, and the mistakes in a schema itself.

It is the library's validator with our keywords, each of which looks at the clock first. They stand
in place of those of the library that compare each item with each, search with `re` or write the
whole value into a message. `unevaluatedProperties` and `unevaluatedItems` judge what no other
keyword covered. A `$ref` leads to the schema itself, its ids and anchors, or the metaschemas;
nothing is ever read or fetched here, because files that a schema refers to are parts of it already.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Literal

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped] # ships no types
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from loopkit.language.json_schema import REFERENCES, Path, inner_schemas
from loopkit.language.json_schema.equality import (
    LIMIT,
    TIME_FOR_EACH_S,
    TIME_LIMIT_S,
    Flaw,
    NotJudged,
    excerpt,
    join_excerpts,
    judging,
    judging_of,
)
from loopkit.text.json_text import canonical
from loopkit.text.patterns import PatternError, PatternTimeout, compile_pattern

ROOM = 40
"""How many calls a lookup needs at most.

Its mapping is made in Rust, where too many calls are a panic, which nobody can catch, and no
RecursionError.
"""
Resolver = Any
"""The library's, of a type with many parameters."""


class LeadsNowhere(NotJudged):
    """A reference that leads to no schema."""


def look_up(validator: Any, reference: str) -> Any:
    """The target of a reference in the validator's current schema; raises LeadsNowhere."""
    judging().look_at_clock()
    return resolve_reference(validator._resolver, reference)  # noqa: SLF001 - the library offers no other way


def resolve_reference(resolver: Resolver, reference: str) -> Any:
    """The contents that a reference leads to, and a resolver there; raises LeadsNowhere."""
    _have_room(ROOM)
    shown = f"`$ref: {excerpt(reference)[1:-1]}`"
    try:
        target = resolver.lookup(reference)
    except (Unresolvable, LookupError, ValueError, TypeError) as error:
        raise LeadsNowhere(f"{shown} leads nowhere") from error
    if not isinstance(target.contents, bool | Mapping):
        raise LeadsNowhere(f"{shown} leads to no schema")
    return target


def _have_room(calls: int) -> None:
    """Raise RecursionError if the stack has no room for this many nested calls."""
    if calls:
        _have_room(calls - 1)


def resolver_of(schema: Mapping[str, Any]) -> Resolver:
    """A resolver at the root of a schema; raises NotJudged."""
    try:
        root = DRAFT202012.create_resource(schema)
        uri = root.id() or ""
        return _metaschemas().with_resource(uri, root).crawl().resolver(uri)
    except (ValueError, TypeError, AttributeError) as error:
        raise NotJudged("an `$id` of the schema is not a URI") from error


@lru_cache(maxsize=1)
def _metaschemas() -> Registry[Resource[Any]]:
    crawled: Registry[Resource[Any]] = REGISTRY.crawl()
    return crawled


Errors = Iterator[ValidationError]
Validator = Any
"""The library makes its classes of validators as it runs."""
Keyword = Callable[[Validator, Any, Any, Mapping[str, Any]], Errors]
Object = Mapping[str, Any]
Schema = bool | Mapping[str, Any]
Schemas = Mapping[str, Schema]
descend: Callable[..., Errors] = Draft202012Validator.descend


def errors_in(
    validator: Validator,
    instance: object,
    schema: Schema,
    *,
    path: str | int | None = None,
    resolver: Any = None,
) -> Errors:
    """The violations of an inner schema in a value, below this step."""
    if schema is False:
        error = ValidationError(f"{excerpt(instance)} is not allowed here")
        if path is not None:
            error.path.appendleft(path)
        return iter((error,))
    if schema is not True and "$schema" in schema:
        # The library would go on with the keywords of that dialect, and without the clock.
        schema = {word: value for word, value in schema.items() if word != "$schema"}
    return descend(validator, instance, schema, path, resolver=resolver)


def is_valid(validator: Validator, instance: object, schema: Schema) -> bool:
    return next(errors_in(validator, instance, schema), None) is None


def _reference(validator: Validator, reference: str, instance: object, _: Object) -> Errors:
    found = look_up(validator, reference)
    return errors_in(validator, instance, found.contents, resolver=found.resolver)


def _pattern_properties(validator: Validator, schemas: Schemas, instance: Any, _: Any) -> Errors:
    if validator.is_type(instance, "object"):
        for pattern, schema in schemas.items():
            for name, value in instance.items():
                if is_found(pattern, name):
                    yield from errors_in(validator, value, schema, path=name)


def _additional_properties(
    validator: Validator, schema: Schema, instance: Any, holder: Object
) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    if schema is not False:
        for name in _additional(instance, holder):
            yield from errors_in(validator, instance[name], schema, path=name)
    elif extras := list(_additional(instance, holder)):
        message = "Additional properties are not allowed"
        yield ValidationError(f"{message} ({extras_message(sorted(extras))})")


def _additional(instance: Object, holder: Object) -> Iterator[str]:
    patterns = holder.get("patternProperties", ())
    for name in instance:
        named = name in holder.get("properties", ())
        if not named and not any(is_found(pattern, name) for pattern in patterns):
            yield name


def extras_message(extras: Sequence[object]) -> str:
    """`'a', 'b' were unexpected`, the first few of them."""
    return f"{join_excerpts(extras)} {'was' if len(extras) == 1 else 'were'} unexpected"


def _items(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    first = len(holder.get("prefixItems", ()))
    if schema is False and len(instance) > first:
        extra = join_excerpts(instance[first : first + 6])
        yield ValidationError(f"Expected at most {first} items but found more: {extra}")
    elif schema is not False:
        for index in range(first, len(instance)):
            yield from errors_in(validator, instance[index], schema, path=index)


def _contains(validator: Validator, schema: Schema, instance: Any, holder: Object) -> Errors:
    if not validator.is_type(instance, "array"):
        return
    least = holder.get("minContains", 1)
    most = holder.get("maxContains", len(instance))
    found = sum(is_valid(validator, item, schema) for item in instance)
    if found > most:
        yield ValidationError(f"{found:,} items match the given schema (expected at most {most})")
    elif found < least:
        wanted = "does not contain items matching the given schema"
        if found:
            wanted = f"has {found:,} items matching the given schema (expected at least {least})"
        yield ValidationError(f"{excerpt(instance)} {wanted}")


def _any_of(validator: Validator, schemas: Sequence[Schema], instance: object, _: Any) -> Errors:
    forms = [schema for schema in schemas if schema != {"type": "null"}]
    if len(forms) == 1:
        # Null aside, it is the only form, so that its faults are those of the whole.
        if instance is not None or len(schemas) == 1:
            yield from errors_in(validator, instance, forms[0])
    elif not any(is_valid(validator, instance, schema) for schema in schemas):
        yield _under_none(instance)


def _one_of(validator: Validator, schemas: Sequence[Schema], instance: object, _: Any) -> Errors:
    fitting = [schema for schema in schemas if is_valid(validator, instance, schema)]
    if not fitting:
        yield _under_none(instance)
    elif len(fitting) > 1:
        yield ValidationError(
            f"{excerpt(instance)} is valid under each of {join_excerpts(fitting, 2)}"
        )


def _under_none(instance: object) -> ValidationError:
    return ValidationError(f"{excerpt(instance)} is not valid under any of the given schemas")


def _not(validator: Validator, schema: Schema, instance: object, _: Any) -> Errors:
    if is_valid(validator, instance, schema):
        yield ValidationError(f"{excerpt(instance)} should not be valid under {excerpt(schema)}")


def _if(validator: Validator, schema: Schema, instance: object, holder: Object) -> Errors:
    then = "then" if is_valid(validator, instance, schema) else "else"
    return errors_in(validator, instance, holder.get(then, True))


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern of a schema occurs in a text; raises NotJudged."""
    left_s = judging().look_at_clock()
    try:
        return compile_pattern(pattern, lines=False).search(text, timeout=left_s) is not None
    except TimeoutError as error:
        raise NotJudged(str(PatternTimeout(pattern, judging().limit_s))) from error
    except PatternError as error:
        raise NotJudged(str(error)) from error


def _const(_: Validator, const: object, instance: object, __: Any) -> Errors:
    if not _is_one_of(instance, [const], const):
        yield ValidationError(f"{excerpt(const)} was expected")


def _enum(_: Validator, values: Sequence[object], instance: object, __: Any) -> Errors:
    if not _is_one_of(instance, values, values):
        yield ValidationError(f"{excerpt(instance)} is not one of {excerpt(values, 2 * LIMIT)}")


def _is_one_of(instance: object, values: Sequence[object], owner: object) -> bool:
    known = judging().known
    if id(owner) not in known:
        known[id(owner)] = frozenset(map(canonical, values))
    return canonical(instance) in known[id(owner)]


def _type(validator: Validator, types: str | Sequence[str], instance: object, _: Any) -> Errors:
    types = [types] if isinstance(types, str) else types
    if not any(validator.is_type(instance, kind) for kind in types):
        yield ValidationError(f"{excerpt(instance)} is not of type {join_excerpts(types)}")


def _pattern(validator: Validator, pattern: str, instance: str, _: Any) -> Errors:
    if validator.is_type(instance, "string") and not is_found(pattern, instance):
        yield ValidationError(f"{excerpt(instance)} does not match {excerpt(pattern)}")


def _multiple_of(validator: Validator, unit: float, instance: float, _: Any) -> Errors:
    if validator.is_type(instance, "number") and (_exact(instance) / _exact(unit)).denominator != 1:
        yield ValidationError(f"{instance!r} is not a multiple of {unit!r}")


def _exact(number: float) -> Fraction:
    """The exact decimal as written, such as 0.1, instead of the nearest binary float."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


def _unique_items(validator: Validator, wanted: bool, instance: Any, _: Any) -> Errors:
    if not (wanted and validator.is_type(instance, "array")):
        return
    seen: set[str] = set()
    for item in instance:
        judging().look_at_clock()
        if (text := canonical(item)) in seen:
            yield ValidationError(f"{excerpt(instance)} has {excerpt(item)} twice")
            return
        seen.add(text)


def _bound(kind: str, end: Literal["least", "most"], what: str) -> Keyword:
    """The keyword for one bound of a length; `what` is said of a value beyond it."""
    is_beyond = operator.lt if end == "least" else operator.gt
    obvious = {1: "should be non-empty"} if end == "least" else {0: "is expected to be empty"}

    def keyword(validator: Validator, bound: int, instance: Any, _: Any) -> Errors:
        if validator.is_type(instance, kind) and is_beyond(len(instance), bound):
            # An obvious bound is not named.
            note = f" ({len(instance):,}, at {end} {bound:,})" if bound > 1 else ""
            yield ValidationError(f"{excerpt(instance)} {obvious.get(bound, what)}{note}")

    return keyword


def errors(
    value: object, schema: Mapping[str, Any], most: int | None, limit_s: float = TIME_LIMIT_S
) -> list[ValidationError]:
    """The first violations of a schema in a value, or all of them, in the order of their places."""
    with judging_of(value, schema, TIME_FOR_EACH_S, limit_s):
        return _first(value, schema, resolver_of(schema), most)


def _metaschema_error(schema: object) -> ValidationError | None:
    # The schema of schemas looks at each value ten times.
    with judging_of(schema, None, 3 * TIME_FOR_EACH_S):
        meta: Mapping[str, Any] = Draft202012Validator.META_SCHEMA
        return next(iter(_first(schema, meta, _metaschemas().resolver(meta["$id"]), 1)), None)


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


def _unevaluated_properties(
    validator: Validator, schema: Schema, instance: Any, holder: Object
) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    known = _evaluated_names(validator, instance, holder)
    extras = [name for name in instance if name not in known]
    wrong = [name for name in extras if not is_valid(validator, instance[name], schema)]
    if wrong:
        said = "allowed" if schema is False else "valid under the given schema"
        yield ValidationError(f"Unevaluated properties are not {said} ({extras_message(wrong)})")


def _unevaluated_items(
    validator: Validator, schema: Schema, instance: Any, holder: Object
) -> Errors:
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


_KEYWORDS: Mapping[str, Keyword] = {
    **Draft202012Validator.VALIDATORS,
    "$ref": _reference,
    "$dynamicRef": _reference,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "items": _items,
    "contains": _contains,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "const": _const,
    "enum": _enum,
    "type": _type,
    "pattern": _pattern,
    "multipleOf": _multiple_of,
    "uniqueItems": _unique_items,
    "minLength": _bound("string", "least", "is too short"),
    "maxLength": _bound("string", "most", "is too long"),
    "minItems": _bound("array", "least", "is too short"),
    "maxItems": _bound("array", "most", "is too long"),
    "minProperties": _bound("object", "least", "does not have enough properties"),
    "maxProperties": _bound("object", "most", "has too many properties"),
    "unevaluatedProperties": _unevaluated_properties,
    "unevaluatedItems": _unevaluated_items,
}
KEYWORDS = frozenset(_KEYWORDS)


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
    waiting: list[tuple[Path, Any, Any]] = [((), schema, resolver)]
    while waiting:
        path, inner, resolver = waiting.pop()
        if isinstance(inner, bool) or id(inner) in seen:
            continue
        seen.add(id(inner))
        # It may have an address of its own.
        resolver = resolver.in_subresource(DRAFT202012.create_resource(inner))
        yield path, inner, resolver
        waiting += [((*path, *step), child, resolver) for step, child in inner_schemas(inner)]


def _target_flaws(path: Path, target: Any, seen: set[int]) -> Iterator[Flaw]:
    """The mistakes in the target of a reference, if no keyword holds that target."""
    base = str(target.resolver._base_uri)  # noqa: SLF001
    if id(target.contents) in seen or base.startswith("https://json-schema.org/draft/"):
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
