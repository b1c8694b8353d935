"""Expectations compared with a run, one function for each key of `expect:`, and made from one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from loopkit.document.document import DocPath
from loopkit.document.writing import to_yaml
from loopkit.engine.events import Event, Suspended, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.engine.state import RunState, Task, is_of_program
from loopkit.language.machine import Machine
from loopkit.language.states.each import ChildrenState
from loopkit.scenario.cases import (
    Case,
    Expect,
    ExpectedArtifact,
    ExpectedFeedback,
    ExpectedFinding,
    ExpectedPrompt,
)
from loopkit.scenario.playable import Miss, Playable
from loopkit.scenario.script import CHILDREN, Attempts, InChild, Parts, call_at, one_child
from loopkit.testing.playing import Child, FamilyRun, Run, play
from loopkit.testing.suites import CaseResult, Failure, Suite, by_state
from loopkit.testing.trace import (
    Asked,
    Trace,
    align,
    diff,
    fit,
    index_of_difference,
    trace,
)
from loopkit.text import as_nfc, one_line, plural, printable
from loopkit.text.editing import changed_lines, plain_ends
from loopkit.text.run_ids import place_of
from loopkit.views.review import origins_of


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
            yield Miss(("says", index), message, shown=tuple(run.closing_words.splitlines()[:10]))


def verdicts(run: Trace, expect: Expect) -> Iterator[Miss]:
    for state, expected in (expect.verdicts or {}).items():
        given = [report.verdict for report in run.reports if report.state == state]
        yield from _other(("verdicts", state), f"`{state}` judged otherwise", expected, given)


def findings(run: Trace, expect: Expect) -> Iterator[Miss]:
    for index, expected in enumerate(expect.findings or ()):
        reports = [
            report for report in run.reports if _agree(expected, report, ("state", "attempt"))
        ]
        found = [f for report in reports for f in report.findings if _fits(f, expected)]
        is_right = bool(found) if expected.count is None else len(found) == expected.count
        if not reports:
            yield Miss(("findings", index), _no_report_message(run, expected))
        elif not is_right:
            lines = tuple(line for report in reports for line in _report_lines(report))
            yield Miss(("findings", index), _mismatch_message(expected, len(found)), shown=lines)


def feedback(run: Trace, expect: Expect) -> Iterator[Miss]:
    for index, wanted in enumerate(expect.feedback or ()):
        at: DocPath = ("feedback", index)
        matching = [given for given in run.feedback if _agree(wanted, given, ("to", "attempt"))]
        if not matching:
            yield Miss(at, f"no feedback was given{_to(wanted)}", shown=_feedback_lines(run))
        for given in matching:
            where = f"the feedback to `{given.to}` for attempt {given.attempt}"
            yield from _piece_misses(at, wanted, given.text, where)


def prompts(run: Trace, expect: Expect) -> Iterator[Miss]:
    for index, wanted in enumerate(expect.prompts or ()):
        at: DocPath = ("prompts", index)
        matching = matching_prompts(run, wanted)
        if not matching:
            yield Miss(at, f"no such call was made{_by(wanted)}", shown=_call_lines(run))
        for call in matching:
            where = f"the prompt of `{call.agent}` in `{call.state}`, attempt {call.attempt}"
            yield from _piece_misses(at, wanted, call.text, where)


def artifacts(run: Trace, expect: Expect) -> Iterator[Miss]:
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
            yield Miss(
                (*at, "equals"), f"`{name}` is another text (- expected, + made)", shown=shown
            )
        if "data" in wanted.model_fields_set and as_json(value) != as_json(wanted.data):
            shown = _lines_of_diff(as_json(wanted.data), as_json(value))
            yield Miss((*at, "data"), f"`{name}` is other data (- expected, + made)", shown=shown)


def calls(run: Trace, expect: Expect) -> Iterator[Miss]:
    yield from _other_counts("calls", "call", expect.calls, run.calls)
    for agent, most in (expect.calls_at_most or {}).items():
        if (made := run.calls[agent]) > most:
            message = f"expected at most {plural(most, 'call')} of `{agent}`, and there were {made}"
            yield Miss(("calls_at_most", agent), message)


def cost(run: Trace, expect: Expect) -> Iterator[Miss]:
    most, spent = expect.cost_usd_at_most, run.cost_usd
    if most is not None and (spent is None or spent > most + 1e-9):
        actual = "its cost is not known" if spent is None else f"it cost ${spent:.4f}"
        yield Miss(("cost_usd_at_most",), f"expected to pay at most ${most:.4f}, and {actual}")


EXPECTATIONS: tuple[Callable[[Trace, Expect], Iterator[Miss]], ...] = (
    lambda run, expect: _other(("path",), "another path was taken", expect.path, run.path),
    outcome,
    lambda run, expect: _other(("kept",), "other states were kept", expect.kept, run.kept),
    verdicts,
    findings,
    feedback,
    prompts,
    lambda run, expect: _other_counts("revisions", "revision", expect.revisions, run.revisions),
    calls,
    cost,
    lambda run, expect: _other(
        ("events",), "other events were emitted", expect.events, run.emitted
    ),
    artifacts,
)


def misses(run: Trace, expect: Expect, called: str = "") -> Iterator[Miss]:
    """Every expectation that did not come true, in the order of the keys in the reference.

    `called` is the name of the run, if it is a child.
    """
    for expectation in EXPECTATIONS:
        yield from _with_child_name(called, expectation(run, expect))
    for child, expected in judged_children(run, expect):
        place = place_of(child.state, child.key, called)
        for miss in misses(child.run, expected.said, place):
            yield miss.below(expected.at)
    yield from _with_child_name(called, unbegun(run, expect))


def _with_child_name(called: str, found: Iterable[Miss]) -> Iterator[Miss]:
    for miss in found:
        yield miss.replace(message=f"`{called}`: {miss.message}") if called else miss


def end_clause(run: Trace) -> str:
    state = run.state
    if state.finished is not None:
        return f"ended in `{state.finished.outcome}`"
    if state.status == "waiting":
        return f"waits in `{state.state}`"
    if state.suspended is not None and state.status == "suspended":
        why = one_line(state.suspended.message, 200)
        return f"is suspended in `{state.state}` ({state.suspended.reason}: {why})"
    return f"is {state.status} in `{state.state}`"


def _other(
    at: DocPath, message: str, expected: Sequence[str] | None, taken: Sequence[str]
) -> Iterator[Miss]:
    if expected is not None and not fit(expected, taken):
        rows = align(expected, taken)
        place = (*at, index_of_difference(rows, len(expected))) if expected else at
        yield Miss(place, f"{message} (- expected, + taken)", shown=diff(rows))


def _other_counts(
    key: str, noun: str, wanted: Mapping[str, int] | None, counted: Mapping[str, int]
) -> Iterator[Miss]:
    for name, expected in (wanted or {}).items():
        if (found := counted[name]) != expected:
            message = f"expected {plural(expected, noun)} of `{name}`, and there were {found}"
            yield Miss((key, name), message)


def _fits(finding: Finding, expected: ExpectedFinding) -> bool:
    keys = ("code", "severity", "status", "defaulted")
    return (
        expected.validator in (None, *finding.named_by)
        and expected.origin in (None, *finding.origins)
        and _agree(expected, finding, keys)
        and (expected.message or "").rstrip("\n") in finding.message
    )


def _no_report_message(run: Trace, expected: ExpectedFinding) -> str:
    where = f"`{expected.state}`" if expected.state else "the run"
    known = [report for report in run.reports if expected.state in (None, report.state)]
    if not known:
        return f"{where} gave no report"
    judged = ", ".join(dict.fromkeys(str(one.attempt) for one in known))
    return f"{where} judged no attempt {expected.attempt}; it judged {judged}"


def _mismatch_message(expected: ExpectedFinding, count: int) -> str:
    keys = ("code", "validator", "severity", "status", "origin")
    parts = [f"{key} `{value}`" for key in keys if (value := getattr(expected, key)) is not None]
    if expected.defaulted is not None:
        parts += ["an assumed origin" if expected.defaulted else "an origin that is named"]
    parts += [f"{one_line(expected.message)!r}"] if expected.message is not None else []
    kind = f" with {' and '.join(parts)}" if parts else ""
    if expected.count is None:
        return f"expected a finding{kind}, and there is none"
    return f"expected {plural(expected.count, 'finding')}{kind}, and there are {count}"


def _report_lines(report: Report) -> Iterator[str]:
    yield f"{report.state}, attempt {report.attempt}: {report.verdict}"
    for finding in report.findings:
        code = f" [{finding.code}]" if finding.code else ""
        message = one_line(finding.message, 160)
        yield f"- {finding.severity}{code} {message}{origins_of(finding)}"


SHOWN_LINES = 30

Quoting = ExpectedFeedback | ExpectedPrompt | ExpectedArtifact


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
    form = "{0.agent} in {0.state} for {0.place}, attempt {0.attempt}, call {0.call}"
    return ("there were:", *map(form.format, run.asked)) if run.asked else ()


def _piece_misses(at: DocPath, wanted: Quoting, text: str, where: str) -> Iterator[Miss]:
    for key, is_wanted in (("contains", True), ("lacks", False)):
        for index, piece in enumerate(getattr(wanted, key)):
            if (piece.rstrip("\n") in text) is not is_wanted:
                verb = "does not contain" if is_wanted else "contains"
                message = f"{where} {verb} {one_line(piece)!r}"
                yield Miss((*at, key, index), message, shown=_text_lines(text))


def _plain(text: str) -> str:
    lines = plain_ends(as_nfc(text)).split("\n")
    return "\n".join(line.rstrip(" \t") for line in lines).strip("\n")


def _lines_of_diff(expected: str, made: str) -> tuple[str, ...]:
    return _cut(changed_lines(expected.splitlines(), made.splitlines(), context=1))


def _text_lines(text: str) -> tuple[str, ...]:
    return ("it is:", *_cut([f"| {line}" for line in text.splitlines()])) if text else ()


def _cut(lines: list[str]) -> tuple[str, ...]:
    rest = len(lines) - SHOWN_LINES
    return (*lines[:SHOWN_LINES], *([f"… and {rest} more lines"] if rest > 0 else []))


def judged_children(run: Trace, expect: Expect) -> Iterator[tuple[Child[Trace], InChild[Expect]]]:
    for child in run.children:
        expected = one_child(expect.children or {}, child.state, child.key, child.visit)
        if expected is not None:
            yield child, expected


def unbegun(run: Trace, expect: Expect) -> Iterator[Miss]:
    """The unmet expectations of children that never began; of these only the outcome is known."""
    begun = {expected.at for _, expected in judged_children(run, expect)}
    for one in expect.in_children:
        if one.at in begun:
            continue
        artifact = run.state.artifacts.get(one.state)
        results = artifact.data if artifact is not None else None
        result = results.get(one.key, {}) if isinstance(results, Mapping) else {}
        outcome = result.get("outcome")
        expected = f"expected something of `{one.called}`"
        if outcome is None:
            yield Miss(one.at, f"{expected}, and no such child began")
        elif one.said.model_fields_set - {"outcome"} or one.said.outcome not in (None, outcome):
            # For a visit without such an item, nothing is expected: `{}`.
            yield Miss(one.at, f"{expected}, which is `{outcome}` and never began")


def matching_prompts(run: Trace, expected: ExpectedPrompt) -> list[Asked]:
    keys = ("agent", "state", "attempt", "call")
    same = (asked for asked in run.asked if _agree(expected, asked, keys))
    return [asked for asked in same if expected.validator in (None, asked.place)]


def _agree(expected: object, found: object, keys: Iterable[str]) -> bool:
    """Whether `found` has all values that are given for these keys; None stands for any value."""
    return all(getattr(expected, key) in (None, getattr(found, key)) for key in keys)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


OF_FAMILY = frozenset({"calls", "cost_usd_at_most"})
"""The expectations that the root has for all its children."""

PIECE_CHARS = 80
"""The most characters of an expected message: distinctive, but short enough to read."""


def expectations_of(run: Trace, machine: Machine) -> dict[str, Any]:
    """The content of `expect:`."""
    suspended = run.state.suspended if run.state.status == "suspended" else None
    verdicts: dict[str, list[str]] = {}
    for report in run.reports:
        verdicts.setdefault(report.state, []).append(report.verdict)
    parts = {
        "outcome": run.outcome,
        "reason": suspended and suspended.reason,
        "path": list(run.path),
        "kept": list(run.kept),
        "verdicts": verdicts,
        "findings": list(_findings(run)),
        "feedback": list(_feedback(run)),
        "revisions": {name: n for name, n in run.revisions.items() if name in machine.states},
        "calls": dict(run.calls),
        # In millionths of a dollar, never less than it is.
        "cost_usd_at_most": ceil(round((run.cost_usd or 0.0) * 1e6, 3)) / 1e6,
        "events": list(run.emitted),
        CHILDREN: by_state(machine, {one[:3]: _of_child(one, machine) for one in run.children}),
    }
    return {key: value for key, value in parts.items() if value}


QUOTED = frozenset({"says", "prompts"})
"""Expectations that quote pieces of texts, which a person chooses."""


def with_what_was_done(
    written: Mapping[str, Any], unmet: Collection[DocPath], run: Trace, machine: Machine
) -> dict[str, Any]:
    """The content of `expect:` as it is written, with what the run did wherever it is `unmet`."""
    done, new = expectations_of(run, machine), dict(written)
    counts = {"revisions": run.revisions, "calls": run.calls, "calls_at_most": run.calls}
    for key in {str(at[0]) for at in unmet} - QUOTED:
        if key in counts:
            new[key] = {name: counts[key][name] for name in written[key]}
        elif key in ("verdicts", "children"):
            given = done.get(key, {})
            new[key] = {name: given[name] for name in written[key] if name in given}
        elif key == "artifacts":
            new[key] = dict(_artifacts(written[key], unmet, run))
        else:
            new[key] = done.get(key)
    return {key: value for key, value in new.items() if value is not None and value != {}}


def _of_child(child: Child[Trace], machine: Machine) -> dict[str, Any]:
    expected = expectations_of(child.run, machine.states_of(ChildrenState)[child.state].child)
    return {key: value for key, value in expected.items() if key not in OF_FAMILY}


def _artifacts(
    written: Mapping[str, Any], unmet: Collection[DocPath], run: Trace
) -> Iterator[tuple[str, Any]]:
    for name, expected in written.items():
        value, is_there = run.version(name)
        wrong = {key for key in ("equals", "data") if ("artifacts", name, key) in unmet}
        done = {"equals": as_text(value), "data": value}
        if is_there:
            yield name, {**expected, **{key: done[key] for key in wrong}}


def _findings(run: Trace) -> Iterator[dict[str, Any]]:
    is_told_apart = len({report.state for report in run.reports}) > 1
    for report in run.reports:
        where = {"state": report.state} if is_told_apart else {}
        # A first value is no attempt.
        at = {"attempt": report.attempt} if report.attempt else {}
        for finding in report.findings:
            named = {"validator": finding.validator, "message": piece(finding.message)}
            status = {} if finding.status == "new" else {"status": finding.status}
            yield {**where, **at, **named, **status}


def _feedback(run: Trace) -> Iterator[dict[str, Any]]:
    """The feedback, by the messages that it repeats from the reports before it."""
    for feedback in run.feedback:
        before = [report for report in run.reports if report.attempt < feedback.attempt][-2:]
        pieces = (piece(finding.message) for one in before for finding in one.findings)
        repeated = dict.fromkeys(short for short in pieces if short and short in feedback.text)
        contains = [*repeated] or [piece(feedback.text)]
        if any(contains):
            yield {"to": feedback.to, "attempt": feedback.attempt, "contains": contains}


def piece(text: str) -> str:
    """The beginning of a text, at most its first line that is not blank."""
    first = next((line.strip() for line in printable(text).splitlines() if line.strip()), "")
    return first if len(first) <= PIECE_CHARS else first[:PIECE_CHARS].rsplit(" ", 1)[0]


INDENT = 4
NOTHING_EXPECTED = "expects-nothing"


def run_case(
    suite: Suite, case: str, seen: Callable[[Run], object] = lambda _run: None
) -> CaseResult:
    """Play a case and compare its run with what it expects; raises KeyError.

    `seen` is called with the run, such as `Tally.add` for coverage.
    """
    started = time.perf_counter()
    run = play(suite, case)
    done = trace(suite.machine.machine, run)
    failures = tuple(judge(suite, case, run, done))
    is_prepared = not run.unprepared and run.refused is None
    block = _block(suite, case, done) if failures and is_prepared else ""
    seen(run)
    seconds = time.perf_counter() - started
    return CaseResult(str(suite.path), case, failures, seconds, suite.source.texts, block)


def judge(suite: Suite, case: str, run: Run, done: Trace) -> Iterator[Failure]:
    """What the case does not meet, what it lacks first; of a run that went another way, what the
    case has left over says nothing."""
    at: DocPath = ("cases", case)
    lacking = [*run.unprepared, *([run.refused] if run.refused else [])]
    unmet = list(_unmet(suite.case(case), case, done))
    left = [*leftovers(suite.case(case), suite.playable, run)]
    if lacking or any(miss.code != NOTHING_EXPECTED for miss in unmet):
        left = []
    document = suite.source.document
    for miss in (*lacking, *unmet, *left):
        here = miss.below(at)
        # What is lacking may belong to what all cases share.
        is_own = miss not in lacking or document.node(document.as_written(here.at)) is not None
        yield Failure(suite.problem(here if is_own else miss), miss.shown)


def _unmet(case: Case, name: str, run: Trace) -> Iterator[Miss]:
    if case.expect is not None and case.expect.model_fields_set:
        for miss in misses(run, case.expect):
            code = f"expected-{str(miss.at[0]).replace('_', '-')}"
            yield miss.below(("expect",)).replace(code=code)
        return
    remedy = "write what has to come of it below `expect:`, `outcome` and `path` first"
    place = ("expect",) if "expect" in case.model_fields_set else ()
    yield Miss(place, f"case `{name}` expects nothing", NOTHING_EXPECTED, remedy, is_key=True)


def _block(suite: Suite, case: str, run: Trace) -> str:
    """`expect:` of the case with what the run did in place of what is unmet; empty if it is met."""
    expect = suite.case(case).expect or Expect()
    written = suite.source.document.plain()["cases"][case].get("expect") or {}
    unmet = [miss.at for miss in misses(run, expect)]
    new = with_what_was_done(written, unmet, run, suite.machine.machine)
    if new and new == written:
        return ""
    new = new or {"outcome": run.outcome, "path": list(run.path)}
    return f"{' ' * INDENT}expect:\n{to_yaml(new, INDENT + 2)}"


def leftovers(case: Case, bill: Playable, run: FamilyRun) -> Iterator[Miss]:
    """Everything of a case's own that was not used; what all cases share may be left over."""
    suspended = sum(isinstance(event, Suspended) for event in run.plain_events)
    yield from _unused(("resumes",), suspended, len(case.resumes), "resume")
    yield from _in_family(case, bill, run)


def _in_family(parts: Parts, bill: Playable, run: FamilyRun, called: str = "") -> Iterator[Miss]:
    yield from _with_child_name(called, _in_run(parts, bill, run))
    of_children = [(child.run, parts.child(*child[:3])) for child in run.children]
    for said in parts.in_children:
        place = place_of(said.state, said.key, called)
        runs = [one for one, its in of_children if its is not None and its.at == said.at]
        if not runs and said.said.model_fields_set:
            visit = f"does not begin on visit {said.visit} of `{said.state}`"
            yield _left(said.at, f"`{place}` {visit if said.visit > 1 else 'never begins'}")
        # A part for several children is used if any of them needs it.
        child = bill.children[said.state]
        left = [{one.at: one for one in _in_family(said.said, child, run, place)} for run in runs]
        for path, miss in left[0].items() if left else ():
            if all(path in other for other in left):
                yield miss.below(said.at)


def _left(at: DocPath, message: str, remedy: str = "delete it") -> Miss:
    return Miss(at, message, "unused", remedy)


OWN_VALIDATOR = (
    "delete it, or give one of the states a validator of its own: under `validators:` write "
    "`{0}: &{0}` and, below it, `{0}_again: *{0}`"
)


def _in_run(case: Parts, bill: Playable, run: FamilyRun) -> Iterator[Miss]:
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
        judged = [
            event for event in events
            if isinstance(event, Worked) and event.report is not None
            and place in (answer.validator for answer in event.report.answers)
            and event.state in bill.graph.judges
        ]  # fmt: skip
        used, why, remedy = _results(place, judged, state), "", "delete it"
        if len(judges := {f"`{event.state}`": None for event in judged}) > 1:
            why = f": each of {' and '.join(judges)} begins at result 1"
            remedy = OWN_VALIDATOR.format(place)
        for left in _unused(("commands", place), used, len(results), "result"):
            yield left.replace(message=f"{left.message}{why}", help=remedy)
    for human, answers in case.answers.items():
        used = _answers(human, state, events)
        yield from _unused(("answers", human), used, len(answers), "answer")


def _replies(at: DocPath, attempts: Attempts, tasks: Mapping[int, Task]) -> Iterator[Miss]:
    for index, calls in enumerate(attempts):
        task = tasks.get(index)
        if calls and calls[-1].is_refused:
            calls = calls[:-1]
        if task is None and calls:
            yield _left((*at, index), f"attempt {index + 1} is never asked for")
        elif task is not None:
            used = call_at(calls, task.settled, task.sent - task.settled)
            if used < len(calls):
                told = f"call {used + 1} of attempt {index + 1} is never made"
                yield _left((*at, index, used), told)


def _results(place: str, judged: Sequence[Worked], state: RunState) -> int:
    visits = [event.visit + ((event.state, place) in state.baselines) for event in judged]
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


def _unused(at: DocPath, used: int, prepared: int, kind: str) -> Iterator[Miss]:
    for index in range(used, prepared):
        yield _left((*at, index), f"{kind} {index + 1} is never used")
