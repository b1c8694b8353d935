"""The state of a run: what shares what with the states before it."""

from __future__ import annotations

import pytest

from loopkit.engine.changes import apply, fold
from loopkit.engine.events import Event, InDoubt, Intended, Settled, Worked
from loopkit.engine.findings import Finding, Report
from loopkit.engine.payloads import Artifact
from loopkit.engine.records import Usage
from loopkit.engine.rounds import Round, Rounds
from tests.support import Desk

OF_A_STEP = ("worked", "decided", "entered", "emitted", "waiting", "finished", "settled")
REVIEWED = """
loopkit: 1
agents: {writer: {model: a/writer}, critic: {model: a/critic}}
validators:
  plain: {not_matches: vague}
  good: {judge: critic}
states:
  draft: {agent: writer, prompt: Write., output: text, next: check}
  check:
    validate: text
    by: [plain, good]
    transitions:
      - {guard: valid, target: ask}
      - {revise: draft, max: 3, emit: again, feedback: "{{ findings[0].message }}"}
      - {target: failed}
  ask:
    human: Take it?
    choices: ['yes', 'no']
    transitions:
      - {guard: choice == 'yes', target: done}
      - {revise: draft, max: 2, feedback: "{{ comment }}"}
      - {target: failed}
  done: {final: success, result: text}
  failed: {final: failure}
"""
SCRIPT = """
scenario: 1
agents:
  writer: [vague, vague, a, b, c]
  critic:
    - {data: {verdict: fail, findings: [{message: too short, severity: error}]}}
    - {data: {verdict: pass, findings: []}}
    - {data: {verdict: pass, findings: []}}
answers: {ask: [{choice: "no", comment: shorter}, {choice: "yes"}]}
"""


@pytest.fixture
def events(desk: Desk) -> list[Event]:
    """Those of a run with rules, a judge, revisions of both kinds and a person."""
    played = desk.play(REVIEWED, SCRIPT)
    assert played.outcome == "done"
    assert {"worked", "decided", "entered", "emitted", "waiting"} <= {e.type for e in played.events}
    return list(played.events)


def test_a_step_leaves_the_run_that_it_starts_from_as_it_was(events: list[Event]) -> None:
    """A template may still fail, and then nothing has happened."""
    for at, event in enumerate(events):
        if not isinstance(event, Worked | Settled):
            continue
        run = fold(events[:at])
        before, step = fold(events[:at]), run.copy()
        for following in events[at:]:
            if following.type not in OF_A_STEP:
                break
            apply(step, following)
        assert run == before
        assert step != before


def test_a_step_that_was_given_up_leaves_no_trace_in_the_one_that_follows(
    events: list[Event],
) -> None:
    judged = [at for at, e in enumerate(events) if isinstance(e, Worked) and e.report is not None]
    for at in judged:
        run = fold(events[:at])
        apply(run.copy(), events[at])
        apply(run, events[at])
        afresh = fold(events[: at + 1])
        report = afresh.rounds[-1].report
        assert run == afresh
        artifact = run.artifacts[report.artifact]
        for state in run, afresh:
            earlier = state.rounds_before(report.state, artifact, {})
            assert len(earlier) == len([*earlier]) == len(judged[: judged.index(at)])


def round_of(attempt: int, *ids: str, work: str = "") -> Round:
    findings = tuple(Finding(id=name, message=name) for name in ids)
    report = Report(
        state="check", artifact="text", author="draft", attempt=attempt, verdict="fail",
        findings=findings, work=work,
    )  # fmt: skip
    return Round(report, Artifact(name="text", author="draft", attempt=attempt, text=""), {}, {}, 0)


def test_of_an_attempt_that_is_judged_again_the_last_round_counts() -> None:
    rounds = Rounds().plus(round_of(1, "a", work="x")).plus(round_of(2, "b"))
    again = rounds.plus(round_of(1, "c", work="y"))
    earlier = again.before((("draft", 2),))
    assert [entry.ids for entry in earlier] == [{"c"}]
    assert [entry.report.work for entry in earlier] == ["y"]
    assert earlier.last is not None
    assert earlier.last.ids == {"c"}
    # Nor does it matter whether the work was known.
    unknown = rounds.plus(round_of(2, "d"))
    assert [entry.ids for entry in unknown] == [{"a"}, {"d"}]
    # The shorter one knows nothing of it.
    assert [entry.ids for entry in rounds] == [{"a"}, {"b"}]
    assert [entry.ids for entry in rounds.before((("draft", 2),))] == [{"a"}]


def test_each_call_that_is_intended_counts_for_the_key_of_the_next() -> None:
    state = fold(())
    for number in (1, 2, 3):
        apply(state, intended(number))
        assert state.tasks["draft:1:author"].sent == number


def intended(number: int) -> Intended:
    return Intended(
        key=f"r:draft:1:author:{number}",
        task="draft:1:author",
        state="draft",
        visit=1,
        role="author",
        agent="writer",
        place="draft",
        prompt="Write.",
        model="",
        deadline_s=600.0,
        reserved=Usage(),
    )


def test_the_time_that_work_took_besides_its_calls_is_spent() -> None:
    state = fold(())
    apply(state, Worked(state="check", visit=1, outcome="fatal", time_s=2.5))
    apply(state, Worked(state="check", visit=2, outcome="fatal", time_s=0.0))
    assert state.usage == Usage(time_s=2.5)


@pytest.mark.parametrize("is_in_doubt", [False, True], ids=["open", "in doubt"])
def test_what_a_call_has_reserved_is_held_and_not_spent(
    events: list[Event], is_in_doubt: bool
) -> None:
    first = next(i for i, event in enumerate(events) if isinstance(event, Intended))
    state, intended = fold(events[:first]), events[first]
    assert isinstance(intended, Intended)
    apply(state, intended.replace(reserved=Usage(agent_calls=1, tokens=50, cost_usd=0.25)))
    if is_in_doubt:
        apply(state, InDoubt(key=intended.key, policy="retry"))
    committed = state.committed
    assert (committed.tokens, committed.cost_usd) == (50, 0.25)
    assert (committed.held_tokens, committed.held_usd) == (50, 0.25)
