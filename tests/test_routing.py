"""Routing by origins: what is told, what waits, and what becomes of it in the less usual ways."""

from __future__ import annotations

from typing import Any

import pytest

from loopkit.cli import invoke
from loopkit.engine.events import Decided, Repaired
from loopkit.engine.macrostep import Engine
from loopkit.language.load import load
from loopkit.machine.program import Program
from loopkit.views.review import review
from tests.support import Desk, Played, scenario

PHASES = """
loopkit: 1
severities: [high, low]
blocking: high
origins: [planning, design]
limits: {total_revisions: 6}
agents:
  analyst: {model: some/analyst}
  planner: {model: some/planner}
  designer: {model: some/designer}
states:
  analysis:
    agent: analyst
    prompt: Analyse.
    output: needs
    next: planning
    on_error: {content: failed}
  planning: {agent: planner, prompt: Plan., output: plan, next: check_plan}
  check_plan:
    validate: plan
    by: [{not_matches: NO UNITS, severity: high, message: The plan has no units.}]
    transitions: [{guard: valid, target: design}, {revise: planning}, {target: escalated}]
  design: {agent: designer, prompt: "Design {{ plan }}.", output: spec, next: review}
  review:
    validate: spec
    by:
      - {not_matches: NO PLAN, origin: planning, severity: high, message: A unit is missing.}
      - {not_matches: NO API, severity: high, message: An interface is missing.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design]}, max: 2}
      - {target: escalated}
  escalated:
    human: What now?
    show: [plan, spec, report]
    choices: [analyse, stop]
    transitions:
      - {guard: choice == "analyse", revise: analysis, feedback: "{{ comment }}", max: 1}
      - {target: failed}
  done: {final: success, result: [plan, spec]}
  failed: {final: failure, result: [plan, spec]}
"""


def played(desk: Desk, text: str = PHASES, *, answers: Any = (), **agents: list[Any]) -> Played:
    return desk.play(text, scenario(agents=agents, **({"answers": answers} if answers else {})))


def told(run: Played) -> list[tuple[str, str]]:
    """Who was told what, in order."""
    return [(f.to, f.text) for event in run.of(Decided) for f in event.feedback]


# -- what an origin is told ---------------------------------------------------------------------


def test_an_origin_is_told_in_what_and_by_whom_its_defect_was_found(desk: Desk) -> None:
    run = played(desk, analyst=["A"], planner=["P1", "P2"], designer=["NO PLAN NO API", "S"])
    [plan, spec] = [text for _, text in told(run)]
    assert plan.splitlines()[:3] == [
        "Revision 1 of 2. Fix this problem, found by `review` in `spec`:",
        "",
        "- A unit is missing. (line 1)",
    ]
    assert spec.splitlines()[:2] == [
        "Earlier answers to this task were wrong:",
        "- An interface is missing. (line 1, origin assumed)",
    ]


def test_what_waits_is_told_in_the_words_of_the_transition_that_was_taken(desk: Desk) -> None:
    text = PHASES.replace(
        "      - {revise: {origin: [planning, design]}, max: 2}\n",
        "      - {guard: error_count > 1, revise: {origin: [planning, design]}, feedback: Many., "
        "max: 2}\n      - {revise: {origin: [planning, design]}, feedback: Few., max: 2}\n",
    )
    run = played(desk, text, analyst=["A"], planner=["P1", "P2"], designer=["NO PLAN NO API", "S"])
    assert told(run) == [("planning", "Many."), ("design", "Many.")]


def test_a_state_that_is_no_origin_is_told_all_and_what_has_one_waits_for_it(desk: Desk) -> None:
    answers = {"escalated": [{"choice": "analyse", "comment": "Think."}]}
    designs = ["NO PLAN", "NO PLAN 2", "NO PLAN 3 NO API", "S"]
    plans = ["P1", "P2", "P3", "P4"]
    run = played(desk, answers=answers, analyst=["A", "A2"], planner=plans, designer=designs)
    [*_, analysis, planning, design] = told(run)
    assert analysis == ("analysis", "Think.")
    assert planning[0] == "planning"
    assert "A unit is missing." in planning[1]
    assert "An interface is missing." not in planning[1]
    assert design[0] == "design"
    assert "An interface is missing." in design[1]


# -- what is still open when it is told ---------------------------------------------------------


TWICE_JUDGED = """
loopkit: 1
origins: [planning, design, code]
limits: {total_revisions: 8}
agents: {writer: {model: some/writer}}
states:
  planning: {agent: writer, prompt: Plan., output: plan, next: design, on_error: {content: failed}}
  design: {agent: writer, prompt: "Design {{ plan }}.", output: spec, next: review}
  review:
    validate: spec
    by:
      - {not_matches: NO PLAN, origin: planning, message: A unit is missing.}
      - {not_matches: NO API, message: An interface is missing.}
    transitions:
      - {guard: valid, target: code}
      - {revise: {origin: [planning, design]}, max: 3}
      - {target: failed}
  code: {agent: writer, prompt: "Code {{ spec }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {not_matches: BAD PLAN, origin: planning, message: Nobody can use it.}
      - {not_matches: BAD API, origin: design, message: The interface is wrong.}
      - {not_matches: BAD CODE, message: A test fails.}
    transitions:
      - {guard: valid, target: done}
      - {revise: {origin: [planning, design, code]}, max: 3}
      - {target: failed}
  done: {final: success, result: source}
  failed: {final: failure}
"""


def test_what_two_reviews_found_for_one_state_is_told_together(desk: Desk) -> None:
    work = [
        *("P1", "S1", "BAD PLAN BAD API BAD CODE"),
        # The new plan shows in the design before that had been told anything of the test.
        *("P2", "S2 NO API", "S3", "C2"),
    ]
    run = desk.play(TWICE_JUDGED, scenario(agents={"writer": work}))
    assert run.outcome == "done"
    assert [to for to, _ in told(run)] == ["planning", "design", "design", "code"]
    of_design, of_review, of_code = [text for _, text in told(run)][1:]
    assert "The interface is wrong." in of_design
    assert "An interface is missing." in of_review
    assert "The interface is wrong." not in of_review
    assert "A test fails." in of_code


def test_what_waits_is_told_once_though_its_state_fails_and_is_sent_back(desk: Desk) -> None:
    text = PHASES.replace(
        'prompt: "Design {{ plan }}.", output: spec, next: review}',
        'prompt: "Design {{ plan }}.", output: spec, next: review, '
        "on_error: {transient: {revise: planning, max: 1, feedback: Make it smaller.}}}",
    ).replace("{model: some/designer}", "{model: some/designer, retry: {attempts: 1}}")
    designs = ["NO PLAN NO API", {"fault": "server_error"}, "S"]
    run = played(desk, text, analyst=["A"], planner=["P1", "P2", "P3"], designer=designs)
    assert run.outcome == "done"
    assert [to for to, _ in told(run)] == ["planning", "design", "planning"]
    assert run.prompts("designer")[-1].count("An interface is missing.") == 1
    assert (run.state.deferred, run.state.delivered) == ({}, {})


def test_what_waits_is_told_beside_the_words_with_which_a_person_sends_its_state_back(
    desk: Desk,
) -> None:
    text = PHASES.replace(
        "prompt: Plan., output: plan,", "prompt: Plan., output: plan, on_error: escalated,"
    )
    text = text.replace("Design {{ plan }}.", "Design {{ plan | default }}.")
    text = text.replace("[analyse, stop]", "[analyse, design, stop]").replace(
        "      - {target: failed}\n  done",
        '      - {guard: choice == "design", revise: design, feedback: "{{ comment }}", max: 1}\n'
        "      - {target: failed}\n  done",
    )
    plans, designs = ["P1", [{"fault": "bad_request"}]], ["NO PLAN NO API", "S"]
    answers = {"escalated": [{"choice": "design", "comment": "Shorter."}]}
    run = played(desk, text, answers=answers, analyst=["A"], planner=plans, designer=designs)
    assert run.outcome == "done"
    [(_, planning), person, (to, waited)] = told(run)
    assert "A unit is missing." in planning
    assert person == ("design", "Shorter.")
    assert (to, "An interface is missing." in waited) == ("design", True)


RULES = """
      - {not_matches: NO PLAN, origin: planning, severity: high, message: A unit is missing.}
      - {not_matches: NO API, severity: high, message: An interface is missing.}
"""
JUDGED = PHASES.replace(RULES, "\n      - {judge: reviewer, rubric: [It is whole.]}\n").replace(
    "states:\n", "  reviewer: {model: some/reviewer}\nstates:\n", 1
)


def test_what_a_judge_calls_open_again_is_still_marked_as_nobodys(desk: Desk) -> None:
    found = {"message": "An interface is missing.", "severity": "high"}
    first = {"data": {"verdict": "fail", "findings": [found]}}
    run = played(desk, JUDGED, analyst=["A"], planner=["P"], designer=["S1"], reviewer=[first])
    [finding] = run.state.reports["review"].findings
    again = {"data": {"verdict": "fail", "findings": [], "known": {finding.id: "open"}}}
    reviews = [first, again, {"data": {"verdict": "pass", "findings": []}}]
    designs = ["S1", "S2", "S3"]
    run = played(desk, JUDGED, analyst=["A"], planner=["P"], designer=designs, reviewer=reviews)
    assert run.outcome == "done"
    marked = [f.defaulted for entry in run.state.rounds_at["review"] for f in entry.report.findings]
    assert marked == [True, True]


# -- what guards read ---------------------------------------------------------------------------


def test_plain_ways_back_before_those_to_origins_leave_the_cap_reached_to_these(
    desk: Desk,
) -> None:
    text = PHASES.replace(
        "choices: [analyse, stop]", "choices: [analyse, send_back, stop]"
    ).replace(
        "      - {target: failed}\n  done",
        '      - {guard: choice == "send_back", revise: {origin: [planning, design]}, max: 1}\n'
        '      - {guard: "not cap_reached", target: stopped}\n'
        "      - {target: failed}\n  stopped: {final: failure}\n  done",
    )
    answers = {"escalated": [{"choice": "analyse", "comment": "Think."}, "send_back", "stop"]}
    designs = ["NO PLAN 1", "NO PLAN 2", "NO PLAN 3", "NO PLAN 4", "NO PLAN 5"]
    plans = ["P1", "P2", "P3", "P4", "P5"]
    run = played(desk, text, answers=answers, analyst=["A", "A2"], planner=plans, designer=designs)
    # There is room for the design, in which nobody found anything.
    assert run.state.counters["escalated[1].planning"] == 1
    assert run.outcome == "failed"


# -- repair -------------------------------------------------------------------------------------


COUNTED = PHASES.replace(
    "      - {revise: {origin: [planning, design]}, max: 2}\n",
    "      - {revise: {origin: [planning, design]}, max: 2, feedback: '{{ revision }}!'}\n",
).replace("{model: some/planner}", "{model: some/planner, retry: {attempts: 1}}")
STOPPED = scenario(
    agents={
        "analyst": ["A"],
        "planner": ["P1", [{"fault": "authentication"}, "P2"]],
        "designer": ["NO PLAN NO API", "S"],
    }
)


def test_a_repair_renames_the_edges_to_origins_with_their_counts_and_what_waits(
    durable: Desk,
) -> None:
    run = durable.play(COUNTED, STOPPED)
    assert run.state.status == "suspended"
    mended = COUNTED.replace(
        "      - {guard: valid, target: done}\n      - {revise",
        "      - {guard: valid, target: done}\n      - {guard: error_count > 9, target: failed}\n"
        "      - {revise",
    )
    run = durable.repair(run.state.run, mended)
    [repaired] = run.of(Repaired)
    assert repaired.edges == {
        "review[1].planning": "review[2].planning",
        "review[1].design": "review[2].design",
    }
    assert run.state.counters == {"review[2].planning": 1, "total": 1}
    assert told(run)[-1] == ("design", "1!")


def test_what_waits_for_an_edge_that_a_repair_took_away_has_the_default_words(
    durable: Desk,
) -> None:
    run = durable.play(COUNTED, STOPPED)
    run = durable.repair(
        run.state.run, COUNTED.replace("origin: [planning, design]", "origin: planning")
    )
    assert run.outcome == "done"
    assert "- An interface is missing." in told(run)[-1][1]


# -- what a person sees -------------------------------------------------------------------------


def test_a_person_sees_whose_each_finding_is_and_what_is_only_assumed(desk: Desk) -> None:
    designs = ["NO PLAN NO API"] * 3
    run = played(desk, analyst=["A"], planner=["P1", "P2", "P3"], designer=designs)
    loaded = load(desk.folder / "machine.yaml")
    shown = review(Engine(Program(loaded.machine, "")), run.state)
    since = "(recurring since attempt 1)"
    assert f"high: A unit is missing. [line 1] (origin: planning) {since}" in shown
    assert f"high: An interface is missing. [line 1] (origin assumed: design) {since}" in shown


# -- what a case expects ------------------------------------------------------------------------


CASE = """
scenario: 1
machine: machine.yaml
cases:
  routed:
    agents: {analyst: [A], planner: [P1, P2], designer: [NO PLAN NO API, S]}
    expect:
      outcome: done
      findings:
        - {message: A unit, origin: planning, defaulted: false, count: 1}
        - {message: An interface, origin: design, defaulted: true}
      feedback: [{to: design, contains: An interface is missing.}]
"""


def test_a_case_expects_the_origin_of_a_finding_and_whether_it_is_assumed(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.write("machine.yaml", PHASES)
    right = desk.write("right.scenario.yaml", CASE)
    assert invoke(["test", str(right)]) == 0
    wrong = CASE.replace("origin: design, defaulted: true", "origin: planning, defaulted: false")
    assert invoke(["test", str(desk.write("wrong.scenario.yaml", wrong))]) == 1
    told = capsys.readouterr().out
    assert "origin `planning`" in told
    assert "An interface is missing. (origin assumed: design)" in told
