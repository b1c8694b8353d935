"""Validation: data judged by a schema, and the mistakes in a schema itself.

It is the library's validator, which looks at the clock before each inner schema, with our own
keywords in place of those that search with `re`, compare each item with each, or say less than they
know. A `$ref` leads to the schema itself, its ids and anchors, or the metaschemas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped] # ships no types
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from loopkit.language.json_schema import REFERENCES, Path, inner_schemas
from loopkit.language.json_schema.equality import (
    TIME_FOR_EACH_S,
    TIME_LIMIT_S,
    Flaw,
    NotJudged,
    judging,
    judging_of,
)
from loopkit.text import shorten
from loopkit.text.json_text import canonical
from loopkit.text.patterns import PatternError, PatternTimeout, compile_pattern

ROOM = 50
"""How many calls a reference needs at most.

Its mapping is made in Rust, where too many calls are a panic, which nobody can catch, and no
RecursionError.
"""
LIMIT = 120
"""How many characters of a value a message shows."""
MOST_EXTRAS = 5
"""How many fields that are not allowed a message names."""

Errors = Iterator[ValidationError]
Validator = Any
"""The library makes its classes of validators as it runs."""
Resolver = Any
"""The library's, of a type with many parameters."""
Object = Mapping[str, Any]
Schema = bool | Mapping[str, Any]


def _excerpt(value: object) -> str:
    return shorten(repr(value), LIMIT)


def _have_room(calls: int) -> None:
    """Raise RecursionError if the stack has no room for this many nested calls."""
    if calls:
        _have_room(calls - 1)


def _descend(
    validator: Validator,
    instance: object,
    schema: Schema,
    path: str | int | None = None,
    schema_path: object = None,
    resolver: Resolver = None,
) -> Errors:
    """The violations of an inner schema in a value, below this step."""
    judging().look_at_clock()
    if schema is False:
        # Of this one the library would not say where it is.
        error = ValidationError(f"{_excerpt(instance)} is not allowed here")
        if path is not None:
            error.path.appendleft(path)
        return iter((error,))
    if schema is not True and not schema.keys().isdisjoint(REFERENCES):
        _have_room(ROOM)
    if schema is not True and "$schema" in schema:
        # The library would go on with the keywords of that dialect, and without the clock.
        schema = {word: value for word, value in schema.items() if word != "$schema"}
    return Draft202012Validator.descend(validator, instance, schema, path, schema_path, resolver)


def _pattern_properties(validator: Validator, schemas: Object, instance: Any, _: Any) -> Errors:
    if validator.is_type(instance, "object"):
        for pattern, schema in schemas.items():
            for name, value in instance.items():
                if _is_found(pattern, name):
                    yield from validator.descend(value, schema, name)


def _additional_properties(
    validator: Validator, schema: Schema, instance: Any, holder: Object
) -> Errors:
    if not validator.is_type(instance, "object"):
        return
    named, patterns = holder.get("properties", ()), holder.get("patternProperties", ())
    extras = [
        name
        for name in instance
        if name not in named and not any(_is_found(pattern, name) for pattern in patterns)
    ]
    if schema is not False:
        for name in extras:
            yield from validator.descend(instance[name], schema, name)
    elif extras:
        listed = ", ".join([*map(_excerpt, sorted(extras)[:MOST_EXTRAS]), "…"][: len(extras)])
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({listed} {verb} unexpected)")


def _any_of(
    validator: Validator, schemas: Sequence[Schema], instance: object, holder: Object
) -> Errors:
    forms = [schema for schema in schemas if schema != {"type": "null"}]
    if len(forms) != 1:
        yield from Draft202012Validator.VALIDATORS["anyOf"](validator, schemas, instance, holder)
    elif instance is not None or len(schemas) == 1:
        # Null aside, it is the only form, so that its faults are those of the whole.
        yield from validator.descend(instance, forms[0])


def _is_found(pattern: str, text: str) -> bool:
    """Whether a pattern of a schema occurs in a text; raises NotJudged."""
    left_s = judging().look_at_clock()
    try:
        return compile_pattern(pattern, lines=False).search(text, timeout=left_s) is not None
    except TimeoutError as error:
        raise NotJudged(str(PatternTimeout(pattern, judging().limit_s))) from error
    except PatternError as error:
        raise NotJudged(str(error)) from error


def _pattern(validator: Validator, pattern: str, instance: str, _: Any) -> Errors:
    if validator.is_type(instance, "string") and not _is_found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


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
        if (text := canonical(item)) in seen:
            yield ValidationError(f"{instance!r} has {_excerpt(item)} twice")
            return
        seen.add(text)


KEYWORDS = frozenset(Draft202012Validator.VALIDATORS)
_Validator: Any = extend(  # type: ignore[no-untyped-call]  # jsonschema gives it no types
    Draft202012Validator,
    {
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "anyOf": _any_of,
        "pattern": _pattern,
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
    },
)
# By these the library's own keywords come to inner schemas.
_Validator.descend = _descend
_Validator.iter_errors = lambda at, instance: _descend(at, instance, at.schema)
_BOUNDS = {
    word + kind: end
    for word, end in (("min", "at least"), ("max", "at most"))
    for kind in ("Length", "Items", "Properties")
}


def errors(
    value: object, schema: Mapping[str, Any], most: int | None, limit_s: float = TIME_LIMIT_S
) -> list[ValidationError]:
    """The first violations of a schema in a value, or all of them, in the order of their places."""
    with judging_of(value, schema, TIME_FOR_EACH_S, limit_s):
        return _first(value, schema, most)


def message_of(error: ValidationError) -> str:
    """What the library says, with a large value cut, and the bound that it leaves out."""
    instance: Any = error.instance
    bound: Any = error.validator_value
    value, said = repr(instance), error.message
    if said.startswith(value):
        said = shorten(value, LIMIT) + said.removeprefix(value)
    if (end := _BOUNDS.get(str(error.validator))) and bound > 1:
        # An obvious bound is not named.
        said += f" ({len(instance):,}, {end} {bound:,})"
    return said


def _metaschema_error(schema: object) -> ValidationError | None:
    # The schema of schemas looks at each value ten times.
    with judging_of(schema, None, 3 * TIME_FOR_EACH_S):
        return next(iter(_first(schema, Draft202012Validator.META_SCHEMA, 1)), None)


def _first(value: object, schema: Mapping[str, Any], most: int | None) -> list[ValidationError]:
    found = _Validator({}, _resolver=_resolver_of(schema)).descend(value, schema)

    def place(error: ValidationError) -> list[tuple[int, str]]:
        return [(step, "") if isinstance(step, int) else (-1, step) for step in error.absolute_path]

    try:
        return sorted(islice(found, most), key=place)
    except Unresolvable as error:
        raise NotJudged(f"{_shown(error.ref)} leads nowhere") from error


def _resolver_of(schema: Mapping[str, Any]) -> Resolver:
    root = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    # What is not crawled is crawled again for each reference.
    return _metaschemas().with_resource(uri, root).crawl().resolver(uri)


@lru_cache(maxsize=1)
def _metaschemas() -> Registry[Resource[Any]]:
    crawled: Registry[Resource[Any]] = REGISTRY.crawl()
    return crawled


def _shown(reference: str) -> str:
    return f"`$ref: {shorten(reference, LIMIT)}`"


def flaws(schema: Mapping[str, Any]) -> Iterator[Flaw]:
    """All mistakes that make a schema unusable; of those in its form only the first."""
    try:
        if (wrong := _metaschema_error(schema)) is not None:
            yield Flaw(message_of(wrong), tuple(wrong.absolute_path))
        else:
            yield from _inner_flaws(schema)
    except NotJudged as error:
        yield Flaw(str(error))
    except ValueError:
        yield Flaw("an `$id` of the schema is not a URI")


def _inner_flaws(schema: Mapping[str, Any]) -> Iterator[Flaw]:
    """The mistakes in references and patterns, also where only a reference leads to a schema."""
    seen: set[int] = set()
    targets: list[tuple[Path, Any]] = []
    waiting: list[tuple[Path, Any, Resolver]] = [((), schema, _resolver_of(schema))]
    while waiting or targets:
        if not waiting:
            # Now that all schemas which stand as such have been seen.
            path, target = targets.pop()
            if id(target.contents) in seen or _is_of_a_metaschema(target):
                continue
            if (wrong := _metaschema_error(target.contents)) is not None:
                yield Flaw(f"this leads to no schema: {message_of(wrong)}", path)
                continue
            waiting.append((path, target.contents, target.resolver))
        path, inner, resolver = waiting.pop()
        if isinstance(inner, bool) or id(inner) in seen:
            continue
        seen.add(id(inner))
        # It may have an address of its own.
        resolver = resolver.in_subresource(DRAFT202012.create_resource(inner))
        yield from _pattern_flaws(path, inner)
        for word in REFERENCES:
            if word in inner:
                target = _target(resolver, inner[word])
                if isinstance(target, str):
                    remedy = _remedy(inner[word])
                    yield Flaw(target, (*path, word), remedy, leads_nowhere=True)
                else:
                    targets.append(((*path, word), target))
        waiting += [((*path, *step), child, resolver) for step, child in inner_schemas(inner)]


def _target(resolver: Resolver, reference: str) -> Any:
    """What a reference leads to, and a resolver there; a text that says what is wrong with it."""
    try:
        target = resolver.lookup(reference)
    except (Unresolvable, LookupError, ValueError, TypeError):
        return f"{_shown(reference)} leads nowhere"
    is_schema = isinstance(target.contents, bool | Mapping)
    return target if is_schema else f"{_shown(reference)} leads to no schema"


def _is_of_a_metaschema(target: Any) -> bool:
    base = str(target.resolver._base_uri)  # noqa: SLF001 - the library offers no other way
    return base.startswith("https://json-schema.org/draft/")


def _remedy(reference: str) -> str:
    if ":" in reference.partition("#")[0]:
        return "nothing is fetched: save it beside the machine file, and name it by its path"
    return "name a part of this schema, such as `#/$defs/name`, or a file beside the machine file"


def _pattern_flaws(path: Path, schema: Mapping[str, Any]) -> Iterator[Flaw]:
    placed = [("pattern", schema["pattern"])] if isinstance(schema.get("pattern"), str) else []
    listed = [("patternProperties", name, name) for name in schema.get("patternProperties", ())]
    for *steps, pattern in (*placed, *listed):
        try:
            compile_pattern(pattern, lines=False)
        except PatternError as error:
            yield Flaw(str(error), (*path, *steps))
