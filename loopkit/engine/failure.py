"""A failure: why a call, a verdict or the work of a state came to nothing, and what helps."""

from __future__ import annotations

from typing import Literal

from loopkit.engine.usage import RefusedCall
from loopkit.language.agents.calls import ErrorClass
from loopkit.values import Value

WORST_CLASS: tuple[ErrorClass, ...] = ("fatal", "content", "transient")


class Failure(Value, frozen=True):
    """It is made once, where something fails, and passed on as it is.

    The records that store it (`Failed`, `Answer`, `Worked`, `Suspended`) have its fields side by
    side, in their own words.
    """

    error_class: ErrorClass | Literal["limit"]
    """Whether another try, another answer or a person can help, or a limit has to be raised."""
    message: str
    """What went wrong."""
    remedy: str = ""
    """What a person can do about it."""
    resume_at: float | None = None
    """Unix time from which it is worth going on, where a provider or a program names one."""
    refused: RefusedCall | None = None
    """With `limit`: the call that was not made."""
