"""Kinds: nouns that a file tells apart by the key that only one of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Protocol, Union

from pydantic import Discriminator, SerializeAsAny, Tag

from loopkit.language.noun import ByItself


class Kind(Protocol):
    """A noun of a kind."""

    kind: ClassVar[str]
    """The key by which it is known."""


def kind_of(value: object, nouns: Sequence[type[Kind]], otherwise: str | None = None) -> str | None:
    """The kind of a mapping or of an object, by the key that it has or else `otherwise`."""
    keys = value if isinstance(value, dict) else ()
    fitting = (noun.kind for noun in nouns if isinstance(value, noun) or noun.kind in keys)
    return next(fitting, otherwise)


def one_of(
    nouns: Sequence[type[Kind]],
    otherwise: str | None = None,
    unknown: tuple[str, str] | None = None,
) -> Any:
    """The union of these nouns; `unknown` has the code and the message for a value that is none."""

    def tag(value: object) -> str | None:
        kind = kind_of(value, nouns, otherwise)
        return None if kind is None else f"<{kind}>"

    code, message = unknown or (None, None)
    tagged = tuple(Annotated[noun, ByItself(noun), Tag(f"<{noun.kind}>")] for noun in nouns)
    as_any: Any = SerializeAsAny  # which mypy takes for no class
    return as_any[
        Annotated[
            Union[tagged],  # noqa: UP007 - they are known when this runs, and not before
            Discriminator(tag, custom_error_type=code, custom_error_message=message),
        ]
    ]
