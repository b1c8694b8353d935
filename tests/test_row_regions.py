"""What a condition says of a region of rows, or by what it tells them apart."""

from __future__ import annotations

import pytest

from loopkit.language.guard.grammar import parse
from loopkit.proof.outcomes.table import Space, Split

A = ({"a": False}, {"a": True})
B = ({"b": False}, {"b": True})


def said(condition: str, **sure: object) -> object:
    """Of `a` and `b` which vary, beside what is sure; of anything else nothing is known."""
    space = Space([A, B], derive=lambda row: row, is_possible=lambda _: True, derived_from={})
    held = space.truth(parse(condition).tree, space.start(sure))
    return held.dimension if isinstance(held, Split) else held


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("yes and yes", True),
        ("yes and no", False),
        ("no or yes", True),
        ("no or no", False),
        ("other and no", False),
        ("no and other", False),
        ("yes or other", True),
        ("other and yes", None),
        ("yes and other", None),
        ("no or other", None),
        ("not (yes and other)", None),
        ("a and no", False),
        ("yes or a", True),
    ],
)
def test_one_part_decides_and_what_nobody_knows_leaves_the_whole_open(
    condition: str, expected: bool | None
) -> None:
    assert said(condition, yes=True, no=False) is expected


@pytest.mark.parametrize(
    ("condition", "dimension"),
    [("a and b", 0), ("b and a", 1), ("other and b and a", 1), ("a or other", 0), ("not b", 1)],
)
def test_rows_are_split_by_the_first_part_that_can_tell_them_apart(
    condition: str, dimension: int
) -> None:
    assert said(condition, yes=True, no=False) == dimension
