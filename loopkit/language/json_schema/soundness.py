"""Mistakes in a schema: its form, its patterns, and references without a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopkit.language.json_schema.judging import Flaw, NotJudged
from loopkit.language.json_schema.layout import REFERENCES, Path, inner_schemas
from loopkit.language.json_schema.references import (
    LeadsNowhere,
    is_metaschema,
    resolve_reference,
    resolver_of,
    within,
)
from loopkit.language.json_schema.validation import metaschema_errors
from loopkit.text.patterns import PatternError, compile_pattern


def flaws(schema: Mapping[str, Any]) -> Iterator[Flaw]:
    """All mistakes that make a schema unusable; of those in its form only the first."""
    try:
        for error in metaschema_errors(schema, most=1):
            yield Flaw(error.message, tuple(error.absolute_path))
            return
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
    for error in metaschema_errors(target.contents, most=1):
        yield Flaw(f"this leads to no schema: {error.message}", path)
        return
    for _, inner, resolver in _standing_in(target.contents, target.resolver, seen):
        for word in REFERENCES:
            if word in inner:
                yield from _target_flaws(path, resolve_reference(resolver, inner[word]), seen)


def _pattern_flaws(path: Path, schema: Mapping[str, Any]) -> Iterator[Flaw]:
    if isinstance(schema.get("pattern"), str):
        yield from _unreadable(schema["pattern"], (*path, "pattern"))
    for pattern in schema.get("patternProperties", ()):
        yield from _unreadable(pattern, (*path, "patternProperties", pattern))


def _unreadable(pattern: str, path: Path) -> Iterator[Flaw]:
    try:
        compile_pattern(pattern, lines=False)
    except PatternError as error:
        yield Flaw(str(error), path)
