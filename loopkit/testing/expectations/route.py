"""The expected route: outcome, path, verdicts, emitted events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopkit.document.document import DocPath
from loopkit.scenario import Expect
from loopkit.testing.expectations.miss import Miss
from loopkit.testing.sequences import align, diff, fit, index_of_difference
from loopkit.testing.trace import Trace
from loopkit.text import one_line


def outcome(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The final state, or how and why the run stopped."""
    if expect.outcome is not None and expect.outcome != run.outcome:
        message = f"expected outcome `{expect.outcome}`, and the run {end_clause(run)}"
        yield Miss(("outcome",), message)
    suspended = run.state.suspended
    if expect.reason is not None and (suspended is None or suspended.reason != expect.reason):
        message = f"expected the run to be suspended as `{expect.reason}`, and it {end_clause(run)}"
        yield Miss(("reason",), message)
    for index, piece in enumerate(expect.says):
        if piece.rstrip("\n") not in run.closing_words:
            message = f"expected to read {one_line(piece)!r}, and the run {end_clause(run)}"
            yield Miss(("says", index), message, tuple(run.closing_words.splitlines()[:10]))


def path(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The states in the order in which they were entered."""
    if expect.path is not None and not fit(expect.path, run.path):
        yield _other(("path",), "another path was taken", expect.path, run.path)


def kept(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The states that kept what they had made."""
    if expect.kept is not None and not fit(expect.kept, run.kept):
        yield _other(("kept",), "other states were kept", expect.kept, run.kept)


def events(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The names that `emit:` stored."""
    if expect.events is not None and not fit(expect.events, run.emitted):
        yield _other(("events",), "other events were emitted", expect.events, run.emitted)


def verdicts(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The verdicts of each validate state."""
    for state, expected in (expect.verdicts or {}).items():
        given = [judged.report.verdict for judged in run.judged if judged.state == state]
        if not fit(expected, given):
            yield _other(("verdicts", state), f"`{state}` judged otherwise", expected, given)


def end_clause(run: Trace) -> str:
    """How the run ended, as the end of a sentence."""
    state = run.state
    if state.finished is not None:
        return f"ended in `{state.finished.outcome}`"
    if state.status == "waiting":
        return f"waits in `{state.state}`"
    if state.suspended is not None and state.status == "suspended":
        why = one_line(state.suspended.message, 200)
        return f"is suspended in `{state.state}` ({state.suspended.reason}: {why})"
    return f"is {state.status} in `{state.state}`"


def _other(at: DocPath, message: str, expected: Sequence[str], taken: Sequence[str]) -> Miss:
    rows = align(expected, taken)
    place = (*at, index_of_difference(rows, len(expected))) if expected else at
    return Miss(place, f"{message} (- expected, + taken)", diff(rows))
