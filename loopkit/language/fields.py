"""Fields that each place of a definition allows, for messages that name them."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import Tag

from loopkit.language.noun import Noun
from loopkit.language.states import STATE_KINDS


def allowed_fields(root: type[Noun], loc: Sequence[str | int]) -> list[str]:
    """The fields of the noun at a pydantic location whose union tags are written `<tag>`."""
    noun = _at(root, list(loc))
    return sorted(_names(noun)) if _is_noun(noun) else []


def kinds_with(field: str) -> list[str]:
    """The kinds of state that allow a field."""
    return [kind for kind, noun in STATE_KINDS.items() if field in _names(noun)]


def field_names(noun: type[Noun]) -> list[str]:
    """The fields of a noun as YAML spells them."""
    return list(_names(noun))


def is_tag(step: str | int) -> bool:
    """Whether a step of a pydantic location is a union's tag, or its mark for a key."""
    return isinstance(step, str) and (step.startswith("<") or step == "[key]")


def _names(noun: Any) -> Iterator[str]:
    for name, field in noun.model_fields.items():
        yield field.alias or name


def _at(annotation: Any, loc: list[str | int]) -> Any:
    for step in loc:
        annotation = _member(annotation, step) if is_tag(step) else _inside(annotation, step)
        if annotation is None:
            return None
    return _bare(annotation)


def _member(annotation: Any, tag: str | int) -> Any:
    """The member of a union that carries a tag."""
    for member in _members(annotation):
        if get_origin(member) is Annotated and Tag(str(tag)) in get_args(member)[1:]:
            return member
    return None


def _members(annotation: Any) -> Iterator[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(extra, Tag) for extra in args[1:]):
            yield annotation
        yield from _members(args[0])
    elif origin in (Union, types.UnionType):
        for member in args:
            yield from _members(member)


def _inside(annotation: Any, step: str | int) -> Any:
    bare = _bare(annotation)
    if _is_noun(bare):
        fields = bare.model_fields
        names = {field.alias or name: field.annotation for name, field in fields.items()}
        extras = {field.alias or name: field.metadata for name, field in fields.items()}
        found = names.get(str(step))
        return Annotated[found, *extras[str(step)]] if found and extras[str(step)] else found
    origin, args = get_origin(bare), get_args(bare)
    if origin is dict:
        return args[1]
    return args[0] if origin in (tuple, list) else None


def _bare(annotation: Any) -> Any:
    """The annotation without metadata, and the noun or container in `X | None`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [m for m in get_args(annotation) if m is not type(None)]
        return _bare(members[0]) if len(members) == 1 else annotation
    return annotation


def _is_noun(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Noun)
