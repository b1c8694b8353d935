"""How the answers of one round become a report: severities, panels, votes, quorum, scores."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines import loop
from tests.support import PASS, Desk, Played, QuickClock, fails, listed, scenario, warns

MACHINE = loop(
    "BY",
    {"GUARD": "accepted", "incomplete": "unjudged", "attempt >= 6": "exhausted"},
    "{revise: draft}",
    "{target: exhausted}",
    top="""
TOP
limits: {revisions: 9}
agents:
  author: {command: [none]}
  one: {model: some/model}
  two: {model: some/model}
  three: {model: some/model}
""",
    state="STATE",
    ends="exhausted: {final: failure, result: plan, pick: best}",
    result="plan",
)
CRASHED = {"fault": "authentication"}


def play(
    desk: Desk,
    *,
    by: str = "[{judge: one}, {judge: two}, {judge: three}]",
    state: str = "",
    top: str = "",
    guard: str = "valid",
    plans: list[str] | None = None,
    **agents: list[Any],
) -> Played:
    machine = MACHINE.replace("BY", by).replace("STATE", state or "description: Judge.")
    machine = machine.replace("TOP", top).replace("GUARD", guard)
    texts = plans or [f"plan {number}" for number in range(1, 10)]
    said = {"author": texts, "one": [], "two": [], "three": [], **agents}
    return desk.play(machine, scenario(agents=said))


def found(severity: str, *messages: str, verdict: str = "fail", **more: Any) -> dict[str, Any]:
    """A judge's call with findings of one severity."""
    findings = [{"message": message, "severity": severity} for message in messages]
    return {"data": {"verdict": verdict, "findings": findings, **more}}


# -- severities ----------------------------------------------------------------------------

LEVELS = "severities: [critical, high, medium, low]\nblocking: high"


@pytest.mark.parametrize(
    ("severity", "verdict", "expected"),
    [("critical", "fail", "fail"), ("high", "fail", "fail"), ("medium", "warn", "warn")],
)
def test_declared_severities_decide_what_blocks(
    desk: Desk, severity: str, verdict: str, expected: str
) -> None:
    """S2.46: the severities of a machine, worst first, and from which on they block."""
    said = found(severity, "A", verdict=verdict)
    played = play(desk, by="[{judge: one}]", top=LEVELS, one=[said, PASS])
    assert played.reports[0].verdict == expected
    assert [f.severity for f in played.reports[0].findings] == [severity]


def test_a_judge_is_asked_for_the_severities_that_there_are(desk: Desk) -> None:
    played = play(desk, by="[{judge: one}]", top=LEVELS, one=[[found("error", "A"), PASS]])
    prompt, again = played.prompts("one")
    assert '- "severity": "critical" or "high" or "medium" or "low".' in prompt
    assert 'has the severity "critical" or "high"' in prompt
    assert 'all with "medium" or "low"' in prompt
    assert '"error"' in again


def test_a_judge_that_rejects_for_something_mild_is_asked_again(desk: Desk) -> None:
    said = [found("low", "A"), found("low", "A", verdict="warn")]
    played = play(desk, by="[{judge: one}]", top=LEVELS, one=[said])
    assert [report.verdict for report in played.reports] == ["warn"]
    assert 'no finding has the severity "critical" or "high"' in played.prompts("one")[1]


def test_the_worst_findings_come_first_in_the_feedback(desk: Desk) -> None:
    mixed = {
        "verdict": "fail",
        "findings": [
            {"message": "Third.", "severity": "low"},
            {"message": "Second.", "severity": "high"},
            {"message": "First.", "severity": "critical"},
        ],
    }
    played = play(desk, by="[{judge: one}]", top=LEVELS, one=[{"data": mixed}, PASS])
    assert [f.message for f in played.reports[0].findings] == ["First.", "Second.", "Third."]
    assert listed(played.prompts("author")[1]) == "- First.\n- Second."


def test_rules_have_severities_too(desk: Desk) -> None:
    by = "[{matches: goal, severity: low, message: No goal.}, {matches: plan, message: No plan.}]"
    played = play(desk, by=by, top=LEVELS, plans=["nothing", "a plan"])
    told = [[(f.severity, f.blocking) for f in report.findings] for report in played.reports]
    assert told == [[("high", True), ("low", False)], [("low", False)]]
    assert played.outcome == "accepted"


def test_a_judge_is_never_worse_than_its_rule_says(desk: Desk) -> None:
    by = "[{judge: one, severity: medium}]"
    played = play(desk, by=by, top=LEVELS, one=[found("critical", "A")])
    assert played.outcome == "accepted"
    assert [f.severity for f in played.reports[0].findings] == ["medium"]


@pytest.mark.parametrize(("block", "verdict"), [("block: warning", "fail"), ("", "warn")])
def test_warnings_can_block_in_one_state(desk: Desk, block: str, verdict: str) -> None:
    said = [warns("Long."), PASS]
    played = play(desk, by="[{judge: one}]", state=block, one=said)
    assert played.reports[0].verdict == verdict
    assert len(played.prompts("author")) == (2 if block else 1)


def test_where_warnings_block_judges_are_not_asked_after_one(desk: Desk) -> None:
    by = "[{matches: goal, severity: warning, message: No goal.}, {judge: one}]"
    played = play(desk, by=by, state="block: warning", plans=["plan", "goal"], one=[PASS])
    assert [report.verdict for report in played.reports] == ["fail", "pass"]
    assert len(played.prompts("one")) == 1


# -- settling ------------------------------------------------------------------------------


def test_after_settling_only_what_was_known_blocks(desk: Desk) -> None:
    """X.8: new nits are reported only, what recurs still blocks."""
    critic = [
        found("high", "Old."),
        found("high", "New."),
        found("high", "New.", "Old."),
        found("high", "New."),
    ]
    state = "settle_after: 1"
    played = play(desk, by="[{judge: one}]", top=LEVELS, state=state, one=critic)
    told = [{f.message: f.blocking for f in report.findings} for report in played.reports]
    assert told == [{"Old.": True}, {"New.": False}]
    assert played.outcome == "accepted"


def test_after_settling_what_comes_back_blocks(desk: Desk) -> None:
    critic = [found("high", "Old."), found("high", "New.", "Old."), found("high", "New.")]
    state = "settle_after: 1"
    played = play(desk, by="[{judge: one}]", top=LEVELS, state=state, one=critic)
    told = [{f.message: f.blocking for f in report.findings} for report in played.reports]
    assert told == [{"Old.": True}, {"Old.": True, "New.": False}, {"New.": False}]
    assert listed(played.prompts("author")[2]) == "- Old."


def test_the_worst_severity_blocks_after_any_round(desk: Desk) -> None:
    critic = [found("critical", "A"), found("critical", "B"), PASS]
    state = "settle_after: 1"
    played = play(desk, by="[{judge: one}]", top=LEVELS, state=state, one=critic)
    assert [report.verdict for report in played.reports] == ["fail", "fail", "pass"]


def test_an_empty_answer_blocks_after_any_round(desk: Desk) -> None:
    critic = [found("high", "A"), PASS]
    state, plans = "settle_after: 1", ["plan", "", "plan 3"]
    played = play(desk, by="[{judge: one}]", top=LEVELS, state=state, plans=plans, one=critic)
    assert [report.verdict for report in played.reports] == ["fail", "fail", "pass"]


def test_judges_are_asked_where_what_a_rule_finds_has_settled(desk: Desk) -> None:
    by = "[{not_matches: late, severity: high, message: Late.}, {judge: one}]"
    plans, critic = ["plan", "late"], [found("high", "A"), PASS]
    state = "settle_after: 1"
    played = play(desk, by=by, top=LEVELS, state=state, plans=plans, one=critic)
    assert [report.verdict for report in played.reports] == ["fail", "warn"]
    assert len(played.prompts("one")) == 2


# -- panels --------------------------------------------------------------------------------


def test_a_majority_outvotes_one_reviewer_and_keeps_what_it_found(desk: Desk) -> None:
    """X.11: the verdict of every reviewer is kept; what is outvoted is a warning."""
    said = {"one": [PASS], "two": [fails("A")], "three": [warns("B")]}
    played = play(desk, state="combine: majority", **said)
    [report] = played.reports
    assert report.verdict == "warn"
    assert {f.message: (f.severity, f.blocking) for f in report.findings} == {
        "A": ("warning", False),
        "B": ("warning", False),
    }
    assert [a.reason for a in report.answers] == ["", "it fails, and is outvoted", ""]


def test_a_majority_that_fails_fails(desk: Desk) -> None:
    said = {"one": [fails("A"), PASS], "two": [fails("B"), PASS], "three": [PASS, PASS]}
    played = play(desk, state="combine: majority", **said)
    assert [report.verdict for report in played.reports] == ["fail", "pass"]
    assert [f.message for f in played.reports[0].blocking] == ["A", "B"]


def test_a_tie_fails(desk: Desk) -> None:
    by = "[{judge: one}, {judge: two}, {judge: three, guard: attempt > 1}]"
    said = {"one": [fails("A"), PASS], "two": [PASS, PASS], "three": [PASS]}
    played = play(desk, by=by, state="combine: majority", **said)
    assert [report.verdict for report in played.reports] == ["fail", "pass"]


def test_a_wait_between_the_tries_of_a_reviewer_is_no_work(desk: Desk) -> None:
    clock = desk.clock = QuickClock()
    played = play(desk, one=[[{"fault": "server_error"}, PASS]], two=[PASS], three=[PASS])
    assert played.outcome == "accepted"
    assert sum(clock.slept) > 0.5
    assert played.state.usage.time_s < 0.5


def test_a_round_with_a_reviewer_missing_resolves_nothing(desk: Desk) -> None:
    """The one who found it passes now, but what the others see is not known."""
    played = play(desk, one=[fails("A"), PASS], two=[PASS, CRASHED], three=[PASS, PASS])
    assert [report.verdict for report in played.reports] == ["fail", "incomplete"]
    assert played.reports[1].resolved == ()


def test_a_rule_that_cannot_judge_counts_whatever_the_quorum(desk: Desk) -> None:
    by = "[{command: [./no-such-program]}, {judge: one}, {judge: two}]"
    played = play(desk, by=by, state="quorum: 1", one=[PASS], two=[PASS])
    assert played.reports[0].verdict == "incomplete"


# -- scores --------------------------------------------------------------------------------

SCORING = "[{judge: one, score: {min: 0, max: 10}}]"


def test_a_score_routes_and_the_guard_may_find_none(desk: Desk) -> None:
    passing = [{"data": {"verdict": "pass", "findings": [], "score": n}} for n in (4, 8)]
    guard = "'valid and score != none and score >= 7'"
    played = play(desk, by=SCORING, guard=guard, one=passing)
    # A verdict that passes cannot be revised, so the default is taken.
    assert played.outcome == "exhausted"
    assert played.reports[0].score == 4.0
    better = play(desk, by=SCORING, guard=guard, one=passing[1:])
    assert better.outcome == "accepted"


@pytest.mark.parametrize("score", [None, "8", 11, -1, True])
def test_a_judge_whose_score_is_none_is_asked_again(desk: Desk, score: object) -> None:
    parts = {} if score is None else {"score": score}
    good = {"data": {"verdict": "pass", "findings": [], "score": 9.5}}
    bad = {"data": {"verdict": "pass", "findings": [], **parts}}
    played = play(desk, by=SCORING, one=[[bad, good]])
    assert played.reports[0].score == 9.5
    assert '"score" must be a number from 0 to 10' in played.prompts("one")[1]
    assert '- "score": a number from 0 to 10' in played.prompts("one")[0]


BEST = """
loopkit: 1
input: {text: str}
agents: {author: {command: [none]}, one: {model: some/model}}
states:
  import: {render: "{{ input.text }}", output: plan, next: judge}
  draft: {agent: author, prompt: Write., output: plan, next: judge}
  judge:
    validate: plan
    by: [{matches: goal}, {matches: tasks}, {judge: one, score: {min: 0, max: 10}}]
    transitions:
      - {guard: valid, target: accepted}
      - {revise: draft, max: 3}
      - {target: exhausted}
  accepted: {final: success, result: plan}
  exhausted: {final: failure, result: plan, pick: best}
"""


def scored(score: float, errors: int, warnings: int = 0) -> dict[str, Any]:
    """A judge's call with so many findings; each is another one in each text."""
    findings = [{"message": f"E{n} {score}", "severity": "error"} for n in range(errors)]
    findings += [{"message": f"W{n} {score}", "severity": "warning"} for n in range(warnings)]
    return {"data": {"verdict": "fail", "findings": findings, "score": score}}


@pytest.mark.parametrize(
    ("rounds", "best"),
    [
        (["goal", scored(1, 3), "tasks", "no"], 1),
        (["no", "goal", "tasks", "none"], 1),
        ([scored(9, 2), scored(1, 1), scored(8, 3), scored(7, 2)], 1),
        ([scored(9, 1, 2), scored(8, 1, 1), scored(1, 1), scored(7, 1, 1)], 2),
        ([scored(3, 1), scored(5, 1), scored(7, 1), scored(6, 1)], 2),
        ([scored(3, 1), scored(5, 1), scored(5, 1), scored(5, 1)], 1),
        ([scored(5, 1), scored(5, 1), scored(4, 1), scored(5, 1)], 0),
        ([scored(6, 1), "", scored(5, 1), "no"], 0),
        (["no", "", "", "goal"], 3),
    ],
    ids=["no-rule-broken", "fewer-rules-broken", "fewer-blocking", "fewer-warnings", "score",
         "earliest", "the-input-itself", "no-worse-than-the-input", "no-artifact-comes-last"],
)  # fmt: skip
def test_what_is_exhausted_ends_with_its_best_version(
    desk: Desk, rounds: list[Any], best: int
) -> None:
    """X.6: by rules broken, blocking findings, the others, the score, and then the earliest.

    The version that came from outside is one of them, so the result is never worse than the
    input. That a revision may start from the best (`from: best`) is not in this version.
    """
    versions = [
        f"goal and tasks {number}" if isinstance(entry, dict) else entry
        for number, entry in enumerate(rounds)
    ]
    critic = [entry for entry in rounds if isinstance(entry, dict)]
    script = scenario(agents={"author": versions[1:], "one": critic})
    played = desk.play(BEST, script, {"text": versions[0]})
    assert len(played.reports) == 4
    assert (played.outcome, played.result) == ("exhausted", {"plan": versions[best]})


def test_of_two_scores_the_lower_counts(desk: Desk) -> None:
    by = "[{judge: one, score: {}}, {judge: two, score: {max: 100}}]"
    said = {"one": [passing_with(8)], "two": [passing_with(5)]}
    assert play(desk, by=by, **said).reports[0].score == 5.0


def passing_with(score: float) -> dict[str, Any]:
    return {"data": {"verdict": "pass", "findings": [], "score": score}}
