"""Results of cases: each played, compared with its expectations, and checked for leftovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from loopkit.document import to_yaml
from loopkit.document.document import DocPath
from loopkit.scenario import Expect
from loopkit.testing.expectations import misses
from loopkit.testing.expecting import with_what_was_done
from loopkit.testing.leftovers import leftovers
from loopkit.testing.playing import Refusal, Run, play
from loopkit.testing.results import CaseResult, Failure
from loopkit.testing.suites import Suite
from loopkit.testing.trace import Trace, trace

INDENT = 4
"""The usual column of `expect:` in a scenario file."""


def run_case(
    suite: Suite, case: str, seen: Callable[[Run], object] = lambda _run: None
) -> CaseResult:
    """Play a case and compare its run with what it expects; raises KeyError.

    `seen` is called with the run, such as `Tally.add` for coverage. If something in the case is
    still to be written, that is the result, and nothing is played.
    """
    started = time.perf_counter()
    if unwritten := suite.unwritten[case]:
        failures = tuple(Failure(problem) for problem in unwritten)
        return CaseResult(str(suite.path), case, failures, 0.0, suite.source.texts)
    run = play(suite, case)
    done = trace(suite.machine.machine, run)
    failures = tuple(judge(suite, case, run, done))
    is_prepared = not run.unprepared and run.refused is None
    block = _block(suite, case, done) if failures and is_prepared else ""
    seen(run)
    seconds = time.perf_counter() - started
    return CaseResult(str(suite.path), case, failures, seconds, suite.source.texts, block)


def judge(suite: Suite, case: str, run: Run, done: Trace) -> Iterator[Failure]:
    """A failure for everything in a run, and its trace, that is not as the case has it."""
    at: DocPath = ("cases", case)
    yield from _expectation_failures(suite, case, done)
    for message in run.unprepared:
        yield _failure(suite, at, "unprepared", message, key=True)
    if run.refused is not None:
        yield _refusal_failure(suite, case, run.refused)
    for path, message in leftovers(suite.case(case), suite.playbill, run):
        yield _failure(suite, (*at, *path), "unused", message, help="delete it")


def _expectation_failures(suite: Suite, case: str, run: Trace) -> Iterator[Failure]:
    at: DocPath = ("cases", case)
    expect = suite.case(case).expect
    if expect is None or expect.is_empty:
        is_written = "expect" in suite.case(case).model_fields_set
        place = (*at, "expect") if is_written else at
        message = f"case `{case}` expects nothing"
        remedy = "write what has to come of it below `expect:`, `outcome` and `path` first"
        yield _failure(suite, place, "expects-nothing", message, help=remedy, key=True)
        return
    for miss in misses(run, expect):
        path = (*at, "expect", *miss.at)
        code = f"expected-{str(miss.at[0]).replace('_', '-')}"
        yield _failure(suite, path, code, miss.message, shown=miss.shown)


def _block(suite: Suite, case: str, run: Trace) -> str:
    """`expect:` of the case with what the run did in place of what is unmet; empty if it is met."""
    expect = suite.case(case).expect or Expect()
    written = suite.source.document.plain()["cases"][case].get("expect") or {}
    unmet = [miss.at for miss in misses(run, expect)]
    new = with_what_was_done(written, expect, unmet, run, suite.machine.machine)
    if new and new == written:
        return ""
    new = new or {"outcome": run.outcome, "path": list(run.path)}
    return f"{' ' * INDENT}expect:\n{to_yaml(new, INDENT + 2)}"


def _refusal_failure(suite: Suite, case: str, refused: Refusal) -> Failure:
    """The failure for an answer that the open question refused, at its place in the file."""
    at: DocPath = ("cases", case, *refused.at)
    is_own = suite.source.document.node(suite.source.document.as_written(at)) is not None
    path = at if is_own else refused.at
    return _failure(suite, path, "refused", f"the answer was refused: {refused.reason}")


def _failure(
    suite: Suite,
    path: DocPath,
    code: str,
    message: str,
    *,
    help: str = "",  # noqa: A002 - as the field of a problem is called
    shown: tuple[str, ...] = (),
    key: bool = False,
) -> Failure:
    return Failure(suite.source.problem(path, code, message, help=help, key=key), shown)
