"""Versions of artifacts in words: which one it is, and how the run came to it."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.engine.events import Version
from loopkit.text import one_line, plural


def made_in_words(version: Version) -> str:
    """How a run came to a version, in brackets; empty for the only attempt of an author."""
    attempts = [plural(version.attempts, "attempt")] if version.attempts > 1 else []
    return _in_brackets([*_number(version, version.attempts), *attempts, *_label(version)])


def beside_attempt(version: Version) -> str:
    """The same beside the attempt of its author, which says most of it."""
    return _in_brackets([*_number(version, version.attempt), *_label(version)])


def phase_and_fallback(version: Version) -> str:
    """The phase of a version, and why it is a fallback."""
    return _in_brackets([*_label(version)])


def _number(version: Version, attempts: int) -> Iterator[str]:
    """Which version it is, where the attempts do not say it."""
    if version.version != attempts and version.version > 1:
        yield f"version {version.version}"


def _label(version: Version) -> Iterator[str]:
    if version.phase:
        yield f"phase {one_line(version.phase)}"
    if version.fallback:
        why = version.fallback_reason
        yield f"fallback: {one_line(why)}" if why else "fallback"


def _in_brackets(parts: list[str]) -> str:
    return f" ({', '.join(parts)})" if parts else ""
