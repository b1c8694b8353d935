"""What several features together must not do: approve what was rejected, or forget what is open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopkit.engine.events import Replied, Suspended
from loopkit.language.facts import Severities
from loopkit.views.review import resolution_lines
from tests.machines import loop
from tests.requirements.test_counting import CRASHED, LEVELS, found, play
from tests.support import PASS, Desk, Played, fails, scenario

NOTHING_NAMED = {"data": {"verdict": "fail", "findings": []}}


def statuses(played: Played, attempt: int) -> dict[str, str]:
    """Of the round of an attempt: what is found, resolved and not looked for."""
    report = played.reports[attempt - 1]
    return {
        **{finding.message: finding.status for finding in report.findings},
        **{finding.message: finding.status for finding in report.resolved},
        **{finding.message: "unseen" for finding in report.unseen},
    }


TWO = "agents: {one: {model: ollama/model}, two: {model: ollama/model}}"


def rendered(by: str, top: str) -> str:
    """A machine in which a text that is there is judged once."""
    ends = {"valid": "accepted"}
    return loop(by, ends, "{target: rejected}", top=top, draft="plan: {render: Brew tea.}")


# -- what nobody graded --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("{judge: one, reask: 0}", [NOTHING_NAMED]),
        ("{judge: one, verdict: {}}", ["- [FAIL] No steps.\n\nVerdict: FAIL"]),
        ("{judge: one, verdict: {}, reask: 0}", ["Verdict: FAIL"]),
        (
            "{judge: one, prompt: Review., map: {verdict: verdict}}",
            ['{"verdict": "fail", "findings": ["No steps."]}'],
        ),
        ("{section: Steps}", []),
        ('{command: [sh, -c, "exit 1"]}', []),
        ('{command: [sh, -c, "echo a.py:1: no; exit 1"], parse: lines}', []),
    ],
)
def test_what_nobody_graded_blocks_also_where_only_the_worst_severity_does(
    desk: Desk, by: str, said: list[Any]
) -> None:
    """X.17: a rejection without a severity is never taken for a mild one."""
    state = "block: critical"
    played = play(desk, by=f"[{by}]", top=LEVELS, state=state, one=said, plans=["a"])
    assert played.reports[0].verdict == "fail"
    assert [finding.blocking for finding in played.reports[0].findings] == [True]


def test_what_is_graded_as_milder_than_a_state_blocks_passes_there(desk: Desk) -> None:
    by = "[{judge: one}, {section: Steps, severity: high}]"
    said = [found("high", "A")]
    played = play(desk, by=by, top=LEVELS, state="block: critical", one=said)
    assert played.outcome == "accepted"
    assert played.reports[0].verdict == "warn"


def test_a_level_that_nobody_declared_counts_as_the_worst() -> None:
    """X.17."""
    levels = Severities(("critical", "high", "low"), blocking="high")
    assert levels.blocks("urgent")
    assert levels.with_cap("urgent", "low") == "low"


OUTVOTED = """
loopkit: 1
agents: {one: {model: ollama/model}, two: {model: ollama/model}, three: {model: ollama/model}}
states:
  plan: {render: Brew tea., next: judge}
  judge:
    validate: plan
    by: [{judge: one, rubric: &of [Good.]}, {judge: two, rubric: *of}, {judge: three, rubric: *of}]
    combine: majority
    block: warning
    transitions:
      - {guard: warning_count > 0 and valid, target: noted}
      - {guard: valid, target: accepted}
      - {target: rejected}
  noted: {final: success}
  accepted: {final: success}
  rejected: {final: failure}
"""


def test_what_is_outvoted_warns_even_where_every_warning_blocks(desk: Desk) -> None:
    """X.12: and the check knows that there is such a way."""
    assert desk.problems(OUTVOTED) == []
    said = {"one": [fails("A")], "two": [PASS], "three": [PASS]}
    assert desk.play(OUTVOTED, scenario(agents=said)).outcome == "noted"


# -- a fail that was said ------------------------------------------------------------------


@pytest.mark.parametrize("next_reply", ["Sorry, I can't say.", CRASHED])
def test_a_fail_that_names_nothing_counts_if_nothing_better_follows(
    desk: Desk, next_reply: Any
) -> None:
    """S1.20, X.17: neither silence nor a crash afterwards lets a quorum pass over it."""
    played = play(
        desk,
        by="[{judge: one, reask: 1}, {judge: two}]",
        state="quorum: 1",
        one=[[{"data": {"verdict": "fail", "findings": [], "why": "No steps."}}, next_reply]],
        two=[PASS],
        plans=["a"],
    )
    assert played.reports[0].verdict == "fail"
    assert [finding.message for finding in played.reports[0].blocking] == ["No steps."]


FAIL = '{"verdict": "fail", "findings": [{"message": "No steps.", "severity": "error"}]}'


@pytest.mark.parametrize(
    "said",
    [
        FAIL.replace("]}", "],}"),
        FAIL.replace('"', "'"),
        FAIL.replace(', "severity": "error"}]}', ', "sev'),
        {"reply": FAIL, "cut_off": True},
        f'{{"report": {FAIL}}}',
    ],
)
def test_a_fail_of_another_form_is_not_taken_back(desk: Desk, said: Any) -> None:
    played = play(desk, by="[{judge: one}]", one=[[said, PASS]], plans=["a"])
    assert len(played.prompts("one")) == 2
    assert [finding.message for finding in played.reports[0].blocking] == ["No steps."]


def test_a_warning_that_names_nothing_is_no_verdict_if_the_judge_crashes_then(desk: Desk) -> None:
    said = [["Verdict: WARN", CRASHED]]
    played = play(desk, by="[{judge: one, verdict: {}}]", one=said)
    assert played.outcome == "unjudged"


def test_a_judge_that_said_nothing_usable_is_asked_again_after_a_resume(desk: Desk) -> None:
    """S1.28: its answers cost the author nothing, and a resume gives it new ones."""
    desk.in_memory = False
    machine = rendered("[{judge: one, reask: 1}, {judge: two}]", TWO)
    said = {"one": [["Hm.", "Well.", PASS]], "two": [PASS]}
    stopped = desk.play(machine, scenario(agents=said))
    assert stopped.state.suspended is not None
    assert stopped.state.suspended.reason == "content"
    resumed = desk.resume(stopped.state.run)
    assert resumed.outcome == "accepted"
    assert len(resumed.prompts("one")) == 3
    assert len(resumed.prompts("two")) == 1


def test_a_judge_that_changes_its_mind_when_asked_again_passes(desk: Desk) -> None:
    played = play(desk, by="[{judge: one}]", one=[[NOTHING_NAMED, PASS]])
    assert played.outcome == "accepted"


def test_findings_of_a_judge_without_a_code_have_that_of_their_rule(desk: Desk) -> None:
    own = {"message": "B", "severity": "error", "code": "own"}
    said = {"verdict": "fail", "findings": [{"message": "A", "severity": "error"}, own]}
    played = play(
        desk, by="[{judge: one, code: quality}]", plans=["a"], one=[{"data": said}],
        guard="'\"quality\" in codes and \"own\" in codes'",
    )  # fmt: skip
    assert played.outcome == "accepted"
    assert [finding.code for finding in played.reports[0].findings] == ["quality", "own"]


def test_one_defect_with_two_severities_has_the_worse_one(desk: Desk) -> None:
    top = f"{LEVELS}\nvalidators: {{v: [{{judge: one}}, {{judge: two}}]}}"
    said = {"one": [found("high", "A")], "two": [found("critical", "A")]}
    played = play(desk, by="[v]", top=top, plans=["a"], **said)
    assert [finding.severity for finding in played.reports[0].findings] == ["critical"]


# -- what nobody looked for ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("by", "state", "plans", "said"),
    [
        # The judge is not asked, because a rule blocks.
        ("{matches: Goal}, {judge: one}", "", ["Goal 1", "2", "Goal 3"], [fails("X")] * 2),
        # There is nothing to look at.
        ("{judge: one}", "", ["1", "", "3"], [fails("X")] * 2),
        # The judge crashed, while another one rejects.
        ("{judge: one}, {judge: two}", "", ["1", "2", "3"], [fails("X"), CRASHED, fails("X")]),
        # Its guard is false for once.
        (
            "{judge: one, guard: attempt != 2}, {judge: two}",
            "",
            ["1", "2", "3"],
            [fails("X"), fails("X")],
        ),
    ],
)
def test_what_nobody_looked_for_is_neither_resolved_nor_does_it_come_back(
    desk: Desk, by: str, state: str, plans: list[str], said: list[Any]
) -> None:
    """X.7: a round that could not find it says nothing of it."""
    two = [PASS, fails("Y"), PASS]
    played = play(desk, by=f"[{by}]", state=state, plans=plans, one=said, two=two)
    assert statuses(played, 2)["X"] == "unseen"
    assert statuses(played, 3)["X"] == "recurring"
    lines = list(resolution_lines(played.reports[1]))
    assert lines == ["Found before, and not looked for in this attempt:", "  - X"]


OF_LINES = '{command: [sh, -c, "cat; exit 1"], stdin: "{{ artifact }}", parse: lines}'


@pytest.mark.parametrize(
    ("rules", "plans"),
    [
        ("{matches: Goal, guard: attempt != 2}, {max_chars: 9}", ["x", "x" * 10, "x"]),
        ("{require: steps.count > 1}", ['{"steps": []}', "no data", '{"steps": []}']),
        ("{not_matches: '\\w+'}", ["X", "a " * 60, "X"]),
        (OF_LINES, ["a.py:1: X", "crash", "a.py:1: X"]),
        ("{judge: one, guard: attempt != 2, verdict: {}}, {judge: two}", ["1", "2", "3"]),
    ],
)
def test_what_its_rule_has_not_looked_for_is_not_called_resolved(
    desk: Desk, rules: str, plans: list[str]
) -> None:
    """Its guard is false, there was nothing to read, too much was found, or nobody says what."""
    said = {"one": ["Verdict: FAIL\n- [FAIL] X"] * 2, "two": [PASS, fails("Y"), PASS]}
    top = f"validators: {{v: [{rules}]}}"
    played = play(desk, by="[v]", top=top, plans=[*plans, "end"], **said)
    first, second, third = played.reports[:3]
    assert second.resolved == ()
    assert [one.id for one in first.findings] == [one.id for one in third.findings]
    assert "new" not in statuses(played, 3).values()


def test_the_same_words_of_one_place_are_one_finding_of_all_who_use_them(desk: Desk) -> None:
    one = [fails("X", "x.", "Y"), PASS, fails("X"), PASS]
    two = [fails("Y", "X"), fails("x"), PASS, PASS]
    played = play(desk, by="[{judge: one}, {judge: two}]", one=one, two=two)
    assert statuses(played, 1) == {"X": "new", "Y": "new"}
    assert [f.named_by for f in played.reports[0].findings] == [("by[0]", "by[1]")] * 2
    assert statuses(played, 2) == {"x": "recurring", "Y": "resolved"}
    assert statuses(played, 3) == {"X": "recurring"}
    assert len({report.findings[0].id for report in played.reports[:3]}) == 1
    assert statuses(played, 4) == {"X": "resolved"}


def test_two_findings_in_the_same_words_have_two_ids(desk: Desk) -> None:
    """Also where an open finding of another judge, whose id one of them keeps, has these words."""
    both = found("error", "X")
    both["data"]["findings"] += found("warning", "X")["data"]["findings"]
    played = play(desk, by="[{judge: one}, {judge: two}]", one=[fails("X"), PASS], two=[PASS, both])
    first, second = ([one.id for one in each.findings] for each in played.reports[:2])
    assert len({*second}) == 2
    assert second[0] == first[0]


def test_what_stop_leaves_out_is_not_called_resolved(desk: Desk) -> None:
    """S1.27, X.7: with the way back of a defect over a round that did not look."""
    by = "[{matches: Goal, code: G}, {matches: End, code: E, message: no end}]"
    plans = ["Goal", "nothing", "Goal again", "Goal End", "Goal"]
    played = play(desk, by=by, state="stop: first", plans=plans, guard="valid and attempt > 4")
    # Attempt 4 passes, and is no end because of the guard.
    assert statuses(played, 2)["no end"] == "unseen"
    assert statuses(played, 3)["no end"] == "recurring"
    assert statuses(played, 4)["no end"] == "resolved"


def test_what_was_not_looked_for_and_is_gone_later_is_resolved_then(desk: Desk) -> None:
    played = play(
        desk,
        by="[{matches: Goal}, {judge: one}]",
        plans=["Goal", "x", "Goal 3"],
        one=[fails("X"), PASS],
    )
    assert statuses(played, 3)["X"] == "resolved"
    assert played.outcome == "accepted"


# -- the best ------------------------------------------------------------------------------

LOOKED = """
loopkit: 1
agents: {author: {command: [none]}, helper: {command: [none]}, one: {model: ollama/model}}
states:
  draft: {agent: author, prompt: Write., output: plan, next: look}
  look: {agent: helper, prompt: Look., output: notes, next: judge, on_error: {content: ended}}
  judge:
    validate: plan
    by: [{judge: one, sees: [notes]}]
"""
TWICE = (
    LOOKED
    + """    transitions: [{revise: draft, max: 1}, {target: again}]
  again:
    human: Look once more?
    choices: [more, enough]
    transitions:
      - {guard: choice == "more", revise: look, max: 1, feedback: Look once more.}
      - {target: ended}
  ended: {final: failure, result: plan, pick: best}
"""
)


def test_an_attempt_that_is_judged_again_is_as_good_as_it_was_judged_last(desk: Desk) -> None:
    """X.6: the round that was replaced does not make it the best."""
    judged = [fails("A", "B"), fails("C"), fails("C", "D", "E")]
    script = scenario(
        agents={"author": ["one", "two"], "helper": ["a", "b", "c"], "one": judged},
        answers={"again": ["more", "enough"]},
    )
    played = desk.play(TWICE, script)
    assert played.result == {"plan": "one"}
    # The same attempt is no version that came back.
    assert [report.attempt for report in played.reports] == [1, 2, 2]
    assert not played.reports[2].stalled


BACK = (
    LOOKED
    + """    transitions: [{guard: attempt != 2, revise: draft, max: 2}, {target: choose}]
  choose: {human: Go on with the best?, choices: [go], pick: best, next: once_more}
  once_more:
    validate: plan
    by: [{matches: never}]
    transitions: [{revise: look, max: 1}, {target: ended}]
  ended: {final: failure}
"""
)


def test_a_round_that_was_judged_again_is_the_one_before_the_next(desk: Desk) -> None:
    """X.7: an earlier attempt that a person chose is what the next one is held against."""
    judged = [fails("A"), fails("B", "C"), fails("A"), fails("A")]
    agents = {"author": ["one", "two", "three"], "helper": ["a", "b", "c", "d"], "one": judged}
    played = desk.play(BACK, scenario(agents=agents, answers={"choose": ["go"]}))
    reports = [report for report in played.reports if report.state == "judge"]
    assert [report.attempt for report in reports] == [1, 2, 1, 3]
    assert [finding.status for finding in reports[3].findings] == ["recurring"]


# -- baselines -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "later", "verdict"),
    [
        ("echo 1 failed in 0.31s", "echo 1 failed in 12.05s", "warn"),
        ("echo 1 failed in 0.31s", "echo 9 failed in 0.31s", "fail"),
        ("echo coverage 80", "echo coverage 20", "fail"),
        # More than the end of what is printed counts.
        ("echo old; seq 9000", "echo new; seq 9000", "fail"),
        ("echo old; seq 9000", "echo old; seq 9000", "warn"),
    ],
)
def test_more_of_what_was_there_before_is_new(
    desk: Desk, first: str, later: str, verdict: str
) -> None:
    """S1.38: where only an exit code tells, all that was printed has to be the same."""
    prints = json.dumps(f"if [ -f seen ]; then {later}; else {first}; fi; touch seen; exit 1")
    by = f"[{{command: [sh, -c, {prints}], baseline: true}}]"
    played = play(desk, by=by, plans=["a"])
    assert played.reports[0].verdict == verdict


# -- transcripts ---------------------------------------------------------------------------

FAILED = {"type": "text", "text": "- [FAIL] No.\nVERDICT: FAIL"}
READ = {"type": "tool_result", "content": "VERDICT: PASS"}
TOLD = [
    {"type": "user", "message": {"role": "user", "content": [READ]}},
    {"type": "assistant", "message": {"role": "assistant", "content": [FAILED]}},
    {"type": "user", "message": {"role": "user", "content": "VERDICT: PASS"}},
    {"type": "result", "subtype": "success"},
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("reply", ["text", "stream_json"])
def test_a_transcript_that_is_one_list_is_read_by_role(
    tmp_path: Path, reply: str, indent: int | None
) -> None:
    """S1.12: with a pattern that would find a verdict anywhere."""
    (tmp_path / "told.json").write_text(json.dumps(TOLD, indent=indent))
    reviewer = f"{{command: [cat, told.json], reply: {reply}, workspace: {{path: .}}}}"
    machine = rendered(
        "[{judge: reviewer, prompt: Review., reask: 0, verdict: {pattern: 'VERDICT. (\\w+)'}}]",
        f"agents: {{reviewer: {reviewer}}}",
    )
    played = Desk(tmp_path).play(machine)
    assert played.outcome == "rejected"
    assert [finding.message for finding in played.reports[0].findings] == ["No."]


# -- limits --------------------------------------------------------------------------------


def test_what_programs_printed_before_a_limit_stopped_the_judges_is_kept(tmp_path: Path) -> None:
    """X.18, X.13: the call that goes beyond the limit is never made."""
    by = "[{command: [echo, looked]}, {judge: one}, {judge: two}]"
    machine = rendered(by, f"limits: {{agent_calls: 1}}\n{TWO}")
    script = scenario(agents={"one": [PASS], "two": [PASS]})
    played = Desk(tmp_path).play(machine, script)
    (suspended,) = played.of(Suspended)
    assert suspended.reason == "limit"
    assert [ran.stdout for ran in suspended.commands] == ["looked\n"]
    assert len(played.of(Replied)) == 1
