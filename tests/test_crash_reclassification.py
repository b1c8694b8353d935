"""kill -9 at any instant of a run in which a person says whose a finding is.

Every answer is given twice, again after the run was killed, and with each question once more to
those before it.
"""

from __future__ import annotations

import json
from typing import Any

from loopkit.engine.payloads import HumanAnswer
from tests.crash.points import AGENT, SAME, killed

MACHINE = f"""
loopkit: 1
origins: [planning, design]
limits: {{total_revisions: 1}}
agents:
  planner: {{command: {json.dumps([*AGENT, "author"])}, on_in_doubt: retry}}
  designer: {{command: {json.dumps([*AGENT, "author"])}, on_in_doubt: retry}}
states:
  planning: {{agent: planner, prompt: "Plan. {{{{ feedback }}}}", output: plan, next: look}}
  look:
    validate: plan
    by: [{{min_chars: 1}}]
    transitions: [{{guard: valid, target: design}}, {{target: failed}}]
  design:
    agent: designer
    prompt: "Design {{{{ plan }}}}. {{{{ feedback }}}}"
    output: spec
    next: review
  review:
    validate: spec
    by: [{{matches: never, code: gap, message: It is missing.}}]
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: design, max: 1}}
      - {{target: escalated}}
  escalated:
    human: And now?
    choices: [send_back, approve]
    transitions:
      - guard: choice == "send_back"
        revise: {{origin: [planning, design]}}
        feedback: "{{{{ comment }}}}"
        max: 1
      - {{guard: came_from == "review", target: done}}
      - {{target: failed}}
  done: {{final: success, result: [plan, spec]}}
  failed: {{final: failure}}
"""
POSTED = (
    HumanAnswer(
        choice="send_back",
        comment="Plan it",
        origins={"gap": ("planning",)},
        limits={"total_revisions": 2},
    ),
    HumanAnswer(choice="approve"),
)
told = killed(MACHINE, posted=POSTED)


def test_the_unharmed_run_goes_back_to_the_state_that_the_person_named(told: Any) -> None:
    first = told[0]
    assert first["route"].count("escalated[0].planning") == 1
    assert (first["outcome"], first["counters"]["total"]) == ("done", 2)


def test_after_resume_the_run_goes_on_from_what_the_person_said_and_each_answer_counts_once(
    told: Any,
) -> None:
    same = (*SAME, "feedback", "replies")
    assert told[0]["feedback"][1:] == [["planning", "Plan it"]]
    for point in told[1:]:
        if point["outcome"] is not None:
            assert {key: point[key] for key in same} == {key: told[0][key] for key in same}, point
            assert point["choices"] == ["send_back", "approve"], point
