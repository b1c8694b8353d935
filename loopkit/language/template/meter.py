"""The meter of a rendering. It counts work, not time: the same template always ends the same way.

One unit is some 30 ns, so a rendering ends within about a second. Operators and filters spend for
what they read and twice for what they make, which bounds the memory too.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from loopkit.language.template.errors import Refusal

MAX_ITERATIONS = 100_000
MAX_WORK = 16_000_000
NODE = 24
"""Units for one item of data, or one part of a template that is passed."""


class _Meter:
    """The remaining budget."""

    iterations = MAX_ITERATIONS
    work = MAX_WORK


_current: ContextVar[_Meter] = ContextVar("meter of the rendering")


class fresh_budget:  # noqa: N801 - read as a verb: `with fresh_budget():`
    """Give the code that runs inside a full budget of its own."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _current.set(_Meter())

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def spend(units: int) -> None:
    """Take `units` of work from the rendering's budget; raise Refusal where it has less."""
    meter = _current.get()
    meter.work -= max(0, units)
    if meter.work < 0:
        raise Refusal("the template does too much work", "loop over less, or print less")


def step(parts: int) -> bool:
    """Count one more round of a loop with `parts` in its body; true, so that tests can hold it."""
    meter = _current.get()
    meter.iterations -= 1
    if meter.iterations < 0:
        raise Refusal(f"the template loops more than {MAX_ITERATIONS:,} times", "loop over less")
    spend(NODE + parts)
    return True


def shallow_units(value: object) -> int:
    """Return the units for reading `value` without what its items hold."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, (list, tuple, Mapping, range)):
        return NODE + NODE * len(value)
    return NODE


def deep_units(value: object) -> int:
    """Return the units for reading all of `value`, which may hold one thing exponentially often.

    Stops when there are more than the rendering has budget.
    """
    units, waiting, budget = 0, [value], _current.get().work
    while waiting and units <= budget:
        item = waiting.pop()
        if isinstance(item, str):
            units += len(item)
        elif isinstance(item, Mapping):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
        elif isinstance(item, range):
            units += NODE * len(item)
        units += NODE
    return units
