"""Shapes: what is known of a template's data before it is rendered."""

from __future__ import annotations

from collections.abc import Mapping

from loopkit.values import Value, field


class Anything(Value, frozen=True):
    """Data of which nothing is known: every field may be read."""

    optional: bool = False
    """It may be absent: a template has to ask before it uses it. So in each of the shapes."""


class Scalar(Value, frozen=True):
    """A text, a number, true or false: it has no fields."""

    optional: bool = False


class Fields(Value, frozen=True):
    """A mapping, or a text with fields."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    open: bool = False
    """It may have other fields too."""
    optional: bool = False
    others: Shape | None = None
    """The shape of further fields, if there can be some."""


class Items(Value, frozen=True):
    """A list of items of one shape."""

    item: Shape = field(default_factory=Anything)
    optional: bool = False


Shape = Anything | Scalar | Fields | Items


def either(first: Shape, second: Shape) -> Shape:
    """Return the shape of data that has one of two shapes."""
    optional = first.optional or second.optional
    first, second = present(first), present(second)
    shape = first if first == second else Anything()
    return shape.replace(optional=True) if optional else shape


def present(shape: Shape) -> Shape:
    """Return the shape of data that is known to be present."""
    return shape.replace(optional=False) if shape.optional else shape


def absent(shape: Shape) -> Shape:
    """Return the shape of data that may be missing."""
    return shape if shape.optional else shape.replace(optional=True)


def member(shape: Shape, name: str) -> Shape | None:
    """Return the shape of a field; None where there can't be one of this name."""
    match shape:
        case Anything():
            return Anything()
        case Fields(fields=fields, open=is_open, others=others):
            return fields.get(name, others or (Anything() if is_open else None))
        case _:
            return None


def item_of(shape: Shape) -> Shape:
    """Return the shape of each item in a loop over the data."""
    match shape:
        case Items(item=item):
            return item
        case Anything():
            return Anything()
        case _:
            return Scalar()
