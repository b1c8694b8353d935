"""Versions of artifacts in words: the number of a version, and how the run made it."""

from __future__ import annotations

from collections.abc import Iterator

from loopkit.engine.events import Version
from loopkit.text import one_line, plural


def version_suffix(version: Version) -> str:
    """How a run made a version, in brackets; empty for the only attempt of an author."""
    attempts = [plural(version.attempts, "attempt")] if version.attempts > 1 else []
    return _in_brackets([*_number(version, version.attempts), *attempts, *_label(version)])


def suffix_beside_attempt(version: Version) -> str:
    """How a run made a version, in brackets, for a text that names the attempt already."""
    return _in_brackets([*_number(version, version.attempt), *_label(version)])


def phase_and_fallback(version: Version) -> str:
    """The phase of a version, and why it is a fallback, in brackets."""
    return _in_brackets([*_label(version)])


def _number(version: Version, attempts: int) -> Iterator[str]:
    """The number of a version, if it is not the number of attempts."""
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
