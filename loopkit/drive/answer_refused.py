"""The error of answers and deliveries that can't be taken."""

from __future__ import annotations


class AnswerRefused(Exception):
    """An answer that does not fit the question; the message says why and what would."""

    def __init__(self, message: str, at: str = "") -> None:
        """`at` is the part of the answer that is wrong, such as `comment`; empty for the whole."""
        super().__init__(message)
        self.at = at
