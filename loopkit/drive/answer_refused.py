"""The refusal of what a person answers, or somebody outside delivers."""

from __future__ import annotations

import json

from loopkit.engine.records import Record
from loopkit.text import is_broken


class AnswerRefused(Exception):
    """An answer that does not fit the question; the message says why and what would."""

    def __init__(self, message: str, at: str = "") -> None:
        """`at` is the part of the answer that is wrong, such as `comment`; empty for the whole."""
        super().__init__(message)
        self.at = at


class AnsweredTwice(AnswerRefused):
    """The question before this one was given the same, so it may be meant for that one."""

    def __init__(self, message: str, again: str) -> None:
        """`again` says what to do if it is meant for this one: `answer the same`."""
        super().__init__(message)
        self.again = again


def refuse_broken(given: Record, noun: str) -> None:
    """Raise AnswerRefused for texts that can't be stored."""
    if is_broken(json.dumps(given.plain(), ensure_ascii=False)):
        message = f"the {noun} has half a surrogate pair in it, which is not a character"
        raise AnswerRefused(message)
