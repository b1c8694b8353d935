"""Targets of `$ref`: the schema itself, its ids and anchors, and the metaschemas.

Nothing is ever read or fetched here. Files that a schema refers to are parts of it already.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from loopkit.language.json_schema.excerpts import excerpt
from loopkit.language.json_schema.judging import NotJudged, judging

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
    try:
        target = resolver.lookup(reference)
    except (Unresolvable, LookupError, ValueError, TypeError) as error:
        raise LeadsNowhere(f"`$ref: {reference_excerpt(reference)}` leads nowhere") from error
    if not isinstance(target.contents, bool | Mapping):
        raise LeadsNowhere(f"`$ref: {reference_excerpt(reference)}` leads to no schema")
    return target


def _have_room(calls: int) -> None:
    """Raise RecursionError if the stack has no room for this many nested calls."""
    if calls:
        _have_room(calls - 1)


def reference_excerpt(reference: str) -> str:
    return excerpt(reference)[1:-1]


def resolver_of(schema: Mapping[str, Any]) -> Resolver:
    """A resolver at the root of a schema; raises NotJudged."""
    try:
        root = DRAFT202012.create_resource(schema)
        uri = root.id() or ""
        return _metaschemas().with_resource(uri, root).crawl().resolver(uri)
    except (ValueError, TypeError, AttributeError) as error:
        raise NotJudged("an `$id` of the schema is not a URI") from error


def metaschema_resolver() -> Resolver:
    """A resolver at the root of the metaschema."""
    return _metaschemas().resolver("https://json-schema.org/draft/2020-12/schema")


def is_metaschema(resolver: Resolver) -> bool:
    """Whether the resolver stands in a metaschema, which needs no check."""
    return str(resolver._base_uri).startswith("https://json-schema.org/draft/")  # noqa: SLF001


def within(resolver: Resolver, schema: Mapping[str, Any]) -> Resolver:
    """The resolver in an inner schema, which may have an address of its own."""
    return resolver.in_subresource(DRAFT202012.create_resource(schema))


@lru_cache(maxsize=1)
def _metaschemas() -> Registry[Resource[Any]]:
    crawled: Any = REGISTRY.crawl()
    return crawled  # type: ignore[no-any-return]
