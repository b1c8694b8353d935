"""`bad-word`, `one-sided`: tables of words with one word twice, or with one outcome only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopkit.checks.subject import Subject
from loopkit.document.document import DocPath
from loopkit.document.problems import Problem
from loopkit.validators.judges.form import fold


def ambiguous(subject: Subject, path: DocPath, words: Mapping[str, object]) -> Iterator[Problem]:
    """Words that the reader does not distinguish, and an empty word."""
    known: dict[str, str] = {}
    for word in words:
        if not fold(word):
            yield subject.source.problem(
                (*path, word), "bad-word", "this word is empty", key=True,
                help="write the word that the report has there",
            )  # fmt: skip
        elif (before := known.setdefault(fold(word), word)) != word:
            yield subject.source.problem(
                (*path, word), "bad-word", f"`{word}` is the same word as `{before}`", key=True,
                help="words are compared without regard to case; delete one of them",
            )  # fmt: skip


def one_sided(
    subject: Subject, path: DocPath, words: Mapping[str, str], more: str = ""
) -> Iterator[Problem]:
    """A warning for words that can't accept anything, or can't reject anything."""
    meanings = set(words.values())
    if not meanings or ("fail" in meanings and meanings & {"pass", "warn"}):
        return
    lacking = "accept" if "fail" in meanings else "reject"
    yield subject.source.problem(
        path,
        "one-sided",
        f"with these words the judge can only {'reject' if lacking == 'accept' else 'accept'}",
        help=f"add the word with which it would {lacking}{more}",
        severity="warning",
        key=True,
    )
