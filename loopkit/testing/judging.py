"""Results of cases: each played, compared with its expectations, and checked for leftovers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from loopkit.document.document import DocPath
from loopkit.document.writing import to_yaml
from loopkit.engine.events import Event, Suspended, Worked
from loopkit.engine.state import RunState, Task, is_of_program
from loopkit.scenario.cases import Case, Expect
from loopkit.scenario.script import Attempts, Parts, call_at
from loopkit.testing.expectations import misses
from loopkit.testing.expecting import with_what_was_done
from loopkit.testing.playbill import Playbill
from loopkit.testing.playing import FamilyRun, Refusal, Run, play
from loopkit.testing.suites import CaseResult, Failure, Suite
from loopkit.testing.trace import Trace, trace
from loopkit.text.run_ids import place_of

INDENT = 4


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
    at: DocPath = ("cases", case)
    yield from _expectation_failures(suite, case, done)
    for missing in run.unprepared:
        path = _place(suite, at, missing)
        yield _failure(suite, path, "unprepared", missing.reason, key=not missing.at)
    if (refused := run.refused) is not None:
        message = f"the answer was refused: {refused.reason}"
        yield _failure(suite, _place(suite, at, refused), "refused", message)
    for path, message in leftovers(suite.case(case), suite.playbill, run):
        yield _failure(suite, (*at, *path), "unused", message, help="delete it")


def _place(suite: Suite, case: DocPath, refusal: Refusal) -> DocPath:
    """The place in the case, or in what all cases share."""
    own, document = (*case, *refusal.at), suite.source.document
    return own if document.node(document.as_written(own)) is not None else refusal.at


def _expectation_failures(suite: Suite, case: str, run: Trace) -> Iterator[Failure]:
    at: DocPath = ("cases", case)
    expect = suite.case(case).expect
    if expect is None or not expect.model_fields_set:
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


Leftover = tuple[DocPath, str]
"""Its place in the case, and what is left over."""


def leftovers(case: Case, bill: Playbill, run: FamilyRun) -> Iterator[Leftover]:
    """Everything of a case's own that was not used; what all cases share may be left over."""
    suspended = sum(isinstance(event, Suspended) for event in run.plain_events)
    yield from _unused(("resumes",), suspended, len(case.resumes), "resume")
    yield from _in_family(case, bill, run)


def _in_family(
    parts: Parts, bill: Playbill, run: FamilyRun, called: str = ""
) -> Iterator[Leftover]:
    for at, message in _in_run(parts, bill, run):
        yield at, f"`{called}`: {message}" if called else message
    of_children = [(child.run, parts.child(*child[:3])) for child in run.children]
    for said in parts.in_children:
        place = place_of(said.state, said.key, called)
        runs = [one for one, its in of_children if its is not None and its.at == said.at]
        if not runs and said.said.model_fields_set:
            visit = f"does not begin on visit {said.visit} of `{said.state}`"
            yield said.at, f"`{place}` {visit if said.visit > 1 else 'never begins'}"
        # A part for several children is used if any of them needs it.
        left = [dict(_in_family(said.said, bill.children[said.state], one, place)) for one in runs]
        for path, message in left[0].items() if left else ():
            if all(path in other for other in left):
                yield (*said.at, *path), message


def _in_run(case: Parts, bill: Playbill, run: FamilyRun) -> Iterator[Leftover]:
    state, events = run.state, run.plain_events
    asked = [task for key, task in state.tasks.items() if not is_of_program(key)]
    for agent, role in case.agents.items():
        own = [task for task in asked if task.agent == agent]
        if isinstance(role, Mapping):
            for place, attempts in role.items():
                here = {task.place_index: task for task in own if task.place == place}
                yield from _replies(("agents", agent, place), attempts, here)
        else:
            everywhere = {task.index: task for task in own}
            yield from _replies(("agents", agent), role, everywhere)
    for place, results in case.commands.items():
        used = _results(place, bill, state, events)
        yield from _unused(("commands", place), used, len(results), "result")
    for human, answers in case.answers.items():
        used = _answers(human, state, events)
        yield from _unused(("answers", human), used, len(answers), "answer")


def _replies(at: DocPath, attempts: Attempts, tasks: Mapping[int, Task]) -> Iterator[Leftover]:
    for index, calls in enumerate(attempts):
        task = tasks.get(index)
        if calls and calls[-1].is_refused:
            calls = calls[:-1]
        if task is None and calls:
            yield (*at, index), f"attempt {index + 1} is never asked for"
        elif task is not None:
            used = call_at(calls, task.settled, task.sent - task.settled)
            if used < len(calls):
                yield (*at, index, used), f"call {used + 1} of attempt {index + 1} is never made"


def _results(place: str, bill: Playbill, state: RunState, events: Sequence[Event]) -> int:
    visits = [
        event.visit + ((event.state, place) in state.baselines)
        for event in events
        if isinstance(event, Worked) and event.report is not None
        and place in (answer.validator for answer in event.report.answers)
        and event.state in bill.graph.judges
    ]  # fmt: skip
    stopped = state.suspended.commands if state.suspended else ()
    if place in (ran.validator for ran in stopped):
        visits.append(state.visit + ((state.state, place) in state.baselines))
    baselines = sum(validator == place for _, validator in state.baselines)
    return max([state.runs_of(place), *visits, min(baselines, 1)], default=0)


def _answers(human: str, state: RunState, events: Sequence[Event]) -> int:
    visits = [
        event.visit
        for event in events
        if isinstance(event, Worked) and event.state == human and event.answer is not None
    ]
    asked = [state.visit] if state.status == "waiting" and state.state == human else []
    return max([*visits, *asked], default=0)


def _unused(at: DocPath, used: int, prepared: int, kind: str) -> Iterator[Leftover]:
    for index in range(used, prepared):
        yield (*at, index), f"{kind} {index + 1} is never used"
