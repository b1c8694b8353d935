"""The limits of judging a value by a JSON Schema, and its reasons to give up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from loopkit.text.json_text import MAX_DEPTH, values_inside
from loopkit.values import Value

TIME_LIMIT_S = 1.0
"""The minimum time limit of one judging, in seconds."""

TIME_FOR_EACH_S = 0.000_1
"""And how much longer for each value in data and schema, so that large ones have their time."""


class NotJudged(Exception):
    """Data could not be judged by a schema; the message is a clause with the cause."""


class Flaw(Value, frozen=True):
    message: str
    path: tuple[str | int, ...] = ()
    remedy: str = ""
    leads_nowhere: bool = False
    """Whether it is a `$ref` that leads to no schema."""

    def __str__(self) -> str:
        return self.message


class Judging(Value, frozen=True):
    """The time of one judging."""

    limit_s: float
    ends_s: float
    """CPU time of this thread, so that a busy computer makes no difference."""

    def look_at_clock(self) -> float:
        """The seconds left; raises NotJudged when there are none."""
        if (left_s := self.ends_s - time.thread_time()) > 0:
            return left_s
        raise NotJudged(
            f"it took longer than {self.limit_s:.1f} s; write a schema that repeats less: "
            "`allOf`, `anyOf`, `oneOf` and `$ref` inside each other multiply"
        )


_UNDER_WAY: ContextVar[Judging] = ContextVar("judging")


def judging() -> Judging:
    return _UNDER_WAY.get()


@contextmanager
def judging_of(
    value: object, schema: object, each_s: float, limit_s: float = TIME_LIMIT_S
) -> Iterator[None]:
    """The time to judge a value by a schema; raises NotJudged if the value is nested too deep."""
    if (depth := len(sizes(value))) > MAX_DEPTH:
        raise NotJudged(f"the data is nested {depth:,} levels deep; {MAX_DEPTH} are allowed")
    limit_s += each_s * (sum(sizes(value)) + sum(sizes(schema)))
    token = _UNDER_WAY.set(Judging(limit_s, time.thread_time() + limit_s))
    try:
        yield
    except RecursionError as error:
        raise NotJudged(
            "the schema refers to itself endlessly, or too often; "
            "put each `$ref` to an enclosing part below `properties` or `items`"
        ) from error
    finally:
        _UNDER_WAY.reset(token)


def sizes(value: object) -> list[int]:
    """The number of values at each level of nesting, from the value itself down."""
    numbers, level = [], [value]
    while level:
        numbers.append(len(level))
        level = [inner for outer in level for inner in values_inside(outer)]
    return numbers
