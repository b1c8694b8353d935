"""Guards that ask from which state a run came: one escalation for all phases."""

from __future__ import annotations

import pytest

from loopkit.checks import check
from loopkit.language.load import load
from loopkit.machine.flow import Flow
from loopkit.machine.graph import Graph
from loopkit.proof.bounds.exploring import explore
from loopkit.proof.bounds.result import Bounds
from loopkit.proof.outcomes.analysis import Analysis
from tests.support import Desk, Played, scenario

PHASES = """
loopkit: 1
severities: [high, low]
blocking: high
origins: [design, code]
limits: {total_revisions: 3}
agents:
  designer: {model: openai/gpt-5-mini}
  coder: {model: openai/gpt-5-mini}
states:
  design: {agent: designer, prompt: "Design. {{ feedback }}", output: spec, next: review}
  review:
    validate: spec
    by: [{not_matches: POOR, severity: high, message: It is poor.}]
    transitions:
      - {guard: valid, target: code}
      - {revise: design, max: 1}
      - {target: escalated}
  code: {agent: coder, prompt: "Code {{ spec }}.", output: source, next: test}
  test:
    validate: source
    by:
      - {not_matches: BAD, severity: high, message: A test fails.}
      - {not_matches: SPEC, severity: high, origin: design, message: A part is missing.}
    transitions:
      - {guard: valid, target: summary}
      - {revise: {origin: [code]}, max: 1}
      - {target: escalated}
  summary: {render: "{{ spec }} {{ source }}", next: done}
  escalated:
    human: What now?
    show: [spec, source, report]
    choices: [approve, send_back, stop]
    form: {why: optional str}
    transitions:
      - {guard: choice == "approve" and why != none and came_from == "review", target: code}
      - {guard: choice == "approve" and why != none, target: summary}
      - {guard: choice == "send_back", revise: {origin: [design, code]}, max: 1}
      - {target: failed}
  done: {final: success, result: [spec, source]}
  failed: {final: failure, result: [spec, source]}
"""


def played(desk: Desk, designs: list[str], codes: list[str], *answers: object) -> Played:
    agents = {"designer": designs, "coder": codes}
    return desk.play(PHASES, scenario(agents=agents, answers={"escalated": list(answers)}))


def bounds_of(desk: Desk, text: str) -> Bounds:
    machine = load(desk.write("machine.yaml", text)).machine
    return explore(Analysis.of_machine(machine), measures=("runs",))


def unasked(text: str) -> str:
    """The same without the approval that asks from where the run came."""
    asked = ' and came_from == "review", target: code}'
    return "".join(line for line in text.splitlines(keepends=True) if asked not in line)


def checked(desk: Desk, text: str) -> list[str]:
    problems = check(load(desk.write("machine.yaml", text)))
    return [f"{problem.code}: {problem.message}" for problem in problems]


APPROVED = {"choice": "approve", "form": {"why": "It is good enough."}}


def test_an_approval_goes_on_to_the_phase_after_the_one_that_could_not_go_on(desk: Desk) -> None:
    of_design = played(desk, ["POOR", "POOR 2"], ["ok"], APPROVED)
    assert of_design.route[4:] == ["escalated", "code", "test", "summary", "done"]
    of_code = played(desk, ["S"], ["BAD", "BAD 2"], APPROVED)
    assert of_code.route[6:] == ["escalated", "summary", "done"]


def test_both_may_happen_in_one_run(desk: Desk) -> None:
    run = played(desk, ["POOR", "POOR 2"], ["BAD", "BAD 2"], APPROVED, APPROVED)
    assert run.route.count("escalated") == 2
    assert run.outcome == "done"


def test_the_decision_records_from_where_it_came(desk: Desk) -> None:
    run = played(desk, ["POOR", "POOR 2"], ["ok"], APPROVED)
    decided = [stored.event.plain() for stored in run.stored if stored.event.type == "decided"]
    facts = [event["facts"] for event in decided if event["source"] == "escalated"]
    assert facts[0]["came_from"] == "review"


def test_what_surely_exists_behind_a_phase_exists_behind_its_escalation(desk: Desk) -> None:
    assert checked(desk, PHASES) == []


def test_without_asking_for_the_state_before_something_may_be_missing(desk: Desk) -> None:
    assert any("`source`" in told for told in checked(desk, unasked(PHASES)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('== "review", target: code', '== "test", target: code', "forward-cycle: "),
        ('came_from == "review"', 'came_from == "code"', "code"),
        ("guard: valid, target: code", "guard: valid and came_from == 'design', target: code",
         "came_from"),
    ],
    ids=["a way back to where it came from", "a state that does not lead here", "no choice"],
)  # fmt: skip
def test_what_no_guard_may_ask_of_the_state_before_is_an_error(
    desk: Desk, old: str, new: str, said: str
) -> None:
    assert any(said in told for told in checked(desk, PHASES.replace(old, new)))


def test_the_bounds_follow_from_where_a_run_came(desk: Desk) -> None:
    bounds = bounds_of(desk, PHASES)
    assert (bounds.runs.worst.is_exact, bounds.runs.worst.total) == (True, 6)
    assert bounds.untaken == ()


def test_each_node_of_an_escalation_has_the_edges_that_its_guards_leave(desk: Desk) -> None:
    graph = Graph(load(desk.write("machine.yaml", PHASES)).machine)
    taken = {
        node: [edge.id for edge in graph.junctions.ways[node] if edge.event == "done"]
        for node in graph.junctions.before
    }
    back = ["escalated[2].design", "escalated[2].code", "escalated[3]"]
    assert taken == {
        "escalated after review done": ["escalated[0]", *back],
        "escalated after test done": ["escalated[1]", *back],
    }
    surely = Flow(graph).entering
    assert ("artifact", "source") in surely["summary"].surely
    assert ("artifact", "source") not in surely["escalated"].surely


def test_a_choice_state_may_ask_too(desk: Desk) -> None:
    text = """
        loopkit: 1
        input: {short: bool}
        agents: {writer: {model: openai/gpt-5-mini}}
        states:
          begin:
            transitions: [{guard: input.short, target: meet}, {target: draft}]
          draft: {agent: writer, prompt: Write., next: meet, on_error: {content: done}}
          meet:
            transitions: [{guard: came_from == "draft", target: told}, {target: done}]
          told: {render: "{{ draft }}!", next: done}
          done: {final: success}
    """
    assert checked(desk, text) == []
    run = desk.play(text, scenario(agents={"writer": ["A"]}), {"short": False})
    assert run.route == ["begin", "draft", "meet", "told", "done"]
    short = desk.play(text, scenario(agents={"writer": ["A"]}), {"short": True})
    assert short.route == ["begin", "meet", "done"]


def test_an_edge_that_only_a_person_opens_by_saying_whose_it_is_counts_as_taken(desk: Desk) -> None:
    of_code = PHASES.replace("origin: design, message: A part", "message: A part")
    of_code = of_code.replace("{target: escalated}", "{target: failed}", 1)
    assert bounds_of(desk, unasked(of_code)).untaken == ()
