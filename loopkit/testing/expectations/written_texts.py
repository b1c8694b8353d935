"""Expected texts: feedback, prompts and artifacts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from loopkit.document.document import DocPath
from loopkit.scenario import Expect, ExpectedArtifact, ExpectedFeedback, ExpectedPrompt
from loopkit.testing.expectations.matching import (
    as_json,
    as_text,
    matching_feedback,
    matching_prompts,
)
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.trace import Trace
from loopkit.text import as_nfc, one_line

SHOWN_LINES = 30

Quoting = ExpectedFeedback | ExpectedPrompt | ExpectedArtifact


def feedback(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The feedback to states that had to work again."""
    for index, wanted in enumerate(expect.feedback or ()):
        at: DocPath = ("feedback", index)
        matching = matching_feedback(run, wanted)
        if not matching:
            yield Miss(at, f"no feedback was given{_to(wanted)}", _feedback_lines(run))
        for given in matching:
            where = f"the feedback to `{given.to}` for attempt {given.attempt}"
            yield from _piece_misses(at, wanted, given.text, where)


def prompts(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The prompts that agents were sent."""
    for index, wanted in enumerate(expect.prompts or ()):
        at: DocPath = ("prompts", index)
        matching = matching_prompts(run, wanted)
        if not matching:
            yield Miss(at, f"no such call was made{_by(wanted)}", _call_lines(run))
        for call in matching:
            where = f"the prompt of `{call.agent}` in `{call.state}`, attempt {call.attempt}"
            yield from _piece_misses(at, wanted, call.text, where)


def artifacts(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The versions that the run ended with."""
    for name, wanted in (expect.artifacts or {}).items():
        at: DocPath = ("artifacts", name)
        value, is_there = run.version(name)
        if not is_there:
            yield Miss(at, f"the run ended without `{name}`")
            continue
        text = as_text(value)
        yield from _piece_misses(at, wanted, text, f"`{name}`")
        if wanted.equals is not None and (expected := _plain(wanted.equals)) != _plain(text):
            shown = _lines_of_diff(expected, _plain(text))
            yield Miss((*at, "equals"), f"`{name}` is another text (- expected, + made)", shown)
        if "data" in wanted.model_fields_set and as_json(value) != as_json(wanted.data):
            shown = _lines_of_diff(as_json(wanted.data), as_json(value))
            yield Miss((*at, "data"), f"`{name}` is other data (- expected, + made)", shown)


def _to(wanted: ExpectedFeedback) -> str:
    state = f" to `{wanted.to}`" if wanted.to else ""
    return state + (f" for attempt {wanted.attempt}" if wanted.attempt else "")


def _by(wanted: ExpectedPrompt) -> str:
    keys = ("agent", "state", "validator", "attempt", "call")
    parts = [f"{key} {value}" for key in keys if (value := getattr(wanted, key)) is not None]
    return f" ({', '.join(parts)})"


def _feedback_lines(run: Trace) -> tuple[str, ...]:
    lines = (f"to {t.to} for attempt {t.attempt}: {one_line(t.text)}" for t in run.feedback)
    return ("there was:", *lines) if run.feedback else ()


def _call_lines(run: Trace) -> tuple[str, ...]:
    lines = (
        f"{a.agent} in {a.state} for {a.place}, attempt {a.attempt}, call {a.call}"
        for a in run.asked
    )
    return ("there were:", *lines) if run.asked else ()


def _piece_misses(at: DocPath, wanted: Quoting, text: str, where: str) -> Iterator[Miss]:
    for index, piece in enumerate(wanted.contains):
        if piece.rstrip("\n") not in text:
            message = f"{where} does not contain {one_line(piece)!r}"
            yield Miss((*at, "contains", index), message, _text_lines(text))
    for index, piece in enumerate(wanted.lacks):
        if piece.rstrip("\n") in text:
            message = f"{where} contains {one_line(piece)!r}"
            yield Miss((*at, "lacks", index), message, _text_lines(text))


def _plain(text: str) -> str:
    lines = as_nfc(text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).strip("\n")


def _lines_of_diff(expected: str, made: str) -> tuple[str, ...]:
    before, after = expected.splitlines(), made.splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]
    return _cut(lines)


def _text_lines(text: str) -> tuple[str, ...]:
    return ("it is:", *_cut([f"| {line}" for line in text.splitlines()])) if text else ()


def _cut(lines: list[str]) -> tuple[str, ...]:
    rest = len(lines) - SHOWN_LINES
    return (*lines[:SHOWN_LINES], *([f"… and {rest} more lines"] if rest > 0 else []))
