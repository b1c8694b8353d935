"""kill -9 at any instant of a run whose defects go back to where they were made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest

from tests.crash.points import SAME, begun, killed_at_points

AGENT = """cat > .prompt; n=1; until mkdir .call_$n 2>/dev/null; do n=$((n + 1)); done
touch call_$n
if [ -e kill_at ] && [ $n = $(cat kill_at) ]; then kill -9 $PPID; exit 1; fi
case $(cat .prompt) in
Plan*Divide*) echo Third plan;;
Plan*unit*) echo Second plan;;
Plan*) echo First plan;;
Design*First*) echo NO PLAN, NO API;;
Design*unit*) echo This was for planning, NO API;;
Design*wrong*) echo Third design;;
Design*interface*) echo Second design;;
Design*) echo Nobody told this, NO API;;
Code*ODD*) echo BAD DESIGN, BAD CODE;;
Code*Third*test*) echo Second code;;
Code*Third*) echo Nobody told this, BAD CODE;;
Code*) echo First code;;
esac"""
MACHINE = f"""
loopkit: 1
origins: [planning, design, code]
limits: {{total_revisions: 6}}
agents:
  writer: {{command: {json.dumps(["sh", "-c", AGENT])}, on_in_doubt: retry}}
feedback:
  defects: |
    {{{{ revision }}}}:
    {{%- for finding in findings %}} {{{{ finding.message }}}}{{% endfor %}}
states:
  planning: {{agent: writer, prompt: "Plan. {{{{ feedback }}}}", output: plan, next: check_plan}}
  check_plan:
    validate: plan
    by: [{{not_matches: NO UNITS, message: Divide it.}}]
    transitions:
      - {{guard: valid, target: design}}
      - {{revise: planning, feedback: defects, max: 1}}
      - {{target: failed}}
  design:
    agent: writer
    prompt: "Design {{{{ plan }}}}. {{{{ feedback }}}}"
    output: spec
    next: review
  review:
    validate: spec
    by:
      - {{not_matches: NO PLAN, origin: planning, message: A unit is missing.}}
      - {{not_matches: NO API, message: An interface is missing.}}
    transitions:
      - {{guard: valid, target: code}}
      - {{revise: {{origin: [planning, design]}}, feedback: defects, max: 2}}
      - {{target: failed}}
  code:
    agent: writer
    prompt: "Code {{{{ spec }}}}. {{{{ feedback }}}}"
    output: source
    next: test
  test:
    validate: source
    by:
      - {{not_matches: BAD CODE, message: A test fails.}}
      - {{not_matches: BAD DESIGN, origin: design, message: The interface is wrong.}}
    transitions:
      - {{guard: valid, target: done}}
      - {{revise: {{origin: [design, code]}}, feedback: defects, max: 1}}
      - {{target: failed}}
  done: {{final: success, result: [plan, spec, source]}}
  failed: {{final: failure, result: [plan, spec, source]}}
"""
MORE = {"Second plan": "Second plan, NO UNITS", "Second design": "Second design, ODD API"}
"""In the long form what is for the design waits while the plan is revised twice, and the test sends
the design back once more."""
TOLD = [
    ["planning", "1: A unit is missing."],
    ["planning", "1: Divide it."],
    ["design", "1: An interface is missing."],
    ["design", "1: The interface is wrong."],
    ["code", "1: A test fails."],
]


@dataclass(frozen=True)
class Form:
    """A machine, and what its run is told when nothing harms it."""

    machine: str
    feedback: list[list[str]]


SHORT = Form(MACHINE, [TOLD[0], TOLD[2]])
LONG = Form(reduce(lambda text, words: text.replace(*words), MORE.items(), MACHINE), TOLD)


LONGER = pytest.param(LONG, marks=pytest.mark.long, id="long")


@pytest.fixture(scope="module", params=[pytest.param(SHORT, id="short"), LONGER])
def form(request: pytest.FixtureRequest) -> Form:
    chosen: Form = request.param
    return chosen


@pytest.fixture(scope="module")
def told(form: Form, every: int, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the host tells of the unharmed run and of each point."""
    return killed_at_points(tmp_path_factory.mktemp("crash_routing"), form.machine, every)


def test_the_unharmed_run_tells_each_phase_its_own_and_what_is_for_later_when_it_works(
    form: Form, told: Any
) -> None:
    assert (told[0]["outcome"], told[0]["feedback"]) == ("done", form.feedback)
    assert told[0]["calls"] == told[0]["replies"] == 3 + len(form.feedback)


def test_after_resume_each_defect_was_told_once_to_whose_it_is_and_nothing_is_paid_twice(
    told: Any,
) -> None:
    same = (*SAME, "findings", "feedback", "replies")
    for point in begun(told):
        assert {key: point[key] for key in same} == {key: told[0][key] for key in same}, point
        assert point["replies"] <= point["calls"] <= point["replies"] + point["in_doubt"], point
