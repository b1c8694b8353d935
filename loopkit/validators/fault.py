"""Faults: the result of a rule's check, or the reason why it could not judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from loopkit.engine.failure import Failure
from loopkit.language.agents.calls import ErrorClass
from loopkit.values import Value

MAX_FAULTS = 50
"""The most faults that one rule names; a text that is wrong everywhere needs no longer list."""


class Fault(Value, frozen=True):
    """One defect, before it has a severity and an id."""

    message: str
    """What is wrong and what is expected; used where the rule has no `message:`."""
    steady: str
    """What stays the same while the defect does: the message without counts, sizes and times."""
    location: str = ""
    line: int | None = None
    severity: str = ""
    """How bad it is, where the check knows; else the rule says it."""
    code: str = ""
    """The kind of defect, where the check knows it and the rule has no code."""
    key: str = ""
    """The name that its reviewer gives it, however it is worded."""
    origins: tuple[str, ...] = ()
    """The states that have to correct it, where the check knows; else the rule may say it."""
    word: str = ""
    """The reviewer's word for its severity."""
    fields: Mapping[str, object] = MappingProxyType({})
    """The further fields that a report gives it."""
    value: object = None
    """For `message:`, what was judged: a match, a count, a number of characters, an item."""
    item: object = None
    index: int | None = None
    """For `message:`, the number of the item or the match, from 0."""
    is_unreadable: bool = False
    """The rule could not be applied at all, so its `message:` would mislead."""
    is_known: bool = False
    """It was there before the run's first work, so it never blocks."""
    identified: bool = True
    """Whether `steady` tells this defect from others, as an exit code alone does not."""
    exact: str = ""
    """What makes it the same as one of a baseline, where `steady` says too little."""


class Found(Value, frozen=True):
    """The defects that a check found, and a remark on how it judged."""

    faults: Sequence[Fault]
    reason: str = ""
    """How two sources of the verdict disagree, where they do."""


def unreadable(reason: str) -> Fault:
    """The fault of an artifact in which there is no data."""
    return Fault(reason, "no data", is_unreadable=True)


class CannotJudge(Exception):
    """The check could not come to a verdict; the reason is a sentence with a remedy.

    `retry_after_s` is the wait that a program asks for, where it names one.
    """

    def __init__(
        self,
        reason: str,
        error_class: ErrorClass = "fatal",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(reason, error_class)
        self.reason = reason
        self.error_class = error_class
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.reason

    def failure(self, now: float) -> Failure:
        """Why there is no verdict; `now` is the Unix time from which a wait counts."""
        wait_s = self.retry_after_s
        resume_at = None if wait_s is None else now + wait_s
        return Failure(self.error_class, self.reason, resume_at=resume_at)


def amount(number: int) -> str:
    """`1 is`, `2,000 are`."""
    return f"{number:,} is" if number == 1 else f"{number:,} are"
