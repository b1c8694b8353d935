"""Values: plain, frozen data; and what is like them, but changes while it lives.

They are structs of msgspec: such a class is made forty times as fast as a dataclass, and two
hundred of them are made to start. Making one checks nothing. Where a value is made anew in every
step, the function `replace` costs a quarter of the method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import field
from msgspec.structs import force_setattr, replace


class _Nothing(dict[Any, Any]):
    """An empty mapping that is shared, and so refuses to be filled.

    Of a plain dict msgspec gives each instance its own, which takes as much memory as a dict with
    something in it; events are kept, and have several.
    """

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError(f"{key!r} can't be put into the shared empty mapping; make another")


NOTHING: dict[Any, Any] = _Nothing()
"""The default of mappings that are replaced and never changed."""


class Value(msgspec.Struct, frozen=True):
    """What all values have in common. `dict=True` gives one room for cached properties."""

    def replace(self, **changes: object) -> Self:
        """The same with other values in some fields."""
        return replace(self, **changes)


class Mutable(msgspec.Struct):
    """What changes while it lives, and is never stored."""

    if TYPE_CHECKING:

        def copy(self) -> Self:
            """Another with the same in all fields."""

    else:
        # Not called from a function of Python's, because every step makes a copy.
        copy = msgspec.Struct.__copy__

    def replace(self, **changes: object) -> Self:
        """The same with other values in some fields."""
        return replace(self, **changes)


__all__ = ["NOTHING", "Mutable", "Value", "field", "force_setattr", "replace"]
